"""The sizes that may change: which there are, where they stand, what they are tried with."""

from __future__ import annotations

from typing import NamedTuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.export._errors import ConstraintViolationError
from rushlight.export.dynamic_shapes import MOST, DimHint, Input

__all__ = ["Place", "Root", "Roots"]


class Place(NamedTuple):
    """A dimension of an input: its size is factor * root + offset."""

    input: int
    dim: int
    factor: int = 1
    offset: int = 0


class Root:
    """One size that may change by itself."""

    def __init__(self, name: str, size: int, low: int, high: int, kind: str) -> None:
        self.name, self.size, self.min, self.max = name, size, low, high
        self.kind = kind  # "Dim", "AUTO", "DYNAMIC"
        self.places: list[Place] = []

    def values(self, count: int, order: int) -> list[int]:
        """Other sizes to try, within the range: larger ones first, 0 and 1 only if asked for."""
        low = max(self.min, 2) if self.max >= 2 else self.min
        steps = [1 + order % 3, 3 + 2 * order, 6 + 3 * order, 1, 2, 3, 4]
        tried = [self.size + s for s in steps] + [self.size - s for s in (1, 2, 3, 5)]
        found: list[int] = []
        for n in [*tried, low, self.max]:
            if low <= n <= self.max and n != self.size and n not in found and n < self.size + 10**6:
                found.append(n)
        return found[:count]


class Roots:
    """All of them."""

    def __init__(self, inputs: list[Input]) -> None:
        self.inputs = inputs
        named: dict[str, Root] = {}
        self.all: list[Root] = []
        ranges: dict[str, tuple[int, int]] = {}
        for i, row in enumerate(inputs):
            for d, dim in enumerate(row.dims):
                if isinstance(dim, DimHint):
                    self._add_hint(i, d, dim)
                elif dim is not None:
                    self._add_named(named, ranges, i, d, dim)

    def _add_hint(self, i, d, hint):
        size = self.inputs[i].tensor.shape[d]
        high = MOST if hint.max is None else hint.max
        root = Root(f"s{len(self.all)}", size, hint.min or 0, high, hint.kind)
        self._check_range(root, self.inputs[i].path, d)
        root.places.append(Place(i, d))
        self.all.append(root)

    def _add_named(self, named, ranges, i, d, dim):
        row, root = self.inputs[i], dim.root
        name, size = root.__name__, row.tensor.shape[d]
        if ranges.setdefault(name, (root.min, root.max)) != (root.min, root.max):
            raise ConstraintViolationError(
                f"export: there are two Dims with the name '{name}' and different ranges; use one"
            )
        n, rest = divmod(size - dim.offset, dim.factor)
        if rest or n < 0:
            raise ConstraintViolationError(
                f"export: {row.path} has size {size} in dimension {d}, which is no "
                f"{dim.__name__} for a whole {name}"
            )
        if name not in named:
            named[name] = Root(name, n, root.min, root.max, "Dim")
            self._check_range(named[name], row.path, d)
            self.all.append(named[name])
        found = named[name]
        if found.size != n:
            first = found.places[0]
            raise ConstraintViolationError(
                f"export: the Dim '{name}' is {found.size} by dimension {first.dim} of "
                f"{self.inputs[first.input].path}, and {n} by dimension {d} of {row.path}; the "
                "example inputs must agree, or use two Dims"
            )
        found.places.append(Place(i, d, dim.factor, dim.offset))

    @staticmethod
    def _check_range(root, path, d):
        if not root.min <= root.size <= root.max:
            high = "" if root.max == MOST else f" and max={root.max}"
            raise ConstraintViolationError(
                f"export: {path} has {root.name} = {root.size} in dimension {d}, outside of its "
                f"range, min={root.min}{high}"
            )

    def keep(self, roots: list[Root]) -> Roots:
        """Only these; the sizes of the others stay."""
        kept = Roots.__new__(Roots)
        kept.inputs, kept.all = self.inputs, list(roots)
        return kept

    def resized(self, values: dict[str, int]) -> list[Tensor]:
        """The inputs, with other sizes."""
        tensors = [row.tensor for row in self.inputs]
        for root in self.all:
            n = values.get(root.name, root.size)
            if n == root.size:
                continue
            for p in root.places:
                tensors[p.input] = _resized(tensors[p.input], p.dim, p.factor * n + p.offset)
        return tensors

    def root_of(self, value: int, dim: int) -> tuple[Root, Place] | None:
        """The root that a size of an input follows."""
        for root in self.all:
            for p in root.places:
                if (p.input, p.dim) == (value, dim):
                    return root, p
        return None

    def shown(self, values: dict[str, int]) -> str:
        """'batch = 9 instead of 8', for messages."""
        return ", ".join(
            f"{root.name} = {values[root.name]} instead of {root.size}"
            for root in self.all
            if values.get(root.name, root.size) != root.size
        )


def _resized(tensor, dim, size):
    """With its items repeated, or the first of them."""
    with no_grad():
        before = max(tensor.shape[dim], 1)
        index = _C.arange(size, device=tensor.device) % before
        if tensor.shape[dim] == 0:
            shape = list(tensor.shape)
            shape[dim] = size
            made = _C.zeros(shape, dtype=tensor.dtype, device=tensor.device)
        else:
            made = tensor.detach().index_select(dim, index)
    return made.requires_grad_(tensor.requires_grad)
