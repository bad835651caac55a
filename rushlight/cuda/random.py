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
    """Seeds the generator from the system's entropy; does nothing without a GPU.

    Example:
        >>> rl.cuda.seed() is None
        True
    """
    if is_available():
        _random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the generator. Raises a DeviceError where there is no GPU.

    Example:
        >>> rl.cuda.manual_seed(7)
        >>> rl.cuda.initial_seed() if rl.cuda.is_available() else 7
        7
    """
    current_device()  # raises without a GPU
    return _random.initial_seed()


def get_rng_state(device: int | str | Device = "cuda") -> Tensor:
    """The state of the generator as a tensor of bytes. Raises a DeviceError where there is no GPU.

    Arguments:
        device: accepted; one generator serves all devices.

    Example:
        >>> state = rl.cuda.get_rng_state("cuda") if rl.cuda.is_available() else rl.get_rng_state()
        >>> state.dtype
        rushlight.uint8
    """
    current_device()
    return _random.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """A list with the state for each GPU; all are that of the one generator.

    Example:
        >>> len(rl.cuda.get_rng_state_all()) == rl.cuda.device_count()
        True
    """
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state(new_state: Tensor, device: int | str | Device = "cuda") -> None:
    """Puts the generator into a state from get_rng_state.

    Raises a DeviceError where there is no GPU.

    Arguments:
        new_state: the state.
        device: accepted; one generator serves all devices.

    Example:
        >>> state = rl.get_rng_state()
        >>> first = rl.rand(2)
        >>> if rl.cuda.is_available():
        ...     rl.cuda.set_rng_state(state, device="cuda")
        ... else:
        ...     rl.set_rng_state(state)
        >>> bool((rl.rand(2) == first).all())
        True
    """
    current_device()
    _random.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Puts the generator into the last of the states.

    Arguments:
        new_states: what get_rng_state_all gave.

    Example:
        >>> states = rl.cuda.get_rng_state_all()
        >>> rl.cuda.set_rng_state_all(states) is None
        True
    """
    for state in new_states:
        set_rng_state(state)
