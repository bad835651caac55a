"""Gradients of recorded programs: backward, grad, and what one can hang onto the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rushlight import _C
from rushlight._names.missing import submodule_or_raise
from rushlight.autograd import anomaly_mode, forward_ad, function, grad_mode, graph
from rushlight.autograd._detect_nan import NanError, detect_nan
from rushlight.autograd._engine import backward, grad
from rushlight.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.variable import Variable, variable
from rushlight.types import Self

if TYPE_CHECKING:  # loaded when first used
    from rushlight.autograd import functional as functional
    from rushlight.autograd import profiler as profiler
    from rushlight.autograd import profiler_util as profiler_util
    from rushlight.autograd.profiler_util import DeviceType as DeviceType

__all__ = [
    "Function",
    "GradcheckError",
    "NanError",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "detect_nan",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "variable",
]


def _is_checkpoint_valid():
    """Whether a reentrant checkpoint may run in this backward pass."""
    return _C._is_checkpoint_valid()


class set_multithreading_enabled:
    """Whether backward may use several threads; kept for with blocks, without effect."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False


def is_multithreading_enabled() -> bool:
    """Whether backward may use several threads."""
    return True


def _profiler_enabled():
    """Whether operators of this thread are being recorded."""
    return _C._profiler_watches_thread()


def __getattr__(name: str) -> Any:
    if name in ("profiler", "profiler_util"):
        import importlib

        return importlib.import_module(f"rushlight.autograd.{name}")
    if name == "DeviceType":
        from rushlight.autograd.profiler_util import DeviceType

        return DeviceType
    return submodule_or_raise(__name__, name)
