"""torch.cond, by its long name."""

from rushlight._more import cond as cond

__all__ = ["cond"]
