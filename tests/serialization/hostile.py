"""Files made to do harm, or damaged. Each entry of FILES is a name and the bytes of a file.

A file that gets its way writes to the path in MARKER (the environment variable RUSHLIGHT_MARKER
when the file is run), ends the process, or takes all memory; the tests look for that.
"""

import io
import os
import pickle
import struct
import zipfile

import rushlight as rl

MARKER = os.environ.get("RUSHLIGHT_MARKER", "/nonexistent/marker")
TOUCH = f"open({MARKER!r}, 'w').write('x')"


def text(s):
    data = s.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def name(module, attribute):
    return b"c" + f"{module}\n{attribute}\n".encode()


def number(value):
    data = pickle.encode_long(value)
    return b"\x8a" + bytes([len(data)]) + data


def storage(numel=4, key="0", kind="FloatStorage", location="cpu"):
    body = text("storage") + name("torch", kind) + text(key) + text(location)
    return b"(" + body + number(numel) + b"tQ"


def ints(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


def tensor(offset=0, size=(4,), stride=(1,), of=None, function="_rebuild_tensor_v2"):
    args = (of or storage()) + number(offset) + ints(size) + ints(stride) + b"\x89"
    return (
        name("torch._utils", function) + b"(" + args + name("collections", "OrderedDict") + b")RtR"
    )


def archive(pickled, records=None, method=zipfile.ZIP_STORED, folder="archive"):
    """A file as save writes it, over any pickle; with 16 bytes in storage 0."""
    out = io.BytesIO()
    records = {"data/0": bytes(16)} if records is None else records
    with zipfile.ZipFile(out, "w", method) as file:
        for key, data in {"data.pkl": pickled, "byteorder": b"little", **records}.items():
            file.writestr(f"{folder}/{key}", data)
        file.writestr(f"{folder}/version", b"3\n")
    return out.getvalue()


def stream(body):
    return archive(b"\x80\x02" + body + b".")


def good_file():
    out = io.BytesIO()
    rl.save({"a": rl.arange(100.0), "b": [rl.ones(3, 4), "text"]}, out)
    return out.getvalue()


class Reduced:
    """Pickles to any call."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def pickled(obj, protocol=2):
    return archive(pickle.dumps(obj, protocol))


def code_execution():
    shell = f"touch {MARKER}"
    yield "os.system", pickled(Reduced(os.system, (shell,)))
    yield "os.system protocol 0", pickled(Reduced(os.system, (shell,)), 0)
    yield "os.system STACK_GLOBAL", pickled(Reduced(os.system, (shell,)), 4)
    yield "os.system protocol 5", pickled(Reduced(os.system, (shell,)), 5)
    yield "eval", pickled(Reduced(eval, (TOUCH,)))
    yield "exec in a list", pickled([1, {"a": Reduced(exec, (TOUCH,))}])
    yield "as a key", pickled({Reduced(eval, (TOUCH,)): 1})
    yield "builtins by the old name", stream(name("__builtin__", "eval") + text(TOUCH) + b"\x85R")
    yield "subprocess", stream(name("subprocess", "check_call") + text("true") + b"\x85R")
    yield "INST", stream(b"(" + text(TOUCH) + b"ibuiltins\neval\n")
    yield "OBJ", stream(b"(" + name("builtins", "eval") + text(TOUCH) + b"o")
    yield "NEWOBJ", stream(name("subprocess", "Popen") + text("true") + b"\x85\x81")
    yield "NEWOBJ_EX", stream(name("subprocess", "Popen") + text("true") + b"\x85}\x92")
    yield "EXT1", stream(b"\x82\x01")
    yield "EXT2", stream(b"\x83\x01\x00")
    yield "EXT4", stream(b"\x84\x01\x00\x00\x00")
    yield "PERSID", stream(b"Pos.system\n")
    yield "BUILD on a class", stream(name("torch", "Tensor") + b"}" + text("x") + b"K\x01sb")
    build = name("collections", "OrderedDict") + b")R" + name("builtins", "eval") + b"b"
    yield "BUILD with a function", stream(build)
    yield "BUILD on a list", stream(b"]}b")
    yield "__setstate__ by an attribute", stream(
        name("collections", "OrderedDict") + b")R}" + text("__setstate__") + b"K\x01sb"
        + name("os", "system") + b"b"
    )  # fmt: skip
    yield "getattr chain", stream(name("builtins", "getattr") + name("os", "system") + b"\x85R")
    yield "dotted name", stream(name("torch", "serialization.os.system") + text("true") + b"\x85R")
    yield "dotted STACK_GLOBAL", stream(text("torch") + text("_utils.os.system") + b"\x93")
    yield "own module", stream(name("rushlight.serialization._trusted", "load_trusted") + b")R")
    yield "our importlib", stream(name("torch", "_sys.modules") + b")R")
    yield "call of a dtype", stream(name("torch", "float32") + b")R")
    yield "call of a result", stream(name("collections", "OrderedDict") + b")R)R")
    yield "call of a string", stream(text("os.system") + text("true") + b"\x85R")
    yield (
        "codec that unpacks",
        stream(name("_codecs", "encode") + text("x") + text("zlib") + b"\x86R"),
    )
    yield "subclass of tensor", stream(
        name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("os", "system")
        + name("torch", "Tensor") + text("true") + b"\x85}tR"
    )  # fmt: skip
    yield "rebuild with a class", stream(
        name("torch._tensor", "_rebuild_from_type_v2") + b"("
        + name("torch._utils", "_rebuild_tensor_v2") + name("collections", "OrderedDict") + b")}tR"
    )  # fmt: skip
    yield "numpy's loader", stream(name("numpy", "load") + text("x") + b"\x85R")
    yield (
        "storage that is code",
        stream(
            b"(" + text("storage") + name("os", "system") + text("0") + text("cpu") + b"K\x04tQ"
        ),
    )
    yield (
        "module as persistent id",
        stream(b"(" + text("module") + name("os", "system") + text("a") + text("b") + b"tQ"),
    )
    legacy = b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}))
    yield "legacy file", legacy + pickle.dumps(Reduced(os.system, (shell,)), 2) + pickle.dumps([])
    yield "legacy file's header", pickle.dumps(Reduced(eval, (TOUCH,)), 2)


def absurd_sizes():
    yield "storage of 2**60", stream(tensor(of=storage(1 << 60)))
    yield "storage of 2**57", stream(tensor(of=storage(1 << 57)))
    yield "storage of 2**80", stream(tensor(of=storage(1 << 80)))
    yield "storage of -4", stream(tensor(of=storage(-4)))
    yield "storage longer than its record", stream(tensor(of=storage(5)))
    yield "size beyond the storage", stream(tensor(size=(5,)))
    yield "stride beyond the storage", stream(tensor(size=(2,), stride=(4,)))
    yield "offset beyond the storage", stream(tensor(offset=4, size=(1,)))
    yield "offset below the storage", stream(tensor(offset=-1))
    yield "negative size", stream(tensor(size=(-4,)))
    yield "negative stride", stream(tensor(stride=(-1,), offset=3))
    yield "size 2**62", stream(tensor(size=(1 << 62, 1 << 62), stride=(0, 0)))
    yield "size 2**70", stream(tensor(size=(1 << 70,), stride=(0,)))
    yield "product that wraps", stream(tensor(size=(1 << 32, 1 << 32, 2), stride=(1, 1, 1)))
    yield "stride that wraps", stream(tensor(size=(2,), stride=((1 << 63) - 1,)))
    yield "offset of an empty tensor", stream(tensor(offset=1 << 61, size=(0,)))
    yield "200 dimensions", stream(tensor(size=(1,) * 200, stride=(1,) * 200))
    yield "fewer strides than sizes", stream(tensor(size=(2, 2)))
    yield "sizes that are text", stream(
        name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage() + b"K\x00" + text("ab")
        + text("cd") + b"\x89NtR"
    )  # fmt: skip
    yield "bytearray of 2**40", stream(name("builtins", "bytearray") + number(1 << 40) + b"\x85R")
    yield "bytes of 2**40", stream(name("builtins", "bytes") + number(1 << 40) + b"\x85R")
    yield "Tensor of 2**40", stream(name("torch", "Tensor") + number(1 << 40) + b"\x85R")
    yield "FloatTensor of 2**40", stream(name("torch", "FloatTensor") + number(1 << 40) + b"\x85R")
    yield "meta tensor of 2**62", stream(
        name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + name("torch", "float32")
        + ints((1 << 62, 1 << 62)) + ints((1, 1)) + b"\x89tR"
    )  # fmt: skip
    endless = tensor(of=storage(1), size=(1 << 40, 2), stride=(0, 0))
    yield (
        "OrderedDict of an endless tensor",
        stream(name("collections", "OrderedDict") + endless + b"\x85R"),
    )
    yield "set of an endless tensor", stream(name("builtins", "set") + endless + b"\x85R")
    yield "endless tensor to negate", stream(
        name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(1) + b"K\x00"
        + ints((1 << 33,)) + ints((0,)) + b"\x89N}" + text("neg") + b"\x88stR"
    )  # fmt: skip
    yield "endless tensor to convert", stream(
        name("torch._utils", "_rebuild_device_tensor_from_cpu_tensor") + b"(" + endless
        + name("torch", "float64") + text("cpu") + b"\x89tR"
    )  # fmt: skip
    yield "string of 4 GiB", stream(b"X\xff\xff\xff\xff")
    yield "string of 2**63", stream(b"\x8d" + struct.pack("<Q", 1 << 63))
    yield "bytes of 2**62", stream(b"\x8e" + struct.pack("<Q", 1 << 62))
    yield "bytearray of 2**62", stream(b"\x96" + struct.pack("<Q", 1 << 62))
    yield "long of -1 bytes", stream(b"\x8b" + struct.pack("<i", -1))
    yield "long of 2 GiB", stream(b"\x8b" + struct.pack("<i", (1 << 31) - 1))
    yield "number of a million digits", stream(b"L" + b"9" * 1_000_000 + b"L\n")
    yield "legacy storage of 2**60", legacy_file(1 << 60)
    yield "legacy storage of -1", legacy_file(-1)


def legacy_file(numel):
    body = b"(" + text("storage") + name("torch", "FloatStorage") + text("7") + text("cpu")
    body += number(numel) + b"NtQ"
    parts = [pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    parts += [b"\x80\x02" + tensor(of=body) + b".", pickle.dumps(["7"], 2)]
    return b"".join(parts) + struct.pack("<q", numel) + bytes(16)


def shapes_of_pickles():
    yield "deep lists", stream(b"]" * 200_000 + b"a" * 199_999)
    yield "deep tuples", stream(b")" + b"\x85" * 500_000)
    yield "deep tuple as a key", stream(b"}" + b")" + b"\x85" * 500_000 + b"K\x01s")
    yield "deep tuple in a set", stream(b"\x8f(" + b")" + b"\x85" * 500_000 + b"\x90")
    yield "open marks", stream(b"(" * 1_000_000)
    doubled = b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    yield "key whose hash takes 2**60 steps", stream(b"}" + doubled + b"K\x01s")
    yield (
        "set whose hash takes 2**60 steps",
        stream(name("builtins", "set") + b"]" + doubled + b"a\x85R"),
    )
    yield "memo entry that is not there", stream(b"h\x05")
    yield "memo number 2**32 - 1", stream(b"j\xff\xff\xff\xff")
    yield "memo number with a sign", stream(b"g-1\n")
    yield "list as a key", stream(b"}]K\x01s")
    yield "append to a string", stream(text("a") + b"K\x01a")
    yield "items of a number", stream(b"K\x01(K\x01K\x02u")
    yield "key without a value", stream(b"}(K\x01u")
    yield "nothing on the stack", stream(b"")
    yield "two objects", stream(b"K\x01K\x02")
    yield "a mark left over", stream(b"(K\x01")
    yield "no STOP", archive(b"\x80\x02K\x01")
    yield "empty pickle", archive(b"")
    yield "unknown opcode", stream(b"\xff")
    yield "protocol 200", archive(b"\x80\xc8K\x01.")
    yield "text that is no UTF-8", stream(b"X\x02\x00\x00\x00\xff\xfe")
    yield "wrong storage name", stream(tensor(of=storage(kind="SecretStorage")))
    yield "dtype that does not exist", stream(name("torch", "float33"))
    yield "storage that is missing", stream(tensor(of=storage(key="1")))
    yield "storage named like the pickle", stream(tensor(of=storage(key="../data.pkl")))
    yield "storage at an absolute path", stream(tensor(of=storage(key="/etc/passwd")))
    yield "storage on no device", stream(tensor(of=storage(location="nowhere:7")))
    yield "tensor over a list", stream(tensor(of=b"]"))
    yield "tensor over itself", stream(
        b"]q\x00" + name("torch._utils", "_rebuild_tensor_v2")
        + b"(h\x00K\x00" + ints((4,)) + ints((1,)) + b"\x89NtR"
    )  # fmt: skip
    yield "requires_grad of ints", stream(
        name("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(2, kind="LongStorage")
        + b"K\x00" + ints((2,)) + ints((1,)) + b"\x88NtR"
    )  # fmt: skip
    yield "next buffer", stream(b"\x97")


def archives():
    plain = b"\x80\x02K\x01."
    for label, path in {
        "parent folder": "archive/../../etc/cron.d/x",
        "absolute path": "/etc/passwd",
        "backslashes": "archive\\..\\x",
        "drive": "C:/x",
    }.items():
        out = io.BytesIO(archive(plain))
        with zipfile.ZipFile(out, "a") as file:
            file.writestr(zipfile.ZipInfo(path), b"x")
        yield f"zip name: {label}", out.getvalue()
    out = io.BytesIO(archive(plain))
    with zipfile.ZipFile(out, "a") as file:
        file.writestr(_twin("archive/data.pkl"), b"\x80\x02K\x02.")
    yield "two pickles of one name", out.getvalue()
    out = io.BytesIO(archive(plain))
    with zipfile.ZipFile(out, "a") as file:
        file.writestr("other/data.pkl", plain)
    yield "two folders", out.getvalue()
    yield "no pickle", archive(plain).replace(b"data.pkl", b"data.pkk")
    bomb = {"data/0": bytes(1 << 28)}
    yield (
        "zip bomb in a storage",
        archive(b"\x80\x02" + tensor(of=storage(1 << 26)) + b".", bomb, zipfile.ZIP_DEFLATED),
    )
    yield (
        "zip bomb in the pickle",
        archive(b"\x80\x02" + b"]0" * (1 << 26) + b"].", {}, zipfile.ZIP_DEFLATED),
    )
    yield "lying size", _with_sizes(archive(plain), 1 << 30)
    yield "size beyond the file", _with_sizes(archive(plain), 0xFFFFFFF0)
    yield "64-bit size without its field", _with_sizes(archive(plain), 0xFFFFFFFF)
    yield "overlapping records", _overlapping(archive(plain))
    yield "directory outside the file", _with_directory_at(archive(plain), 0x7FFFFFFF)
    yield "65,000 records claimed", _with_count(archive(plain), 65_000)
    yield "wrong checksum", archive(plain).replace(b"K\x01.", b"K\x02.")
    yield "encrypted", _with_flag(archive(plain), 1)
    yield "unknown compression", _with_method(archive(plain), 99)
    yield "byte order unknown", archive(plain, {"byteorder": b"middle"})
    yield "TorchScript", archive(plain, {"constants.pkl": plain})
    yield "empty file", b""
    yield "only a signature", b"PK\x03\x04"
    yield "text", b"hello, this is not a checkpoint\n" * 10
    yield "zeros", bytes(1000)
    yield "tar", bytes(257) + b"ustar" + bytes(250)
    yield "shell script", b"#!/bin/sh\ntrue\n"


def _twin(path):
    import warnings

    warnings.filterwarnings("ignore", message="Duplicate name")
    return zipfile.ZipInfo(path)


def _entry(data):
    return data.find(b"PK\x01\x02")


def _patched(data, at, form, *values):
    out = bytearray(data)
    struct.pack_into(form, out, at, *values)
    return bytes(out)


def _with_sizes(data, size):
    return _patched(data, _entry(data) + 20, "<2L", size, size)


def _with_flag(data, flag):
    return _patched(data, _entry(data) + 8, "<H", flag)


def _with_method(data, method):
    return _patched(data, _entry(data) + 10, "<H", method)


def _overlapping(data):
    second = data.find(b"PK\x01\x02", _entry(data) + 4)
    return _patched(data, second + 42, "<L", 3)


def _with_directory_at(data, place):
    return _patched(data, data.rfind(b"PK\x05\x06") + 16, "<L", place)


def _with_count(data, count):
    return _patched(data, data.rfind(b"PK\x05\x06") + 8, "<2H", count, count)


def families():
    yield from code_execution()
    yield from absurd_sizes()
    yield from shapes_of_pickles()
    yield from archives()


def damaged(step_cut=41, step_flip=7):
    """A good file, cut at many places and with single bits turned; (label, bytes, still good?)"""
    good = good_file()
    for n in range(0, len(good), step_cut):
        yield f"cut at {n}", good[:n]
    for at in range(0, len(good), step_flip):
        flipped = bytearray(good)
        flipped[at] ^= 1 << (at // step_flip % 8)
        yield f"bit turned in byte {at}", bytes(flipped)


def damaged_pickles(step=1):
    """The pickle of a good file with bytes changed and the checksum made right again."""
    with zipfile.ZipFile(io.BytesIO(good_file())) as file:
        records = {n.partition("/")[2]: file.read(n) for n in file.namelist()}
    body = records.pop("data.pkl")
    records.pop("version")
    for at in range(0, len(body), step):
        for value in {0, 0xFF, body[at] ^ 1, body[at] ^ 0x80, (at * 31) & 0xFF}:
            changed = body[:at] + bytes([value]) + body[at + 1 :]
            yield f"byte {at} is {value:#x}", archive(changed, records)
