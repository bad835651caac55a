"""Gradients of computations that cross workers (docs/rpc.md)."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rushlight._names.missing import names_missing_from
from rushlight.types import Tensor

__all__ = ["backward", "context", "get_gradients"]


class context:
    """``with context() as context_id``: inside, tensors that travel by RPC keep their history, and
    ``backward(context_id, [loss])`` gives gradients on all workers that took part."""

    def __enter__(self) -> int:
        from rushlight.distributed.rpc._rref import current_worker

        self._contexts = current_worker("distributed.autograd.context").contexts
        if self._contexts.current() is not None:
            raise RuntimeError("distributed.autograd.context: one is open already in this thread")
        self._context = self._contexts.new()
        self._inside = self._contexts.inside(self._context)
        self._inside.__enter__()
        return self._context.number

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self._inside.__exit__(None, None, None)
        self._contexts.release(self._context.number)


def _contexts(what):
    from rushlight.distributed.rpc._rref import current_worker

    return current_worker(what).contexts


def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Computes gradients of the roots, scalars on this worker, over all workers; ``get_gradients``
    has them afterwards on each. ``.grad`` is not touched. Graphs are kept until the context ends,
    so ``retain_graph`` changes nothing."""
    if isinstance(roots, Tensor):
        raise TypeError("distributed.autograd.backward: roots must be a list of tensors")
    roots = list(roots)
    if not roots:
        raise RuntimeError("distributed.autograd.backward: no tensors provided as roots")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("distributed.autograd.backward: a root requires no gradient")
        if root.numel() != 1:
            raise RuntimeError(
                "distributed.autograd.backward: roots must have one element, got "
                f"{list(root.shape)}; sum() it, or take its mean"
            )
    _contexts("distributed.autograd.backward").backward(context_id, roots)


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """The gradients of this worker's parameters in a context, by parameter."""
    found = _contexts("distributed.autograd.get_gradients").get(
        context_id, "distributed.autograd.get_gradients"
    )
    with found.lock:
        return dict(found.gradients.values())


__getattr__ = names_missing_from(__name__)
