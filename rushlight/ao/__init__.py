"""Models with numbers of eight bits and less (docs/quantization.md)."""

from rushlight._names.missing import names_missing_from
from rushlight.ao import float8 as float8
from rushlight.ao import nn as nn
from rushlight.ao import quantization as quantization
from rushlight.ao import weight_only as weight_only

__getattr__ = names_missing_from(__name__)
