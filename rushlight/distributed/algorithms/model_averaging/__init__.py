"""Averages of models, in place of averages of gradients."""

from rushlight._names.missing import names_missing_from

__getattr__ = names_missing_from(__name__)
