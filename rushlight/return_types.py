"""The named tuples that operators with several results return: return_types.max, ..."""

from __future__ import annotations

from typing import Any

from rushlight import _C


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("qr", "svd", "slogdet", "lu_unpack", "triangular_solve"):
        importlib.import_module("rushlight.linalg._old_names")
    base = name.removesuffix("_out")  # PyTorch has classes of their own for the forms with out=
    try:
        return _C._return_types[base]
    except KeyError:
        raise AttributeError(f"module 'rushlight.return_types' has no attribute {name!r}") from None


def pytree_register_structseq(cls: type) -> None:
    """Makes a class of named tuples a container of utils._pytree; those here are containers."""
    from rushlight.utils import _pytree

    if cls not in _pytree.SUPPORTED_NODES:
        _pytree.register_pytree_node(cls, lambda x: (list(x), None), lambda xs, _: cls(xs))


def __dir__() -> list[Any]:
    return sorted(_C._return_types)
