"""DistributedOptimizer: an optimiser on each worker, for the parameters that live there."""

from __future__ import annotations

import threading
from typing import Any

from rushlight._names.missing import names_missing_from
from rushlight.distributed import autograd, rpc
from rushlight.distributed.rpc import RRef

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """Lives on the owner of some parameters. Steps of several trainers come one after the other,
    each with the gradients of its own context."""

    _step = threading.Lock()

    def __init__(self, optimizer_class: Any, params: list[RRef], args: Any, kwargs: Any) -> None:
        self._params = [rref.local_value() for rref in params]
        self._optimizer = optimizer_class(self._params, *args, **kwargs)

    def step(self, context_id: int) -> None:
        gradients = autograd.get_gradients(context_id)
        with self._step:
            before = [param.grad for param in self._params]
            try:
                for param in self._params:
                    param.grad = gradients.get(param)
                self._optimizer.step()
            finally:
                for param, grad in zip(self._params, before, strict=True):
                    param.grad = grad


class DistributedOptimizer:
    """``DistributedOptimizer(SGD, rrefs, lr=0.1)`` makes an optimiser of that class on each owner
    of the parameters that the RRefs name. ``step(context_id)`` lets all of them take a step with
    the gradients that ``distributed.autograd.backward`` left in the context."""

    def __init__(
        self, optimizer_class: Any, params_rref: list[RRef], *args: Any, **kwargs: Any
    ) -> None:
        params: dict[Any, list[RRef]] = {}
        for rref in params_rref:
            params.setdefault(rref.owner(), []).append(rref)
        if not params:
            raise ValueError("DistributedOptimizer: got no parameters")
        made = [
            rpc.rpc_async(owner, _make, (optimizer_class, rrefs, args, kwargs))
            for owner, rrefs in params.items()
        ]
        self.remote_optimizers = [future.wait() for future in made]

    def step(self, context_id: int) -> None:
        """One step on all workers; waits for all of them, and raises the first error."""
        steps = [remote.rpc_async().step(context_id) for remote in self.remote_optimizers]
        errors = []
        for step in steps:
            try:
                step.wait()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _make(optimizer_class, rrefs, args, kwargs):
    return RRef(_LocalOptimizer(optimizer_class, rrefs, args, kwargs))


__getattr__ = names_missing_from(__name__)
