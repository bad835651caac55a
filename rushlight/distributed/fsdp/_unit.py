"""The parameters that one call of fully_shard cares for: whole during forward and backward.

Forward gathers them with one collective, as an autograd function whose backward is one
reduce_scatter, so that gradients arrive averaged and cut. Where they are to be dropped after
forward, what autograd saves of them is replaced by a note, and backward gathers them again.
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.distributed._placements import Replicate, Shard, part_sizes
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.fsdp._policies import MixedPrecisionPolicy
from rushlight.distributed.tensor._dtensor import (
    distribute_tensor,
    local_length,
    local_of,
    wrap,
)


class _Unshard(Function):
    """Local parts to whole parameters."""

    @staticmethod
    def forward(ctx: Any, unit: Any, *locals_: Any) -> Any:
        ctx.unit = unit
        return unit.gather(locals_)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.unit.reduce(grads)


class _Note:
    """Stands for a saved tensor that is a view of a whole parameter."""

    def __init__(self, index: int, tensor: Any) -> None:
        self.index = index
        self.geometry = (tensor.shape, tensor.stride(), tensor.storage_offset())


class _Begun:
    """Parameters on their way, and which values they had when they left."""

    def __init__(self, versions: list[int]) -> None:
        self.versions = versions
        self.messages: list[tuple[list[int], list[int], Any, Any]] = []

    def wait(self) -> None:
        for *_, work in self.messages:
            work.wait()


class Unit:
    """Some parameters of a module: places to put them, and how they are gathered."""

    def __init__(self, places: list[tuple[Any, str]], mesh: Any, policy: MixedPrecisionPolicy,
                 drops: bool) -> None:  # fmt: skip
        self.places = places  # (module, name); several may share one parameter
        self.parameters: list[Any] = []
        self.indices = []
        for module, name in places:
            parameter = module._parameters[name]
            known = [i for i, p in enumerate(self.parameters) if p is parameter]
            self.indices.append(known[0] if known else len(self.parameters))
            if not known:
                self.parameters.append(parameter)
        self.shapes = [_shape_inside(p, mesh) for p in self.parameters]
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.policy, self.drops = policy, drops
        self.syncs = True
        self._uses = 0  # calls that are under way
        self.divisor: float | None = None
        self.computes_on: str | None = None  # the kind of device, where parts lie elsewhere
        self.ahead_forward: list[Unit] = []  # gathered while this one computes
        self.ahead_backward: list[Unit] = []
        self._begun: _Begun | None = None  # gathered ahead of its use
        self._again: list[Any] | None = None  # gathered for backward
        self._kept: dict[int, Any] = {}  # gradients that were not reduced yet
        self._hooks: Any = None
        self._addresses: dict[int, int] = {}

    # Forward

    def put(self) -> None:
        """Whole parameters stand in the modules from now on; methods may call each other."""
        self._uses += 1
        if self._uses > 1:
            return
        whole = _Unshard.apply(self, *self._own())
        for (module, name), i in zip(self.places, self.indices, strict=True):
            module._parameters[name] = self._as_used(i, whole[i])
        if self.drops and rushlight.is_grad_enabled():
            self._addresses = {t.data_ptr(): i for i, t in enumerate(whole) if t.numel()}
            self._hooks = saved_tensors_hooks(self._pack, self._unpack)
            self._hooks.__enter__()

    def _as_used(self, i, whole):
        """A parameter of a module under tensor parallelism is a DTensor of that mesh again."""
        p = self.parameters[i]
        outer = p._mesh._outer
        if outer is None:
            return whole
        return wrap(whole, outer, tuple(p._placements[: outer.ndim]), p.shape)

    def _own(self):
        """This rank's parts, in the dtype and on the device in which they are used."""
        own = [local_of(p) for p in self.parameters]
        if self.computes_on is not None:
            own = [t.to(self.computes_on, non_blocking=True) for t in own]
        if self.policy.param_dtype is None:
            return own
        return [t.to(self.policy.param_dtype) if t.is_floating_point() else t for t in own]

    def take(self) -> None:
        """The parts stand there again."""
        self._uses = max(0, self._uses - 1)
        if self._uses:
            return
        for (module, name), i in zip(self.places, self.indices, strict=True):
            module._parameters[name] = self.parameters[i]
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None
        self._addresses = {}

    def prefetch(self) -> None:
        """Begins to gather; the next use of the whole parameters waits for it."""
        if self._begun is None and self.parameters:
            with rushlight.no_grad():
                self._begun = self._begin([t.detach() for t in self._own()])

    def gather(self, parts: Any, ahead: list[Unit] | None = None) -> Any:
        """All ranks' parts, in one message per dtype. Those of the units ``ahead`` follow."""
        begun, self._begun = self._begun, None
        if begun is not None and begun.versions != self._versions():  # an optimiser has stepped
            begun.wait()
            begun = None
        if begun is None:
            begun = self._begin(parts)
        for unit in self.ahead_forward if ahead is None else ahead:
            unit.prefetch()
        return self._end(begun)

    def _versions(self):
        return [local_of(p)._version for p in self.parameters]

    def _begin(self, parts):
        begun = _Begun(self._versions())
        size = self.group.size()
        kinds: dict[Any, list[int]] = {}
        for i, part in enumerate(parts):
            kinds.setdefault(part.dtype, []).append(i)
        for members in kinds.values():
            lengths = [self._padded_rows(i) * self._row(i) for i in members]
            mine = rushlight.cat(
                [_filled(parts[i], n) for i, n in zip(members, lengths, strict=True)]
            )
            every = rushlight.empty(size * mine.numel(), dtype=mine.dtype, device=mine.device)
            work = dist.all_gather_into_tensor(every, mine, self.group, async_op=True)
            begun.messages.append((members, lengths, every, work))
        return begun

    def _end(self, begun):
        begun.wait()
        size = self.group.size()
        whole: list[Any] = [None] * len(self.parameters)
        for members, lengths, every, _ in begun.messages:
            columns = every.view(size, -1).split(lengths, 1)
            for i, column in zip(members, columns, strict=True):
                shape = self.shapes[i]
                flat = column.reshape(-1)[: shape.numel()]
                whole[i] = flat.clone().view(shape)
        return tuple(whole)

    def _row(self, i):
        return self.shapes[i][1:].numel()

    def _padded_rows(self, i):
        return part_sizes(self.shapes[i][0], self.group.size())[0]

    # Backward

    def _pack(self, tensor: Any) -> Any:
        base = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        index = self._addresses.get(base) if isinstance(tensor, Tensor) else None
        return tensor if index is None else _Note(index, tensor)

    def _unpack(self, saved: Any) -> Any:
        if not isinstance(saved, _Note):
            return saved
        if self._again is None:
            with rushlight.no_grad():
                own = [t.detach() for t in self._own()]
                self._again = list(self.gather(own, self.ahead_backward))
        return self._again[saved.index].as_strided(*saved.geometry)

    def reduce(self, grads: Any) -> list[Any]:
        """This rank's parts of the mean gradients; nothing while they are only collected."""
        self._again = None
        if not self.syncs:
            for i, grad in enumerate(grads):
                self._kept[i] = self._kept[i] + grad if i in self._kept else grad
            return [None] * len(grads)
        out: list[Any] = [None] * len(grads)
        kinds: dict[Any, list[int]] = {}
        for i, grad in enumerate(grads):
            kinds.setdefault(grad.dtype, []).append(i)
        for members in kinds.values():
            self._reduce_alike(members, grads, out)
        self._kept = {}
        return out

    def _reduce_alike(self, members, grads, out):
        size, rank = self.group.size(), self.group.rank()
        rows = []
        for i in members:
            grad = grads[i] + self._kept[i] if i in self._kept else grads[i]
            if self.policy.reduce_dtype is not None:
                grad = grad.to(self.policy.reduce_dtype)
            length = self._padded_rows(i) * self._row(i)
            rows.append(_filled(grad, size * length).view(size, length))
        sent = rushlight.cat(rows, 1).contiguous()
        mine = rushlight.empty(sent.shape[1], dtype=sent.dtype, device=sent.device)
        op = dist.ReduceOp.AVG if self.divisor is None else dist.ReduceOp.SUM
        dist.reduce_scatter_tensor(mine, sent, op, self.group)
        if self.replicas is not None:
            dist.all_reduce(mine, op, self.replicas)
        if self.divisor is not None:
            mine.div_(self.divisor)
        for i, part in zip(members, mine.split([r.shape[1] for r in rows]), strict=True):
            held = part_sizes(self.shapes[i][0], size)[rank]
            part = part[: held * self._row(i)].view(held, *self.shapes[i][1:])
            out[i] = part.to(grads[i].dtype).clone()


