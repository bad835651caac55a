"""Modes that see every operator: not there."""

from rushlight._missing import absent

absent(
    globals(),
    "calls are not intercepted by modes; give a Tensor subclass a __torch_function__ instead",
    classes="TorchDispatchMode",
)
