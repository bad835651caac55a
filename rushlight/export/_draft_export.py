"""draft_export: a program in any case, and a report of what it does not do as the module does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram
    from rushlight.nn import Module

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]


class FailureType(IntEnum):
    """What export would have raised for. Those of fake kernels do not happen here."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


class FailureReport(NamedTuple):
    """One thing that the program does otherwise than the module; data["reason"] says what."""

    failure_type: FailureType
    data: dict[str, Any]
    xfail: bool = False


class DraftExportReport:
    """What stands between a draft and an export; printing it tells what to change."""

    def __init__(self, failures: list[FailureReport]) -> None:
        self.failures = failures

    def successful(self) -> bool:
        """Would export have given the same program?"""
        return all(failure.xfail for failure in self.failures)

    def __repr__(self) -> str:
        return f"DraftExportReport({self.failures})"

    def __str__(self) -> str:
        if self.successful():
            return "draft_export: no issues; export.export gives the same program"
        lines = [f"draft_export: {len(self.failures)} issue(s); the program is not the module:"]
        for i, failure in enumerate(self.failures, 1):
            lines.append(f"{i}. {failure.failure_type}: {failure.data['reason']}")
            if failure.data.get("became"):
                lines.append(f"   The program: {failure.data['became']}.")
        return "\n".join(lines)

    def apply_suggested_fixes(self) -> NoReturn:
        """Refused, as in PyTorch."""
        raise NotImplementedError(
            "apply_suggested_fixes: not there; the report says what to change"
        )


def draft_export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """export.export that gives a program even where that would raise, and says what is wrong.

    Values that Python read stay those of the example inputs, and sizes that cannot change stay. The
    program's `_report` (a DraftExportReport) lists each with its line, and so does a warning.

    Arguments:
        mod: a module.
        args: a tuple of inputs.
        kwargs: named inputs.
        dynamic_shapes: which sizes may change, by Dim or Dim.DYNAMIC.
        preserve_module_call_signature: paths of submodules whose signatures are kept.
        strict, prefer_deferred_runtime_asserts_over_guards: accepted.

    Example:
        >>> class Net(nn.Module):
        ...     def forward(self, x):
        ...         return x * x.sum().item()
        >>> program = rl.export.draft_export(Net(), (rl.ones(2),), strict=False)
        >>> program.module()(rl.tensor([1.0, 3.0]))
        tensor([2., 6.])
    """
    from rushlight.export._export import exported

    failures: list[FailureReport] = []
    paths = preserve_module_call_signature
    ep = exported(mod, args, kwargs, dynamic_shapes, failures, paths)
    ep._report = DraftExportReport(failures)
    if failures:
        warnings.warn(str(ep._report), stacklevel=2)
    return ep
