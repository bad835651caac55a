"""Private names of torch.jit that programs import."""

from rushlight.jit import export, ignore, unused
from rushlight.jit._annotations import BroadcastingList1 as BroadcastingList1
from rushlight.jit._annotations import BroadcastingList2 as BroadcastingList2
from rushlight.jit._annotations import BroadcastingList3 as BroadcastingList3
from rushlight.jit._annotations import Final, boolean_dispatch
from rushlight.jit._script.source import note_overload as _overload

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "unused"]


_overload_method = _overload


def _copy_to_script_wrapper(func):
    """func, which is scripted as it is."""
    return func


def is_scripting():
    """Never: programs run eagerly."""
    return False


def _disable_emit_hooks(*args, **kwargs):
    import contextlib

    return contextlib.nullcontext()
