"""torch.fx's names. Programs are not traced into graphs: classes may be named and subclassed, wrap
leaves functions as they are, and tracing raises."""

from rushlight._names.missing import fill

__all__ = ["map_arg", "wrap"]


def wrap(fn_or_name):
    """The function itself (or its name): there is no tracer to hide it from."""
    return fn_or_name


def has_side_effect(fn):
    """The function itself: no graph is pruned."""
    return fn


def map_arg(a, fn):
    """a with fn called on every Node in it; there are none."""
    return a


fill(globals())
