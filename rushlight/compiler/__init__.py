"""torch.compiler's names. compile() fuses ops while Python runs, and in mode="frozen" replays what
Python did; nothing that this module is told changes results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Literal, overload

from rushlight._names.missing import names_missing_from
from rushlight.compiler import config as config
from rushlight.compiler._compile import Stance as _Stance
from rushlight.compiler._compile import compile as compile
from rushlight.compiler._explain import explain as explain
from rushlight.compiler._explain import reset as reset
from rushlight.compiler._explain import stats as stats
from rushlight.types import _F, Self

__all__ = [
    "AuditError",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_default_backend",
    "set_stance",
    "stats",
    "substitute_in_graph",
    "wrap_numpy",
]


def is_compiling() -> bool:
    """Whether a call of a frozen function is being recorded; otherwise Python runs as it is.

    Example:
        >>> rl.compiler.is_compiling()
        False
    """
    from rushlight import _C

    return _C._frozen_is_recording()


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
    """Runs a function op by op inside compiled ones; usable with and without parentheses.

    A frozen function that calls it is left to Python.

    Arguments:
        fn: the function.
        recursive: accepted.
        reason: a text for readers.

    Example:
        >>> @rl.compiler.disable(reason="calls another library")
        ... def f(x):
        ...     return x + 1
        >>> f(rl.tensor(1))
        tensor(2)
    """
    if fn is None:
        return disable
    import functools

    from rushlight import _C

    @functools.wraps(fn)
    def run_unfused(*args, **kwargs):
        _C._frozen_end_recording(f"a function that is disabled ({reason or fn!r})")
        before = _C._defer(False, 0, False, 0)
        try:
            return fn(*args, **kwargs)
        finally:
            _C._defer(*before)

    return run_unfused


def allow_in_graph(fn: _F) -> _F:
    """The function itself: nothing is traced, so nothing has to be allowed.

    Arguments:
        fn: a function.

    Example:
        >>> rl.compiler.allow_in_graph(abs) is abs
        True
    """
    return fn


def assume_constant_result(fn: _F) -> _F:
    """The function itself: it runs at every call.

    Arguments:
        fn: a function.

    Example:
        >>> rl.compiler.assume_constant_result(abs) is abs
        True
    """
    return fn


def nested_compile_region(fn: _F) -> _F:
    """The function itself: what is called often is recorded as often.

    Arguments:
        fn: a function.

    Example:
        >>> rl.compiler.nested_compile_region(abs) is abs
        True
    """
    return fn


def get_default_backend() -> str:
    """The backend of compile(); there is one.

    Example:
        >>> rl.compiler.get_default_backend()
        'inductor'
    """
    return "inductor"


def set_default_backend(backend: str | Callable[..., Any]) -> None:
    """Does nothing: compile() has one backend, whatever its name.

    Arguments:
        backend: accepted.

    Example:
        >>> rl.compiler.set_default_backend("eager")
        >>> rl.compiler.get_default_backend()
        'inductor'
    """


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, **_: Any
) -> Callable[[_F], _F]:
    """A decorator that leaves the function as it is: nothing is traced.

    Arguments:
        original_fn: the function that it would stand for; accepted.
        can_constant_fold_through: accepted.

    Example:
        >>> @rl.compiler.substitute_in_graph(abs, can_constant_fold_through=True)
        ... def distance(x):
        ...     return x if x > 0 else -x
        >>> distance(-2)
        2
    """
    return lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with tensors for the NumPy arrays that it takes and returns.

    Gradients do not flow through it.

    Arguments:
        fn: a function of NumPy arrays.

    Example:
        >>> import numpy as np
        >>> cumulative = rl.compiler.wrap_numpy(np.cumsum)
        >>> cumulative(rl.tensor([1, 2, 3]))
        tensor([1, 3, 6])
    """
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


def cudagraph_mark_step_begin() -> None:
    """Marks the start of a step for PyTorch's CUDA graphs; does nothing here.

    Example:
        >>> rl.compiler.cudagraph_mark_step_begin() is None
        True
    """


def list_backends(exclude_tags: tuple[Any, ...] = ("debug", "experimental")) -> list[str]:
    """The names that compile(backend=...) takes besides callables.

    Arguments:
        exclude_tags: registered backends with one of these tags are left out; None leaves out none.

    Example:
        >>> rl.compiler.list_backends(exclude_tags=None)[:2]
        ['eager', 'inductor']
    """
    from rushlight.compiler._backends import registered_names

    return ["eager", "inductor", *registered_names(exclude_tags)]


class set_stance:
    """Whether compiled functions fuse their ops ("default") or run as they are ("force_eager").

    It holds from now on; or in a with block, or in a function that it decorates. Results are the
    same.

    Arguments:
        stance: "force_eager", or any other of PyTorch's names, which mean "default" here.
        skip_guard_eval_unsafe: accepted.
        force_backend: accepted.

    Example:
        >>> f = rl.compile(lambda x: (x + 1).relu())
        >>> with rl.compiler.set_stance("force_eager"):
        ...     f(rl.ones(2))
        tensor([2., 2.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        self.stance = stance
        self._before = _Stance.eager
        _Stance.eager = stance == "force_eager"

    def __enter__(self) -> Self:
        _Stance.eager = self.stance == "force_eager"
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        _Stance.eager = self._before
        return False

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        _Stance.eager = self._before  # a decorator speaks of the function only

        @functools.wraps(fn)
        def run(*args, **kwargs):
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return run


@contextmanager
def _non_strict_tracing_context(*args, **kwargs):
    yield


__getattr__ = names_missing_from(__name__, {"AuditError": "rushlight.compiler._frozen"})
