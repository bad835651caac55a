"""PyTorch's code generator: absent. Its settings may be set."""

from rushlight._inductor import config as config
from rushlight._names.missing import names_missing_from

__getattr__ = names_missing_from(__name__)
