"""Traced programs as data: their instructions, and what every value is with example inputs."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from rushlight._C import Tensor
from rushlight.autograd import no_grad


def _json_of(traced: Any) -> tuple[bytes, dict[str, Any]]:
    """A program's file, and the program in it."""
    state = traced._state() if hasattr(traced, "_state") else []
    file = traced._code.save(state, None, None)
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return file, json.loads(archive.read("program.json"))


def has_functions(traced: Any) -> bool:
    """Whether a program was scripted, and so has more than a list of instructions."""
    return bool(_json_of(traced)[1].get("functions"))


class ProgramData:
    """One method of a traced module or function."""

    def __init__(self, traced: Any, method: str = "forward") -> None:
        state = traced._state() if hasattr(traced, "_state") else []
        self._file, self._json = _json_of(traced)
        self.method = next(m for m in self._json["methods"] if m["name"] == method)
        self.state_names = [row["name"] for row in self._json["state"]]
        self.state = dict(enumerate(state))
        self.constants = dict(enumerate(traced._code.constants))
        self.inputs = self.method["inputs"]
        self.body = self.method["body"]
        self.output = self.method["output"]
        self.sizes = [(row["value"], row["dim"]) for row in self.method["sizes"]]

    def leaves(self, structure: Any) -> Iterator[Any]:
        """The places ({"value": 3}, ...) in a structure of inputs or outputs, in order."""
        if structure is None:
            return
        for kind in ("tuple", "list"):
            if kind in structure:
                for item in structure[kind]:
                    yield from self.leaves(item)
                return
        if "dict" in structure:
            items = structure["dict"]
            for item in items.values() if isinstance(items, dict) else items:
                yield from self.leaves(item[1] if isinstance(item, list) else item)
            return
        yield structure

    def values(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], reads: Sequence[tuple[int, int]] = ()
    ) -> dict[Any, Tensor]:
        """{number: tensor} of all values of a run with these inputs, as they were when made; and
        {(instruction, number): tensor} for `reads`, as they were before that instruction.

        The program is run with copies of all of them as its output.
        """
        from rushlight.jit import load

        changed = json.loads(json.dumps(self._json))
        method = next(m for m in changed["methods"] if m["name"] == self.method["name"])
        places: dict[Any, int] = {}  # {what is asked for: the value that has it}
        body: list[dict[str, Any]] = []
        count = method["values"]

        def keep(key: Any, number: int) -> None:
            nonlocal count
            copied = {"op": "clone", "args": {"self": {"value": number}}, "results": [count]}
            body.append(copied)
            places[key] = count
            count += 1

        for number in places_of([row["value"] for row in self.inputs]):
            keep(number, number)
        for at, row in enumerate([*method["body"], None]):
            for key in reads:
                if key[0] == at:
                    keep(key, key[1])
            if row is not None:
                body.append(row)
                for number in _flat(row["results"]):
                    keep(number, number)
        method.update(
            body=body, values=count, output={"tuple": [{"value": n} for n in places.values()]}
        )
        changed["methods"] = [method | {"name": "forward"}]
        made = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self._file)) as old, zipfile.ZipFile(made, "w") as new:
            for name in old.namelist():
                data = json.dumps(changed) if name == "program.json" else old.read(name)
                new.writestr(name, data)
        made.seek(0)
        program = load(made)
        with no_grad():
            found = program(*args, **kwargs)
        return dict(zip(places, found, strict=True))


def _flat(results: Any) -> Iterator[int]:
    for result in results if isinstance(results, list) else [results]:
        if isinstance(result, list):
            yield from _flat(result)
        elif result is not None:
            yield result


def places_of(arg: Any) -> Iterator[int]:
    """The numbers of the values in a structure or among an instruction's arguments. Parameters and
    buffers count as -2, -4, ..., constants as -3, -5, ..."""
    if isinstance(arg, dict):
        if isinstance(arg.get("value"), int):
            yield arg["value"]
        elif isinstance(arg.get("state"), int):
            yield -2 * arg["state"] - 2
        elif isinstance(arg.get("constant"), int):
            yield -2 * arg["constant"] - 3
        else:
            for item in arg.values():
                yield from places_of(item)
    elif isinstance(arg, list):
        for item in arg:
            yield from places_of(item)


def read_by(instruction: dict[str, Any]) -> Iterator[int]:
    """places_of the arguments of an instruction, of which one may be called "value"."""
    return places_of(list(instruction["args"].values()))
