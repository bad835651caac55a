"""torch._functorch: the steps of vmap under PyTorch's names; packages put their own in place."""

from rushlight._names.missing import names_missing_from

__getattr__ = names_missing_from(__name__)
