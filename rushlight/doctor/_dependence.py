"""What depends on what in a model, asked of the graph that it recorded: single rows of what reaches
a loss, differentiated by what came out of the first layer."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight._C import Tensor

__all__ = ["leaves_of", "mixes_samples", "sees_its_own_target"]

_MOST_NODES = 20_000
_LEAST_SAMPLES = 4


def leaves_of(root: Tensor) -> tuple[list[Tensor], set[Any]]:
    """The tensors that a backward pass from here gives gradients to, and the nodes on the way."""
    found: list[Tensor] = []
    seen: set[Any] = {root.grad_fn}
    waiting = [root.grad_fn]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            found.append(leaf)
            seen.discard(node)  # of no graph alone
        for after, _ in getattr(node, "next_functions", ()):
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
    return found, seen


def _rows_behind(x: Tensor, at: int, source: Tensor, dims: int) -> Any:
    """Which rows of the source a row of x is computed from; None where it cannot be told.
    The elements have weights, since their plain sum may not depend on anything, as that of a
    softmax."""
    by: Any
    with rushlight.enable_grad():
        row = x[at]
        weights = rushlight.linspace(0.5, 1.5, row.numel(), dtype=row.dtype, device=row.device)
        try:
            (by,) = rushlight.autograd.grad(
                (row.reshape(-1) * weights).sum(), source, retain_graph=True, allow_unused=True
            )
        except RuntimeError:  # a function of the program's own that cannot be run twice
            return None
    if by is None or by.layout is not rushlight.strided or not bool(by.isfinite().all()):
        return None
    by = by.flatten(0, dims - 1)
    return (by != 0).reshape(by.shape[0], -1).any(1)


def mixes_samples(x: Tensor, first: Tensor, samples: int) -> bool | None:
    """Whether the first or the last row of x (what takes samples for times sees only those before)
    is computed from several samples. `first` has samples in dim 0.
    None where that is not to be asked: rows that are compared with each other, as in contrastive
    losses, depend on all."""
    if samples < _LEAST_SAMPLES or first.dim() < 2 or first.shape[0] != samples:
        return None
    if first.shape[1] == samples or x.dim() < 1 or x.shape[0] % samples or x.grad_fn is None:
        return None
    # Similarities of all pairs have about as many columns as there are samples, or views of them.
    if any(n >= samples - 2 and (n + 2) % samples <= 4 for n in x.shape[1:]):
        return None
    if x.dim() == 1 and x.shape[0] != samples:
        return None
    found = [_rows_behind(x, at, first, 1) for at in (0, -1)]
    return None if any(rows is None for rows in found) else any(int(r.sum()) > 1 for r in found)


def sees_its_own_target(x: Tensor, target: Tensor, ids: Tensor, first: Tensor) -> bool:
    """Whether the scores of a place are computed from the very token that they are to name, and
    from none after it. `first` is what an embedding made of the ids."""
    if ids.dim() != 2 or ids.shape[1] < 4 or target.numel() != ids.numel():
        return False
    if not bool((target.flatten() == ids.flatten()).all()):
        return False
    if x.dim() == 3 and x.shape[2] == ids.shape[1] and x.shape[0] == ids.shape[0]:
        with rushlight.enable_grad():
            x = x.transpose(1, 2).flatten(0, 1)
    if x.dim() != 2 or x.shape[0] != ids.numel() or x.grad_fn is None or first.dim() != 3:
        return False
    place = ids.shape[1] // 2
    rows = _rows_behind(x, place, first, 2)
    return rows is not None and bool(rows[place]) and not bool(rows[place + 1 :].any())
