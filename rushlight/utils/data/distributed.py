"""The sampler for training on several machines: each process gets its own part of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator

import rushlight
from rushlight import ArgumentError
from rushlight.utils.data.dataset import Dataset
from rushlight.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every ``num_replicas``-th index, beginning at ``rank``, of an order that all ranks share.

    All ranks get equally many: the order is filled up with its own beginning, or with
    ``drop_last`` cut. Call ``set_epoch`` before each epoch, or every epoch has the same order.

    Arguments:
        dataset: what has the length.
        num_replicas: how many processes; None asks the process group.
        rank: which of them this is; None asks the process group.
        shuffle: another order every epoch.
        seed: the same in all processes.
        drop_last: leave out samples at the end, rather than giving some twice, so that all have
            as many.

    Example:
        >>> sampler = rl.utils.data.DistributedSampler(range(6), num_replicas=2, rank=1,
        ...     shuffle=False)
        >>> list(sampler)
        [1, 3, 5]
    """

    def __init__(
        self,
        dataset: Dataset,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            group = _process_group()
            num_replicas = group.get_world_size() if num_replicas is None else num_replicas
            rank = group.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.num_samples = self._share(len(dataset))  # type: ignore[arg-type]
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed
        self._done = 0  # samples of the order that the next pass leaves out: all ranks' together

    def _share(self, length: int) -> int:
        """How many of so many samples each rank gets."""
        if self.drop_last and length % self.num_replicas != 0:
            return max(0, math.ceil((length - self.num_replicas) / self.num_replicas))
        return math.ceil(length / self.num_replicas)

    def _going_on(self, order: list[int]) -> Iterator[int]:
        """This rank's part of what an epoch on another number of ranks has left."""
        left, self._done = order[self._done :], 0
        share = self._share(len(left))
        missing = share * self.num_replicas - len(left)
        left += (order * math.ceil(max(0, missing) / len(order)))[: max(0, missing)]
        return iter(left[self.rank : share * self.num_replicas : self.num_replicas])

    def __iter__(self) -> Iterator[int]:
        length = len(self.dataset)  # type: ignore[arg-type]
        if self.shuffle:
            generator = rushlight.Generator().manual_seed(self.seed + self.epoch)
            order = rushlight.randperm(length, generator=generator).tolist()
        else:
            order = list(range(length))
        if self._done:
            return self._going_on(order)
        missing = self.total_size - length
        if missing > 0 and not self.drop_last:
            order += (order * math.ceil(missing / length))[:missing]
        own = order[: self.total_size][self.rank :: self.num_replicas]
        if len(own) != self.num_samples:
            raise AssertionError(
                f"DistributedSampler: the dataset had {self.total_size} samples (padded) when the "
                f"sampler was made, and has {length} now"
            )
        return iter(own)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass shuffle by this number."""
        self.epoch = epoch


def _process_group():
    try:
        from rushlight import distributed
    except ImportError:
        distributed = None
    if distributed is None or not distributed.is_available():
        raise ArgumentError(
            "Requires distributed package to be available: DistributedSampler needs num_replicas "
            "and rank where no process group tells them"
        )
    return distributed
