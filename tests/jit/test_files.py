"""Files of programs: the format, and files that nobody should believe."""

import io
import json
import math
import os
import resource
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.utils import safetensors

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hostile


def loaded(data, **options):
    return rl.jit.load(io.BytesIO(data), **options)


def test_a_file_is_a_plain_zip_of_json_and_safetensors(tmp_path):
    net = nn.Linear(3, 2)
    rl.jit.save(rl.jit.trace(net, rl.ones(1, 3)), tmp_path / "net.rush", {"notes.txt": "héllo"})
    with zipfile.ZipFile(tmp_path / "net.rush") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["program.json", "weights.safetensors", "extra/notes.txt"]
        assert all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
        program = json.loads(archive.read("program.json"))
        weights = safetensors.load(archive.read("weights.safetensors"))
        offset = archive.getinfo("weights.safetensors").header_offset
    assert program["format"] == 1 and program["table"] == 1
    assert [i["op"] for i in program["methods"][0]["body"]] == ["linear"]
    assert rl.equal(weights["weight"], net.weight) and rl.equal(weights["bias"], net.bias)
    local = Path(tmp_path / "net.rush").read_bytes()[offset : offset + 30]
    lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    assert (offset + 30 + lengths) % 64 == 0  # the bytes are aligned
    extra = {"notes.txt": "", "other": "kept"}
    rl.jit.load(tmp_path / "net.rush", _extra_files=extra)
    assert extra == {"notes.txt": "héllo".encode(), "other": "kept"}


def test_files_repeat_and_survive_a_second_save():
    data = hostile.valid()
    assert data == hostile.valid()
    assert loaded(data).save_to_buffer({"notes": "some text"}) == data
    with pytest.raises(TypeError, match="texts or bytes, got int for 'count'"):
        loaded(data).save_to_buffer({"count": 3})


def test_paths_and_open_files(tmp_path):
    traced = rl.jit.trace(rl.sin, rl.ones(2))
    path = tmp_path / "sin.rush"
    traced.save(str(path))
    with open(path, "rb") as file:
        assert rl.equal(rl.jit.load(file)(rl.ones(2)), rl.sin(rl.ones(2)))
    with open(tmp_path / "again.rush", "wb") as file:
        rl.jit.save(traced, file)
    assert path.read_bytes() == (tmp_path / "again.rush").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again.rush", "sin.rush"]  # and nothing temporary
    path.chmod(0o600)
    (tmp_path / "link.rush").symlink_to(path)
    rl.jit.trace(rl.cos, rl.ones(2)).save(tmp_path / "link.rush")
    assert (tmp_path / "link.rush").is_symlink() and path.stat().st_mode & 0o777 == 0o600
    assert rl.equal(rl.jit.load(path)(rl.ones(2)), rl.cos(rl.ones(2)))
    with pytest.raises(ValueError, match="does not exist"):
        rl.jit.load(tmp_path / "none.rush")
    with pytest.raises(ValueError, match="folder"):
        rl.jit.load(tmp_path)
    with pytest.raises(RuntimeError, match="save: cannot write"):
        traced.save(tmp_path / "no folder" / "sin.rush")
    with pytest.raises(TypeError, match="state_dict"):
        rl.jit.save(nn.Linear(2, 2), path)


def test_files_of_other_kinds_say_what_reads_them(tmp_path):
    rl.jit.trace(rl.sin, rl.ones(2)).save(tmp_path / "sin.rush")
    with pytest.raises(RuntimeError, match="jit.load reads it"):
        rl.load(tmp_path / "sin.rush")
    rl.save({}, tmp_path / "data.pt")
    with pytest.raises(RuntimeError, match="no .rush file|none of a .rush file"):
        rl.jit.load(tmp_path / "data.pt")
    script = hostile.zipped([("model/constants.pkl", b""), ("model/data.pkl", b"")])
    with pytest.raises(RuntimeError, match="TorchScript archive is damaged"):
        loaded(script)


def test_numbers_of_every_kind_survive():
    def f(x):
        y = rl.clamp(x, -math.inf, math.inf) + rl.full((2,), math.nan).nan_to_num(1e-300)
        z = (y * (1 + 2j)).real * True + 2**40 + 1e22
        return rl.where(z > 0.1, -0.0, z), x.to(rl.bfloat16), x[:, None].to(
            memory_format=rl.contiguous_format)  # fmt: skip

    traced = rl.jit.trace(f, rl.ones(2))
    again = loaded(traced.save_to_buffer())
    x = rl.randn(2)
    for right, made in zip(f(x), again(x), strict=True):
        assert right.dtype == made.dtype and rl.equal(right, made)
    assert again.code == traced.code


