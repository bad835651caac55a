"""torch.cond, by its long name."""

from rushlight._functions.control_flow import cond as cond

__all__ = ["cond"]
