"""PyTorch's names of what the launcher is made of, as far as programs use them."""

from rushlight._names.missing import names_missing_from

__getattr__ = names_missing_from(__name__)
