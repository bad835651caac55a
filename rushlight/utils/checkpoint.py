"""Trading time for memory: a part of the program keeps its inputs only, and runs again in backward.

Two ways, chosen by ``use_reentrant``:

- False, the better one. forward records its graph as ever, but a pair of saved-tensor hooks keeps a
  placeholder for every tensor that would be saved. The first placeholder that backward asks for
  runs the function once more, and the tensors saved then, in the same order, take the places. The
  second run stops as soon as it has saved the last of them.
- True, the older one. A custom Function runs the function without recording; its backward runs it
  again with recording and calls backward() inside. It knows only tensors among the arguments
  themselves, and works with backward() without ``inputs`` only.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rushlight import _C
from rushlight import random as _random
from rushlight._C import Tensor
from rushlight._names.missing import names_missing_from
from rushlight.autograd import _engine, graph
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.utils._pytree import tree_map as tree_map  # programs import it from here

_T = TypeVar("_T")

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not do what the first one did."""


class CheckpointPolicy(enum.Enum):
    """What a selective checkpoint does with the result of an operator.

    Example:
        >>> rl.utils.checkpoint.CheckpointPolicy.MUST_SAVE
        <CheckpointPolicy.MUST_SAVE: 0>
        >>> len(rl.utils.checkpoint.CheckpointPolicy)
        5
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


def noop_context_fn() -> tuple[
    contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]
]:
    """The default context_fn: nothing around forward, nothing around the second run.

    Example:
        >>> first, second = rl.utils.checkpoint.noop_context_fn()
        >>> with first:
        ...     print("nothing around this")
        nothing around this
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


_debug = None  # None: as the call says
_early_stop = True


class _Setting:
    """A module-wide switch for a with block."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __enter__(self) -> None:
        self.before = globals()[self.name]
        globals()[self.name] = self.value

    def __exit__(self, *error: object) -> None:
        globals()[self.name] = self.before


def set_checkpoint_debug_enabled(enabled: bool | None) -> _Setting:
    """Inside a with block, checkpoints run with debug=enabled whatever they were given.

    Arguments:
        enabled: True, False, or None for what the calls say.

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.utils.checkpoint.set_checkpoint_debug_enabled(True):
        ...     y = rl.utils.checkpoint.checkpoint(rl.sin, x, use_reentrant=False)
        >>> y
        tensor([0.8415, 0.8415], grad_fn=<SinBackward0>)
    """
    return _Setting("_debug", enabled)


def set_checkpoint_early_stop(enable: bool) -> _Setting:
    """Inside a with block, whether second runs stop once everything needed is there.

    Arguments:
        enable: whether they do; False lets every second run go to its end.

    Example:
        >>> def block(x):
        ...     y = x.exp().sin()
        ...     print("end")
        ...     return y
        >>> x = rl.zeros(2, requires_grad=True)
        >>> with rl.utils.checkpoint.set_checkpoint_early_stop(False):
        ...     y = rl.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        end
        >>> y.sum().backward()
        end
    """
    return _Setting("_early_stop", enable)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The generators of the devices of some tensors; Rushlight has one generator for all.

    Arguments:
        args: the tensors.

    Returns:
        Two empty lists.

    Example:
        >>> rl.utils.checkpoint.get_device_states(rl.ones(2))
        ([], [])
    """
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Restores what get_device_states returned.

    There is nothing to restore, so this does nothing.

    Arguments:
        devices: the first list that get_device_states returned.
        states: the second one.
        device_type: accepted.

    Example:
        >>> devices, states = rl.utils.checkpoint.get_device_states(rl.ones(2))
        >>> rl.utils.checkpoint.set_device_states(devices, states, device_type="cpu") is None
        True
    """


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same arguments, tensors cut off from their graph but requiring gradients as before.

    Arguments:
        inputs: a tuple; what is no tensor stays as it is.

    Raises:
        RuntimeError: where it is no tuple.

    Example:
        >>> x = rl.ones(2, requires_grad=True) * 2
        >>> y, n = rl.utils.checkpoint.detach_variable((x, 3))
        >>> y.requires_grad, y.is_leaf, n
        (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError("detach_variable: only a tuple of tensors is supported, not "
                           f"{type(inputs).__name__}")  # fmt: skip
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns when no argument requires a gradient: a reentrant checkpoint then has none.

    Arguments:
        inputs: the arguments.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     rl.utils.checkpoint.check_backward_validity([rl.ones(2)])
        >>> len(seen)
        1
    """
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("checkpoint: none of the inputs requires a gradient; gradients will be None",
                      stacklevel=2)  # fmt: skip


@contextlib.contextmanager
def _replayed_rng(state):
    """Random numbers as they were in forward; afterwards the generator goes on as before."""
    if state is None:
        yield
        return
    with _random.fork_rng():
        _C.set_rng_state(state)
        yield


