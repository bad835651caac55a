"""A version string that compares as a version."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


def _key(version):
    """(2, 13, 0) and whether it is final: a release comes after its own candidates."""
    if isinstance(version, tuple | list):
        parts = [str(part) for part in version]
    else:
        parts = str(version).partition("+")[0].split(".")
    numbers, final = [], True
    for part in parts:
        found = re.match(r"v?(\d+)(.*)", part)
        if not found:
            final = final and part.startswith("post")
            break
        numbers.append(int(found[1]))
        if found[2]:
            final = final and found[2].startswith("post")
            break
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), final


class TorchVersion(str):
    """A str that compares with versions, also given as str or tuple: `v >= "1.10"`, `v < (3,)`."""

    __slots__ = ()
    __hash__ = str.__hash__

    def _compare(self, other, compare):
        if not isinstance(other, str | tuple | list) and not hasattr(other, "release"):
            return NotImplemented
        return compare(_key(self), _key(other))

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a >= b)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a == b)

    def __ne__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a != b)