def test_dtypes_of_weights():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            for dtype in (rl.bool, rl.uint8, rl.int16, rl.int64, rl.float16, rl.bfloat16,
                          rl.float64, rl.complex64):  # fmt: skip
                self.register_buffer(
                    f"of_{dtype.itemsize}_{len(self._buffers)}", rl.ones(3).to(dtype)
                )
            self.register_buffer("empty", rl.ones(0, 4))
            self.register_buffer("strided", rl.arange(6.0).view(2, 3).t())

        def forward(self, x):
            return x + sum(b.sum().real.float() for b in self.buffers())

    net = Holder()
    again = loaded(rl.jit.trace(net, rl.ones(1)).save_to_buffer())
    for name, value in net.state_dict().items():
        assert again.state_dict()[name].dtype == value.dtype
        assert rl.equal(again.state_dict()[name], value)
    net.register_buffer("wide", rl.ones(1, dtype=rl.complex128))
    traced = rl.jit.trace(net, rl.ones(1))
    with pytest.raises(TypeError, match="complex128, which the safetensors format"):
        traced.save_to_buffer()


def edited(change):
    """The valid file with its program changed by a function."""
    parts = hostile.entries(hostile.valid())
    program = json.loads(parts["program.json"])
    change(program)
    return hostile.zipped({**parts, "program.json": json.dumps(program)}.items())


def forward(program):
    return program["methods"][0]


def later_value(program):
    forward(program)["body"][0]["args"]["input"] = {"value": 5}


def defined_twice(program):
    body = forward(program)["body"]
    body[1]["results"] = body[0]["results"]


def deep(program):
    value = {"value": 0}
    for _ in range(40):
        value = {"tuple": [value]}
    forward(program)["output"] = value


def part_of_an_op(program):
    args = {"self": {"value": 0}, "mask": {"value": 0}, "scale": 1.0}
    forward(program)["body"].insert(0, {"op": "_masked_scale", "args": args, "results": [None]})


EDITS = {
    "format": (lambda p: p.update(format=3), "its format is 3"),
    "table": (lambda p: p.update(table=99), "newer Rushlight"),
    "unknown key": (lambda p: p.update(hook="os.system"), "'hook' is not known"),
    "missing key": (lambda p: p.pop("state"), "'state' is missing"),
    "no such op": (lambda p: forward(p)["body"][0].update(op="system"), "no operator 'system'"),
    "an op inside of ops": (part_of_an_op, "_masked_scale is only called by other operators"),
    "no such overload": (lambda p: forward(p)["body"][0].update(overload="x"), "conv2d.x"),
    "no such argument": (lambda p: forward(p)["body"][0]["args"].update(y=1), "no such argument"),
    "missing argument": (
        lambda p: forward(p)["body"][0]["args"].pop("weight"),
        "needs the argument",
    ),
    "wrong kind": (
        lambda p: forward(p)["body"][0]["args"].update(stride="1"),
        "instruction 0 of 'forward': a list was expected",
    ),
    "a generator": (
        lambda p: forward(p)["body"].insert(
            0, {"op": "rand", "args": {"size": [2], "generator": 1}, "results": [None]}
        ),
        "generator",
    ),
    "used before defined": (later_value, "value 5 is used before"),
    "defined twice": (defined_twice, "defined twice"),
    "too many values": (lambda p: forward(p).update(values=2**31 - 2), "claims 2147483646 values"),
    "a value too few": (lambda p: forward(p).update(values=3), "no value 3"),
    "state out of range": (
        lambda p: forward(p)["body"][0]["args"].update(weight={"state": 99}),
        "no state 99",
    ),
    "names twice": (lambda p: p["state"][1].update(name="conv.weight"), "there twice"),
    "a name below a tensor": (lambda p: p["state"][1].update(name="conv.weight.x"), "lies below"),
    "a name that is none": (lambda p: p["state"][0].update(name="a..b"), "is no name"),
    "an unknown tensor": (lambda p: p["state"][0].update(name="conv.w"), "no tensor 'conv.w'"),
    "a device": (lambda p: p["state"][0].update(device="floppy:0"), "floppy"),
    "a gradient of integers": (
        lambda p: next(s for s in p["state"] if "num_batches" in s["name"]).update(
            requires_grad=True
        ),
        "cannot require a gradient",
    ),
    "deep containers": (deep, "nested"),
    "a size of no input": (lambda p: forward(p)["sizes"][0].update(value=4), "no input"),
    "more results": (lambda p: forward(p)["body"][0]["results"].append(None), "1 results"),
}


