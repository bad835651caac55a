"""What tests of programs need."""

from rushlight._missing import names_missing_from
from rushlight.testing._comparison import assert_allclose, assert_close
from rushlight.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

__getattr__ = names_missing_from(__name__)
