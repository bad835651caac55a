"""Shared libraries that packages bring along, written in C++ against PyTorch: Rushlight cannot load
them, and packages that ask for them go on without."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rushlight._names.missing import COMPATIBILITY_PAGE

# What a library built for PyTorch names in its tables: PyTorch's libraries, or their functions.
_SIGNS = (b"\0libc10.so\0", b"\0libtorch", b"\0_ZN3c10", b"\0_ZN2at", b"\0aoti_torch_")
# Of ELF files: segments that are loaded, and that with the table of what the file needs; entries of
# that table, where names are and how many bytes they take.
_LOADED, _DYNAMIC = 1, 2
_STRINGS, _STRINGS_SIZE = 5, 10

set_aside: list[str] = []  # libraries that load_library was given and did not load

# What packages ask their own libraries as they are imported, and the answer of one without CUDA and
# optional parts.
_ANSWERS: dict[str, Any] = {
    "torchvision::_cuda_version": -1,
    "_torchaudio::cuda_version": None,
    "_torchaudio::is_align_available": False,
}


def needs_pytorch(path: str | os.PathLike[str]) -> bool:
    """Whether a shared library is built for PyTorch."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            begin, end = _names_of(content)
            return any(content.find(sign, begin, end) >= 0 for sign in _SIGNS)


def _names_of(content):
    """Where a 64-bit ELF file has the names of the libraries and functions that it needs: a small
    part of it. All of a file that is another kind."""
    try:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit ELF file of this byte order")
        (table,) = struct.unpack_from("<Q", content, 32)
        size, count = struct.unpack_from("<HH", content, 54)
        # Each: kind, flags, place in the file, address, physical address, size in the file, ...
        segments = [struct.unpack_from("<IIQQQQ", content, table + size * i) for i in range(count)]
        (dynamic,) = [s for s in segments if s[0] == _DYNAMIC]
        entries = dict(struct.iter_unpack("<QQ", content[dynamic[2] : dynamic[2] + dynamic[5]]))
        address = entries[_STRINGS]
        (start,) = [
            s[2] + address - s[3]
            for s in segments
            if s[0] == _LOADED and s[3] <= address < s[3] + s[5]
        ]
        return start, start + entries[_STRINGS_SIZE]
    except (ValueError, KeyError, struct.error):
        return 0, len(content)


def package_of(path: str) -> str:
    """The package that a file belongs to: the outermost folder with an __init__.py, or else the
    file's own folder."""
    folder = Path(path).absolute().parent
    found = folder.name
    while (folder / "__init__.py").exists():
        found, folder = folder.name, folder.parent
    return found


def own_operator(qualname: str) -> Callable[..., Any] | None:
    """What stands in for an operator of such a library, "torchvision::nms", or None."""
    if qualname in _ANSWERS:
        return lambda: _ANSWERS[qualname]
    namespace, _, name = qualname.partition("::")
    if namespace == "torchvision":
        from rushlight._vision_ops import OPERATORS

        return OPERATORS.get(name)
    if namespace == "torchaudio":
        from rushlight._audio_ops import OPERATORS

        return OPERATORS.get(name)
    return None


class MissingOperatorError(AttributeError, NotImplementedError):
    """An operator that nobody registered. Made for hasattr, so the text waits until it is read."""

    def __init__(self, namespace: str, operator: str) -> None:
        super().__init__(namespace, operator)
        self.name, self.obj = operator, None  # with both set, Python adds no suggestion of its own
        self._namespace = namespace

    def __reduce__(self):
        return MissingOperatorError, (self._namespace, self.name)

    def __str__(self):
        text = f"ops.{self._namespace}.{self.name}: no such operator"
        holders = [path for path in set_aside if _mentions(path, self.name)]
        if holders:
            path = holders[0]
            text += (
                f": it is in the C++ part of {package_of(path)} ({os.path.basename(path)}), which "
                "is built for PyTorch, and Rushlight cannot load it"
            )
        else:
            text += "; it may belong to a C++ extension that is not loaded (ops.load_library)"
        return f"{text}. {COMPATIBILITY_PAGE} lists what is there"


def _mentions(path, name):
    try:
        with open(path, "rb") as file:
            return name.encode() in file.read()
    except OSError:
        return False