def _autocast_state():
    """The kinds of device for which autocast is on, with its dtype."""
    kinds = [kind for kind in ("cpu", "cuda") if _C.is_autocast_enabled(kind)]
    return [(kind, _C.get_autocast_dtype(kind), _C.is_autocast_cache_enabled()) for kind in kinds]


@contextlib.contextmanager
def _replayed_autocast(state):
    """Autocast as it was in forward, whatever it is now."""
    from rushlight import amp

    now = [kind for kind, _, _ in _autocast_state()]
    was = [kind for kind, _, _ in state]
    if not was and not now:
        yield
        return
    with contextlib.ExitStack() as stack:
        for kind in now:
            if kind not in was:
                stack.enter_context(amp.autocast(kind, enabled=False))
        for kind, dtype, cached in state:
            stack.enter_context(amp.autocast(kind, dtype=dtype, cache_enabled=cached))
        yield


# use_reentrant=True ------------------------------------------------------------------------------


class CheckpointFunction(Function):
    """Runs a function without recording, and again with recording in backward.

    checkpoint with use_reentrant=True applies it.

    Example:
        >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
        >>> y = rl.utils.checkpoint.CheckpointFunction.apply(lambda x: x * x, True, x)
        >>> y.sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: Any, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = _C.get_rng_state() if preserve_rng_state else None
        ctx.autocast = _autocast_state()
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensor_at = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_at))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "checkpoint: use_reentrant=True works with backward() without inputs= only, not "
                "with autograd.grad(); pass use_reentrant=False"
            )
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_at, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        inputs = detach_variable(tuple(inputs))
        with _replayed_rng(ctx.rng_state), _replayed_autocast(ctx.autocast), enable_grad():
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        wanted = [
            (out, g)
            for out, g in zip(outputs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not wanted:
            raise RuntimeError(
                "checkpoint: none of the outputs requires a gradient; this checkpoint is not needed"
            )
        _engine.backward([out for out, _ in wanted], [g for _, g in wanted])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs))


# use_reentrant=False -----------------------------------------------------------------------------


class _SaveInputs(Function):
    """Keeps the tensors among the arguments in a node, so that an outer checkpoint (or any other
    pair of saved-tensor hooks) takes care of them as of every saved tensor."""

    @staticmethod
    def forward(ctx: Any, hook: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.save_for_backward(*tensors)
        return hook.clone()  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:
        raise AssertionError("this node is only a place for saved tensors")


class _Arguments:
    """The arguments of a checkpointed call, tensors kept through _SaveInputs."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.rest = [None if isinstance(a, Tensor) else a for a in args]
        self.kwargs = kwargs
        self.tensor_at = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        hook = _C.empty(0).requires_grad_()
        self.node = _SaveInputs.apply(hook, *(args[i] for i in self.tensor_at)).grad_fn

    def get(self) -> Any:
        args = list(self.rest)
        for i, tensor in zip(self.tensor_at, self.node.saved_tensors, strict=True):
            args[i] = tensor
        return args, self.kwargs


class _Place:
    """Stands for one saved tensor; holds it, by backward, between the second run and its use."""

    def __init__(self) -> None:
        self.tensors = {}


class _EnoughSaved(Exception):
    """Ends a second run early."""


_fresh_ids = itertools.count(-2, -1)  # for reads outside of a backward


class _Frame:
    """One checkpointed call."""

    def __init__(self, run_again: Any, early_stop: Any, check: Any, debug: Any) -> None:
        self.run_again = run_again
        self.early_stop = early_stop
        self.check = check
        self.debug = debug
        self.places = []  # weak: what backward will not ask for again need not be kept
        self.saved = []  # metadata of the tensors saved in forward, and their stacks
        self.again = {}  # by backward: metadata of those saved in the second run
        self.stopped = {}

    def describe(self, tensor: Tensor) -> Any:
        stack = "".join(traceback.format_stack()[:-3]) if self.debug else None
        return (tuple(tensor.shape), tensor.dtype, tensor.device), stack

    def pack(self, tensor: Tensor) -> Any:
        place = _Place()
        self.places.append(weakref.ref(place))
        self.saved.append(self.describe(tensor))
        return place

    def unpack(self, place: Any) -> Any:
        task = _C._current_graph_task()
        task = next(_fresh_ids) if task < 0 else task
        if task not in place.tensors:  # the first one that is read, or read once more
            self.recompute(task)
            self.compare(task)
            self.again.pop(task, None)
        return place.tensors.pop(task)

    def recompute(self, task: Any) -> None:
        again = self.again[task] = []

        def pack(tensor):
            # Inner hooks see detached tensors too; nothing may keep the second graph alive.
            number = len(again)
            again.append(self.describe(tensor))
            if number < len(self.places):
                place = self.places[number]()
                if place is not None:
                    place.tensors[task] = tensor.detach()
                if self.early_stop and number + 1 == len(self.places):
                    raise _EnoughSaved
            return tensor.detach()

        with (
            contextlib.suppress(_EnoughSaved),
            graph.saved_tensors_hooks(pack, lambda tensor: tensor),
            enable_grad(),
        ):
            self.run_again()

    def compare(self, task: Any) -> None:
        again = self.again[task]
        if len(again) != len(self.saved):
            raise CheckpointError(
                "checkpoint: the second run of the function saved another number of tensors than "
                f"the first: {len(self.saved)} then, {len(again)} now. The function must do the "
                "same both times" + self.advice(again)
            )
        if self.check is None:
            return
        lines = []
        for i, ((before, _), (now, _)) in enumerate(zip(self.saved, again, strict=True)):
            if self.check(before) != self.check(now):
                lines.append(f"tensor {i}: (shape, dtype, device) was {before}, is {now}")
        if lines:
            raise CheckpointError(
                "checkpoint: tensors saved by the second run of the function differ from those of "
                "the first:\n" + "\n".join(lines) + self.advice(again)
            )

    def advice(self, again: Any) -> Any:
        if not self.debug:
            return "\nPass debug=True to see the operations that saved them."
        parts = []
        for name, saved in (("first", self.saved), ("second", again)):
            for i, (what, stack) in enumerate(saved):
                parts.append(f"\n{name} run, tensor {i} {what}, saved at:\n{stack}")
        return "".join(parts)


