"""Models written as ONNX, through the package onnx, which is no part of the library.

docs/onnx.md is the guide."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from rushlight._names.missing import fill
from rushlight.onnx._export import (
    OnnxExporterError,
    ONNXProgram,
    UnsupportedOperatorError,
    export,
    is_exporting,
)
from rushlight.onnx._import import load

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode",
    "UnsupportedOperatorError", "export", "is_in_onnx_export", "load",
]  # fmt: skip


class TrainingMode(enum.IntEnum):
    """In which mode a model is exported.

    EVAL and TRAINING set the mode for the time of the export; PRESERVE leaves it.

    Example:
        >>> rl.onnx.TrainingMode.EVAL
        <TrainingMode.EVAL: 0>
        >>> [mode.name for mode in rl.onnx.TrainingMode]
        ['EVAL', 'PRESERVE', 'TRAINING']
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """How PyTorch writes operators that ONNX lacks.

    Example:
        >>> [kind.name for kind in rl.onnx.OperatorExportTypes]
        ['ONNX', 'ONNX_ATEN', 'ONNX_ATEN_FALLBACK', 'ONNX_FALLTHROUGH']
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Whether a model is being exported.

    Example:
        >>> rl.onnx.is_in_onnx_export()
        False
    """
    return is_exporting()


def is_onnxrt_backend_supported() -> bool:
    """Whether ONNX Runtime can be a backend of compile: no."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Does nothing: operators are translated by tables of ours."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Does nothing."""


fill(globals())
