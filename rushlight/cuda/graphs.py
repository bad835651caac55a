"""CUDA graphs: GPU work that is recorded once and replayed by a single call.

    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = model(x)
    x.copy_(new_input)  # the memory of the capture is read and written by every replay
    g.replay()

Inside a capture nothing runs. Whatever needs the values (`item()`, printing, ops without a GPU
kernel) raises. Random numbers are new ones in every replay, those that the program would have
drawn without a graph.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, overload

from rushlight import _C
from rushlight._C import Generator, Tensor, _cuda
from rushlight.cuda._devices import synchronize
from rushlight.cuda.memory import empty_cache
from rushlight.cuda.streams import Stream, StreamContext, current_stream
from rushlight.types import _F

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def is_current_stream_capturing() -> bool:
    """Whether this thread's stream is being captured into a graph.

    Example:
        >>> rl.cuda.is_current_stream_capturing()
        False
    """
    return _cuda.is_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A name for memory that several graphs share: pass it as `pool` to each capture.

    Example:
        >>> rl.cuda.graph_pool_handle() != rl.cuda.graph_pool_handle()
        True
    """
    return _cuda.new_pool_id()


class CUDAGraph:
    """GPU work that is recorded once (with `graph`) and replayed by a single call.

    Each replay reads and writes the memory of the capture: copy new inputs into the old tensors.

    Arguments:
        keep_graph: keeps the driver's description of the work, for raw_cuda_graph().

    Example:
        >>> x = rl.zeros(2, device="cuda" if rl.cuda.is_available() else "cpu")
        >>> recorded = rl.cuda.CUDAGraph(keep_graph=False)
        >>> if x.is_cuda:
        ...     with rl.cuda.graph(recorded):
        ...         y = x + 1
        >>> x = x.fill_(4)
        >>> if x.is_cuda:
        ...     recorded.replay()  # y is computed from what x holds now
        ... else:
        ...     y = x + 1
        >>> y.tolist()
        [5.0, 5.0]
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = _cuda.Graph(keep_graph)
        self._generators = []

    def capture_begin(self, pool: Any | None = None, capture_error_mode: str = "global") -> None:
        """Records this thread's work on the current stream from here on.

        ``pool`` names memory to share: that of ``graph_pool_handle()`` or of another graph's
        ``pool()``; such graphs must be replayed in the order of their capture. The error mode says
        which calls of other threads spoil the capture: those that may wait ("global"), none of
        another thread ("thread_local"), none at all ("relaxed").
        """
        mode = _MODES.get(capture_error_mode)
        if mode is None:
            raise RuntimeError(
                f"CUDAGraph.capture_begin: unknown capture_error_mode {capture_error_mode!r}: "
                f"expected one of {', '.join(map(repr, _MODES))}"
            )
        self._graph.capture_begin((0, 0) if pool is None else tuple(pool), mode)

    def capture_end(self) -> None:
        """Ends the recording; the graph can be replayed."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Makes a graph with ``keep_graph`` ready for replay; replay() does it by itself."""
        self._graph.instantiate()

    def replay(self) -> None:
        """Runs what was recorded, on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Drops what was recorded, and the memory that nothing else uses."""
        self._graph.reset()
        self._generators.clear()

    def pool(self) -> tuple[int, int]:
        """The name of the graph's memory, for other graphs that are to share it."""
        return self._graph.pool()

    def register_generator_state(self, generator: Generator | None) -> None:
        """Lets ops draw from another generator than the default one while capturing."""
        self._graph.register_generator(generator)
        self._generators.append(generator)

    def enable_debug_mode(self) -> None:
        """Keeps what debug_dump() writes; call it before the capture."""
        self._graph.keep_description()

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph as a DOT file."""
        self._graph.debug_dump(str(debug_path))

    def raw_cuda_graph(self) -> int:
        """The driver's handle (cudaGraph_t) as an int; needs ``keep_graph=True``."""
        return self._graph.description()