_CHECKS = {"default": lambda description: description, "none": None}


def _without_reentry(function, args, kwargs, preserve, context_fn, determinism_check, debug, stop):
    if determinism_check not in _CHECKS:
        raise ValueError(f"checkpoint: determinism_check must be one of {list(_CHECKS)}, not "
                         f"{determinism_check!r}")  # fmt: skip
    forward_context, again_context = context_fn()
    if not _C.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    debug = debug if _debug is None else _debug
    rng_state = _C.get_rng_state() if preserve else None
    autocast = _autocast_state()
    arguments = _Arguments(args, kwargs)

    def run_again():
        with _replayed_rng(rng_state), _replayed_autocast(autocast), again_context:
            args, kwargs = arguments.get()
            function(*args, **kwargs)

    frame = _Frame(run_again, stop and _early_stop, _CHECKS[determinism_check], debug)
    with graph.saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint(
    function: Callable[..., _T],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> _T:
    """``function(*args, **kwargs)``, keeping its arguments only and running it again in backward.

    ``preserve_rng_state=True`` (the default) gives the second run the same random numbers.
    ``context_fn`` returns two context managers, for the first run and for the second;
    ``determinism_check`` ("default" or "none") compares shapes, dtypes and devices of what both
    runs save; ``debug`` adds the stacks to that error; ``early_stop`` ends the second run once
    everything is there.

    Trades time for memory: what backward needs is computed again when it is needed.

    Arguments:
        function: the part of a model.
        args, kwargs: what it is called with.
        use_reentrant: False is the better way, and the one to ask for; None warns.
        context_fn: two context managers, around the first run and the second.
        determinism_check: 'default' compares shapes and dtypes of both runs, 'none' does not.
        debug: keep what both runs did, for errors.
        early_stop: end the second run once everything is there.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> x = rl.ones(1, 2, requires_grad=True)
        >>> rl.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
        >>> x.grad.shape
        rushlight.Size([1, 2])
    """
    if use_reentrant is None:
        warnings.warn("checkpoint: pass use_reentrant explicitly; False is recommended, True is "
                      "taken now", stacklevel=2)  # fmt: skip
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _without_reentry(function, args, kwargs, preserve, context_fn, determinism_check,
                                debug, early_stop)  # fmt: skip
    if kwargs:
        raise ValueError("checkpoint: use_reentrant=True takes no keyword arguments for the "
                         f"function, got {', '.join(kwargs)}")  # fmt: skip
    if context_fn is not noop_context_fn or debug:
        raise ValueError("checkpoint: context_fn and debug need use_reentrant=False")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: Any, input: Tensor, use_reentrant: Any = None, **kwargs: Any
) -> Any:
    """Runs functions one after the other, in segments; all but the last are checkpointed.

    Arguments:
        functions: an nn.Sequential, or a list of functions.
        segments: into how many parts they are cut.
        input: what goes into the first.
        use_reentrant: as for checkpoint.
        kwargs: more arguments of checkpoint.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
        >>> x = rl.ones(1, 2, requires_grad=True)
        >>> rl.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False).shape
        rushlight.Size([1, 1])
    """
    if use_reentrant is None:
        warnings.warn("checkpoint_sequential: pass use_reentrant explicitly; False is recommended, "
                      "True is taken now", stacklevel=2)  # fmt: skip
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: unexpected keyword arguments {', '.join(kwargs)}")
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def chain(start, end):
        def run(x):
            for f in functions[start:end]:
                x = f(x)
            return x

        return run

    size = len(functions) // segments
    start = 0
    for _ in range(segments - 1):
        run = chain(start, start + size)
        input = checkpoint(run, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        start += size
    return chain(start, len(functions))(input)


__getattr__ = names_missing_from(__name__)
