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
    """Adds leaves, which are lists of tensors, as they come: neighbours first, then pairs of
    neighbours, and so on."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []  # (how many leaves, their sum), larger ones first

    def add(self, leaf: list[Any]) -> None:
        """The next leaf. It may be changed."""
        count = 1
        while self._waiting and self._waiting[-1][0] == count:
            _, older = self._waiting.pop()
            rushlight._foreach_add_(older, leaf)  # type: ignore[attr-defined]
            leaf = older
            count *= 2
        self._waiting.append((count, leaf))

    def take(self) -> list[Any]:
        """The sums; the tree is empty then."""
        ((_, total),) = self._waiting
        self._waiting = []
        return total


def sum_over_ranks(parts: list[Any], group: Any) -> list[Any]:
    """The upper part of the tree: the sums of all ranks' tensors, neighbours first."""
    size = group.size()
    if size == 1:
        return parts
    lengths = [part.numel() for part in parts]
    total = sum(lengths)
    chunk = -(-total // size)
    filling = parts[0].new_zeros(size * chunk - total)
    sent = rushlight.cat([*[part.reshape(-1) for part in parts], filling])
    rows = rushlight.empty_like(sent)
    distributed.all_to_all_single(rows, sent, group=group)
    rows = rows.view(size, chunk)
    while rows.shape[0] > 1:
        rows = rows[0::2] + rows[1::2]
    distributed.all_gather_into_tensor(sent, rows.view(chunk), group)
    pieces = sent[:total].split(lengths)
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


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
            parameter.register_hook(self._set_aside(i))
            parameter.register_post_accumulate_grad_hook(self._hook_for(i))

    def prepare(self) -> None:
        """A forward pass of a shard was made."""
        if self.expects and self.gradients:  # the backward pass before did not come to its end
            self._abandon()
        self.expects = True
        self.gradients = {}

    def _abandon(self):
        """A step that failed is over: the next pass is the first shard of another one."""
        self.taken = 0
        self.before, self.trees, self.gradients = {}, {}, {}

    def _set_aside(self, i):
        """What stands in .grad before a step is added at its end."""

        def hook(gradient: Any) -> None:
            parameter = self.parameters[i]
            if self.expects and i not in self.gradients and parameter.grad is not None:
                self.before[i], parameter.grad = parameter.grad, None

        return hook

    def _hook_for(self, i):
        def hook(parameter: Any) -> None:
            if not self.expects:
                return
            if not self.gradients:
                _C._queue_callback(self._finish)
            # In a part that is computed again, a parameter may come twice.
            gradient, parameter.grad = parameter.grad.detach(), None
            known = self.gradients.get(i)
            self.gradients[i] = gradient if known is None else known + gradient

        return hook

    def _finish(self):
        """A shard's backward pass is done."""
        self.expects = False
        unused = [n for i, n in enumerate(self.names) if i not in self.gradients]
        if unused and not self.find_unused:
            self._abandon()
            raise RuntimeError(
                f"DistributedDataParallel: parameters got no gradient in this step: {unused[:10]}. "
                "Pass find_unused_parameters=True if that is meant"
            )
        with rushlight.no_grad():
            for dtype, members in self._by_dtype().items():
                wide = rushlight.float32 if dtype in HALF else dtype
                leaf = [self._gradient(i).to(wide).contiguous() for i in members]
                self.trees.setdefault(dtype, Tree()).add(leaf)
            self.gradients = {}
            self.taken += 1
            if self.taken == self.here:
                self._hand_out()

    def _gradient(self, i):
        found = self.gradients.get(i)
        return rushlight.zeros_like(self.parameters[i]) if found is None else found

    def _by_dtype(self):
        found: dict[Any, list[int]] = {}
        for i, parameter in enumerate(self.parameters):
            found.setdefault(parameter.dtype, []).append(i)
        return found

    def _hand_out(self):
        for dtype, members in self._by_dtype().items():
            sums = sum_over_ranks(self.trees[dtype].take(), self.group)
            rushlight._foreach_div_(sums, self.shards)
            for i, mean in zip(members, sums, strict=True):
                mean = mean.to(dtype)
                self.parameters[i].grad = self.before[i] + mean if i in self.before else mean
        self.before = {}
        self.taken = 0
