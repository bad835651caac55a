"""Custom operators: a function in Python or C++, its gradient, its rules, and what it is called.
docs/custom_ops.md is the guide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight import _extensions
from rushlight._library.batching import batch_rule
from rushlight._library.custom_ops import (
    EVERY_DEVICE,
    CustomOpDef,
    custom_op,
    device_key,
    register_gradient,
)
from rushlight._library.namespaces import (
    Library,
    fallthrough_kernel,
    is_own,
    name_of,
    when_defined,
)
from rushlight._library.namespaces import scoped_library as _scoped_library
from rushlight._library.opcheck import OpCheckError as _OpCheckError
from rushlight._library.opcheck import opcheck
from rushlight._library.operators import find_overload
from rushlight._library.operators import forget as _forget
from rushlight._library.schemas import infer_schema
from rushlight._names.missing import fill
from rushlight.types import _F, _dtype

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_kept: list[Library] = []  # what define() without a library made


def _register(op: Any, act: Callable[[Any], None]) -> None:
    """Acts on the operator. One of a C++ library that was set aside may never come; its package
    must be importable all the same."""
    name = name_of(op)
    if is_own(name):
        return
    if find_overload(name) is None and not _extensions.set_aside:
        raise RuntimeError(f"operator {name} does not exist")
    when_defined(name, act)


def _decorator(function, register):
    def run(given):
        register(given)
        return given

    return run if function is None else run(function)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable:
    """The operator's function for some kinds of device; None: for all.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        device_types: "cpu", "cuda", "meta", several of these, or None.
        func: the function; None makes a decorator.
        lib: accepted; the operator keeps what is registered.

    Example:
        >>> @rl.library.custom_op("doc_kernel::plus", mutates_args=())
        ... def plus(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 1
        >>> @rl.library.register_kernel("doc_kernel::plus", "cpu", lib=None)
        ... def plus_on_cpu(x):
        ...     return x + 10
        >>> plus(rl.tensor([1.0]))
        tensor([11.])
    """
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    kinds = (
        [device_types] if device_types is None or isinstance(device_types, str) else device_types
    )
    keys = [EVERY_DEVICE if kind is None else device_key(kind) for kind in kinds]

    def register(function):
        _register(op, lambda found: [found.set_kernel(key, function, False) for key in keys])

    return _decorator(func, register)


def register_fake(
    op: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Callable:
    """The function that gives the operator's shapes only, for meta tensors.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        func: the function; None makes a decorator.
        lib: accepted; the operator keeps what is registered.
        allow_override: accepted; a function that was registered before is replaced.

    Example:
        >>> @rl.library.custom_op("doc_fake::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> rl.library.register_fake(twice, lambda x: rl.empty_like(x)).__name__
        '<lambda>'
        >>> twice(rl.ones(2, 3, device="meta")).shape
        rushlight.Size([2, 3])
    """

    def register(function):
        _register(op, lambda found: found.set_kernel("Meta", function, False))

    return _decorator(func, register)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """The operator's gradient: backward(ctx, *grads) returns one gradient per argument, and
    setup_context(ctx, inputs, output) keeps what it needs.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        backward: gives one gradient, or None, for each argument.
        setup_context: runs after the operator; None keeps nothing.
        lib: accepted; the operator keeps what is registered.

    Raises:
        RuntimeError: where the operator writes to its arguments.

    Example:
        >>> @rl.library.custom_op("doc_autograd::square", mutates_args=())
        ... def square(x: rl.Tensor) -> rl.Tensor:
        ...     return x * x
        >>> def keep(ctx, inputs, output):
        ...     ctx.save_for_backward(inputs[0])
        >>> def backward(ctx, grad):
        ...     return 2 * ctx.saved_tensors[0] * grad
        >>> rl.library.register_autograd(square, backward, setup_context=keep)
        >>> x = rl.tensor(3.0, requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor(6.)
    """
    _register(op, lambda found: register_gradient(found, backward, setup_context))


def register_autocast(
    op: Any, device_type: str, cast_inputs: _dtype, /, *, lib: Library | None = None
) -> None:
    """In regions of mixed precision, floating arguments become cast_inputs first.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        device_type: the kind of device whose regions count, "cpu" or "cuda".
        cast_inputs: the dtype.
        lib: accepted; the operator keeps what is registered.

    Example:
        >>> @rl.library.custom_op("doc_autocast::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> rl.library.register_autocast(twice, "cpu", rl.bfloat16, lib=None)
        >>> with rl.autocast("cpu"):
        ...     twice(rl.ones(2)).dtype
        rushlight.bfloat16
    """
    _register(op, lambda found: found.set_autocast(device_type, cast_inputs))


def register_vmap(op: Any, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """func(info, in_dims, *args) -> (output, out_dims): the operator for all samples at once.
    Without one, vmap runs it sample by sample.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        func: the function; None makes a decorator. `in_dims` says where the samples of each
            argument are, None for arguments that have none; `info.batch_size` is their number.
        lib: accepted; the operator keeps what is registered.

    Example:
        >>> @rl.library.custom_op("doc_vmap::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> def for_all(info, in_dims, x):
        ...     return x * 2, in_dims[0]
        >>> rl.library.register_vmap(twice, for_all) is for_all
        True
        >>> rl.func.vmap(twice)(rl.tensor([[1.0], [2.0]]))
        tensor([[2.],
                [4.]])
    """

    def register(function):
        _register(op, lambda found: found.set_batch_rule(batch_rule(found, function)))

    return _decorator(func, register)


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: Any,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
) -> NoReturn:
    """What runs in place of the operator for a class with __torch_dispatch__.

    Arguments:
        op: a custom operator, or its name.
        torch_dispatch_class: the class.
        func: the function.
        lib: a Library.

    Raises:
        NotImplementedError: always.

    Example:
        >>> try:
        ...     rl.library.register_torch_dispatch("doc::op", rl.Tensor, lib=None)
        ... except NotImplementedError as error:
        ...     print(str(error).partition(":")[0])
        library.register_torch_dispatch
    """
    raise NotImplementedError(
        "library.register_torch_dispatch: write the case into the class's own __torch_dispatch__ "
        "or __torch_function__, which is given the operator"
    )


def define(
    qualname: Any, schema: str, alias_analysis: str = "", *, lib: Any = None, tags: Any = ()
) -> Callable | None:
    """Names an operator by its schema: `define("mylib::name", "(Tensor x) -> Tensor")`. With a
    Library first, a decorator for its function.

    Arguments:
        qualname: "namespace::name", or a Library.
        schema: the arguments and results; after a Library, with the name in front.
        alias_analysis: after a Library, "", "FROM_SCHEMA" or "CONSERVATIVE"; accepted.
        lib: the Library that keeps the operator; None keeps it for good.
        tags: accepted.

    Raises:
        ValueError: where the name has no namespace, or the schema does not begin with "(".

    Example:
        >>> rl.library.define("doc_define::plus", "(Tensor x, int n=1) -> Tensor", tags=())
        >>> rl.library.impl("doc_define::plus", "default", lambda x, n=1: x + n)
        >>> rl.ops.doc_define.plus(rl.tensor([1.0]), 2)
        tensor([3.])
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema, alias_analysis, tags=tags)
        return _decorator(None, lambda function: qualname.impl(name, function))
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be a str, not {type(qualname)}"
        )
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"define: the name must look like 'mylib::name', not {qualname!r}")
    if not schema.strip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    if lib is None:
        lib = Library(namespace, "FRAGMENT")
        _kept.append(lib)
    lib.define(name + schema, alias_analysis="", tags=tags)
    return None


def impl(
    qualname: Any,
    types: str | Sequence[str] = "default",
    func: Any = None,
    *,
    lib: Library | None = None,
) -> Callable | None:
    """The function of an operator that define named, for "cpu", "cuda", or by "default" for all
    devices. With a Library first: `impl(lib, "name", "CPU")`, a decorator.

    Arguments:
        qualname: "namespace::name", or a Library.
        types: "cpu", "cuda", "meta", "default", or several of these; after a Library, the name.
        func: the function; None makes a decorator. After a Library, the dispatch key.
        lib: accepted; the operator keeps what is registered.

    Example:
        >>> rl.library.define("doc_impl::plus", "(Tensor x) -> Tensor")
        >>> @rl.library.impl("doc_impl::plus", types="cpu")
        ... def plus(x):
        ...     return x + 1
        >>> rl.ops.doc_impl.plus(rl.tensor([1.0]))
        tensor([2.])
    """
    if isinstance(qualname, Library):
        own, name, key = qualname, str(types), func if isinstance(func, str) else ""
        return _decorator(None, lambda function: own.impl(name, function, key))
    kinds = [types] if isinstance(types, str) else list(types)
    keys = [EVERY_DEVICE if kind == "default" else device_key(kind) for kind in kinds]

    def register(function):
        name = name_of(qualname)
        if not is_own(name):
            for key in keys:
                when_defined(name, lambda op, key=key: op.set_kernel(key, function, False))

    if func is None:
        return _decorator(None, register)
    register(func)
    return None


def get_kernel(op: Any, dispatch_key: Any) -> Callable[..., Any]:
    """Exactly the function that an operator has under a dispatch key.

    Arguments:
        op: a custom operator, or its name "namespace::name".
        dispatch_key: such as "CPU", "CUDA" or "Meta". For the first two, a function for every
            device is found, too.

    Raises:
        RuntimeError: where there is no such operator, or none of its functions has the key.

    Example:
        >>> @rl.library.custom_op("doc_get::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> kernel = rl.library.get_kernel(twice, "CPU")
        >>> kernel(rl.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    name, key = name_of(op), str(dispatch_key).rpartition(".")[2]
    found = find_overload(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    fallbacks = (EVERY_DEVICE, "CompositeImplicitAutograd") if key in ("CPU", "CUDA") else ()
    key = next((k for k in (key, *fallbacks) if found._op.has_kernel(k)), "")
    if not key:
        raise RuntimeError(f"operator {name} has no kernel for {dispatch_key}")
    return lambda *args, **kwargs: found._op.call_key(key, *args, **kwargs)


def triton_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Any,
    schema: str | None = None,
) -> Callable:
    """custom_op for a function that launches Triton kernels. It may call other operators, too.

    Arguments:
        name: "namespace::name".
        fn: the function; None makes a decorator.
        mutates_args: names of arguments that it writes to.
        schema: its signature; None reads the annotations.

    Example:
        >>> schema = "(Tensor x) -> Tensor"
        >>> @rl.library.triton_op("doc_triton::twice", mutates_args=(), schema=schema)
        ... def twice(x):
        ...     return x * 2
        >>> twice(rl.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: _F, /) -> _F:
    """The kernel itself: nothing has to look into it.

    Arguments:
        triton_kernel: the kernel.

    Example:
        >>> def kernel(x, n): ...
        >>> rl.library.wrap_triton(kernel) is kernel
        True
    """
    return triton_kernel


def get_ctx() -> NoReturn:
    """What register_fake's functions ask for sizes that depend on data.

    Raises:
        NotImplementedError: always.

    Example:
        >>> rl.library.get_ctx()
        Traceback (most recent call last):
            ...
        NotImplementedError: library.get_ctx: shapes that depend on data cannot be told ahead
    """
    raise NotImplementedError("library.get_ctx: shapes that depend on data cannot be told ahead")


# For tests, as PyTorch has the first.
_TEST_TOOLS = (_scoped_library, _OpCheckError, _forget)

fill(globals())
