"""ao.quantization under its old name."""

from rushlight._names.missing import names_missing_from
from rushlight.ao.quantization import *
from rushlight.ao.quantization.stubs import DeQuantStub as DeQuantStub
from rushlight.ao.quantization.stubs import QuantStub as QuantStub

__getattr__ = names_missing_from(__name__)
