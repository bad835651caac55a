"""Names of PyTorch's tracer that programs touch. Nothing is traced: see rushlight.compiler."""

import contextlib

from rushlight._dynamo import config as config
from rushlight._names.missing import names_missing_from
from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    explain,
    is_compiling,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
)
from rushlight.compiler._backends import register_backend

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "skip_frame",
    "substitute_in_graph",
]


def is_dynamo_supported():
    """False: no tracer reads Python's frames here. compile() works without one."""
    return False


def disallow_in_graph(fn):
    """The function itself."""
    return fn


run = forbid_in_graph = nonstrict_trace = dont_skip_tracing = disallow_in_graph


def optimize(backend="inductor", **_):
    """A decorator that leaves the function as it is."""
    return lambda function: function


def optimize_assert(backend="inductor", **_):
    """A decorator that leaves the function as it is."""
    return lambda function: function


def graph_break(msg=""):
    """Does nothing: there are no graphs to break."""


def skip_frame(msg=""):
    """Does nothing."""


class error_on_graph_break(contextlib.ContextDecorator):
    """A with block or decorator that changes nothing; compile(fullgraph=True) is what raises."""

    def __init__(self, error_on_graph_break=True):
        self.error_on_graph_break = error_on_graph_break

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def patch_dynamo_config(*args, **changes):
    """A with block or decorator with other settings, which have no effect."""
    return config.patch(*args, **changes)


def mark_dynamic(t, index, **_):
    """Does nothing: every size may change from call to call."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t, index=None):
    """Does nothing."""


def mark_static_address(t, guard=True):
    """Does nothing."""


# OptimizedModule needs nn, which is loaded late.
__getattr__ = names_missing_from(__name__, {"OptimizedModule": "rushlight._dynamo.eval_frame"})
