"""DTensor: a tensor that lies on the ranks of a mesh, each of which holds a part or a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import _C
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed._placements import Partial, Placement, Replicate, Shard
from rushlight.distributed.device_mesh import DeviceMesh, mesh_of_all
from rushlight.distributed.tensor._moves import gradient_is_partial, move, own_part, part_sizes

__all__ = ["DTensor", "distribute_tensor"]


def checked_placements(what: str, placements: Any, mesh: DeviceMesh, dims: int) -> tuple[Any, ...]:
    """One placement per mesh dim, with dims that count from 0; None: replicated."""
    if placements is None:
        return tuple(Replicate() for _ in range(mesh.ndim))
    found = []
    for p in placements:
        if not isinstance(p, Placement):
            raise TypeError(f"{what}: expected Shard, Replicate or Partial, got {p!r}")
        if isinstance(p, Shard):
            if not -dims <= p.dim < dims:
                raise IndexError(f"{what}: {p!r} is none of the {dims} dims of the tensor")
            p = Shard(p.dim % dims)
        found.append(p)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"{what}: a mesh of {mesh.ndim} dims needs as many placements, got {found}"
        )
    return tuple(found)


def local_of(tensor: Any) -> Any:
    """The local tensor of a DTensor, in the same graph; any other tensor as it is."""
    if not isinstance(tensor, DTensor):
        return tensor
    with _C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def wrap(local: Any, mesh: DeviceMesh, placements: tuple[Any, ...], shape: Sequence[int]) -> Any:
    """A DTensor of a local tensor, in the same graph."""
    with _C.DisableTorchFunctionSubclass():
        made: Any = local.as_subclass(DTensor)
    made._mesh, made._placements = mesh, placements
    made._shape = rushlight.Size(shape)
    return made


def local_length(total: int, dim: int, mesh: DeviceMesh, placements: tuple[Any, ...]) -> int:
    """How long this rank's part of a dim is; mesh dims cut one after the other."""
    for mesh_dim, p in enumerate(placements):
        if isinstance(p, Shard) and p.dim == dim:
            total = part_sizes(total, mesh.size(mesh_dim))[mesh.get_local_rank(mesh_dim)]
    return total


def redistributed(x: Any, placements: tuple[Any, ...]) -> Any:
    """The DTensor under other placements, with gradients."""
    mesh, old = x._mesh, list(x._placements)
    if tuple(placements) == tuple(old):
        return x
    local = local_of(x)
    # Where several mesh dims cut one dim, the last cut is undone first.
    for mesh_dim in reversed(range(mesh.ndim)):
        ready = old[mesh_dim] == placements[mesh_dim] and not _is_cut_before(
            old, placements, mesh_dim
        )
        if isinstance(old[mesh_dim], Replicate) or ready:
            continue
        target = placements[mesh_dim]
        safe = not isinstance(target, Shard) or mesh.ndim == 1
        step = target if safe else Replicate()
        total = _length_before(x._shape, old, mesh, mesh_dim)
        local = move(local, old[mesh_dim], step, total, mesh.get_group(mesh_dim))
        old[mesh_dim] = step
    for mesh_dim in range(mesh.ndim):
        if old[mesh_dim] != placements[mesh_dim]:
            group = mesh.get_group(mesh_dim)
            local = move(local, old[mesh_dim], placements[mesh_dim], 0, group)
            old[mesh_dim] = placements[mesh_dim]
    return wrap(local, mesh, tuple(placements), x._shape)


def _is_cut_before(old, new, mesh_dim):
    """Does another mesh dim that changes cut the same dim of the tensor before this one?"""
    p = old[mesh_dim]
    if not isinstance(p, Shard):
        return False
    return any(
        old[i] != new[i] and any(isinstance(q, Shard) and q.dim == p.dim for q in (old[i], new[i]))
        for i in range(mesh_dim)
    )


