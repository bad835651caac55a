"""The order of einsum's products. The switches are kept; products go from left to right."""

from __future__ import annotations

from rushlight._names.missing import names_missing_from

__all__ = ["get_opt_einsum", "is_available"]

enabled = False
strategy = None


def is_available() -> bool:
    """Whether the opt_einsum package is used."""
    return False


def get_opt_einsum() -> None:
    """The opt_einsum package; None, as it is not used."""
    return None


__getattr__ = names_missing_from(__name__)
