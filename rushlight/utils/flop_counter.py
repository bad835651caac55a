"""Counting floating point operations, two for a multiply-add, by the layers that are called.

Linear layers, convolutions, recurrent layers and the like are counted, forward only; products that
a model forms itself (`a @ b`) are not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal

from rushlight._names.missing import names_missing_from
from rushlight.nn.modules.module import Module
from rushlight.types import _F, Self

__all__ = ["FlopCounterMode", "register_flop_formula"]


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[_F], _F]:
    """A decorator that leaves the function as it is: operators are not counted one by one."""
    return lambda function: function


class FlopCounterMode:
    """Counts in a with block; get_total_flops() afterwards, or the table that it prints."""

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self._counts = {}
        self._handle: Any = None

    def __enter__(self) -> Self:
        from rushlight.nn.modules._summary import _multiply_adds
        from rushlight.nn.modules.module import register_module_forward_hook

        self._counts = defaultdict(int)

        def note(module, args, output):
            count = 2 * _multiply_adds(module, args, output)
            if count:
                self._counts[type(module).__name__] += count

        self._handle = register_module_forward_hook(note)
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self._handle.remove()
        if self.display and error[0] is None:
            print(self.get_table())
        return False

    def get_total_flops(self) -> int:
        """The number of operations."""
        return sum(self._counts.values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """The numbers by kind of layer, under the name that PyTorch gives the whole model."""
        return {"Global": dict(self._counts)}

    def get_table(self, depth: int | None = None) -> str:
        """The numbers as text."""
        total = self.get_total_flops()
        rows = [("Layer", "FLOP", "% Total"), ("Global", f"{total:,}", "100.00%")]
        for name, count in sorted(self._counts.items(), key=lambda item: -item[1]):
            rows.append((f" - {name}", f"{count:,}", f"{100 * count / max(total, 1):.2f}%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


__getattr__ = names_missing_from(__name__)
