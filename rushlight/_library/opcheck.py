"""opcheck: is an operator what its registrations say?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import _C
from rushlight._library.operators import OpOverload, OpOverloadPacket
from rushlight.utils._pytree import tree_flatten, tree_map

DEFAULT_TESTS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


class OpCheckError(Exception):
    """An operator is not what its registrations say."""


def _tensors(tree):
    return [x for x in tree_flatten(tree)[0] if isinstance(x, _C.Tensor)]


def _copied(tree):
    def copy(x):
        if not isinstance(x, _C.Tensor):
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    return tree_map(copy, tree)


def _same_bits(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    same = a.eq(b) | (a.ne(a) & b.ne(b))
    return bool(same.all())


def _share(a, b):
    return (
        a.numel() > 0
        and b.numel() > 0
        and not a.is_meta
        and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    )


def _test_schema(op, args, kwargs, **tolerances):
    """Writes to what it says, and gives no memory away that it does not name."""
    args, kwargs = _copied((args, kwargs))
    args, kwargs = tree_map(lambda x: x.detach() if isinstance(x, _C.Tensor) else x, (args, kwargs))
    arguments = op._schema.arguments
    positional = [a for a in arguments if not a.kwarg_only]
    given = dict(zip([a.name for a in positional], args, strict=False)) | kwargs
    before = _copied(given)
    outputs = op(*args, **kwargs)
    written = {a.name for a in arguments if a.is_write}
    for name, value in given.items():
        for now, then in zip(_tensors(value), _tensors(before[name]), strict=True):
            if name not in written and not _same_bits(now, then):
                raise RuntimeError(f"the operator wrote to {name}, which its schema does not say")
    named = {r.type.partition("(")[2].partition(")")[0].rstrip("!") for r in op._schema.returns}
    inputs = [
        (a.name, t)
        for a in arguments
        if a.type.partition("(")[2].partition(")")[0].rstrip("!") not in named - {""}
        for t in _tensors(given.get(a.name))
    ]
    results = _tensors(outputs)
    for i, result in enumerate(results):
        for name, tensor in inputs:
            if _share(result, tensor):
                raise RuntimeError(
                    f"a result shares memory with {name}, which its schema does not say"
                )
        if any(_share(result, other) for other in results[:i]):
            raise RuntimeError(f"result {i} shares memory with one before it")


def _test_autograd_registration(op, args, kwargs, **tolerances):
    """Has a gradient where one is asked for."""
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    devices = {t.device.type for t in _tensors((args, kwargs))}
    backend = any(op._op.has_kernel(d.upper()) for d in devices if d != "meta")
    if not backend or op._op.has_kernel("Autograd"):
        return
    raise RuntimeError(
        f"{op.name()} has a kernel for {', '.join(sorted(devices))}, but no gradient: "
        "tensors that require one would lose it silently. Use register_autograd"
    )


def _test_faketensor(op, args, kwargs, **tolerances):
    """The shapes that its fake gives are those of its results."""
    meta = tree_map(
        lambda x: x.detach().to("meta") if isinstance(x, _C.Tensor) else x, (args, kwargs)
    )
    args, kwargs = _copied((args, kwargs))
    with _no_grad():
        fake = op(*meta[0], **meta[1])
        real = op(*args, **kwargs)
    fakes, reals = _tensors(fake), _tensors(real)
    if len(fakes) != len(reals):
        raise RuntimeError(f"the fake gives {len(fakes)} tensors, the kernel {len(reals)}")
    for i, (f, r) in enumerate(zip(fakes, reals, strict=True)):
        for what in ("shape", "dtype"):
            if getattr(f, what) != getattr(r, what):
                raise RuntimeError(
                    f"Output {i}: the fake's {what} is {getattr(f, what)}, the kernel's "
                    f"{getattr(r, what)}"
                )
        if r.numel() > 1 and f.stride() != r.stride():
            raise RuntimeError(
                f"Output {i}: the fake's strides are {f.stride()}, the kernel's {r.stride()}"
            )
        if not f.is_meta:
            raise RuntimeError(f"Output {i}: the fake gave a tensor on {f.device}, not on meta")


def _no_grad():
    import rushlight

    return rushlight.no_grad()


def _outcome(function, args, kwargs):
    """Results and gradients of a call on copies, and the copies of what it may write to."""
    import rushlight

    args, kwargs = _copied((args, kwargs))
    leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    # What is written to must be no leaf.
    given = tree_map(
        lambda x: x.clone() if isinstance(x, _C.Tensor) and x.requires_grad else x, (args, kwargs)
    )
    outputs = _tensors(function(*given[0], **given[1]))
    differentiable = [o for o in outputs if o.requires_grad]
    grads = []
    if differentiable and leaves:
        total = sum((o * o.detach().cos()).sum().abs() for o in differentiable)
        grads = list(rushlight.autograd.grad(total, leaves, allow_unused=True))
    return [o.detach() for o in outputs], grads, [t.detach() for t in _tensors(given)]


def _test_compiled(op, args, kwargs, atol=None, rtol=None):
    """Compiled code gives the same results and gradients."""
    import rushlight
    from rushlight.testing import assert_close

    if not op._schema.is_mutable and not op._op.has_kernel("Autograd"):
        args, kwargs = tree_map(
            lambda x: x.detach() if isinstance(x, _C.Tensor) else x, (args, kwargs)
        )
    eager = _outcome(op, args, kwargs)
    compiled = _outcome(rushlight.compile(lambda *a, **k: op(*a, **k)), args, kwargs)
    tolerances = {} if atol is None and rtol is None else {"atol": atol or 0, "rtol": rtol or 0}
    for what, ours, theirs in zip(
        ("outputs", "gradients", "arguments"), eager, compiled, strict=True
    ):
        for a, b in zip(ours, theirs, strict=True):
            if (a is None) != (b is None):
                raise RuntimeError(f"the {what} differ under compile")
            if a is not None:
                assert_close(
                    a, b, equal_nan=True, msg=lambda m, w=what: f"the {w} differ: {m}", **tolerances
                )


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_static": _test_compiled,
    "test_aot_dispatch_dynamic": _test_compiled,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Runs an operator with sample inputs and compares what it does with what was registered: what
    it writes to, its gradient, its fake, the compiled call. {test: "SUCCESS" or the exception}.

    Arguments:
        op: the operator.
        args: the sample's arguments.
        kwargs: its keyword arguments.
        test_utils: the name of a test, or several.
        raise_exception: whether the first failure raises.
        atol: how far compiled results may be from the operator's; None goes by the dtype.
        rtol: the same, relative.

    Example:
        >>> @rl.library.custom_op("doc_opcheck::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> rl.library.opcheck(twice, (rl.ones(2),), test_utils="test_schema")
        {'test_schema': 'SUCCESS'}
    """
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck: test_utils may name {', '.join(_TESTS)}; got {', '.join(map(str, names))}"
        )
    overload = _overload_of(op)
    results: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](overload, args, dict(kwargs or {}), atol=atol, rtol=rtol)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results


def _overload_of(op):
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        return op.default
    found = getattr(op, "_opoverload", None)
    if found is None:
        raise ValueError(
            f"opcheck(op, ...): Expected op to be one of {{OpOverload, OpOverloadPacket, "
            f"CustomOpDef}} but it was {type(op)}"
        )
    return found
