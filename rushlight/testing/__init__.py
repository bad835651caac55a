"""What tests of programs need."""

from rushlight.testing._comparison import assert_allclose, assert_close

__all__ = ["assert_allclose", "assert_close"]