def _length_before(shape, placements, mesh, mesh_dim):
    """How long the dim is that this mesh dim cuts, after the cuts of those before it."""
    p = placements[mesh_dim]
    if not isinstance(p, Shard):
        return 0
    return local_length(shape[p.dim], p.dim, mesh, tuple(placements[:mesh_dim]))


_DATA: Any = Tensor.data
_GRAD: Any = Tensor.grad  # the descriptor: what the engine fills


class DTensor(Tensor):
    """A tensor on a mesh. Its shape is that of the whole; each rank holds what ``to_local`` gives.

    Operators know how their inputs must lie, move them where needed, and say how the result lies;
    one that does not know raises. Made by ``distribute_tensor`` and ``DTensor.from_local``.
    """

    _mesh: DeviceMesh
    _placements: tuple[Any, ...]
    _shape: Any

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from rushlight.distributed.tensor._rules import dispatch

        return dispatch(func, args, kwargs or {})

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Any = None, stride: Any = None,
    ) -> DTensor:  # fmt: skip
        """A DTensor of what each rank holds. Without a shape, all ranks' parts are as long as this
        one's. With run_check, replicated dims take the values of their first rank."""
        mesh = _mesh_or_default(device_mesh)
        kept = checked_placements("DTensor.from_local", placements, mesh, local_tensor.dim())
        sizes = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for mesh_dim, p in enumerate(kept):
                if isinstance(p, Shard):
                    sizes[p.dim] *= mesh.size(mesh_dim)
        if run_check:
            local_tensor = local_tensor.clone()
            for mesh_dim, p in enumerate(kept):
                if isinstance(p, Replicate):
                    with rushlight.no_grad():
                        group = mesh.get_group(mesh_dim)
                        dist.broadcast(local_tensor.detach(), group=group, group_src=0)
        return wrap(local_tensor, mesh, kept, sizes)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """What this rank holds. Its gradient must lie as the tensor does, or as grad_placements
        say."""
        local = local_of(self)
        if grad_placements is None:
            return local
        for mesh_dim, (mine, theirs) in enumerate(
            zip(self._placements, grad_placements, strict=True)
        ):
            if isinstance(theirs, Partial) and isinstance(mine, Replicate):
                local = gradient_is_partial(local, self._mesh.get_group(mesh_dim))
            elif theirs != mine:
                raise NotImplementedError(
                    f"DTensor.to_local: a gradient of {theirs} for a tensor of {mine}; "
                    "redistribute the tensor first"
                )
        return local

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on every rank."""
        whole = redistributed(self, tuple(Replicate() for _ in self._placements))
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor under other placements, by collectives that have gradients; with
        forward_dtype in that dtype, in which gradients then travel, too."""
        if backward_dtype is not None and backward_dtype != (forward_dtype or self.dtype):
            raise NotImplementedError(
                "DTensor.redistribute: a backward_dtype other than that of forward is not there"
            )
        if forward_dtype is not None and forward_dtype != self.dtype:
            return self.to(forward_dtype).redistribute(device_mesh, placements)  # type: ignore
        if device_mesh is not None and device_mesh != self._mesh:
            raise NotImplementedError("DTensor.redistribute: to another mesh is not there")
        if placements is None:
            raise RuntimeError("DTensor.redistribute: placements are missing")
        kept = checked_placements("DTensor.redistribute", placements, self._mesh, self.dim())
        for old, new in zip(self._placements, kept, strict=True):
            if isinstance(new, Partial) and new != old:
                raise RuntimeError(
                    "Can not redistribute to Partial, redistributing to Partial is for internal "
                    "use only!"
                )
        return redistributed(self, kept)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies, for each dim of the mesh."""
        return self._placements

    @property
    def _local_tensor(self) -> Tensor:
        return local_of(self)

    @property
    def shape(self) -> rushlight.Size:
        """That of the whole tensor."""
        return self._shape

    def size(self, dim: int | None = None) -> rushlight.Size | int:  # type: ignore[override]
        """That of the whole tensor."""
        return self._shape if dim is None else self._shape[dim]

    def numel(self) -> int:
        """Of the whole tensor."""
        return self._shape.numel()

    nelement = numel

    def __len__(self) -> int:
        return self._shape[0]

    def detach(self) -> DTensor:
        """The same data, outside of the graph."""
        return wrap(local_of(self).detach(), self._mesh, self._placements, self._shape)

    @property
    def grad(self) -> Tensor | None:
        """The gradient, which lies as the tensor does."""
        with _C.DisableTorchFunctionSubclass():
            local = _GRAD.__get__(self)
        if local is None or isinstance(local, DTensor):
            return local
        return wrap(local, self._mesh, self._placements, self._shape)

    @grad.setter
    def grad(self, value: Any) -> None:
        with _C.DisableTorchFunctionSubclass():
            _GRAD.__set__(self, None if value is None else local_of(value))

    # Python asks these of the object itself, and no rule sees them.
    @property
    def T(self) -> DTensor:
        """With its dims in the reverse order."""
        return self.permute(*reversed(range(self.dim())))  # type: ignore[return-value]

    @property
    def mT(self) -> DTensor:
        """With its last two dims exchanged."""
        return self.transpose(-2, -1)  # type: ignore[return-value]

    @property  # type: ignore[override]
    def data(self) -> DTensor:
        """The same data, outside of the graph."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        with _C.DisableTorchFunctionSubclass():
            _DATA.__set__(self, local_of(value))

    def item(self) -> bool | int | float | complex:  # type: ignore[override]
        """The value of the whole tensor, which must have one."""
        return self.full_tensor().item()

    def tolist(self) -> list:
        """The values of the whole tensor."""
        return self.full_tensor().tolist()

    def __float__(self) -> float:
        return float(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={local_of(self)}, device_mesh={self._mesh}, placements={self._placements})"  # noqa: E501

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            "DTensor: a part of a tensor cannot be pickled; save full_tensor(), or to_local()"
        )

    def __deepcopy__(self, memo: Any) -> DTensor:
        copied = wrap(local_of(self).detach().clone(), self._mesh, self._placements, self._shape)
        copied.requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            copied._is_param = True
        memo[id(self)] = copied
        return copied


