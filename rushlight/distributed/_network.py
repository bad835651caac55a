"""How long collectives take: the alpha-beta model, a latency and a bandwidth per link.

A ring over p ranks sends in p - 1 rounds a p-th of the bytes each time; all_reduce goes round
twice. Over several nodes, ranks of a node reduce among each other first, the nodes exchange their
parts over the link between them, and the ranks gather: so a node's link carries what one rank's
would.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Link", "Traffic", "fit_network"]


@dataclass(frozen=True)
class Link:
    """A network between GPUs or nodes, as two numbers: the alpha-beta model.

    Arguments:
        latency: seconds per message.
        bandwidth: bytes per second in one direction.
        measured: whether `fit_network` found the numbers.
        error: of the fit: the mean distance from what was measured, relative.

    Example:
        >>> from rushlight.distributed import Link
        >>> link = Link(latency=1e-5, bandwidth=1e9, measured=False)
        >>> link.rounds(4, 4e6)  # three rounds with 1 MB each
        0.00303
    """

    latency: float
    bandwidth: float
    measured: bool = False
    error: float | None = None  # of the fit: the mean distance from what was measured, relative

    def __post_init__(self) -> None:
        if self.latency < 0 or self.bandwidth <= 0:
            raise ValueError(f"Link: latency must be at least 0 and bandwidth above 0, got {self}")

    def rounds(self, ranks: int, nbytes: float, times: int = 1) -> float:
        """Seconds of a ring's rounds, each with one rank's part."""
        if ranks < 2:
            return 0.0
        return times * (ranks - 1) * (self.latency + nbytes / ranks / self.bandwidth)


@dataclass
class Traffic:
    """Seconds, and bytes per GPU inside the node and per node over its link."""

    seconds: float = 0.0
    inside: float = 0.0
    between: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.seconds + other.seconds, self.inside + other.inside, self.between + other.between
        )

    def times(self, count: float) -> Traffic:
        """As often as that."""
        return Traffic(self.seconds * count, self.inside * count, self.between * count)


class Ring:
    """Ranks of one group: ``each`` on every one of ``nodes``; ``sharers`` such groups use the
    nodes' links at the same time."""

    def __init__(self, inside: Link, between: Link, each: int, nodes: int,
                 sharers: int = 1) -> None:  # fmt: skip
        self.inside, self.between = inside, between
        self.each, self.nodes, self.sharers = each, nodes, sharers

    def _one_way(self, nbytes: float) -> Traffic:
        """reduce_scatter, or all_gather, which is its reverse."""
        apart = nbytes / self.each * self.sharers * self.each  # over a node's link
        seconds = self.inside.rounds(self.each, nbytes) + self.between.rounds(self.nodes, apart)
        inside = nbytes * (self.each - 1) / self.each
        return Traffic(seconds, inside, apart * (self.nodes - 1) / self.nodes)

    def all_gather(self, nbytes: float) -> Traffic:
        """``nbytes``: of the whole."""
        return self._one_way(nbytes)

    def reduce_scatter(self, nbytes: float) -> Traffic:
        return self._one_way(nbytes)

    def all_reduce(self, nbytes: float) -> Traffic:
        return self._one_way(nbytes).times(2)


def _median_seconds(size: int, group: Any, turns: int) -> float:
    import rushlight as rl
    from rushlight import distributed as dist

    tensor = rl.ones(max(1, size // 4))
    times = []
    for _ in range(turns):
        dist.barrier(group)
        start = time.perf_counter()
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group)
        times.append(time.perf_counter() - start)
    return statistics.median(times[turns // 5 :])


def fit_line(ranks: int, sizes: Sequence[int], seconds: Sequence[float]) -> Link:
    """The link whose ring takes these times, by least squares of relative errors."""
    rows = [(2 * (ranks - 1), 2 * (ranks - 1) / ranks * size) for size in sizes]
    a11 = a12 = a22 = b1 = b2 = 0.0
    for (x, y), t in zip(rows, seconds, strict=True):
        x, y = x / t, y / t
        a11, a12, a22, b1, b2 = a11 + x * x, a12 + x * y, a22 + y * y, b1 + x, b2 + y
    determinant = a11 * a22 - a12 * a12
    latency = max(0.0, (b1 * a22 - b2 * a12) / determinant)
    per_byte = (b2 - a12 * latency) / a22
    if per_byte <= 0:
        raise RuntimeError(
            "fit_network: larger tensors took no longer, so no bandwidth can be told; measure with "
            "larger sizes, or on a quieter machine"
        )
    errors = [abs(x * latency + y * per_byte - t) / t
              for (x, y), t in zip(rows, seconds, strict=True)]  # fmt: skip
    return Link(latency, 1 / per_byte, measured=True, error=sum(errors) / len(errors))


def fit_network(
    group: Any = None,
    sizes: Sequence[int] = (1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24),
    turns: int = 15,
) -> Link:
    """Measures all_reduce over a process group, on all its ranks, and fits latency and bandwidth;
    all ranks get those of rank 0.

    Arguments:
        group: the process group, of two ranks at least; None for the default one.
        sizes: bytes of the tensors that are measured.
        turns: how often each is; the median counts.

    Returns:
        Link: with `measured` set, and the `error` of the fit.

    Raises:
        RuntimeError: larger tensors took no longer than small ones.

    Example:
        >>> from rushlight import distributed as dist
        >>> measure = lambda rank: dist.fit_network(sizes=(1 << 12, 1 << 24), turns=5)
        >>> first, second = dist.simulate(2, measure)
        >>> first.measured, first.bandwidth > 0, first == second
        (True, True, True)
    """
    from rushlight import distributed as dist

    ranks = dist.get_world_size(group)
    if ranks < 2:
        raise ValueError("fit_network: a group of one rank has no network")
    seconds = [_median_seconds(size, group, turns) for size in sizes]
    found: list[Any] = [None]
    if dist.get_rank(group) == 0:
        try:
            found = [fit_line(ranks, sizes, seconds)]
        except RuntimeError as error:  # for all ranks, which wait for rank 0's word
            found = [error]
    dist.broadcast_object_list(found, group=group, group_src=0)
    if isinstance(found[0], RuntimeError):
        raise found[0]
    return found[0]
