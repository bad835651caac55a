"""The old place of rushlight.library."""

from rushlight._names.missing import names_missing_from
from rushlight.library import custom_op as custom_op
from rushlight.library import get_ctx as get_ctx
from rushlight.library import impl as impl
from rushlight.library import register_fake as impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]

__getattr__ = names_missing_from(__name__)
