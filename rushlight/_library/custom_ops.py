"""custom_op: an operator from one Python function."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from rushlight import _C
from rushlight._library.batching import batch_rule
from rushlight._library.gradients import gradient_kernel
from rushlight._library.operators import OpOverload, find_overload, forget
from rushlight._library.schemas import infer_schema
from rushlight.types import _dtype

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}
EVERY_DEVICE = "CompositeExplicitAutograd"


def device_key(device_type: str) -> str:
    """ "CPU" for "cpu"."""
    key = _KEYS.get(device_type.partition(":")[0])
    if key is None:
        raise RuntimeError(f"Expected one of cpu, cuda, meta as device type: {device_type}")
    return key


def split_name(name: str) -> tuple[str, str]:
    """Namespace and name of "ns::name"."""
    namespace, colons, short = name.partition("::")
    if not colons or not namespace or not short or "." in short:
        raise ValueError(
            f"custom_op: the name must look like 'mylib::name' and have no overload, not {name!r}"
        )
    return namespace, short


class CustomOpDef:
    """A custom operator; calling it runs its function, and its gradient if it has one.

    custom_op makes one of a function.

    Arguments:
        name: "namespace::name".
        function: the Python function.
        schema: its arguments and results, such as "(Tensor x) -> Tensor".
        tags: accepted.

    Example:
        >>> def twice(x):
        ...     return x * 2
        >>> op = rl.library.CustomOpDef("doc_def::twice", twice, "(Tensor x) -> Tensor", tags=None)
        >>> op
        <CustomOpDef(doc_def::twice)>
        >>> kernel = op.register_kernel(None, twice)
        >>> op(rl.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """

    def __init__(
        self, name: str, function: Callable[..., Any], schema: str, tags: Any = None
    ) -> None:
        self._qualname = name
        self._namespace, self._name = split_name(name)
        self._init_fn, self._schema = function, schema
        self._disabled: set[str] = set()
        forget(name)  # as when a notebook's cell is run again
        self._op = _C._define_custom_op(name + schema)
        self._op.set_kernel("Autograd", gradient_kernel(self._op, None, None), False)
        if self._op.results:
            self._op.set_kernel("Meta", self._no_fake, False)
        else:
            self._op.set_kernel("Meta", lambda *args, **kwargs: None, False)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    @property
    def _opoverload(self) -> OpOverload:
        found = find_overload(self._qualname)
        if found is None:
            raise RuntimeError(f"{self!r} was taken away")
        return found

    def _no_fake(self, *args, **kwargs):
        raise RuntimeError(
            f"{self._name}: meta tensors need to know the shape of its results; say it with "
            "register_fake"
        )

    @property
    def _is_mutable(self):
        return any(a[3] for a in self._op.arguments)

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable | None = None, /
    ) -> Callable:
        """The function for some kinds of device; None: for all."""
        kinds = (
            [device_types]
            if device_types is None or isinstance(device_types, str)
            else device_types
        )

        def register(function):
            for kind in kinds:
                key = EVERY_DEVICE if kind is None else device_key(kind)

                @functools.wraps(function)
                def kernel(*args, _kind=kind, **kwargs):
                    chosen = self._init_fn if _kind in self._disabled else function
                    return chosen(*args, **kwargs)

                self._op.set_kernel(key, kernel, True)
            return function

        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """In a with block: whether the device's own function is used, or the first one."""
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            self._disabled = before

    def register_fake(self, fn: Callable | None = None, /) -> Callable:
        """The function that gives shapes only, for meta tensors."""

        def register(function):
            self._op.set_kernel("Meta", function, False)
            return function

        return register if fn is None else register(fn)

    def register_vmap(self, func: Callable | None = None) -> Callable:
        """func(info, in_dims, *args) -> (output, out_dims): the call for all samples."""

        def register(function):
            self._op.set_batch_rule(batch_rule(self._op, function))
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: _dtype) -> None:
        """In regions of mixed precision, floating arguments become cast_inputs first."""
        self._op.set_autocast(device_type, cast_inputs)

    def register_autograd(
        self, backward: Callable, /, *, setup_context: Callable | None = None
    ) -> None:
        """The gradient: backward(ctx, *grads), and setup_context(ctx, inputs, output) before it."""
        register_gradient(self._op, backward, setup_context)

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable | None = None, /
    ) -> NoReturn:
        """What runs for a class with __torch_dispatch__; see library.register_torch_dispatch."""
        from rushlight.library import register_torch_dispatch

        register_torch_dispatch(self, torch_dispatch_class, fn)


def register_gradient(op: Any, backward: Callable, setup_context: Callable | None) -> None:
    """register_autograd for the operator's overload."""
    if any(a[3] for a in op.arguments):
        raise RuntimeError(
            f"register_autograd: {op.qualified} writes to its arguments ({op.schema}); only an "
            "operator that returns new tensors can have a gradient"
        )
    op.set_kernel("Autograd", gradient_kernel(op, backward, setup_context), False)


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Callable:
    """Makes an operator of a function: `@custom_op("mylib::name", mutates_args=())`. Its schema
    comes from the annotations unless it is given; what it writes to stands in mutates_args.

    Arguments:
        name: "namespace::name".
        fn: the function; None makes a decorator.
        mutates_args: names of arguments that it writes to.
        device_types: for which kinds of device; None is all.
        schema: its signature; None reads the annotations.
        tags: accepted.

    Example:
        >>> @rl.library.custom_op("doc_example::twice", mutates_args=(), device_types="cpu")
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> twice(rl.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    split_name(name)

    def make(function):
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        op = CustomOpDef(name, function, text, tags)
        if schema is not None:
            _check_mutated(op, mutates_args)
        op.register_kernel(device_types, function)
        return op

    return make if fn is None else make(fn)


def _check_mutated(op, mutates_args):
    if mutates_args == "unknown":
        return
    declared = {a[0] for a in op._op.arguments if a[3]}
    if declared != set(mutates_args):
        forget(op._qualname)
        raise ValueError(
            f"custom_op: mutates_args is {sorted(mutates_args)}, but the schema says that "
            f"{sorted(declared)} are written to: {op._schema}"
        )
