"""Averages the gradients of several processes while backward still computes others.

Parameters are dealt into buckets. When the last gradient of a bucket is there, the group begins to
average the bucket, on a thread of its own, and backward goes on. At the end of backward the
averages become the gradients.

- Buckets go out in one order on all ranks, whatever the order in which they become ready: the group
  carries out its collectives one after the other.
- The order of parameters is at first that of their registration, backwards. After the first step it
  is the order in which rank 0's gradients became ready.
- The end of backward is when the engine says so; parameters that have no gradient by then took no
  part in the loss.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C
from rushlight.distributed._grad_bucket import GradBucket
from rushlight.distributed._sparse_collectives import gathered_sum

MIB = 1 << 20
FIRST_BUCKET = 1 * MIB  # small, so that communication begins soon


class Bucket:
    """Some parameters of one dtype, and one flat tensor with a view per parameter."""

    def __init__(self, indices: list[int], parameters: list[Any]) -> None:
        self.indices = indices
        sizes = [parameters[i].numel() for i in indices]
        first = parameters[indices[0]]
        self.flat = rushlight.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.views = {
            i: part.view(parameters[i].shape)
            for i, part in zip(indices, self.flat.split(sizes), strict=True)
        }
        self.missing = len(indices)
        self.work: Any = None
        self.factor: float | None = None  # with which gradients are copied in


class SparseBucket:
    """One parameter whose gradients are sparse: their places and values are gathered."""

    flat: Any = None

    def __init__(self, index: int, parameter: Any, group: Any) -> None:
        self.indices = [index]
        self.missing = 1
        self.work: Any = None
        self._parameter, self._group = parameter, group
        self.gradient: Any = None

    def take(self, gradient: Any) -> None:
        """This rank's gradient; None: nothing."""
        p = self._parameter
        if gradient is None:
            empty = rushlight.zeros((1, 0), dtype=rushlight.int64, device=p.device)
            none = rushlight.zeros((0, *p.shape[1:]), dtype=p.dtype, device=p.device)
            gradient = rushlight.sparse_coo_tensor(empty, none, p.shape)
        self.gradient = gradient if gradient.is_sparse else gradient.to_sparse(1)

    def begin(self, ranks: int) -> None:
        """Adds those of all ranks."""
        self.gradient = gathered_sum(self.gradient, self._group) / ranks
        self.work = self

    def wait(self) -> None:
        """It is done when it begins."""


class _Hooked:
    """What a communication hook has begun."""

    def __init__(self, future: Any, bucket: Bucket) -> None:
        if not hasattr(future, "wait"):
            raise TypeError(
                "DistributedDataParallel: a communication hook must return a Future, got "
                f"{type(future).__name__}"
            )
        self._future, self._bucket = future, bucket

    def wait(self) -> None:
        result = self._future.wait()
        if isinstance(result, (list, tuple)):
            result = result[0]
        if result.data_ptr() != self._bucket.flat.data_ptr():
            self._bucket.flat.copy_(result.view(-1))


def _fill(view, grad, factor):
    """Puts the gradient, which may be there already, into its place in a bucket."""
    if grad.data_ptr() != view.data_ptr():
        if factor is not None and not grad.is_sparse:
            rushlight.mul(grad, factor, out=view)
            return
        view.copy_(grad)
    if factor is not None:
        view.mul_(factor)


def deal(
    order: list[int], parameters: list[Any], cap: int, sparse: frozenset[int] = frozenset()
) -> list[list[int]]:
    """Indices of parameters in buckets of at most ``cap`` bytes, each of one dtype and device;
    those with sparse gradients have a bucket each."""
    done, open_buckets = [], {}
    for i in order:
        p = parameters[i]
        if i in sparse:
            done.append([i])
            continue
        room = FIRST_BUCKET if not done and FIRST_BUCKET < cap else cap
        kind = (p.dtype, p.device)
        indices, used = open_buckets.setdefault(kind, ([], 0))
        size = p.numel() * p.element_size()
        if indices and used + size > room:
            done.append(indices)
            indices, used = [], 0
        indices.append(i)
        open_buckets[kind] = (indices, used + size)
    return done + [indices for indices, _ in open_buckets.values()]