def _mesh_or_default(mesh: DeviceMesh | None) -> DeviceMesh:
    return mesh_of_all() if mesh is None else mesh


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A DTensor of a whole tensor: the first rank of each mesh dim gives its values to the others,
    unless src_data_rank is None, and every rank keeps its part."""
    mesh = _mesh_or_default(device_mesh)
    if isinstance(tensor, DTensor):
        if tensor._mesh != mesh:
            raise ValueError("distribute_tensor: the tensor is on another mesh already")
        return tensor if placements is None else tensor.redistribute(mesh, placements)
    if not tensor.is_leaf:
        raise RuntimeError(
            "distribute_tensor: the tensor was computed from others; detach it first"
        )
    kept = checked_placements("distribute_tensor", placements, mesh, tensor.dim())
    with rushlight.no_grad():
        # A meta tensor has no values to move: its parts are of the same kind, to be filled later.
        is_meta = tensor.is_meta
        local = tensor.detach().clone()
        local = local if is_meta else local.to(mesh.device_type)
        for mesh_dim, p in enumerate(kept):
            group = mesh.get_group(mesh_dim)
            if src_data_rank is not None and not is_meta:
                dist.broadcast(local, group=group, group_src=src_data_rank)
            if isinstance(p, Shard):
                local = own_part(local, p.dim, group)
            elif isinstance(p, Partial) and group.rank() != 0:
                local = rushlight.zeros_like(local)
    made = wrap(local, mesh, kept, tensor.shape)
    made.requires_grad_(tensor.requires_grad)
    if getattr(tensor, "_is_param", False):
        made._is_param = True
    return made
