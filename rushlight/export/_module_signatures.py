"""Signatures of module calls that an export keeps (preserve_module_call_signature)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight.export._errors import UserError
from rushlight.export._inputs import Packing
from rushlight.export._packings import packing_data, packing_from
from rushlight.export.graph_signature import ArgumentSpec
from rushlight.nn import Module
from rushlight.utils._pytree import TreeSpec, tree_leaves

__all__ = ["KeptCall", "ModuleCallEntry", "ModuleCallSignature", "Place", "checked_paths",
           "kept_calls_data", "kept_calls_from", "seen"]  # fmt: skip


@dataclasses.dataclass
class ModuleCallSignature:
    """What a module was called with and what it gave: the leaves of both in order, by their names
    in the graph, and how they are packed.

    Arguments:
        inputs, outputs: the leaves.
        in_spec, out_spec: how they are packed.
        forward_arg_names: names of the arguments of forward.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 1))
        >>> program = rl.export.export(
        ...     net, (rl.zeros(2, 3),), preserve_module_call_signature=("0",))
        >>> kept = [call for call in program.module_call_graph if call.fqn == "0"][0].signature
        >>> isinstance(kept, rl.export.ModuleCallSignature), len(kept.inputs)
        (True, 1)
        >>> rl.export.ModuleCallSignature(
        ...     [], [], kept.in_spec, kept.out_spec, forward_arg_names=["x"]).forward_arg_names
        ['x']
    """

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Another Node of the graph takes the place of one."""
        for argument in (*self.inputs, *self.outputs):
            if argument.name == original_node.name:
                argument.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A call of a submodule; further calls of one whose signature is kept are named path@1 and so
    on.

    Arguments:
        fqn: the path of the submodule, empty for the whole.
        signature: its signature, where it is kept.

    Example:
        >>> program = rl.export.export(nn.Sequential(nn.ReLU()), (rl.zeros(2),))
        >>> [call.fqn for call in program.module_call_graph]
        ['', '0']
        >>> rl.export.ModuleCallEntry("body.0", signature=None)
        ModuleCallEntry(fqn='body.0', signature=None)
    """

    fqn: str
    signature: ModuleCallSignature | None = None


class Place(NamedTuple):
    """Where a leaf is in the program: a "local", or a parameter or buffer ("state"); of a number
    that follows sizes, while it is traced, its expression ("expr")."""

    kind: str
    index: Any


class KeptCall:
    """A call whose signature is kept: its packings, whose `tensors` are the leaves that have a
    place (numbers that follow sizes among them), and these places."""

    def __init__(self, inputs: Packing, sources: list[Place], outputs: Packing,
                 results: list[Place]) -> None:  # fmt: skip
        self.inputs, self.sources, self.outputs, self.results = inputs, sources, outputs, results

    def settled(self, values: list[int | None], number: Any) -> None:
        """The program is written: values are locals, and numbers are what number(expr) says, a
        local or None where the number stays."""
        for packing, places in ((self.inputs, self.sources), (self.outputs, self.results)):
            kept = []
            for i, (kind, index) in zip(list(packing.tensors), places, strict=True):
                if kind == "expr":
                    plain, expr = index
                    local = number(expr)
                    if local is None:
                        packing.tensors.remove(i)
                        packing.fixed[i] = plain
                        continue
                    kept.append(Place("local", local))
                else:
                    kept.append(Place(kind, values[index] if kind == "value" else index))
            places[:] = [Place("local", p.index) if p.kind == "value" else p for p in kept]


def seen(path: str, what: str, value: Any, tracer: Any, state: Any) -> tuple[Packing, list[Place]]:
    """One side of a call that is being traced, now: a module may change its arguments."""
    leaves, packing = tree_leaves(value), Packing(value, f"{what} of '{path}'")
    packing.tensors = [
        i for i, x in enumerate(leaves) if isinstance(x, Tensor) or hasattr(x, "expr")
    ]
    places = [_place(path, leaves[i], tracer, state) for i in packing.tensors]
    packing.fixed = [None if i in packing.tensors else x for i, x in enumerate(leaves)]
    return packing, places


def _place(path, leaf, tracer, state):
    if not isinstance(leaf, Tensor):
        plain = int(leaf) if isinstance(leaf, int) else float(leaf)
        return Place("expr", (plain, leaf.expr))
    value = _C._jit_value_of(tracer, leaf)
    if value is not None:
        return Place("value", value)
    for i, row in enumerate(state):
        if row[1] is leaf:
            return Place("state", i)
    raise UserError(
        f"export: '{path}', whose signature is to be kept, is called with a tensor that is neither "
        "an input, a parameter, a buffer nor computed from them; register it as a buffer"
    )


def checked_paths(module: Module, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths of preserve_module_call_signature; raises where one is no submodule. A module with
    several paths is known by its first one."""
    if isinstance(paths, str):
        raise TypeError(
            f"export: preserve_module_call_signature must be a tuple of paths, got {paths!r}; "
            f"write ({paths!r},)"
        )
    found = []
    names = {part: path for path, part in module.named_modules()}
    for path in paths:
        if not isinstance(path, str):
            raise TypeError(f"export: paths of modules are strings, got {type(path).__name__}")
        part = None
        with contextlib.suppress(AttributeError):
            part = module.get_submodule(path) if path else None
        if part is None:
            raise AttributeError(
                f"export: preserve_module_call_signature names '{path}', and "
                f"{type(module).__name__} has no such submodule"
            )
        found.append(names[part])
    return tuple(found)


def kept_calls_data(calls: dict[int, KeptCall]) -> list[Any]:
    """As JSON."""
    return [
        [k, packing_data(c.inputs), c.sources, packing_data(c.outputs), c.results]
        for k, c in calls.items()
    ]


def kept_calls_from(rows: Any, calls: int, places: dict[str, int]) -> dict[int, KeptCall]:
    """From JSON; ValueError where they do not fit a program with so many calls and places."""
    found = {}
    for k, inputs, sources, outputs, results in rows:
        if type(k) is not int or not 0 <= k < calls:
            raise ValueError(f"there is no call {k!r}")
        sides: list[Any] = []
        for packing, rest in ((inputs, sources), (outputs, results)):
            made = packing_from(packing)
            found_places = [Place(str(kind), index) for kind, index in rest]
            if len(found_places) != len(made.tensors) or not all(
                type(p.index) is int and 0 <= p.index < places.get(p.kind, 0) for p in found_places
            ):
                raise ValueError(f"the signature of call {k} does not fit into the program")
            sides += [made, found_places]
        if [c.type for c in sides[0].spec.children_specs] != [tuple, dict]:
            raise ValueError(f"call {k} has no arguments by position and by name")
        found[k] = KeptCall(*sides)
    return found
