"""Gradients across workers: contexts, what was sent and received in them, and the pass backward.

While a context is open, tensors that need gradients and travel are remembered on both sides: the
sender keeps the tensors (a "sent" record), the receiver holds leaves in their place (a "received"
record), both under one number. Backward goes in two rounds of messages:

1. mark: from the roots, each worker walks its graph to the received records that it can reach, and
   asks their senders to do the same from there. Afterwards each worker knows which of its sent
   records will get gradients, and which of those every received record waits for.
2. gradients: each worker computes the gradients of what is ready, in one go, adds those of
   parameters to the context's, and sends those of a received record once all that it waits for has
   come. So every record is sent once, whatever the shape of the graph, and what the loss does not
   depend on is not waited for.

An answer to a message of either round comes when all that it caused is done, so the round is over
when the roots' own is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rushlight as rl
from rushlight.futures import Future, collect_all
from rushlight.types import Tensor

if TYPE_CHECKING:
    from rushlight.distributed.rpc._worker import Worker

Number = tuple[int, int]
_ID_BITS = 48  # of a context's number that count; the others are the worker's


class _Alias(rl.autograd.Function):
    """The tensor over the same memory, as no leaf: programs may write to it."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor) -> Tensor:
        return leaf.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Received:
    """Tensors that came from another worker: the leaves that stand for them."""

    def __init__(self, sender: int, number: Number, leaves: list[Tensor]) -> None:
        self.sender, self.number, self.leaves = sender, number, leaves


class Pass:
    """What one worker knows of one call of backward."""

    def __init__(self) -> None:
        self.reached: dict[Any, tuple[list[Tensor], list[Received]]] = {}  # by sent record
        self.waits_for: dict[Number, set[Any]] = {}  # by received record
        self.grads: dict[Number, list[Tensor | None]] = {}
        self.ready: list[tuple[Any, list[Tensor], list[Tensor | None], Future]] = []
        self.is_running = False


class Context:
    """One context on one worker."""

    def __init__(self, number: int, worker: Worker) -> None:
        self.number, self.worker = number, worker
        self.lock = threading.RLock()
        self.sent: dict[Number, list[Tensor]] = {}
        self.received: dict[int, Received] = {}  # by the identity of a leaf
        self.partners: set[int] = set()
        self.passes: dict[Number, Pass] = {}
        self.gradients: dict[int, tuple[Tensor, Tensor]] = {}

    def add_gradient(self, leaf: Tensor, grad: Tensor) -> None:
        before = self.gradients.get(id(leaf))
        self.gradients[id(leaf)] = leaf, grad if before is None else before[1] + grad

    def reach(self, tensors: list[Tensor]) -> tuple[list[Tensor], list[Received]]:
        """(the leaves, the received records) that tensors were computed from."""
        leaves: dict[int, Tensor] = {}
        stack, seen = [], set()
        for tensor in tensors:
            if tensor.grad_fn is not None:
                stack.append(tensor.grad_fn)
            elif tensor.requires_grad:
                leaves[id(tensor)] = tensor
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                leaves[id(variable)] = variable
            stack.extend(fn for fn, _ in node.next_functions if fn is not None)
        found = {r.number: r for key in leaves if (r := self.received.get(key)) is not None}
        return list(leaves.values()), list(found.values())


def prepare(context: Context, tensors: list[Tensor], to: int) -> tuple[Any, ...]:
    """Remembers tensors that are about to travel: (context, number, which of them need
    gradients)."""
    which = [i for i, t in enumerate(tensors) if t.requires_grad] if rl.is_grad_enabled() else []
    number = context.worker.new_id()
    with context.lock:
        context.partners.add(to)
        if which:
            context.sent[number] = [tensors[i] for i in which]
    return context.number, number, which


def attached(
    context: Context, tensors: list[Tensor], header: tuple[Any, ...], sender: int
) -> list[Tensor]:
    """The tensors that came, tied to the context."""
    _, number, which = header
    result = list(tensors)
    with context.lock:
        context.partners.add(sender)
        if not which:
            return result
        leaves = [tensors[i].requires_grad_(True) for i in which]
        record = Received(sender, number, leaves)
        for i, leaf in zip(which, leaves, strict=True):
            context.received[id(leaf)] = record
            with rl.enable_grad():
                result[i] = _Alias.apply(leaf)
    return result


