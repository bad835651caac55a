"""Other parameters and another state in an optimiser for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight._C import Tensor

if TYPE_CHECKING:
    from rushlight.optim.optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Within the context the optimiser works on these parameters, by this state.

    Tensors are used as they are, so that in-place changes stay; whatever else happens to the
    optimiser is undone at the end.

    Arguments:
        optimizer: the optimiser.
        swapin_parameters: a dict of tensors in the order of the optimiser's own.
        swapin_optim_state: what optimizer.state_dict() gives.

    Example:
        >>> own, other = nn.Parameter(rl.zeros(1)), rl.ones(1)
        >>> other.grad = rl.ones(1)
        >>> sgd = optim.SGD([own], lr=0.5)
        >>> with optim.swap_in_optimizer_params_and_state(sgd, {"w": other}, sgd.state_dict()):
        ...     sgd.step()
        >>> own.item(), other.item()
        (0.0, 0.5)
    """
    params = list(swapin_parameters.values())
    own = sum(len(group["params"]) for group in optimizer.param_groups)
    if len(params) != own:
        raise ValueError(
            f"swap_in_optimizer_params_and_state: the optimiser has {own} parameters, "
            f"got {len(params)}"
        )
    groups = swapin_optim_state["param_groups"]
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    if [len(group["params"]) for group in groups] != sizes:
        raise ValueError(
            "swap_in_optimizer_params_and_state: the groups of the state must have "
            f"{sizes} parameters, as the optimiser's, got {[len(g['params']) for g in groups]}"
        )
    numbers = [number for group in groups for number in group["params"]]
    by_number = dict(zip(numbers, params, strict=True))
    state = defaultdict(dict)
    for number, values in swapin_optim_state["state"].items():
        state[by_number[number]] = dict(values)
    saved = optimizer.param_groups, optimizer.state
    optimizer.param_groups = [
        {**group, "params": [by_number[number] for number in group["params"]]} for group in groups
    ]
    optimizer.state = state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = saved
