"""Methods of rushlight's modules as the compiler reads them, where their own source is written for
speed in Python. Each does what the module does."""

from __future__ import annotations

from rushlight import nn
from rushlight.nn import functional as F


def _linear(self, input):
    return F.linear(input, self.weight, self.bias)


_FORWARDS = {nn.Linear: _linear}


def replacement(module, method):
    """The function to compile for a method of a module; None: its own."""
    if method != "forward":
        return None
    for cls, fn in _FORWARDS.items():
        if isinstance(module, cls) and type(module).forward is cls.forward:
            return fn
    return None
