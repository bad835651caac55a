"""Calls of scripted functions and modules inside of a trace: they stay calls, with their branches
and loops.

While such a program runs, the tracer records one instruction in its place, from the tensors that go
in to those that come out. When the trace is done, the program's functions are joined to the
traced one's, and the instruction becomes a call.
"""

from __future__ import annotations

import json
import threading
import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor

__all__ = ["Call", "call_traced", "flattened", "joined", "noted"]

_OP = "_list_clone"  # kCallOp of csrc/jit/tracer.h
_here = threading.local()


class Call:
    """One call."""

    def __init__(self, code: Any, method: str, state: list[Tensor], inputs: Any, output: Any,
                 attributes: Any) -> None:  # fmt: skip
        self.code, self.method, self.state, self.inputs = code, method, list(state), inputs
        self.output, self.attributes = output, attributes


class noted:
    """A with block in which calls of this thread are kept in a list."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __enter__(self) -> list[Call]:
        self.before = getattr(_here, "calls", None)
        _here.calls = self.calls
        return self.calls

    def __exit__(self, *error: object) -> None:
        _here.calls = self.before


class flattened:
    """A with block in which traces take scripted calls apart, as the operators that ran."""

    def __enter__(self) -> None:
        self.before = getattr(_here, "flat", False)
        _here.flat = True

    def __exit__(self, *error: object) -> None:
        _here.flat = self.before


def tensors_in(value):
    """The tensors of a value made of tuples, lists and dicts, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def _numbers(value):
    """Whether there is a value among the items that is neither a tensor nor None."""
    if isinstance(value, dict):
        return any(map(_numbers, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_numbers, value))
    return value is not None and not isinstance(value, Tensor)


def call_traced(code: Any, method: str, state: Any, inputs: Any, attributes: Any, run: Any) -> Any:
    """Runs a program while its caller is traced."""
    calls = None if getattr(_here, "flat", False) else getattr(_here, "calls", None)
    if calls is None or not _C._jit_call(0, list(tensors_in(inputs))):
        return run()
    kept = list(state)
    try:
        output = run()
    except BaseException:
        _C._jit_call(2, [])
        raise
    found = list(tensors_in(output))
    if len({id(t) for t in found}) != len(found) or {id(t) for t in found} & {
        id(t) for t in (*tensors_in(inputs), *state)
    }:
        # What is returned is what was given, or comes twice: the trace must tell them apart.
        output = _renewed(output)
        found = list(tensors_in(output))
    _C._jit_call(1, found)
    calls.append(Call(code, method, kept, inputs, output, attributes))
    if _numbers(output):
        from rushlight.jit._trace import TracerWarning

        warnings.warn(
            f"trace: the scripted {method} returned a number or text; the trace keeps the value of "
            "this run outside of it",
            TracerWarning,
            stacklevel=4,
        )
    return output


def _renewed(value):
    if isinstance(value, Tensor):
        return value.view_as(value)  # inside of the call, so the trace does not see it
    if isinstance(value, dict):
        return {k: _renewed(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_renewed, value))
    if isinstance(value, tuple | list):
        return type(value)(map(_renewed, value))
    return value


