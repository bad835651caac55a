"""What export raises."""

from __future__ import annotations

__all__ = ["ConstraintViolationError", "UserError"]


class UserError(RuntimeError):
    """A module or an argument that export cannot take; the message says what to write instead."""


class ConstraintViolationError(UserError):
    """The module does not work for all the sizes that dynamic_shapes asks for."""
