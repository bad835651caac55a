"""Private names of torch.jit that programs import."""

from rushlight.jit import export, ignore, unused
from rushlight.jit._annotations import BroadcastingList1 as BroadcastingList1
from rushlight.jit._annotations import BroadcastingList2 as BroadcastingList2
from rushlight.jit._annotations import BroadcastingList3 as BroadcastingList3
from rushlight.jit._annotations import Final, boolean_dispatch

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "unused"]


def _overload(func):
    """An overload's signature; the function that is called comes last."""
    return func


_overload_method = _copy_to_script_wrapper = _overload


def is_scripting():
    """Never: programs run eagerly."""
    return False


def _disable_emit_hooks(*args, **kwargs):
    import contextlib

    return contextlib.nullcontext()
