"""ao.nn.quantized under its old name."""

from rushlight.ao.nn.quantized import *
from rushlight.ao.nn.quantized import dynamic as dynamic
