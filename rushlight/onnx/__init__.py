"""torch.onnx's names. Models cannot be exported to ONNX; asking whether one is being exported
works."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from rushlight._names.missing import fill

__all__ = ["OperatorExportTypes", "TrainingMode", "is_in_onnx_export"]


class TrainingMode(enum.IntEnum):
    """In which mode PyTorch exports a model."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """How PyTorch writes operators that ONNX lacks."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False


def is_onnxrt_backend_supported() -> bool:
    """Whether ONNX Runtime can be a backend of compile: no."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Does nothing: no model is ever exported, so no symbol is asked for."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Does nothing."""


fill(globals())
