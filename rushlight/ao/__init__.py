"""Quantization and pruning for deployment: not there."""

from rushlight._names.missing import names_missing_from
from rushlight.ao import quantization as quantization

__getattr__ = names_missing_from(__name__)
