"""ao.quantization under its old name."""

from rushlight._names.missing import names_missing_from
from rushlight.ao.quantization import *

__getattr__ = names_missing_from(__name__)