class Reducer:
    """The gradients of a module's parameters, averaged over a group."""

    def __init__(
        self,
        named_parameters: list[tuple[str, Any]],
        group: Any,
        average: Any,  # average(tensor, scaled): begins to average it, and returns what can be
        # waited for; of scaled ones the sum is the average
        factor: Any,  # factor(tensor): with which it may be scaled before, or None
        largest: Any,  # largest(tensor): puts the ranks' greatest values into the tensor
        agree: Any,  # agree(order): rank 0's list of numbers
        cap: int,
        find_unused: bool,
        as_views: bool,
        sparse: set[int] | frozenset[int] = frozenset(),  # ids of those with sparse gradients
    ) -> None:
        self.group = group
        self.divisor = group.size()  # of sparse sums
        self.sparse = frozenset(i for i, (_, p) in enumerate(named_parameters) if id(p) in sparse)
        self.names = [name for name, _ in named_parameters]
        self.parameters = [parameter for _, parameter in named_parameters]
        self.alone = group.size() == 1
        self.place = group._device()  # of small tensors on which the ranks agree
        self.average, self.largest, self.agree = average, largest, agree
        self.factor = factor
        self.cap, self.find_unused, self.as_views = cap, find_unused, as_views
        self.expects = False  # a forward pass wants its gradients averaged
        self.ready: list[bool] = []
        self.order: list[int] = []  # in which gradients became ready, in this pass
        self.ordered = self.alone  # the buckets follow that order already
        self.buckets: list[Any] = []
        self.bucket_of: dict[int, Any] = {}
        self._comm_hook: Any = None
        self._make_buckets(list(reversed(range(len(self.parameters)))))
        self._hooks: list[Any] = []
        self._watch()

    def _watch(self):
        for handle in self._hooks:
            handle.remove()
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._hook_for(i))
            for i, parameter in enumerate(self.parameters)
        ]

    def use_hook(self, hook: Any) -> None:
        """``hook(bucket)`` returns a future of the averages from now on, in a group of one too."""
        self._comm_hook = hook
        if self.alone:
            self.alone = False
            self._make_buckets(list(reversed(range(len(self.parameters)))))
            self._watch()

    def _send(self, number):
        bucket = self.buckets[number]
        if isinstance(bucket, SparseBucket):
            if self._comm_hook is not None:
                raise NotImplementedError(
                    "DistributedDataParallel: communication hooks do not take sparse gradients"
                )
            bucket.begin(self.divisor)
            return
        if self._comm_hook is None:
            bucket.work = self.average(bucket.flat, bucket.factor is not None)
            return
        last = number == len(self.buckets) - 1
        seen = GradBucket(bucket, self.parameters, number, last)
        bucket.work = _Hooked(self._comm_hook(seen), bucket)

    def _hook_for(self, i):
        def hook(parameter: Any) -> None:
            if self.expects:
                self._gradient_is_there(i)

        def count(parameter: Any) -> None:  # all that a group of one has to know
            if self.expects:
                if not self.order:
                    _C._queue_callback(self._finish)
                self.order.append(i)
                self.ready[i] = True

        return count if self.alone else hook

    def _make_buckets(self, order):
        self.buckets = []
        self.bucket_of = {}
        if not self.alone:
            for indices in deal(order, self.parameters, self.cap, self.sparse):
                bucket: Any = (
                    Bucket(indices, self.parameters)
                    if (indices[0] not in self.sparse)
                    else SparseBucket(indices[0], self.parameters[indices[0]], self.group)
                )
                self.buckets.append(bucket)
                self.bucket_of.update(dict.fromkeys(indices, bucket))

    def prepare(self) -> None:
        """A forward pass was made whose gradients are to be averaged."""
        self.expects = True
        self.ready = [False] * len(self.parameters)
        self.order = []
        self.sent = 0
        for bucket in self.buckets:
            bucket.missing, bucket.work = len(bucket.indices), None
        self._choose_factors()

    def _choose_factors(self):
        """Gradients are divided on their way into buckets, which costs nothing there; a pass of its
        own over the sums would keep a processor from backward."""
        for bucket in self.buckets:
            if bucket.flat is not None:
                bucket.factor = self.factor(bucket.flat) if self._comm_hook is None else None

    def _gradient_is_there(self, i):
        if not self.order:
            _C._queue_callback(self._finish)
        if self.ready[i]:
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[i]} became ready twice in "
                "one step. A parameter that a checkpointed part uses several times, or several "
                "backward passes over one forward pass, lead to this; use "
                "checkpoint(..., use_reentrant=False), or no_sync() for all passes but the last"
            )
        self.order.append(i)
        self._mark(i, self.parameters[i].grad)

    def _mark(self, i, grad):
        """The gradient (None: zeros) goes to its bucket, and a full bucket goes out."""
        self.ready[i] = True
        bucket = self.bucket_of[i]
        view = None if i in self.sparse else bucket.views[i]
        with rushlight.no_grad():
            if view is None:
                bucket.take(grad)
            elif grad is None:
                view.zero_()
            else:
                _fill(view, grad, bucket.factor)
        bucket.missing -= 1
        while self.sent < len(self.buckets) and self.buckets[self.sent].missing == 0:
            self._send(self.sent)
            self.sent += 1

    def shadow(self) -> None:
        """A step of the other ranks, to which this one has nothing to add."""
        self._choose_factors()
        with rushlight.no_grad():
            for number, bucket in enumerate(self.buckets):
                if isinstance(bucket, SparseBucket):
                    bucket.take(None)
                else:
                    bucket.flat.zero_()
                self._send(number)
            everything = list(range(len(self.parameters)))
            used = self._used_anywhere(everything) if self.find_unused else None
            self._hand_out_all(used)  # an optimiser that shares its steps out may need them
        if not self.ordered:
            self.ordered = True
            self._make_buckets(self.agree([i for b in self.buckets for i in b.indices]))

    def _finish(self):
        """Backward is done."""
        self.expects = False
        unused = [i for i, ready in enumerate(self.ready) if not ready]
        if unused and not self.find_unused:
            for bucket in self.buckets[: self.sent]:
                bucket.work.wait()
            self._raise_unused(unused)
        if self.alone:
            return
        for i in unused:
            self._mark(i, None)
        used = self._used_anywhere(unused) if self.find_unused else None
        with rushlight.no_grad():
            self._hand_out_all(used)
        if not self.ordered:
            self.ordered = True
            self._make_buckets(self.agree(self.order + unused))

    def _hand_out_all(self, used):
        for bucket in self.buckets:
            bucket.work.wait()
            for i in bucket.indices:
                if used is not None and not used[i]:
                    continue
                if i in self.sparse:
                    self.parameters[i].grad = bucket.gradient
                else:
                    self._hand_out(self.parameters[i], bucket.views[i])

    def _hand_out(self, parameter, view):
        if self.as_views:
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.clone()
        elif parameter.grad.data_ptr() != view.data_ptr():
            parameter.grad.copy_(view)

    def _used_anywhere(self, unused):
        flags = rushlight.ones(len(self.parameters), dtype=rushlight.uint8)
        flags[unused] = 0
        flags = flags.to(self.place)
        self.largest(flags)
        return flags.tolist()

    def _raise_unused(self, unused):
        shown = ", ".join(self.names[i] for i in unused[:10])
        more = f" and {len(unused) - 10} more" if len(unused) > 10 else ""
        raise RuntimeError(
            f"DistributedDataParallel: {len(unused)} of {len(self.parameters)} parameters got no "
            f"gradient in this step, as they took no part in the loss: {shown}{more}. The other "
            "gradients of this step are not averaged. Pass find_unused_parameters=True if that is "
            "meant, or let every output of forward take part in the loss"
        )
