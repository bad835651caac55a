"""The old place of rushlight.ao.quantization."""

from rushlight._missing import names_missing_from
from rushlight.ao.quantization import *  # noqa: F403
from rushlight.ao.quantization import __all__  # noqa: F401

__getattr__ = names_missing_from(__name__)
