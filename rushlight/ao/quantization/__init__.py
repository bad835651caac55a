"""Quantization in eager mode: observers, fake quantizers, prepare, convert, quantize_dynamic."""

from rushlight._names.missing import fill
from rushlight.ao.quantization.fake_quantize import *
from rushlight.ao.quantization.fuse_modules import *
from rushlight.ao.quantization.observer import *
from rushlight.ao.quantization.qconfig import *
from rushlight.ao.quantization.quantize import *
from rushlight.ao.quantization.stubs import *

fill(globals())