class graph:
    """``with graph(g):`` records the GPU work inside into g, on a stream of its own.

    Nothing runs while it is recorded. What needs values there (`item()`, printing) raises.

    Arguments:
        cuda_graph: the CUDAGraph to fill.
        pool: memory to share, named by graph_pool_handle() or by another graph's pool(); such
            graphs must be replayed in the order of their capture.
        stream: the stream to record on; None is one that is kept for captures.
        capture_error_mode: "global", "thread_local" or "relaxed": see CUDAGraph.capture_begin.

    Example:
        >>> x = rl.ones(2, device="cuda" if rl.cuda.is_available() else "cpu")
        >>> y, recorded = x * 3, rl.cuda.CUDAGraph()
        >>> if x.is_cuda:
        ...     with rl.cuda.graph(recorded, pool=rl.cuda.graph_pool_handle()):
        ...         y = x * 3
        ...     recorded.replay()
        >>> y.tolist()
        [3.0, 3.0]
    """

    default_capture_stream = None

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()  # type: ignore[assignment]
            stream = graph.default_capture_stream
        self.pool = pool
        self.capture_stream = stream
        self.stream_ctx = StreamContext(stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        # What is queued must not be captured, and memory should be free for the graph's pool.
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:  # the error inside is what the user wants to see
                self.cuda_graph._graph.capture_abort()
        finally:
            self.stream_ctx.__exit__(kind, error, traceback)
        return False


# ---- callables ----


def _flat(tree):
    from rushlight.utils import _pytree

    return _pytree.tree_flatten(tree)


class _Captured:
    """A callable with its graphs: static inputs, outputs and gradients."""

    def __init__(self, function: Callable[..., Any], sample_args: Any) -> None:
        from rushlight.nn import Module

        self.function: Any = function
        self.is_module = isinstance(function, Module)
        self.args, self.args_spec = _flat(sample_args)
        for arg in self.args:
            if not isinstance(arg, _C.Tensor):
                raise TypeError(
                    "make_graphed_callables: in the beta API, sample_args for each callable must "
                    f"contain only tensors, not {type(arg).__name__}"
                )
        self.params = tuple(self.function.parameters()) if self.is_module else ()  # type: ignore[attr-defined]
        self.surface = (*self.args, *self.params)
        self.training = self.is_module and self.function.training  # type: ignore[attr-defined]
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()

    def check_module(self) -> None:
        f = self.function
        if not self.is_module:
            return
        hooks = "_backward_hooks _forward_hooks _forward_pre_hooks".split()
        if any(getattr(f, name, None) for name in hooks):
            raise RuntimeError(
                "make_graphed_callables: modules must not have hooks registered at the time they "
                "are passed. Hooks registered afterwards are fine"
            )
        if any(b.requires_grad for b in f.buffers()):
            raise RuntimeError(
                "make_graphed_callables: buffers of a module must not require grad: a graph has "
                "no gradients for them"
            )

    def wanted(self, tensors: Sequence[Tensor]) -> Any:
        return tuple(t for t in tensors if t.requires_grad)

    def gradients(self, outputs: Any, grad_outputs: Any, allow_unused: bool) -> Any:
        from rushlight.autograd import grad

        inputs, outputs = self.wanted(self.surface), self.wanted(outputs)
        if not inputs or not outputs:
            return None
        return grad(
            outputs,
            inputs,
            grad_outputs=grad_outputs,
            only_inputs=True,
            allow_unused=allow_unused,
        )

    def warm_up(self, iterations: Any, sample_args: Any, allow_unused: bool) -> None:
        for _ in range(iterations):
            outputs, _ = _flat(self.function(*sample_args))
            ones = tuple(_C.ones_like(o) for o in self.wanted(outputs))
            self.gradients(outputs, ones, allow_unused)

    def capture_forward(self, sample_args: Any, pool: Any) -> None:
        with graph(self.forward_graph, pool=pool):
            outputs = self.function(*sample_args)
        self.outputs, self.outputs_spec = _flat(outputs)

    def capture_backward(self, pool: Any, allow_unused: bool) -> None:
        self.grad_outputs = tuple(
            _C.empty_like(o) if o.requires_grad else None for o in self.outputs
        )
        given = tuple(g for g in self.grad_outputs if g is not None)
        found = None
        with graph(self.backward_graph, pool=pool):
            if given:
                found = self.gradients(self.outputs, given, allow_unused)
        # None stands for inputs that want no gradient, or that the outputs do not depend on.
        self.has_backward = found is not None
        rest = iter(found or ())
        self.grad_inputs = tuple(
            next(rest, None) if t.requires_grad and self.has_backward else None
            for t in self.surface
        )

    def make(self) -> Any:
        from rushlight.autograd import Function
        from rushlight.utils import _pytree

        me = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx, *inputs):
                for static, given in zip(me.args, inputs, strict=False):
                    if static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                me.forward_graph.replay()
                return tuple(o.detach() for o in me.outputs)

            @staticmethod
            def backward(ctx, *grads):
                for static, given in zip(me.grad_outputs, grads, strict=True):
                    if static is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                if me.has_backward:
                    me.backward_graph.replay()
                return tuple(None if g is None else g.detach() for g in me.grad_inputs)

        def call(*args):
            flat, spec = _flat(args)
            if spec != me.args_spec:
                raise ValueError(
                    "a graphed callable must be called with arguments of the sample's structure"
                )
            for static, given in zip(me.args, flat, strict=True):
                if static.shape != given.shape or static.dtype != given.dtype:
                    raise ValueError(
                        f"a graphed callable was captured for {tuple(static.shape)} of "
                        f"{static.dtype}, got {tuple(given.shape)} of {given.dtype}"
                    )
            out = Graphed.apply(*flat, *me.params)
            return _pytree.tree_unflatten(list(out), me.outputs_spec)

        return call


