"""Sobol sequences: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight._C import Tensor
from rushlight._sobol import BITS, DIMENSIONS, direction_numbers, points, scrambled
from rushlight.types import Self, _dtype

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws points of a Sobol sequence in [0, 1)**dimension, for dimensions up to 21201.

    With ``scramble`` the points are a random one of the equally even sets of points (a linear
    matrix scramble and a digital shift), the same for the same ``seed``. After ``2**m`` points the
    set is at its most even: draw_base2 helps to stay there."""

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: Any, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"SobolEngine: dimension must be from 1 to {self.MAXDIM}, got {dimension}"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = direction_numbers(dimension)
        self.shift = rushlight.zeros(dimension, dtype=rushlight.int64)
        if scramble:
            generator = None
            if seed is not None:
                generator = rushlight.Generator()
                generator.manual_seed(seed)
            self.sobolstate, self.shift = scrambled(self.sobolstate, generator)
        self.reset()

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next ``n`` points, a row each; into ``out`` where it is given."""
        dtype = dtype or rushlight.get_default_dtype()
        first, last = self._advance("draw", n)
        drawn = points(self.sobolstate, first, last)
        if self.scramble:
            drawn ^= self.shift
        result = drawn.to(dtype).div_(2**self.MAXBIT)
        if n:
            self.quasi = drawn[-1].long()
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next ``2**m`` points; raises where they and those before are no power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "draw_base2: the points of a Sobol sequence are at their most even when their "
                f"number is a power of two; {self.num_generated} were drawn, and {n} more make "
                f"{total}. Use draw for any number, or reset first"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> Self:
        """Begins at the first point again."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Passes over ``n`` points."""
        _, last = self._advance("fast_forward", n)
        if last:
            self.quasi = points(self.sobolstate, last - 1, last)[0] ^ self.shift  # int64
        return self

    def _advance(self, name, n):
        first, last = self.num_generated, self.num_generated + n
        if n < 0:
            raise ValueError(f"{name}: the number of points must not be negative, got {n}")
        if last > 2**self.MAXBIT:
            raise ValueError(
                f"{name}: the sequence has 2**{self.MAXBIT} points; {first} were drawn, and {n} "
                "more are too many"
            )
        self.num_generated = last
        return first, last

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