def _filled(tensor, length):
    """The elements in one dim, with zeros behind them."""
    flat = tensor.reshape(-1)
    missing = length - flat.numel()
    if missing == 0:
        return flat
    return rushlight.cat([flat, rushlight.zeros(missing, dtype=flat.dtype, device=flat.device)])


def _shape_inside(parameter: Any, mesh: Any) -> Any:
    """What the ranks of the mesh hold together: all of it, or a rank's part under tensor
    parallelism."""
    outer = parameter._mesh.ndim - mesh.ndim
    before = tuple(parameter._placements[:outer])
    lengths = [local_length(n, d, parameter._mesh, before) for d, n in enumerate(parameter.shape)]
    return rushlight.Size(lengths)


def shard_again(parameter: Any, mesh: Any) -> Any:
    """A parameter under tensor parallelism, whose parts are cut over this mesh as well: a DTensor
    on both, first cut as it was. (PyTorch names the dims the other way round.)"""
    tp: Any = parameter._mesh
    root = mesh._root or mesh
    names = (*(tp.mesh_dim_names or ()), *(mesh.mesh_dim_names or ()))
    known = set(root.mesh_dim_names or ())
    if (tp._root or tp) is not root or len(names) != tp.ndim + mesh.ndim or not known >= {*names}:
        raise ValueError(
            f"fully_shard: the parameters are DTensors on {tp}; the mesh to cut them over must be "
            'another part of the same mesh, as in mesh["dp"] beside mesh["tp"]'
        )
    both = DeviceMesh(tp.device_type, root[names].mesh, mesh_dim_names=names,
                      _groups=[*tp._groups, *mesh._groups])  # fmt: skip
    both._root, both._outer = root, tp
    inner = distribute_tensor(local_of(parameter).detach(), mesh, placements_of(mesh))
    placements = (*parameter._placements, *placements_of(mesh))
    return wrap(local_of(inner), both, placements, parameter.shape)


def placements_of(mesh: Any) -> list[Any]:
    """Cut over the last dim of the mesh, the same along the one before."""
    return [Shard(0)] if mesh.ndim == 1 else [Replicate(), Shard(0)]
