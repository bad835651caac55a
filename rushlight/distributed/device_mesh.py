"""DeviceMesh: the ranks in a grid, with a process group along each of its dims."""

from __future__ import annotations

import math
import threading
from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed._groups import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


_current = threading.local()  # the meshes whose `with` blocks this thread is in


def _check_device(device_type):
    if isinstance(device_type, str) and ":" in device_type:
        raise RuntimeError(
            f"DeviceMesh: the kind of device has no number, got {device_type!r}; a device object "
            "has it as .type"
        )
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f'DeviceMesh: the kind of device is "cpu" or "cuda", got "{device_type}"')


class DeviceMesh:
    """Ranks in a grid. All ranks of the default group make the same mesh.

    Along each dim there is a process group of the ranks that differ in that dim only.

    Arguments:
        device_type: "cpu" or "cuda".
        mesh: the ranks, as a tensor or nested lists.
        mesh_dim_names: a name for each dim, by which ``mesh[name]`` gives a part.

    Example:
        >>> from rushlight import distributed as dist
        >>> def where(rank):
        ...     mesh = dist.DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("data", "tensor"))
        ...     column = dist.get_process_group_ranks(mesh.get_group("data"))
        ...     return mesh.get_coordinate(), column, mesh["tensor"].mesh.tolist()
        >>> dist.simulate(4, where)[2]
        ([1, 0], [0, 2], [2, 3])
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _groups: list[Any] | None = None,
    ) -> None:
        _check_device(device_type)
        self.device_type = device_type
        self.mesh: Tensor = rushlight.as_tensor(mesh, dtype=rushlight.int64)
        if self.mesh.dim() == 0:
            raise ValueError("DeviceMesh: the mesh must have at least one dim")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.dim():
            raise RuntimeError(
                f"DeviceMesh: {self.mesh.dim()} dims need as many names, got {mesh_dim_names}"
            )
        ranks = self.mesh.reshape(-1).tolist()
        if len(set(ranks)) != len(ranks) or max(ranks) >= dist.get_world_size():
            raise RuntimeError(
                f"DeviceMesh: the ranks must be different, and below {dist.get_world_size()}, got "
                f"{ranks}"
            )
        here = (self.mesh == dist.get_rank()).nonzero().tolist()
        self._coordinate: list[int] | None = here[0] if here else None
        self._groups = self._make_groups() if _groups is None else _groups
        self._root: DeviceMesh | None = None  # the mesh that this one is a part of
        self._flattened: dict[str, DeviceMesh] = {}
        self._outer: DeviceMesh | None = None  # of a mesh of two: the first one

    def _make_groups(self):
        """One group per dim that this rank is in; every rank makes all groups, in one order."""
        groups = []
        for dim in range(self.mesh.dim()):
            lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
            if lines == [list(range(dist.get_world_size()))]:
                groups.append(dist.group.WORLD)
                continue
            mine, _ = dist.new_subgroups_by_enumeration(lines)
            groups.append(mine)
        return groups

    @property
    def ndim(self) -> int:
        """How many dims it has."""
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks along each dim."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks, in all or along a dim."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def get_coordinate(self) -> list[int] | None:
        """Where this rank stands, or None outside."""
        return None if self._coordinate is None else list(self._coordinate)

    def get_rank(self) -> int:
        """The rank in the default group."""
        return dist.get_rank()

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(f"DeviceMesh: it has {self.ndim} dims, and a call must name one")
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"DeviceMesh: no dim {mesh_dim!r} among {self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim % self.ndim

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where this rank stands along a dim."""
        if self._coordinate is None:
            raise RuntimeError("DeviceMesh: this rank does not belong to it")
        return self._coordinate[self._dim(mesh_dim)]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of the ranks that differ from this one along a dim only."""
        group = self._groups[self._dim(mesh_dim)]
        if group is None:
            raise RuntimeError("DeviceMesh: this rank does not belong to it")
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of all dims."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along the named dims that this rank is in."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self.mesh_dim_names is None:
            raise RuntimeError("DeviceMesh: a mesh whose dims have no names has no parts")
        root = self._root or self
        if len(names) == 1 and names[0] in root._flattened:
            return root._flattened[names[0]]
        if len(set(names)) != len(names):
            raise RuntimeError(f"DeviceMesh: a dim stands twice in {names}")
        dims = [self._dim(name) for name in names]
        if dims == list(range(self.ndim)):
            return self
        index: list[Any] = list(self._coordinate or [0] * self.ndim)
        for dim in dims:
            index[dim] = slice(None)
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        part = self.mesh[tuple(index)].permute([order.index(i) for i in range(len(dims))])
        groups = [self._groups[dim] for dim in dims]
        made = DeviceMesh(self.device_type, part, mesh_dim_names=names, _groups=groups)
        made._root = root
        return made

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The ranks of this mesh in a row, which the mesh it is a part of then has under the name;
        without one, the names of the dims with _ between. All ranks call this."""
        if self.mesh_dim_names is None and mesh_dim_name is None:
            raise RuntimeError("DeviceMesh: dims without names need one for the flat mesh")
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root or self
        if self.ndim == 1 and name == (self.mesh_dim_names or ("",))[0]:
            return self
        if name in (root.mesh_dim_names or ()):
            raise ValueError(f"DeviceMesh: there is a dim {name!r} already")
        if name not in root._flattened:
            lines, here = self._lines()
            mine = None
            for ranks in lines:
                group = dist.new_group(ranks) if len(ranks) < dist.get_world_size() else None
                if ranks == here:
                    mine = group if group is not None else dist.group.WORLD
            made = DeviceMesh(self.device_type, here, mesh_dim_names=(name,), _groups=[mine])
            made._root = root
            root._flattened[name] = made
        return root._flattened[name]

    def _lines(self) -> tuple[list[list[int]], list[int]]:
        """The ranks of all meshes like this one in the whole, and of this one."""
        root = self._root or self
        names = self.mesh_dim_names or ()
        here = self.mesh.reshape(-1).tolist()
        if root is self or any(n not in (root.mesh_dim_names or ()) for n in names):
            return [here], here
        dims = [root._dim(n) for n in names]
        others = [d for d in range(root.ndim) if d not in dims]
        return root.mesh.permute(others + dims).reshape(-1, self.size()).tolist(), here

    def __enter__(self) -> DeviceMesh:
        _current.__dict__.setdefault("meshes", []).append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _current.meshes.pop()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        same = self.mesh.tolist() == other.mesh.tolist()
        return same and self.mesh_dim_names == other.mesh_dim_names

    def __hash__(self) -> int:
        return hash((str(self.mesh.tolist()), self.mesh_dim_names))

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh('{self.device_type}', {self.mesh.tolist()}{names})"

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """A mesh of one dim over a group, or of several over a list of groups and a mesh."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        if mesh is None:
            if len(groups) != 1:
                raise ValueError("DeviceMesh.from_group: several groups need a mesh")
            mesh = dist.get_process_group_ranks(groups[0])
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)


def mesh_of_all(device_type: str | None = None) -> DeviceMesh:
    """All ranks in a row, on the kind of device that is named, or that the default group serves."""
    if device_type is None:
        device_type = dist.group.WORLD._device().type if dist.group.WORLD else "cpu"
    return DeviceMesh(device_type, list(range(dist.get_world_size())))


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """All ranks in a grid of this shape, in order.

    Arguments:
        device_type: "cpu" or "cuda".
        mesh_shape: how many ranks along each dim; the product is the number of ranks.
        mesh_dim_names: a name for each dim, by which ``mesh[name]`` gives a part.
        backend_override: accepted as PyTorch has it; changes nothing.

    Returns:
        DeviceMesh: the same one on all ranks.

    Example:
        >>> from rushlight import distributed as dist
        >>> def grid(rank):
        ...     return dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
        >>> dist.simulate(4, grid)[0]
        DeviceMesh('cpu', [[0, 1], [2, 3]], mesh_dim_names=('data', 'tensor'))
    """
    _check_device(device_type)
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"init_device_mesh: a name stands twice in {mesh_dim_names}")
        if len(mesh_dim_names) != len(shape):
            raise RuntimeError(
                f"init_device_mesh: {len(shape)} dims need as many names, got {mesh_dim_names}"
            )
    size = dist.get_world_size()
    if math.prod(shape) != size:
        raise RuntimeError(
            f"init_device_mesh: a mesh of {shape} needs {math.prod(shape)} ranks, and there are "
            f"{size}"
        )
    mesh = rushlight.arange(size).view(shape)
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
