"""Private names of torch.jit that programs import."""

from rushlight.jit._annotations import BroadcastingList1 as BroadcastingList1
from rushlight.jit._annotations import BroadcastingList2 as BroadcastingList2
from rushlight.jit._annotations import BroadcastingList3 as BroadcastingList3
from rushlight.jit._annotations import Final, boolean_dispatch

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "unused"]


def _overload(func):
    """An overload's signature; the function that is called comes last."""
    from rushlight.jit._script.source import note_overload  # takes a while to import

    note_overload(func)
    return func


_overload_method = _overload


def _copy_to_script_wrapper(func):
    return func


def __getattr__(name):
    if name in ("export", "ignore", "unused"):  # rushlight.jit imports this module
        from rushlight import jit

        return getattr(jit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_scripting():
    """Never: programs run eagerly."""
    return False


def _disable_emit_hooks(*args, **kwargs):
    import contextlib

    return contextlib.nullcontext()
