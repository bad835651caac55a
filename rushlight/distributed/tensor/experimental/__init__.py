"""Functions of plain tensors beside DTensors: local_map and implicit_replication."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from rushlight._C import Tensor
from rushlight._names.missing import fill
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import _calls
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["implicit_replication", "local_map"]


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """Inside, a plain tensor that meets a DTensor counts as replicated: it must be the same on all
    ranks.

    Example:
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> from rushlight.distributed.tensor.experimental import implicit_replication
        >>> def program(rank):
        ...     x = distribute_tensor(rl.ones(2), init_device_mesh("cpu", (2,)), [Shard(0)])
        ...     with implicit_replication():
        ...         return (x + rl.arange(2)).full_tensor()
        >>> rl.distributed.simulate(2, program)[0]
        tensor([1., 2.])
    """
    before = getattr(_calls.mixing, "allowed", False)
    _calls.mixing.allowed = True
    try:
        yield
    finally:
        _calls.mixing.allowed = before


def _placed(value: Any, wanted: Any, mesh: DeviceMesh, moves: bool) -> Any:
    """A DTensor that lies as wanted; None leaves it."""
    if wanted is None or tuple(value.placements) == tuple(wanted):
        return value
    if not moves:
        raise ValueError(
            f"local_map: an argument lies as {value.placements}, and in_placements say "
            f"{tuple(wanted)}; redistribute_inputs=True moves it"
        )
    return value.redistribute(mesh, wanted)


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None,
    in_grad_placements: Any = None, device_mesh: DeviceMesh | None = None, *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function of plain tensors as one of DTensors: it is called with what each rank holds, and
    its results become DTensors again.

    Arguments:
        func: the function; without it, a decorator is returned.
        out_placements: how the result lies, or a tuple of such for several; None: it is plain.
        in_placements: how each argument must lie, None for one that is as it is.
        in_grad_placements: how the gradients of the arguments lie.
        device_mesh: the mesh; else that of the first DTensor.
        redistribute_inputs: arguments that lie otherwise are moved, and no error.

    Example:
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor, init_device_mesh
        >>> from rushlight.distributed.tensor.experimental import local_map
        >>> def program(rank):
        ...     x = distribute_tensor(rl.ones(4), init_device_mesh("cpu", (2,)), [Shard(0)])
        ...     return local_map(lambda t: t * 2, [Shard(0)])(x).full_tensor()
        >>> rl.distributed.simulate(2, program)[0]
        tensor([2., 2., 2., 2.])
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(args)
        for what in (in_placements, in_grad_placements):
            if what is not None and len(what) != len(leaves):
                raise ValueError(
                    f"local_map: there are {len(leaves)} arguments, and placements of {len(what)}"
                )
        mesh = device_mesh
        for i, value in enumerate(leaves):
            if isinstance(value, DTensor):
                mesh = mesh or value.device_mesh
                wanted = in_placements[i] if in_placements is not None else None
                value = _placed(value, wanted, mesh, redistribute_inputs)
                grads = in_grad_placements[i] if in_grad_placements is not None else None
                leaves[i] = value.to_local(grad_placements=grads)
        out = func(*tree_unflatten(leaves, tree), **kwargs)
        if mesh is None or out_placements is None:
            return out
        results, shape = tree_flatten(out)
        several = isinstance(out, (tuple, list))
        listed = list(out_placements) if several else [out_placements]
        if len(listed) != len(results):
            raise ValueError(
                f"local_map: {len(results)} results came back, and out_placements are {len(listed)}"
            )
        made = [
            DTensor.from_local(r, mesh, p) if p is not None and isinstance(r, Tensor) else r
            for r, p in zip(results, listed, strict=True)
        ]
        return tree_unflatten(made, shape)

    return mapped


fill(globals())
