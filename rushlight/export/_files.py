"""Exported programs in files: .rush files that keep, beside the program, how it is called."""

from __future__ import annotations

import io
import json
import warnings
from typing import IO, Any

from rushlight.export._graph import forward_of
from rushlight.export._module_calls import checked_calls
from rushlight.export._module_signatures import kept_calls_from
from rushlight.export._packings import packing_from
from rushlight.export._unify import statements_of
from rushlight.export.exported_program import ExportedProgram, about
from rushlight.types import FileLike

__all__ = ["load", "save"]

_ABOUT, _EXAMPLE = "export.json", "export_example.pt"


def save(
    ep: ExportedProgram,
    f: FileLike | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Writes an exported program to a file (model.rush). export.load reads it, and so do jit.load
    and C++ programs, which give the tensors among the inputs, in order.

    Arguments:
        ep: an exported program.
        f: a path, or a file opened for writing bytes.
        extra_files: texts by name that go into the file.
        opset_version, pickle_protocol: accepted.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> program = rl.export.export(nn.ReLU(), (rl.zeros(2),))
        >>> rl.export.save(program, file, extra_files={"note": "hello"})
        >>> _ = file.seek(0)
        >>> rl.export.load(file).module()(rl.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: expected what export.export made, got {type(ep).__name__}")
    from rushlight.serialization import save as save_tensors

    files = dict(extra_files or {})
    for name in (_ABOUT, _EXAMPLE):
        if name in files:
            raise ValueError(f"export.save: '{name}' is a name that exported programs use")
    files[_ABOUT] = about(ep)
    if ep.example_inputs is not None:
        buffer = io.BytesIO()
        save_tensors([t.detach() for t in ep._inputs.unpack(ep.example_inputs)], buffer)
        files[_EXAMPLE] = buffer.getvalue()
    ep.module().save(f, _extra_files=files)


def load(
    f: FileLike | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """An exported program from a file. Of extra_files, a dict, those values are filled in whose
    names the file has.

    Arguments:
        f: a path, or a file opened for reading bytes.
        extra_files: a dict whose values are filled in.
        expected_opset_version: accepted.

    Example:
        >>> import io
        >>> file, texts = io.BytesIO(), {"note": ""}
        >>> program = rl.export.export(nn.ReLU(), (rl.zeros(2),))
        >>> rl.export.save(program, file, extra_files={"note": "hello"})
        >>> _ = file.seek(0)
        >>> program = rl.export.load(file, extra_files=texts)
        >>> texts
        {'note': 'hello'}
    """
    from rushlight.jit._files import load as load_program

    found: dict[str, Any] = dict.fromkeys((*(extra_files or ()), _ABOUT, _EXAMPLE))
    module = load_program(f, _extra_files=found)
    if found[_ABOUT] is None:
        raise RuntimeError(
            "export.load: this file was not written by export.save; jit.load reads what jit.save "
            "wrote"
        )
    for name in extra_files or ():
        if found[name] is not None:
            extra_files[name] = found[name].decode()  # type: ignore[index]
    try:
        data = json.loads(found[_ABOUT])
        return _program_of(module, data, found[_EXAMPLE])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RuntimeError(f"export.load: what the file says of its program is wrong: {error}") \
            from error  # fmt: skip


def _program_of(module, data, example):
    if data["version"] != 1:
        raise ValueError(f"its version is {data['version']}, and 1 is known")
    inputs, output = packing_from(data["inputs"]), packing_from(data["output"])
    code = module._code
    if list(code.inputs) != ["forward"] or len(code.inputs["forward"]) != len(inputs.tensors):
        raise ValueError("the program has other inputs")
    ranges = {str(k): (int(low), int(high)) for k, (low, high) in data["ranges"].items()}
    places = {
        str(k): [tuple(map(int, p)) for p in rows] for k, rows in data.get("places", {}).items()
    }
    given = None
    if data["example"] and example is not None:
        given = inputs.pack(_tensors_of(example))
    ep = ExportedProgram(code, module._state(), str(data["name"]), inputs, output, ranges, given)
    ep._places = places
    count = sum("op" in s or "call" in s for s in statements_of(forward_of(ep._program())["body"]))
    ep._calls = checked_calls(data.get("calls", ()), count)
    room = {"local": len(forward_of(ep._program())["locals"]), "state": len(code.state)}
    ep._kept_calls = kept_calls_from(data.get("signatures", ()), len(ep._calls), room)
    return ep


def _tensors_of(example):
    from rushlight.serialization import load as load_tensors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_tensors(io.BytesIO(example), weights_only=True)
