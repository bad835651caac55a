"""Random numbers on GPUs. There is one generator for all devices, so that a seed gives the same
numbers everywhere; these names are those of PyTorch, and all mean that generator. Without a GPU
they leave it alone."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight import random as _random
from rushlight._C import Tensor
from rushlight.cuda._devices import current_device, device_count, is_available
from rushlight.types import Device


def manual_seed(seed: int) -> None:
    """Seeds the generator of all devices.

    Arguments:
        seed: an int.

    Example:
        >>> rl.cuda.manual_seed(0) is None
        True
    """
    if is_available():
        _random.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generator of all devices.

    Arguments:
        seed: an int.

    Example:
        >>> rl.cuda.manual_seed_all(0) is None
        True
    """
    manual_seed(seed)


def seed() -> None:
    """Seeds the generator from the system's entropy."""
    if is_available():
        _random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the generator."""
    current_device()  # raises without a GPU
    return _random.initial_seed()


def get_rng_state(device: int | str | Device = "cuda") -> Tensor:
    """The state of the generator as a tensor of bytes."""
    current_device()
    return _random.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """A list with the state for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state(new_state: Tensor, device: int | str | Device = "cuda") -> None:
    """Puts the generator into a state from get_rng_state."""
    current_device()
    _random.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Puts the generator into the last of the states."""
    for state in new_states:
        set_rng_state(state)
