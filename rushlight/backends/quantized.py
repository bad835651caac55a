"""Engines of quantized operators. PyTorch's names are taken; all of them mean the same here."""

from rushlight._names.missing import names_missing_from

engine = "x86"
supported_engines = ["x86", "fbgemm", "onednn", "qnnpack"]

__getattr__ = names_missing_from(__name__)
