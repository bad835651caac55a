"""The default generator of random numbers: seeding it, and keeping its state."""

from contextlib import contextmanager

from rushlight._C import default_generator as default_generator
from rushlight._C import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from rushlight._names.missing import names_missing_from

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(
    devices=None,
    enabled=True,
    _caller="fork_rng",
    _devices_kw="devices",
    device_type="cpu",
):
    """Draws and seeds inside the with block leave no trace on the generator after it.

    `devices` names the devices besides the CPU, of which there are none.
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