def _graphed_module(captured):
    module, call, eager = captured.function, captured.make(), captured.function.forward

    def forward(*args):
        # The capture is that of one mode: dropout and batch norm differ in the other.
        return call(*args) if module.training == captured.training else eager(*args)

    module.forward = forward
    return module


@overload
def make_graphed_callables(
    callables: tuple[Callable[..., Any], ...], sample_args: tuple[tuple[Tensor, ...], ...],
    num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> tuple[Callable[..., Any], ...]: ...  # fmt: skip
@overload
def make_graphed_callables(
    callables: _F, sample_args: tuple[Tensor, ...], num_warmup_iters: int = 3,
    allow_unused_input: bool = False, pool: tuple[int, int] | None = None,
) -> _F: ...  # fmt: skip
def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Tensor, ...] | tuple[tuple[Tensor, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Callable[..., Any] | tuple[Callable[..., Any], ...]:
    """Callables (modules or functions) whose forward and backward passes are graphs.

    Several callables, given as a tuple with a tuple of sample_args, share memory and must be called
    in this order. Modules are changed in place and returned.

    Arguments:
        callables: a module or function, or a tuple of them.
        sample_args: a tuple of tensors for each, whose shapes, dtypes and requires_grad are those
            of all later calls.
        num_warmup_iters: how often each runs before it is recorded.
        allow_unused_input: inputs that the outputs do not depend on are no error.
        pool: memory to share with other graphs, as graph_pool_handle() names it; None: its own.

    Returns:
        what is to be called in their place: one, or a tuple.

    Example:
        >>> device = "cuda" if rl.cuda.is_available() else "cpu"
        >>> layer, x = nn.Linear(4, 2).to(device), rl.ones(3, 4, device=device)
        >>> if x.is_cuda:
        ...     layer = rl.cuda.make_graphed_callables(layer, (x,), num_warmup_iters=2)
        >>> layer(x).shape
        rushlight.Size([3, 2])
    """
    if _C.is_autocast_enabled() and _C.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "cache_enabled=False"
        )
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    captured = [_Captured(f, tuple(a)) for f, a in zip(callables, sample_args, strict=True)]
    for c in captured:
        c.check_module()
    pool = graph_pool_handle() if pool is None else pool

    # On a stream of its own, as the capture: libraries set themselves up, gradients get their
    # place.
    synchronize()
    aside = Stream()
    aside.wait_stream(current_stream())
    with StreamContext(aside):
        for c, args in zip(captured, sample_args, strict=True):
            c.warm_up(num_warmup_iters, args, allow_unused_input)
    current_stream().wait_stream(aside)
    synchronize()

    for c, args in zip(captured, sample_args, strict=True):
        c.capture_forward(args, pool)
    for c in reversed(captured):
        c.capture_backward(pool, allow_unused_input)
    made = tuple(_graphed_module(c) if c.is_module else c.make() for c in captured)
    return made[0] if single else made
