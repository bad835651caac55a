"""What tests of programs need; loaded when first used."""

from rushlight._names.missing import names_missing_from

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_HOMES = {
    "assert_allclose": "rushlight.testing._comparison",
    "assert_close": "rushlight.testing._comparison",
    "make_tensor": "rushlight.testing._creation",
}
__getattr__ = names_missing_from(__name__, _HOMES)


def __dir__():
    return sorted({*globals(), *__all__})
