"""Runs the cases: values compared in every bit, and as programs that give inputs to C++."""

import copy
import enum
import importlib
import struct

import rushlight as rl

from . import CASES

PARTS = ("numbers", "flow", "containers", "tensors", "errors", "unusual", "classes")


def all_cases():
    if not CASES:
        for name in PARTS:
            importlib.import_module(f"{__package__}.{name}")
    return CASES


def modules():
    return importlib.import_module(f"{__package__}.modules").MODULES


def called(fn, inputs):
    """What a call gives; it may change its inputs, so they are copies."""
    return fn(*copy.deepcopy(inputs))


def outcome(fn, inputs):
    """(the result as text, None) or (None, the exception)."""
    try:
        return dump(called(fn, inputs)), None
    except Exception as error:
        return None, error


def dump(v):
    """A value as text, with the bits of its numbers; cpp/language.cpp has the same."""
    if v is None:
        return "None"
    if isinstance(v, rl.Tensor):
        raw = v.detach().contiguous().view(-1)
        data = bytes(raw.view(rl.uint8).tolist()) if raw.numel() else b""
        total = 0xCBF29CE484222325
        for byte in data:
            total = (total ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        sizes = ",".join(map(str, v.shape))
        return f"tensor {str(v.dtype).rsplit('.', 1)[1]} [{sizes}] {total:016x}"
    if isinstance(v, bool | int):
        return f"{'bool' if isinstance(v, bool) else 'int'} {int(v)}"
    if isinstance(v, float):
        bits = struct.unpack("<Q", struct.pack("<d", v if v == v else float("nan")))[0]
        return f"float {bits:016x}"
    if isinstance(v, str):
        return f"str {v.encode().hex()}"
    if isinstance(v, rl.Size):
        v = list(v)
    if isinstance(v, enum.Enum):
        v = (v.name, v.value)
    if isinstance(v, tuple | list):
        opening, closing = "()" if isinstance(v, tuple) else "[]"
        return opening + "; ".join(map(dump, v)) + closing
    if isinstance(v, dict):
        return "{" + "; ".join(f"{dump(k)}: {dump(x)}" for k, x in v.items()) + "}"
    if type(v).__module__ not in ("rushlight", "rushlight._C"):  # an object of a class
        inner = "; ".join(f"{name}: {dump(x)}" for name, x in vars(v).items())
        return f"{type(v).__name__}{{{inner}}}"
    return f"other {str(v).rsplit('.', 1)[-1]}"


def inputs_program(inputs, fn):
    """A program whose method i gives the i-th tuple of inputs of a function or a forward."""
    from rushlight.jit._program import ScriptFunction
    from rushlight.jit._script import types as t
    from rushlight.jit._script.program import Function, Program
    from rushlight.jit._script.source import Source

    program, source = Program(), Source(fn)
    parameters = [a for a in source.tree.args.args if a.arg != "self"]
    for i, given in enumerate(inputs):
        f = Function(program, source)
        kinds = [program.parameter_type(source, a) for a in parameters[: len(given)]]
        operands = [f.as_type(f.lifted(x), kind)[0] for x, kind in zip(given, kinds, strict=True)]
        whole = t.Tuple(*kinds)
        to = f.local(whole)
        f.emit(make=operands, to=to)
        f.emit(**{"return": to})
        program.functions.append(
            {
                "name": f"inputs{i}",
                "file": "",
                "method": True,
                "inputs": [],
                "locals": [str(x) for x in f.locals],
                "returns": str(whole),
                "body": f.out,
            }
        )
    return ScriptFunction(program.code(), "inputs")
