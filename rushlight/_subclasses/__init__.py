"""Tensors without memory, for tracing: use device="meta" instead."""

from rushlight._missing import names_missing_from
from rushlight._subclasses.fake_tensor import FakeTensor as FakeTensor
from rushlight._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

__getattr__ = names_missing_from(__name__)