class _Joining:
    """Puts the calls into the program of a trace."""

    def __init__(self, code, calls, rows, paths):
        self.program = json.loads(_C._jit_as_functions(code.capsule))
        self.constants = list(code.constants)
        self.calls, self.rows, self.paths = iter(calls), rows, paths
        self.made: dict[Any, int] = {}
        # Methods that were traced before this one come first, and may be called by nobody.
        *self.functions, self.target = self.program["functions"]
        self.locals = self.target["locals"]

    def run(self):
        from rushlight.jit._program import Code

        self.target["body"] = self._block(self.target["body"])
        self.program["functions"] = [*self.functions, self.target]
        self.program["format"] = 2
        self.program["constants"] = ["cpu"] * len(self.constants)
        self.program.setdefault("attributes", [])
        state = [row[1] for row in self.rows]
        return Code(_C._jit_script(json.dumps(self.program), state, self.constants))

    def _block(self, body):
        out, rest = [], iter(body)
        for s in rest:
            if "with" in s:
                s = {**s, "body": self._block(s["body"])}
            if s.get("op") != _OP:
                out.append(s)
                continue
            call = next(self.calls)
            places = []
            for _ in range(3):  # the length of the list, its check
                next(rest)
            for _ in tensors_in(call.output):
                places.append(next(rest)["to"])
            self._write(out, call, s["args"]["self"]["list"], places)
        return out

    def _write(self, out, call, given, places):
        index = self._function(call)
        callee = self.functions[index]
        tensors = iter(given)
        args = []
        for value, declared in zip(call.inputs, callee["locals"], strict=False):
            args.append(self._packed(out, value, declared, tensors))
        to = self._local(callee["returns"]) if callee["returns"] != "None" else None
        out.append({"call": index, "args": args, "to": to})
        self._unpack(out, to, call.output, callee["returns"], iter(places))

    def _local(self, type_):
        self.locals.append(type_)
        return len(self.locals) - 1

    def _packed(self, out, value, declared, tensors):
        """A value as an operand of the type."""
        if isinstance(value, Tensor):
            return next(tensors)
        if not isinstance(value, tuple | list | dict):
            return {"is": _plain(value)}
        kind = declared
        if kind.startswith("Optional["):
            kind = kind[len("Optional[") : -1]
        inner = _items_of(kind)
        items = []
        if isinstance(value, dict):
            for key, item in value.items():
                items += [{"is": key}, self._packed(out, item, inner[1], tensors)]
        else:
            kinds = inner if not kind.startswith("List[") else inner * len(value)
            items = [
                self._packed(out, item, k, tensors) for item, k in zip(value, kinds, strict=True)
            ]
        to = self._local(kind)
        out.append({"make": items, "to": to})
        return to

    def _unpack(self, out, local, value, kind, places):
        """The tensors of a result, each to the local that the trace has it in."""
        if kind.startswith("Optional[") and value is not None:
            kind = kind[len("Optional[") : -1]
            narrow = self._local(kind)
            out.append({"cast": local, "to": narrow})
            local = narrow
        if isinstance(value, Tensor):
            out.append({"move": local, "to": next(places)})
            return
        if not isinstance(value, tuple | list | dict):
            return
        inner = _items_of(kind)
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        for k, (key, item) in enumerate(rows):
            if isinstance(value, dict):
                name, each = "get_key", inner[1]
            elif kind.startswith("List["):
                name, each = "get", inner[0]
            else:
                name, each = "item", inner[k]
            to = self._local(each)
            out.append({"do": name, "args": [local, {"is": key}], "to": to})
            self._unpack(out, to, item, each, places)

    # The callee's functions -----------------------------------------------------------------------

    def _function(self, call):
        key = (id(call.code), call.method, tuple(map(id, call.state)), id(call.attributes))
        if key not in self.made:
            self.made[key] = self._join(call)
        return self.made[key]

    def _join(self, call):
        program = json.loads(_C._jit_as_functions(call.code.capsule))
        first, constants = len(self.functions), len(self.constants)
        self.constants += call.code.constants
        attributes = self.program.setdefault("attributes", [])
        moved = {
            "state": [self._state(call, i) for i in range(len(call.state))],
            "constant": lambda i: {"constant": i + constants},
            "attribute": len(attributes),
            "call": first,
        }
        prefix = self.paths.get(tuple(map(id, call.state)), f"called_{first}")
        for i, entry in enumerate(program.get("attributes", ())):
            value = _C._jit_attribute(call.code.capsule, call.attributes, i)
            attributes.append(
                {**entry, "name": f"{prefix}.{entry['name']}".lstrip("."), "value": _stored(value)}
            )
        found = None
        for k, f in enumerate(program["functions"]):
            if f["method"] and f["name"] == call.method:
                found = first + k
            body = _renumbered(f["body"], moved)
            name = f["name"] if found != first + k else call.code.title or f["name"]
            self.functions.append({**f, "name": name, "method": False, "body": body})
        assert found is not None
        for entry in self.functions[found]["inputs"]:
            entry.pop("default", None)
        return found

    def _state(self, call, i):
        tensor = call.state[i]
        for k, row in enumerate(self.rows):
            if row[1] is tensor:
                return {"state": k}
        if tensor.requires_grad:
            name = call.code.state[i][0]
            raise RuntimeError(
                f"trace: the scripted module that is called has the parameter '{name}', which is "
                "none of the module that is traced; make the scripted module a part of it"
            )
        self.constants.append(tensor.detach().clone())
        return {"constant": len(self.constants) - 1}


def _renumbered(node, moved):
    """Statements of the callee with the numbers that they have in the joined program."""
    if isinstance(node, list):
        return [_renumbered(item, moved) for item in node]
    if not isinstance(node, dict) or list(node) == ["is"]:
        return node
    if len(node) == 1:
        ((kind, index),) = node.items()
        if kind == "state":
            return moved["state"][index]
        if kind == "constant":
            return moved["constant"](index)
        if kind == "attribute":
            return {"attribute": index + moved["attribute"]}
    made = {key: _renumbered(value, moved) for key, value in node.items()}
    if "call" in made:
        made["call"] = node["call"] + moved["call"]
    if "set_attribute" in made:
        made["set_attribute"] = node["set_attribute"] + moved["attribute"]
    if "set_state" in made:
        place = moved["state"][node["set_state"]]
        if "state" not in place:
            raise RuntimeError(
                "trace: the scripted module that is called replaces a buffer, and is no part of "
                "the module that is traced"
            )
        made["set_state"] = place["state"]
    return made


def _items_of(kind):
    """The types between the brackets of Tuple[...], List[...], Dict[...], NamedTuple[...]."""
    from rushlight.jit._script.types import parse

    return [str(item) for item in parse(kind).items]


def _plain(value):
    from rushlight.jit._script.values import static

    return static(value).operand["is"]


def _stored(value):
    from rushlight.jit._script.state import attribute_value

    return attribute_value(value)


def joined(code: Any, calls: list[Call], rows: Any, module: Any = None) -> Any:
    """The code of a trace with its calls in their places."""
    if not calls:
        return code
    paths = {}
    if module is not None:
        for name, part in module.named_modules():
            if hasattr(part, "_attributes") and hasattr(part, "_state"):
                paths[tuple(map(id, part._state()))] = name
    return _Joining(code, calls, rows, paths).run()
