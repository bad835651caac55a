"""Classes that C++ extensions of PyTorch register: there are none."""

from __future__ import annotations

from rushlight._names.missing import fill

loaded_libraries = set()

fill(globals())