class Contexts:
    """The contexts of a worker, and its part of backward."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._contexts: dict[int, Context] = {}
        self._of_thread = threading.local()

    def current(self) -> Context | None:
        """The context that this thread is in."""
        return getattr(self._of_thread, "context", None)

    @contextlib.contextmanager
    def inside(self, context: Context | None) -> Iterator[None]:
        before = self.current()
        self._of_thread.context = context
        try:
            yield
        finally:
            self._of_thread.context = before

    def new(self) -> Context:
        me, count = self._worker.new_id()
        return self.get_or_make((me << _ID_BITS) + count)

    def get_or_make(self, number: int) -> Context:
        with self._lock:
            return self._contexts.setdefault(number, Context(number, self._worker))

    def get(self, number: int, what: str) -> Context:
        with self._lock:
            found = self._contexts.get(number)
        if found is None:
            raise RuntimeError(
                f"{what}: no autograd context {number} here; it is the number that `with "
                "distributed.autograd.context() as context_id` gives, inside of that block"
            )
        return found

    def count(self) -> int:
        with self._lock:
            return len(self._contexts)

    def release(self, number: int) -> None:
        """Forgets a context here and wherever it went."""
        with self._lock:
            context = self._contexts.pop(number, None)
        if context is not None:
            for partner in context.partners - {self._worker.me.id}:
                self._worker.tell(partner, "release context", (number,))

    def _send(self, to, kind, payload):
        worker = self._worker
        with self.inside(None):
            return worker.call(worker.workers[to], kind, payload, 0)

    def backward(self, number: int, roots: list[Tensor]) -> None:
        """Backward from tensors of this worker."""
        context = self.get(number, "distributed.autograd.backward")
        pass_number = self._worker.new_id()
        entry = ("roots", pass_number)
        self._mark(context, pass_number, entry, roots).wait()
        grads: list[Tensor | None] = [rl.ones_like(root) for root in roots]
        self._deliver(context, pass_number, entry, roots, grads).wait()

    def mark(self, number: int, pass_number: Number, sent: Number) -> Any:
        """The first round's message."""
        from rushlight.distributed.rpc._worker import Later

        context = self.get(number, "distributed.autograd.backward")
        return Later(self._mark(context, pass_number, sent, context.sent[sent]))

    def deliver(
        self, number: int, pass_number: Number, sent: Number, grads: list[Tensor | None]
    ) -> Any:
        """The second round's message."""
        from rushlight.distributed.rpc._worker import Later

        context = self.get(number, "distributed.autograd.backward")
        return Later(self._deliver(context, pass_number, sent, context.sent[sent], grads))

    def _mark(self, context, pass_number, entry, tensors):
        with context.lock:
            this = context.passes.setdefault(pass_number, Pass())
            if entry in this.reached:
                return _all_done([])
            _leaves, records = this.reached[entry] = context.reach(tensors)
            new = [r for r in records if r.number not in this.waits_for]
            for record in records:
                this.waits_for.setdefault(record.number, set()).add(entry)
        return _all_done(
            [self._send(r.sender, "mark", (context.number, pass_number, r.number)) for r in new]
        )

    def _deliver(self, context, pass_number, entry, tensors, grads):
        done = Future()
        with context.lock:
            this = context.passes[pass_number]
            this.ready.append((entry, tensors, grads, done))
            if this.is_running:
                return done  # another thread takes it up
            this.is_running = True
        while True:
            with context.lock:
                batch, this.ready = this.ready, []
                if not batch:
                    this.is_running = False
                    return done
            try:
                complete = self._compute(context, this, batch)
                payloads = [
                    (r.sender, (context.number, pass_number, r.number, g)) for r, g in complete
                ]
                after = _all_done([self._send(to, "gradients", p) for to, p in payloads])
            except Exception as error:
                for _, _, _, future in batch:
                    future.set_exception(error)
                continue
            for _, _, _, future in batch:
                after.add_done_callback(lambda over, future=future: pass_on(over, future))

    def _compute(self, context, this, batch):
        """One pass of the engine for all that is ready; the received records that are complete."""
        outputs, grad_outputs = [], []
        inputs: dict[int, Tensor] = {}
        for entry, tensors, grads, _ in batch:
            leaves, _ = this.reached[entry]
            inputs.update((id(leaf), leaf) for leaf in leaves)
            for tensor, grad in zip(tensors, grads, strict=True):
                if grad is not None:
                    outputs.append(tensor)
                    grad_outputs.append(grad)
        found: dict[int, Tensor | None] = {}
        if outputs and inputs:
            wanted = list(inputs.values())
            results = rl.autograd.grad(
                outputs, wanted, grad_outputs, retain_graph=True, allow_unused=True
            )
            found = {id(leaf): grad for leaf, grad in zip(wanted, results, strict=True)}
        complete = []
        with context.lock:
            for key, grad in found.items():
                if grad is not None and key not in context.received:
                    context.add_gradient(inputs[key], grad)
            records = {r.number: r for entry, *_ in batch for r in this.reached[entry][1]}
            for record in records.values():
                before = this.grads.get(record.number, [None] * len(record.leaves))
                new = [found.get(id(leaf)) for leaf in record.leaves]
                this.grads[record.number] = [_sum(pair) for pair in zip(before, new, strict=True)]
                this.waits_for[record.number] -= {entry for entry, *_ in batch}
                if not this.waits_for[record.number]:
                    complete.append((record, this.grads.pop(record.number)))
        return complete


def _sum(pair):
    first, second = pair
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _all_done(futures):
    """A future of None, when all are done; with the first error among them."""
    after = Future()

    def check(both: Future) -> None:
        errors = [error for future in futures if (error := future._outcome()[1]) is not None]
        after._finish(None, errors[0] if errors else None)

    collect_all(futures).add_done_callback(check)
    return after


def pass_on(over: Future, future: Future) -> None:
    """Gives one future the result or the error of another, which is there."""
    future._finish(*over._outcome())
