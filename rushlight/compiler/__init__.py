"""torch.compiler's names. Programs run eagerly: there is no compiler yet, so nothing that this
module is told changes what a program computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, overload

from rushlight._names.missing import names_missing_from
from rushlight.compiler import config as config
from rushlight.compiler._compile import compile as compile
from rushlight.types import Self

_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]


def is_compiling() -> bool:
    """Whether the code runs inside the compiler: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


@overload
def disable(fn: _F, recursive: bool = True, *, reason: str | None = None) -> _F: ...
@overload
def disable(
    fn: None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[[_F], _F]: ...
def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[..., Any]:
    """Keeps a function out of the compiler; usable with and without parentheses."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: _F) -> _F:
    """The function itself."""
    return fn


def assume_constant_result(fn: _F) -> _F:
    """The function itself."""
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, **_: Any
) -> Callable[[_F], _F]:
    """A decorator that leaves the function as it is."""
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with tensors for the NumPy arrays that it takes and returns."""
    import functools

    from rushlight import _C
    from rushlight.utils._pytree import tree_map

    def to_array(x):
        return x.detach().numpy() if isinstance(x, _C.Tensor) else x

    def to_tensor(x):
        return _C.from_numpy(x) if type(x).__name__ == "ndarray" else x

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        args, kwargs = tree_map(to_array, (args, kwargs))
        return tree_map(to_tensor, fn(*args, **kwargs))

    return wrapped


def reset() -> None:
    """Forgets what was compiled: nothing."""


def cudagraph_mark_step_begin() -> None:
    """Marks the start of a step for CUDA graphs, which are not used."""


def list_backends(exclude_tags: tuple[Any, ...] = ("debug", "experimental")) -> list[str]:
    """The names that compile(backend=...) takes besides callables."""
    return ["eager"]


class set_stance:
    """What to do about compiling, from now on or in a with block or a decorated function; code runs
    eagerly in every stance."""

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        self.stance = stance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        return False

    def __call__(self, fn: _F) -> _F:
        return fn


@contextmanager
def _non_strict_tracing_context(*args, **kwargs):
    yield


__getattr__ = names_missing_from(__name__)
