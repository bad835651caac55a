"""Engines of quantized operators: there are none."""

from rushlight._names.missing import names_missing_from

engine = "none"
supported_engines = ["none"]

__getattr__ = names_missing_from(__name__)
