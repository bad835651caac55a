"""What export and draft_export share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.export._draft_export import FailureReport
from rushlight.export._errors import UserError
from rushlight.export._inputs import Packing, arguments_of
from rushlight.export._module_signatures import checked_paths
from rushlight.export._roots import Roots
from rushlight.export._trace import Exporting, range_of
from rushlight.export._unify import value_locals
from rushlight.export.dynamic_shapes import AdditionalInputs, ShapesCollection, inputs_of
from rushlight.export.exported_program import ExportedProgram
from rushlight.nn import Module

__all__ = ["exported"]


def exported(
    mod: Any,
    args: Any,
    kwargs: Any,
    dynamic_shapes: Any,
    failures: list[FailureReport] | None = None,
    paths: tuple[str, ...] = (),
) -> ExportedProgram:
    """What export gives; paths: of submodules whose signatures are kept. With a list of failures it
    does not raise for them, but notes them."""
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
    kept = checked_paths(mod, paths)
    job = Exporting(mod, Packing((args, named), "the input"), roots, failures, kept)
    code, base, roots = job.run()
    ep = ExportedProgram(
        code, [row[1] for row in job.rows], type(mod).__name__, job.packing, base.output,
        {root.name: range_of(root) for root in roots.all}, (args, named),
    )  # fmt: skip
    ep._places = {root.name: [tuple(p) for p in root.places] for root in roots.all}
    ep._calls, ep._kept_calls = base.module_calls, base.kept_calls
    values = value_locals(base.function)
    for call in ep._kept_calls.values():
        call.settled(values, job.numbers_of_calls.get)
    if isinstance(further, AdditionalInputs):
        further.verify(ep)
    return ep
