"""The default generator of random numbers: seeding it, and keeping its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight._C import default_generator as default_generator
from rushlight._C import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from rushlight._names.missing import names_missing_from

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cpu",
) -> Iterator[None]:
    """Draws and seeds inside the with block leave no trace on the generator after it.

    `devices` names the devices besides the CPU, of which there are none.

    Arguments:
        devices: GPUs whose generators are kept as well.
        enabled: False does nothing.
        device_type: the kind of these devices.

    Example:
        >>> state = rl.get_rng_state()
        >>> with rl.random.fork_rng(devices=[]):
        ...     x = rl.rand(3)
        >>> rl.equal(rl.get_rng_state(), state)
        True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


__getattr__ = names_missing_from(__name__)
