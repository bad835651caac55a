"""torch.while_loop, by its long name."""

from rushlight._functions.control_flow import while_loop as while_loop

__all__ = ["while_loop"]
