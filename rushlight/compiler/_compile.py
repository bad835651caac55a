"""compile: the program as it is, with its pointwise ops fused."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, overload

from rushlight import _C
from rushlight.types import _F

if TYPE_CHECKING:
    from rushlight.compiler._frozen import Frozen
    from rushlight.nn.modules.module import Module


log = logging.getLogger("rushlight.compiler")
DEBUG = logging.DEBUG

# Ours, and PyTorch's: those that cut the overhead of single ops mean the frozen one here.
FROZEN_MODES = ("frozen", "reduce-overhead", "max-autotune")
MODES = ("default", *FROZEN_MODES, "max-autotune-no-cudagraphs", "lite")
LEAST_ELEMENTS = 4096  # as deferred::Settings has it


class Options:
    """What of compile's arguments matters when the function runs."""

    def __init__(
        self,
        given: dict[str, Any] | None = None,
        fuse: bool = True,
        frozen: Frozen | None = None,
        backend: Any = None,
    ) -> None:
        given = given or {}
        self.fuse, self.frozen = fuse, frozen
        self.backend = backend  # the user's
        self.least_elements = int(given.get("least_elements", LEAST_ELEMENTS))
        self.wait_for_code = bool(given.get("wait_for_code", False))
        self.recompute = _least_recomputed(given.get("recompute", True))
        self.cast_weights: list[Any] = []  # that autocast has cast in the last call, on a GPU
        if self.least_elements < 0:
            raise _C.ArgumentError(
                f"compile: least_elements must not be negative, got {self.least_elements}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"cast_weights": []}


def _least_recomputed(given: Any) -> int:
    """As deferred::Settings has it: bytes, 0 for never, -1 for on a GPU."""
    if isinstance(given, bool):
        return -1 if given else 0
    if not isinstance(given, int) or given <= 0:
        raise _C.ArgumentError(
            f"compile: recompute must be True, False or a number of bytes above 0, got {given!r}"
        )
    return given


class Stance:
    """What compiler.set_stance has said last."""

    eager = False


@overload
def compile(
    model: _F, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable | None = "inductor", mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None, disable: bool = False,
    name: str | None = None, **_: Any,
) -> _F: ...  # fmt: skip
@overload
def compile(
    model: None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable | None = "inductor", mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None, disable: bool = False,
    name: str | None = None, **_: Any,
) -> Callable[[_F], _F]: ...  # fmt: skip
def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = "inductor",
    mode: str | None = None,
    options: dict[str, str | int | bool | Callable] | None = None,
    disable: bool = False,
    name: str | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Returns a function or module to be called in the model's place, in which ops are fused.

    Python runs as it always does, line by line; what waits is the work of pointwise ops
    (arithmetic, activations, comparisons, casts, their gradients). When a value is asked for, what
    waits runs in few passes over memory. Results equal those of the function itself in every bit.
    Nothing is traced, so there are no graph breaks and no recompilation; `fullgraph` and `dynamic`
    are accepted.

    As in PyTorch, a module comes back wrapped: its parameters are the module's own, and the names
    in its state_dict begin with "_orig_mod.". Without a model it is a decorator.

    Options: ``least_elements`` (on the CPU, smaller results are computed at once; 4096),
    ``wait_for_code`` (on a GPU, kernels are waited for instead of running ops one by one while they
    are compiled; False), ``recompute`` (whether tensors saved for backward that are cheap to make
    are made again there instead of being kept: True does so on a GPU for those of a MiB or more, a
    number on all devices from as many bytes on; True). Others, which PyTorch's compiler has, have
    no effect.

    Arguments:
        model: a function or a module.
        fullgraph: raise where a part cannot be compiled; accepted.
        dynamic: accepted; shapes may change.
        backend: accepted by name, or a function that gets a graph.
        mode: None, or "frozen" to record calls and replay them without Python.
        options: more settings; see docs/compile.md.
        disable: return the model as it is.
        name: shown in reports.

    Example:
        >>> @rl.compile(mode=None)
        ... def f(x):
        ...     return (x * 2 + 1).relu()
        >>> f(rl.tensor([-1.0, 1.0]))
        tensor([0., 3.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: mode and options say the same thing; give one of them")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        raise _C.ArgumentTypeError(f"compile: expected a callable, got {type(model).__name__}")
    if mode is not None and mode not in MODES:
        raise _C.ArgumentError(f"compile: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if disable:
        return model
    from rushlight.compiler._backends import UserBackend, find_backend

    called = name or getattr(model, "__qualname__", None) or type(model).__name__
    users = find_backend(backend)
    own = UserBackend(users, called, fullgraph) if users is not None else None
    frozen = None
    if own is None and mode in FROZEN_MODES and backend != "eager":
        from rushlight.compiler._frozen import Frozen

        frozen = Frozen(called, fullgraph)
    settings = Options(
        options if own is None else None, fuse=backend != "eager", frozen=frozen, backend=own
    )
    from rushlight.nn import Module

    if isinstance(model, Module):
        from rushlight._dynamo.eval_frame import OptimizedModule

        return OptimizedModule(model, settings)
    return compiled_function(model, settings)


def call_fused(options: Options, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls the function as compile was told to; what is pending at its end is computed then."""
    if options.backend is not None and not Stance.eager:
        return options.backend.call(function, args, kwargs)
    if not options.fuse or Stance.eager:
        return function(*args, **kwargs)
    if options.frozen is None:
        return _fused(options, function, args, kwargs)
    run = functools.partial(_fused, options)
    return options.frozen.call(run, function, args, kwargs)


def _fused(options: Options, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    result = _fused_once(options, function, args, kwargs)
    # The body of a generator runs when it is asked for items.
    if type(result) is GeneratorType and _is_generator_function(function):
        return _fused_items(options, result)
    return result


def _is_generator_function(function: Callable[..., Any]) -> bool:
    from inspect import isgeneratorfunction, unwrap

    function = unwrap(function)
    return isgeneratorfunction(getattr(function, "forward", function))


def _fused_items(options: Options, items: Any) -> Generator[Any, Any, Any]:
    resume, given = items.send, None
    while True:
        try:
            item = _fused_once(options, resume, (given,), {})
        except StopIteration as end:
            return end.value
        try:
            resume, given = items.send, (yield item)
        except GeneratorExit:
            items.close()
            raise
        except BaseException as error:
            resume, given = items.throw, error


def _fused_once(options: Options, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if log.isEnabledFor(DEBUG):
        return _told(options, function, args, kwargs)
    return _deferring(options, function, args, kwargs)


def _told(options: Options, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The same, and the log is told what ended each pass over memory."""
    from rushlight.compiler._explain import flush_text

    call = functools.partial(_deferring, options, function, args, kwargs)
    result, flushes = _C._deferred_report(call)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    for flush in flushes:
        log.debug("%s: %s", name, flush_text(flush))
    return result


def _deferring(options: Options, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    # A recording knows saved tensors by their memory.
    recompute = 0 if _C._frozen_is_recording() else options.recompute
    before = _C._defer(True, options.least_elements, options.wait_for_code, recompute)
    weights = options.cast_weights
    begun = _C._begin_casts(weights)
    try:
        return function(*args, **kwargs)
    finally:
        if begun:
            options.cast_weights = _C._end_casts(weights)
        _C._defer(*before)


def compiled_function(function: Callable[..., Any], options: Options) -> Callable[..., Any]:
    @functools.wraps(function)
    def run_fused(*args: Any, **kwargs: Any) -> Any:
        return call_fused(options, function, args, kwargs)

    run_fused._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    run_fused._options = options  # type: ignore[attr-defined]
    return run_fused


class CompiledForward:
    """In a module's `forward` after Module.compile(); goes with it through pickle and copy."""

    def __init__(self, module: Module, options: Options) -> None:
        self.module, self.options = module, options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = functools.partial(type(self.module).forward, self.module)
        return call_fused(self.options, forward, args, kwargs)


def compile_in_place(
    module: Module,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> None:
    """Module.compile()."""
    checked = compile(
        module, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options
    )
    if not disable:
        forward = CompiledForward(module, checked._options)
        module.__dict__["forward"] = module.__dict__["_compiled_call_impl"] = forward
