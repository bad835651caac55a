"""Files that were valid, changed at random: read, and what was read looked at.

    python -m campaign.files SEED FIRST LAST LABEL

Bytes are changed anywhere; entries of archives are changed and zipped again with right checksums,
so that readers get to see them; JSON and headers are changed as such.
"""

import contextlib
import io
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
from jit import hostile as programs

import rushlight as rl
from campaign.answers import CLEAN
from campaign.child import SECONDS, numbers, say
from campaign.judging import INTERNAL

DATA = Path(__file__).resolve().parents[1] / "data"
MARKER = Path("ran").absolute()  # in a folder of this process
# What a program may say when it runs that was read from a damaged file.
ANSWERS = (
    *CLEAN,
    TypeError,
    IndexError,
    AttributeError,
    AssertionError,
    KeyError,
    ArithmeticError,
    TimeoutError,
)


def read_pt(data):
    return rl.load(io.BytesIO(data))


def read_mapped(data):
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        file.write(data)
        file.flush()
        return rl.load(file.name, mmap=True)


def read_safetensors(data):
    return rl.utils.safetensors.load(data)


def read_safetensors_file(data):
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        found = rl.utils.safetensors.load_file(file.name)
        return {k: v.clone() for k, v in found.items()}


def read_program(data):
    return rl.jit.load(io.BytesIO(data))


def read_exported(data):
    return rl.export.load(io.BytesIO(data)).module()


def read_onnx(data):
    return rl.onnx.load(io.BytesIO(data), requires_grad=False)


class Runs:
    """Pickled, a call that leaves a mark."""

    def __reduce__(self):
        return open, (str(MARKER), "w")


def sources():
    """(name, bytes, reader, example inputs) of files: valid ones, and one that would run code."""
    parts = {"a/data.pkl": pickle.dumps([Runs()], 2), "a/version": b"3\n"}
    yield "runs code", programs.zipped(parts.items()), read_pt, None
    tensors = {
        "a": rl.arange(40.0),
        "b": rl.ones(2, 3, dtype=rl.int64),
        "c": rl.ones(3, dtype=rl.bfloat16),
    }
    packed = rl.utils.safetensors.save(tensors, {"epoch": "3"})
    yield "safetensors", packed, read_safetensors, None
    yield "safetensors file", packed, read_safetensors_file, None
    for path in sorted(DATA.glob("*.pt")):
        data = path.read_bytes()
        if len(data) > 200_000:
            continue
        if path.name.startswith("torchscript"):
            yield path.name, data, read_program, (rl.ones(2, 3, 8, 8),)
        else:
            yield path.name, data, read_pt, None
            yield path.name + " mapped", data, read_mapped, None
    yield "traced.rush", programs.valid(), read_program, (programs.example(),)
    yield "scripted.rush", programs.scripted(), read_program, (rl.ones(4, 6),)
    out = io.BytesIO()
    net = rl.nn.Sequential(rl.nn.Linear(6, 4), rl.nn.ReLU())
    rl.export.save(rl.export.export(net, (rl.ones(2, 6),)), out)
    yield "exported.rush", out.getvalue(), read_exported, (rl.ones(2, 6),)
    with contextlib.suppress(ImportError):
        import onnx  # noqa: F401

        out = io.BytesIO()
        rl.onnx.export(net, (rl.ones(2, 6),), out)
        yield "model.onnx", out.getvalue(), read_onnx, (rl.ones(2, 6),)


def changed(rng, data):
    """One or several things about the bytes are wrong."""
    if data[:2] == b"PK" and rng.random() < 0.7:
        with contextlib.suppress(zipfile.BadZipFile):  # one of them has no checksums
            return changed_entries(rng, data)
    if rng.random() < 0.7 and is_safetensors(data):
        return programs.changed_header(rng, data)
    return programs.changed_bytes(rng, data)


def is_safetensors(data):
    return data[8:9] == b"{"


def changed_entries(rng, data):
    parts = programs.entries(data)
    for name in rng.sample(sorted(parts), min(len(parts), rng.choice((1, 1, 1, 2)))):
        content = parts[name]
        if not content:
            continue
        with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
            if name.endswith(".json"):
                parts[name] = programs.changed_json(rng, content)
            elif name.endswith(".safetensors"):
                parts[name] = programs.changed_header(rng, content)
            elif name.endswith(".pkl") and rng.random() < 0.5:
                parts[name] = other_opcodes(rng, content)
            elif rng.random() < 0.9:
                parts[name] = programs.changed_bytes(rng, content)
            else:
                del parts[name]
    return programs.zipped(parts.items())


def other_opcodes(rng, content):
    """A pickle with pieces of itself in other places, and opcodes in place of others."""
    out = bytearray(content)
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(2, len(out))
        if rng.random() < 0.5:
            out[at] = rng.choice(
                b"().012FIJKLMNPQRSTUVXabcdeghijloqrstu}]\x80\x81\x85\x86\x87\x88\x89\x8a"
            )
        else:
            start = rng.randrange(len(out))
            out[at:at] = out[start : start + rng.randrange(1, 60)]
    return bytes(out)


def touched(x, depth=0):
    """Reads every element that was promised."""
    if isinstance(x, rl.Tensor):
        if x.device.type == "cpu" and x.numel() < 1 << 20 and x.layout == rl.strided:
            np.asarray(
                x.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(rl.uint8)
                if x.dtype != rl.bool and not x.is_quantized
                else 0
            )
        repr(x) if x.numel() < 1000 else None
    elif isinstance(x, dict) and depth < 20:
        for y in x.values():
            touched(y, depth + 1)
    elif isinstance(x, list | tuple | set) and depth < 20:
        for y in x:
            touched(y, depth + 1)


def leave(*args):
    raise TimeoutError


def one(source, data):
    """ "read", "refused" or what must not be."""
    _, _, read, inputs = source
    try:
        found = read(data)
    except CLEAN as error:
        text = str(error)
        if isinstance(error, rl._C.InternalError) or INTERNAL.search(text):
            return "internal", f"{type(error).__name__}: {text}"
        return "refused", ""
    except Exception as error:
        return "unclear", f"{type(error).__name__}: {error}"
    if inputs is None:
        touched(found)
        return "read", ""
    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        found(*inputs)
    except rl._C.InternalError as error:
        return "internal", str(error)
    except ANSWERS:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return "read", ""


def main(seed, first, last, label):
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rl.manual_seed(0)
    chosen = list(sources())
    rl.ones(300_000).exp().sum()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    label, counts = os.open(label, os.O_WRONLY), {}
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for n in numbers(first, last):
        rng = random.Random(zlib.crc32(f"files {seed}/{n}".encode()))
        source = rng.choice(chosen)
        data = changed(rng, source[1])
        os.pwrite(label, f"{n} {source[0]}".encode().ljust(4001) + b"\n", 0)
        signal.alarm(SECONDS)
        kind, text = one(source, data)
        signal.alarm(0)
        if MARKER.exists():
            MARKER.unlink()
            kind, text = "ran", "the file ran its code"
        if kind not in ("read", "refused"):
            say(finding=[n, kind, text[:600], f"{source[0]} ({len(data)} bytes)"])
        counts[kind] = counts.get(kind, 0) + 1
    os.pwrite(label, b"-1 after the last file".ljust(4001) + b"\n", 0)
    say(counts=counts)


def replayed(seed, n):
    """The bytes and the reader of one file, to look at."""
    rng = random.Random(zlib.crc32(f"files {seed}/{n}".encode()))
    rl.manual_seed(0)
    source = rng.choice(list(sources()))
    return source, changed(rng, source[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
