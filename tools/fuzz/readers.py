"""Coverage-guided fuzzing of the readers that are written in Python, by atheris.

    python tools/fuzz/readers.py TARGET [options of libFuzzer] [folder of inputs]

TARGET: pt, legacy, pickle, safetensors, torchscript, onnx or index. `make fuzz` runs each for a
while. A target ends at once for what must not happen: an error that is no answer to a damaged file,
such as an AttributeError of the reader's own. Crashes and hangs libFuzzer sees itself.
"""

import io
import pickle
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

with atheris.instrument_imports(
    include=[
        "rushlight.serialization",
        "rushlight.utils.safetensors",
        "rushlight.jit._archive",
        "rushlight.onnx",
    ]
):
    import rushlight as rl
    import rushlight.jit._archive.program
    import rushlight.serialization._legacy_reader
    import rushlight.serialization._pickle_reader
    import rushlight.serialization._zip_reader
    import rushlight.utils.safetensors._read

from campaign.answers import CLEAN  # noqa: E402


def archive(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return out.getvalue()


def pt(data):
    touch(rl.load(io.BytesIO(data)))


def pickled(data):
    """The pickle of a file whose archive is right."""
    entries = {
        "a/data.pkl": data,
        "a/byteorder": b"little",
        "a/data/0": bytes(64),
        "a/version": b"3\n",
    }
    touch(rl.load(io.BytesIO(archive(entries))))


def legacy(data):
    head = b"".join(
        pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    )
    touch(rl.load(io.BytesIO(head + data)))


def safetensors(data):
    touch(rl.utils.safetensors.load(data))


def safetensors_header(data):
    touch(rl.utils.safetensors.load(struct.pack("<Q", len(data)) + data + bytes(64)))


def torchscript(data):
    """The code of a TorchScript archive, the rest of which is right."""
    global SCRIPT
    if SCRIPT is None:
        with zipfile.ZipFile(ROOT / "tests/data/torchscript_control.pt") as file:
            SCRIPT = {n: file.read(n) for n in file.namelist()}
    kinds = [n for n in SCRIPT if n.endswith((".py", ".pkl"))]
    if not data:
        return
    name = sorted(kinds)[data[0] % len(kinds)]
    rl.jit.load(io.BytesIO(archive({**SCRIPT, name: data[1:]})))


SCRIPT = None


def onnx(data):
    rl.onnx.load(io.BytesIO(data))


def touch(x):
    for t in x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else (x,):
        if isinstance(t, rl.Tensor) and t.device.type == "cpu" and t.numel() < 1000:
            repr(t)


SHAPES = ((), (0,), (5,), (2, 3), (2, 0, 3), (1, 2, 3, 4))


@atheris.instrument_func
def index(data):
    """Index expressions, and the same in NumPy, which has to agree wherever both answer."""
    import numpy as np

    source = atheris.FuzzedDataProvider(data)
    shape = source.PickValueInList(list(SHAPES))
    array = np.arange(int(np.prod(shape)), dtype="int64").reshape(shape)
    parts = [part(source) for _ in range(source.ConsumeIntInRange(1, 4))]
    expression = tuple(parts) if len(parts) > 1 or source.ConsumeBool() else parts[0]
    got = rl.from_numpy(array)[ours(expression)]
    numbers = any(type(p) is int for p in parts)
    if (numbers and any(isinstance(p, list | np.ndarray) for p in parts)) or (
        len(parts) > 1 and any(isinstance(p, bool) for p in parts)
    ):
        return  # NumPy counts numbers and truths among such indices, PyTorch applies them first
    if (
        any(p is Ellipsis for p in parts)
        and sum(isinstance(p, list | np.ndarray) for p in parts) > 1
    ):
        return  # for NumPy an ellipsis of no dims parts the indices around it, not for PyTorch
    try:
        want = array[expression]
    except Exception:
        return
    if tuple(got.shape) != np.shape(want) or not np.array_equal(got.numpy(), want):
        raise AssertionError(f"{shape} {expression!r}: {got} instead of {want}")


@atheris.instrument_func
def part(source):
    import numpy as np

    kind = source.ConsumeIntInRange(0, 7)
    number = lambda: source.ConsumeIntInRange(-6, 6)  # noqa: E731
    if kind == 0:
        return number()
    if kind == 1:
        ends = [number() if source.ConsumeBool() else None for _ in range(2)]
        return slice(*ends, source.ConsumeIntInRange(1, 3))
    if kind == 2:
        return None
    if kind == 3:
        return Ellipsis
    if kind == 4:
        return source.ConsumeBool()
    if kind == 5:
        return [number() for _ in range(source.ConsumeIntInRange(0, 3))]
    if kind == 6:
        return np.array([number() for _ in range(source.ConsumeIntInRange(1, 4))])
    size = source.PickValueInList([(2,), (5,), (2, 3), (1,)])
    bits = [source.ConsumeBool() for _ in range(int(np.prod(size)))]
    return np.array(bits).reshape(size)


def ours(x):
    import numpy as np

    if isinstance(x, tuple):
        return tuple(map(ours, x))
    return rl.from_numpy(x) if isinstance(x, np.ndarray) else x


TARGETS = {
    "pt": pt,
    "pickle": pickled,
    "legacy": legacy,
    "safetensors": safetensors,
    "header": safetensors_header,
    "torchscript": torchscript,
    "onnx": onnx,
    "index": index,
}


def seeds(target, folder):
    """Valid inputs to begin with, where the folder has none."""
    folder = Path(folder)
    if any(folder.iterdir()):
        return
    data = ROOT / "tests" / "data"
    if target == "pt":
        for path in data.glob("*.pt"):
            if path.stat().st_size < 20_000:
                (folder / path.name).write_bytes(path.read_bytes())
    elif target == "pickle":
        for path in data.glob("*.pt"):
            if not zipfile.is_zipfile(path):
                continue
            with zipfile.ZipFile(path) as file:
                for name in file.namelist():
                    if name.endswith("data.pkl") and path.name != "no_checksums.pt":
                        (folder / path.name).write_bytes(file.read(name))
    elif target == "legacy":
        for path in data.glob("legacy*.pt"):
            (folder / path.name).write_bytes(path.read_bytes()[25:])
    elif target in ("safetensors", "header"):
        packed = rl.utils.safetensors.save({"a": rl.arange(8.0), "b": rl.ones(2, 2)}, {"k": "v"})
        size = struct.unpack("<Q", packed[:8])[0]
        (folder / "good").write_bytes(packed if target == "safetensors" else packed[8 : 8 + size])
    elif target == "torchscript":
        with zipfile.ZipFile(data / "torchscript_control.pt") as file:
            names = sorted(n for n in file.namelist() if n.endswith((".py", ".pkl")))
            for i, name in enumerate(names):
                (folder / str(i)).write_bytes(bytes([i]) + file.read(name))


def main():
    warnings.simplefilter("ignore")
    target = sys.argv.pop(1)
    run = TARGETS[target]
    clean = CLEAN if target != "index" else (*CLEAN, TypeError, IndexError)
    if len(sys.argv) > 1 and Path(sys.argv[-1]).is_dir():
        seeds(target, sys.argv[-1])

    def one(data):
        try:
            run(data)
        except clean as error:
            if isinstance(error, rl._C.InternalError):
                raise

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