@pytest.mark.parametrize("name", EDITS)
def test_programs_that_do_not_hold_together_are_refused(name):
    change, text = EDITS[name]
    with pytest.raises(RuntimeError, match=text):
        loaded(edited(change))


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("slice", {"dim": 3, "start": -(2**63), "end": 2**63 - 1, "step": 2**63 - 1}),
        ("slice", {"dim": -5}),
        ("slice", {"step": 0}),
        ("index", {"indices": [{"value": 0}]}),
        ("index", {"indices": [None, None, None, None, {"state": 6}]}),
        ("as_strided", {"size": [2**40], "stride": [1], "storage_offset": 2**62}),
        ("narrow", {"dim": 0, "start": 1, "length": 2**62}),
    ],
)
def test_arguments_are_checked_when_a_program_runs(op, args):
    def insert(program):
        call = {"op": op, "args": {"self": {"value": 0}, **args}, "results": [None]}
        forward(program)["body"].insert(0, call)

    try:
        loaded(edited(insert))(hostile.example())
    except (RuntimeError, IndexError) as error:
        assert f"instruction 0 of the program's forward: _ = {op}(" in str(error)
    else:
        assert op == "slice"  # a slice of one element: its stride does not matter


def test_an_edit_that_keeps_it_whole_loads():
    assert loaded(edited(lambda p: None))(hostile.example())[0].shape == (2, 3)


def tricks():
    """(label, bytes, what the error says): zip files that are not what they seem."""
    data = hostile.valid()
    parts = list(hostile.entries(data).items())
    yield "compressed", hostile.zipped(parts, zipfile.ZIP_DEFLATED), "compressed"
    with warnings.catch_warnings():  # zipfile's, about the name
        warnings.simplefilter("ignore")
        yield "twice", hostile.zipped([*parts, parts[0]]), "there twice"
    yield "another entry", hostile.zipped([*parts, ("data.pkl", b"")]), "data.pkl"
    yield "no weights", hostile.zipped(parts[:1]), "is missing"
    yield "empty", b"", "too short"
    yield "no zip", b"not a zip file at all, but long enough", "does not end as a zip"
    yield "comment", data[:-2] + b"\x01\x00x", "does not end as a zip"
    at = data.index(b"linear")
    yield "checksum", data[:at] + b"Linear" + data[at + 6 :], "checksum"
    at = data.rindex(b"PK\x01\x02")
    yield "encrypted", data[: at + 8] + b"\x01" + data[at + 9 :], "encrypted"
    end = data.rindex(b"PK\x05\x06")
    claims = data[:end] + data[end : end + 8] + b"\xff\xff\xff\xff" + data[end + 12 :]
    yield "zip64 lies", claims, "zip64"
    yield "cut", data[:-100], "does not end as a zip"
    first = data.index(b"PK\x01\x02")
    outside = data[: first + 42] + (2**32 - 2).to_bytes(4, "little") + data[first + 46 :]
    yield "outside", outside, "lies outside"


@pytest.mark.parametrize("label,data,text", [pytest.param(*t, id=t[0]) for t in tricks()])
def test_zip_tricks_are_refused(label, data, text):
    with pytest.raises(RuntimeError, match=text):
        loaded(data)


def weights_edited(change):
    parts = hostile.entries(hostile.valid())
    weights = parts["weights.safetensors"]
    size = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    weights = len(text).to_bytes(8, "little") + text + weights[8 + size :]
    return hostile.zipped({**parts, "weights.safetensors": weights}.items())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda h: h["fc.bias"].update(shape=[2**40]), "do not fit its shape"),
        (lambda h: h["fc.bias"].update(shape=[2**62, 2**62, 0]), "too large"),
        (lambda h: h["fc.bias"].update(data_offsets=[0, 12]), "lies over|hole"),
        (lambda h: h["fc.bias"].update(dtype="Q8"), "dtype is not known"),
        (lambda h: h["fc.bias"].update(shape=[-3]), "whole numbers"),
        (lambda h: h.pop("fc.bias"), "hole|bytes"),
        (lambda h: h.update(more=dict(h["fc.bias"], shape=[0], data_offsets=[0, 0])), "no part"),
    ],
)
def test_weights_that_do_not_hold_together_are_refused(change, text):
    with pytest.raises(RuntimeError, match=text):
        loaded(weights_edited(change))


def run_hostile(seed, count):
    def limits():
        if "libasan" in os.environ.get("LD_PRELOAD", ""):  # which reserves terabytes
            return
        memory = 3 << 30
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    run = subprocess.run(
        [sys.executable, hostile.__file__, str(seed), str(count)],
        capture_output=True, text=True, timeout=500, preexec_fn=limits,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, (run.stdout[-200:], run.stderr[-2000:])
    outcomes = json.loads(run.stdout.splitlines()[-1])
    assert outcomes["refused"] > count // 3 and outcomes["loaded"] > 0
    return outcomes


@pytest.mark.native
def test_changed_files_never_crash():
    run_hostile(1, 300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 9))
def test_many_changed_files_never_crash(seed):
    run_hostile(seed, 300)
