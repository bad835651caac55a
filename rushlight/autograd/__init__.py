"""Gradients of recorded programs: backward, grad, and the switches for recording."""

from rushlight.autograd import grad_mode
from rushlight.autograd._engine import backward, grad
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "grad_mode",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
