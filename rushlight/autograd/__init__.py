"""Gradients of recorded programs: backward, grad, and the switches for recording."""

from rushlight.autograd import forward_ad, functional, grad_mode
from rushlight.autograd._engine import backward, grad
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "GradcheckError",
    "backward",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
