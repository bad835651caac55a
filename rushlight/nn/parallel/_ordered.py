"""Sums of gradients whose bits do not depend on the number of ranks.

A step has V shards of its batch, whatever the number of ranks; a rank computes V / ranks of them,
one backward pass each, in order. Their gradients are leaves of one fixed binary tree of sums.
The shards of a rank are neighbours, so what it adds by itself is a subtree; the ranks' sums are
then exchanged in chunks (all_to_all), added by the upper part of the same tree, and gathered.
Floating point addition is not associative, but here the same additions happen in the same order on
1, 2, 4 or V ranks.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, distributed

HALF = (rushlight.float16, rushlight.bfloat16)


class Tree:
    """Adds leaves as they come: neighbours first, then pairs of neighbours, and so on."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []  # (how many leaves, their sum), larger ones first

    def add(self, leaf: Any) -> None:
        """The next leaf. It may be changed."""
        count = 1
        while self._waiting and self._waiting[-1][0] == count:
            _, older = self._waiting.pop()
            leaf = older.add_(leaf)
            count *= 2
        self._waiting.append((count, leaf))

    def take(self) -> Any:
        """The sum; the tree is empty then."""
        ((_, total),) = self._waiting
        self._waiting = []
        return total


def sum_over_ranks(flat: Any, group: Any) -> Any:
    """The upper part of the tree: the sum of all ranks' tensors, neighbours first."""
    size = group.size()
    if size == 1:
        return flat
    chunk = -(-flat.numel() // size)
    sent = rushlight.zeros(size * chunk, dtype=flat.dtype, device=flat.device)
    sent[: flat.numel()] = flat
    rows = rushlight.empty_like(sent)
    distributed.all_to_all_single(rows, sent, group=group)
    rows = rows.view(size, chunk)
    while rows.shape[0] > 1:
        rows = rows[0::2] + rows[1::2]
    distributed.all_gather_into_tensor(sent, rows.view(chunk), group)
    return sent[: flat.numel()]


class OrderedReducer:
    """In place of Reducer: gradients are added at the end of the last shard's backward pass."""

    def __init__(
        self, named_parameters: list[tuple[str, Any]], group: Any, shards: int, find_unused: bool
    ) -> None:
        size = group.size()
        if shards < 1 or shards & (shards - 1) or shards % size:
            raise ValueError(
                "DistributedDataParallel: deterministic_world must be a power of two, and a "
                f"multiple of the number of ranks ({size}), got {shards}"
            )
        self.names = [name for name, _ in named_parameters]
        self.parameters = [parameter for _, parameter in named_parameters]
        self.group, self.shards, self.here = group, shards, shards // size
        self.find_unused = find_unused
        self.expects = False
        self.taken = 0  # shards of this step
        self.gradients: dict[int, Any] = {}  # of this shard
        self.before: dict[int, Any] = {}  # what .grad was when the step began
        self.trees: dict[Any, Tree] = {}
        for i, parameter in enumerate(self.parameters):
            parameter.register_hook(self._hook_for(i))

    def prepare(self) -> None:
        """A forward pass of a shard was made."""
        self.expects = True

    def _hook_for(self, i):
        def hook(gradient: Any) -> None:
            if not self.expects:
                return
            if not self.gradients:
                _C._queue_callback(self._finish)
            if self.taken == 0 and self.parameters[i].grad is not None:
                self.before[i] = self.parameters[i].grad.clone()
            self.gradients[i] = gradient.detach()

        return hook

    def _finish(self):
        """A shard's backward pass is done."""
        self.expects = False
        unused = [n for i, n in enumerate(self.names) if i not in self.gradients]
        if unused and not self.find_unused:
            raise RuntimeError(
                f"DistributedDataParallel: parameters got no gradient in this step: {unused[:10]}. "
                "Pass find_unused_parameters=True if that is meant"
            )
        with rushlight.no_grad():
            for dtype, members in self._by_dtype().items():
                parts = [
                    self.gradients.get(i, rushlight.zeros_like(self.parameters[i])).reshape(-1)
                    for i in members
                ]
                wide = rushlight.float32 if dtype in HALF else dtype
                leaf = rushlight.cat(parts).to(wide)
                self.trees.setdefault(dtype, Tree()).add(leaf)
            self.gradients = {}
            self.taken += 1
            if self.taken == self.here:
                self._hand_out()

    def _by_dtype(self):
        found: dict[Any, list[int]] = {}
        for i, parameter in enumerate(self.parameters):
            found.setdefault(parameter.dtype, []).append(i)
        return found

    def _hand_out(self):
        for dtype, members in self._by_dtype().items():
            total = sum_over_ranks(self.trees[dtype].take(), self.group).div_(self.shards)
            sizes = [self.parameters[i].numel() for i in members]
            for i, part in zip(members, total.split(sizes), strict=True):
                parameter = self.parameters[i]
                mean = part.view(parameter.shape).to(dtype)
                parameter.grad = self.before[i] + mean if i in self.before else mean.clone()
        self.before = {}
        self.taken = 0
