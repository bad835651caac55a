"""Looking at the graph from Python, and stepping into it: nodes, edges, hooks on saved tensors."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from rushlight import _C
from rushlight._C import Tensor
from rushlight._C import _Node as Node
from rushlight.types import Self

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a result of a node. autograd.grad takes it for the tensor.

    Arguments:
        node: the node.
        output_nr: which of its results.
        ownership_token: what keeps the node alive.

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> edge = rl.autograd.graph.get_gradient_edge(x * 2)
        >>> same = rl.autograd.graph.GradientEdge(edge.node, edge.output_nr, ownership_token=None)
        >>> same.output_nr
        0
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that autograd would follow for this tensor.

    Arguments:
        tensor: a tensor that needs a gradient.

    Example:
        >>> x = rl.ones(1, requires_grad=True)
        >>> rl.autograd.graph.get_gradient_edge(x * 2).output_nr
        0
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"get_gradient_edge: expected a Tensor, not {type(tensor).__name__}")
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the tensor does not require gradients")
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tells autograd that the memory of a tensor, or of several, was written behind its back.

    Arguments:
        tensor: a tensor, or several.

    Example:
        >>> x = rl.zeros(1)
        >>> rl.autograd.graph.increment_version(x); x._version
        1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._bump_version(t)


class saved_tensors_hooks:
    """Inside, what operations save for backward goes through a pair of functions.

    ``pack_hook(tensor)`` is called when a tensor is saved and may return anything;
    ``unpack_hook`` gets that back when backward reads it, and returns a tensor with the same
    values. The innermost pair counts.

    Arguments:
        pack_hook: of a tensor that is saved; what it returns is kept.
        unpack_hook: of what was kept; it returns the tensor.

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        ...     y = (x * x).sum()
        >>> y.backward(); x.grad
        tensor([2., 2.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *error: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside, saved tensors wait for backward in the CPU's memory.

    Arguments:
        pin_memory: in page-locked memory, which copies faster.
        device_type: the kind of device that tensors come from.

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.autograd.graph.save_on_cpu(pin_memory=False, device_type="cuda"):
        ...     y = (x * x).sum()
        >>> y.backward(); x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor):
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = _C.empty_like(tensor, device="cpu")
            if tensor.device.type != "cpu":
                packed = packed.pin_memory()
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, saved_tensors_hooks raises an error with this text.

    Arguments:
        error_message: the text.

    Example:
        >>> with rl.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     y = rl.ones(1, requires_grad=True) * 2
        >>> y
        tensor([2.], grad_fn=<MulBackward0>)
    """
    before = _C._saved_tensors_hooks_refusal()
    try:
        _C._set_saved_tensors_hooks_refusal(error_message)
        yield
    finally:
        _C._set_saved_tensors_hooks_refusal(before)


class _MultiHandle:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> _MultiHandle:
    """Calls ``fn`` once a backward when the gradients of several tensors are there.

    With mode "all", fn gets a list of gradients, None for those that this backward does not
    compute, when the last of the others is there. With "any", it gets the first one.

    Arguments:
        tensors: whose gradients are waited for.
        fn: gets the list of them ('all'), or the first that comes ('any').
        mode: 'all' or 'any'.

    Example:
        >>> x, y = rl.ones(1, requires_grad=True), rl.ones(1, requires_grad=True)
        >>> handle = rl.autograd.graph.register_multi_grad_hook([x, y], print, mode="all")
        >>> (x * 2 + y * 3).backward()
        [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode must be 'all' or 'any', not {mode!r}")
    tensors = tuple(tensors)
    lock = threading.Lock()
    seen = {}  # by backward: what has arrived

    if mode == "any":

        def first(grad):
            task = _C._current_graph_task()
            with lock:
                if seen.get("last") == task:
                    return
                seen["last"] = task
            fn(grad)

        return _MultiHandle([t.register_hook(first) for t in tensors])

    edges = [get_gradient_edge(t) for t in tensors]

    def hook_of(index):
        def hook(grad):
            task = _C._current_graph_task()
            with lock:
                grads, expected = seen.get(task, (None, None))
                if grads is None:
                    expected = sum(_C._will_run(e.node) for e in edges)
                    grads = [None] * len(tensors)
                    seen[task] = grads, [expected]
                    expected = seen[task][1]
                grads[index] = grad
                expected[0] -= 1
                done = expected[0] == 0
                if done:
                    del seen[task]
            if done:
                fn(grads)

        return hook

    return _MultiHandle([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])


class _SavedCopies:
    """What allow_mutation_on_saved_tensors knows: saved tensors by storage, copies of overwritten
    ones."""

    def __init__(self) -> None:
        self.saved = weakref.WeakSet()

    def clear(self) -> None:
        self.saved.clear()


class _Saved:
    """One saved tensor: itself until somebody writes to its memory, then a copy made before."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.storage = tensor.untyped_storage()._cdata  # type: ignore[attr-defined]
        self.copied = False


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_SavedCopies]:
    """Inside, tensors saved for backward may be overwritten: they are copied first.

    Backward must run inside as well. Yields an object whose clear() forgets what was saved.

    Example:
        >>> with rl.autograd.graph.allow_mutation_on_saved_tensors():
        ...     x = rl.ones(2, requires_grad=True)
        ...     y = x.clone(); z = y.sin(); _ = y.mul_(2)
        ...     z.sum().backward()
        >>> x.grad
        tensor([0.5403, 0.5403])
    """
    context = _SavedCopies()

    def pack(tensor):
        saved = _Saved(tensor)
        context.saved.add(saved)
        return saved

    def before_write(tensor):
        storage = tensor.untyped_storage()._cdata
        for saved in list(context.saved):
            if not saved.copied and saved.storage == storage:
                saved.tensor = saved.tensor.clone()
                saved.copied = True

    def unpack(saved):
        if saved not in context.saved:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors: backward must run inside the with block, before "
                "clear() is called"
            )
        return saved.tensor

    with saved_tensors_hooks(pack, unpack):
        _C._push_write_observer(before_write)
        try:
            yield context
        finally:
            _C._pop_write_observer()
            context.clear()
