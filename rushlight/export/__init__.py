"""Export: a module as a program for inputs of many sizes, which runs without Python.

docs/export.md is the guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight._names.missing import fill
from rushlight.export._errors import ConstraintViolationError, UserError
from rushlight.export._files import load, save
from rushlight.export._inputs import Packing, arguments_of
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
    "ShapesCollection",
    "UnflattenedModule",
    "UserError",
    "dims",
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
    run the module's Python.
    """
    from rushlight.export._roots import Roots
    from rushlight.export._trace import Exporting, range_of
    from rushlight.export.dynamic_shapes import inputs_of

    if not isinstance(mod, Module):
        raise ValueError(f"export: expected a module, got {type(mod).__name__}; wrap a function in "
                         "a Module whose forward calls it")  # fmt: skip
    if not isinstance(args, tuple):
        raise UserError(
            f"export: args must be a tuple of the inputs, got {type(args).__name__}; write (x,) "
            "for one"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UserError(f"export: kwargs must be a dict, got {type(kwargs).__name__}")
    arguments = arguments_of(mod, args, dict(kwargs or {}))
    named = {name: kwargs[name] for name in arguments if kwargs and name in kwargs}
    if isinstance(dynamic_shapes, ShapesCollection | AdditionalInputs):
        further, dynamic_shapes = dynamic_shapes, dynamic_shapes.dynamic_shapes(mod, args, named)
    else:
        further = None
    roots = Roots(inputs_of(arguments, dynamic_shapes))
    job = Exporting(mod, Packing((args, named), "the input"), roots)
    code, base, roots = job.run()
    ep = ExportedProgram(
        code, [row[1] for row in job.rows], type(mod).__name__, job.packing, base.output,
        {root.name: range_of(root) for root in roots.all}, (args, named),
    )  # fmt: skip
    ep._places = {root.name: [tuple(p) for p in root.places] for root in roots.all}
    ep._calls = base.module_calls
    if isinstance(further, AdditionalInputs):
        further.verify(ep)
    return ep


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Makes a dataclass one that inputs and outputs of exported programs may have; files have it
    under its name, or serialized_type_name."""
    import dataclasses

    from rushlight.export._packings import remember
    from rushlight.utils import _pytree

    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass: expected a dataclass, got {cls!r}")
    remember(cls, serialized_type_name)
    if cls not in _pytree.SUPPORTED_NODES:
        _pytree.register_dataclass(cls)


fill(globals())
