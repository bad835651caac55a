"""Export: a module as a program for inputs of many sizes, which runs without Python.

docs/export.md is the guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight._names.missing import fill
from rushlight.export._draft_export import draft_export
from rushlight.export._errors import ConstraintViolationError, UserError
from rushlight.export._files import load, save
from rushlight.export._module_signatures import ModuleCallEntry, ModuleCallSignature
from rushlight.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from rushlight.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from rushlight.nn import Module

__all__ = [
    "AdditionalInputs",
    "ConstraintViolationError",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "UserError",
    "dims",
    "draft_export",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A program that does what the module does with inputs like the examples.

    dynamic_shapes names the sizes that may change ({"x": {0: Dim("batch")}}); all others are those
    of the examples. The module is run at several sizes; where its Python goes another way for some
    of the sizes, an error names the Dim and the line. strict means nothing here: both of its values
    run the module's Python. preserve_module_call_signature names submodules (by their paths) that
    unflatten shall call as the module does, so that they can be exchanged.

    Arguments:
        mod: a module.
        args: a tuple of inputs.
        kwargs: named inputs.
        dynamic_shapes: which sizes may change, by Dim or Dim.DYNAMIC.
        strict, prefer_deferred_runtime_asserts_over_guards: accepted.
        preserve_module_call_signature: paths of submodules, as said above.

    Example:
        >>> batch = rl.export.Dim("batch", min=2)
        >>> program = rl.export.export(nn.Linear(3, 1), (rl.zeros(2, 3),),
        ...     dynamic_shapes=({0: batch},))
        >>> program.module()(rl.zeros(7, 3)).shape
        rushlight.Size([7, 1])
    """
    from rushlight.export._export import exported

    return exported(mod, args, kwargs, dynamic_shapes, paths=preserve_module_call_signature)


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Makes a dataclass one that inputs and outputs of exported programs may have; files have it
    under its name, or serialized_type_name.

    Arguments:
        cls: the dataclass.
        serialized_type_name: its name in files.

    Raises:
        TypeError: where it is no dataclass.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     a: rl.Tensor
        ...     b: rl.Tensor
        >>> rl.export.register_dataclass(Pair, serialized_type_name="doc.Pair")
        >>> class Net(nn.Module):
        ...     def forward(self, pair):
        ...         return pair.a + pair.b
        >>> pair = Pair(rl.ones(2), rl.ones(2))
        >>> rl.export.export(Net(), (pair,)).module()(pair)
        tensor([2., 2.])
    """
    import dataclasses

    from rushlight.export._packings import remember
    from rushlight.utils import _pytree

    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass: expected a dataclass, got {cls!r}")
    remember(cls, serialized_type_name)
    if cls not in _pytree.SUPPORTED_NODES:
        _pytree.register_dataclass(cls)


fill(globals())
