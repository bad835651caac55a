"""Modes that see every operator: not there."""

from rushlight._missing import absent


def is_traceable_wrapper_subclass(t):
    """False: no subclass takes part in a compiler's tracing."""
    return False


absent(
    globals(),
    "calls are not intercepted by modes; give a Tensor subclass a __torch_function__ instead",
    classes="TorchDispatchMode",
)
