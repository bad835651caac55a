"""Methods of strings that are written with others; programs compile these functions."""

from __future__ import annotations

from typing import List, Optional, Tuple  # noqa: UP035

# ruff: noqa: UP006, UP045


def _partition(s: str, sep: str) -> Tuple[str, str, str]:
    if len(sep) == 0:
        raise ValueError("empty separator")
    at = s.find(sep)
    if at < 0:
        return s, "", ""
    return s[:at], sep, s[at + len(sep) :]


def _rpartition(s: str, sep: str) -> Tuple[str, str, str]:
    if len(sep) == 0:
        raise ValueError("empty separator")
    at = s.rfind(sep)
    if at < 0:
        return "", "", s
    return s[:at], sep, s[at + len(sep) :]


def _index(s: str, sub: str) -> int:
    at = s.find(sub)
    if at < 0:
        raise ValueError("substring not found")
    return at


def _rindex(s: str, sub: str) -> int:
    at = s.rfind(sub)
    if at < 0:
        raise ValueError("substring not found")
    return at


def _swapcase(s: str) -> str:
    out = ""
    for c in s:
        out += c.lower() if c.isupper() else c.upper()
    return out


def _rsplit(s: str, sep: Optional[str] = None, maxsplit: int = -1) -> List[str]:
    if maxsplit < 0:
        return s.split(sep)
    parts: List[str] = []
    rest = s
    if sep is None:
        rest = rest.rstrip()
        while len(parts) < maxsplit and len(rest) > 0:
            at = len(rest)
            while at > 0 and not rest[at - 1].isspace():
                at -= 1
            parts.insert(0, rest[at:])
            rest = rest[:at].rstrip()
        if len(rest) > 0:
            parts.insert(0, rest)
        return parts
    if len(sep) == 0:
        raise ValueError("empty separator")
    while len(parts) < maxsplit:
        at = rest.rfind(sep)
        if at < 0:
            break
        parts.insert(0, rest[at + len(sep) :])
        rest = rest[:at]
    parts.insert(0, rest)
    return parts


def _hex(n: int) -> str:
    return f"-0x{-n:x}" if n < 0 else f"0x{n:x}"


def _oct(n: int) -> str:
    return f"-0o{-n:o}" if n < 0 else f"0o{n:o}"


def _bin(n: int) -> str:
    return f"-0b{-n:b}" if n < 0 else f"0b{n:b}"


METHODS = {
    "partition": _partition,
    "rpartition": _rpartition,
    "index": _index,
    "rindex": _rindex,
    "swapcase": _swapcase,
    "rsplit": _rsplit,
}
