"""Which operators take nested tensors, and what runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nested import _products, _reduce, _shapes
from rushlight.nested._tensor import (
    NestedTensor,
    contiguous,
    from_padded,
    sizes_of,
    values_like,
    with_values,
)

# Operators that look at each element by itself: they run on values, with tensors of one size
# broadcast to them. The forms in place are those with an underscore.
_POINTWISE = frozenset(
    """abs absolute acos acosh add addcdiv addcmul alpha_dropout and angle arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bernoulli bfloat16 bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bool byte ceil celu
    cdouble cfloat char clamp clamp_max clamp_min clip conj conj_physical copysign cos cosh deg2rad
    detach digamma div divide double dropout elu eq erf erfc erfinv exp exp2 expm1 fix float
    float_power floor floor_divide floordiv fmax fmin fmod frac ge gelu greater greater_equal gt
    half hardshrink hardsigmoid hardswish hardtanh heaviside hypot iadd iand ifloordiv imod imul
    int invert ior ipow isub isclose isfinite isinf isnan isneginf isposinf isreal itruediv ixor
    ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logit logsigmoid long lshift lt masked_fill
    maximum minimum mish mod mul multiply nan_to_num ne neg negative not_equal or polygamma pos
    positive pow rad2deg radd rand rdiv reciprocal relu relu6 remainder rfloordiv rlshift rmod rmul
    ror round rpow rrelu rrshift rshift rsqrt rsub rtruediv rxor selu sgn short sigmoid sign signbit
    silu sin sinc sinh softplus softshrink softsign sqrt square sub subtract tan tanh tanhshrink
    threshold true_divide truediv trunc type_as where xlogy xor""".split()
)
_IN_PLACE = frozenset("iadd iand ifloordiv imod imul ior ipow isub itruediv ixor".split())
# Factories and moves: what they make of the values is nested in the same way.
_OF_VALUES = frozenset(
    """clone cpu cuda empty_like full_like ones_like pin_memory rand_like randint_like randn_like
    resolve_conj resolve_neg to zeros_like bernoulli_ exponential_ fill_ normal_ random_ uniform_
    zero_""".split()
)

# Which of their arguments may be several numbers, or one by name.
_SEVERAL = {"expand": "size", "permute": "dims", "permute_dims": "dims", "reshape": "shape",
            "view": "size"}  # fmt: skip

# Whose first argument may be something else beside a nested tensor.
_OTHERS_FIRST = frozenset(
    """allclose bmm cat concat concatenate copy_ embedding equal expand_as is_same_size linear
    matmul mm rmatmul scaled_dot_product_attention stack""".split()
)

_rules: dict[str, Callable[..., Any]] = {
    **{name: getattr(_shapes, name) for name in _shapes.__all__},
    **{name: getattr(_reduce, name) for name in _reduce.__all__},
    **{name: getattr(_products, name) for name in _products.__all__},
}
# Other names of rules.
_rules |= {
    "permute_dims": _rules["permute"], "swapaxes": _rules["transpose"],
    "swapdims": _rules["transpose"], "concat": _rules["cat"], "concatenate": _rules["cat"],
    "rmatmul": lambda x, y: _products.matmul(y, x),
}  # fmt: skip


def rule(function):
    """Makes a function the rule of the operator of its name."""
    _rules[function.__name__] = function
    return function


def _spread(op, dense, x):
    """A tensor of one size as the values of x see it."""
    dims, at = x._vals.dim() + 1, x._ragged_idx
    if dense.dim() == 0:
        return dense
    if dense.dim() > dims:
        raise RuntimeError(
            f"{op}: a tensor of {dense.dim()} dims does not broadcast to one that is nested of "
            f"sizes {tuple(sizes_of(x))}"
        )
    shape = (1,) * (dims - dense.dim()) + tuple(dense.shape)
    batch, length = shape[0], shape[at]
    dense = dense.reshape(shape)
    if batch == 1 and length == 1:
        return dense.squeeze(0)
    if not x._ragged.is_whole:
        raise RuntimeError(
            f"{op}: a tensor of sizes {tuple(dense.shape)} is not written into a nested one with "
            "holes between its sequences; contiguous() has none"
        )
    fits = batch in (1, len(x._ragged)) and length in (1, x._ragged.longest)
    if not fits:
        raise RuntimeError(
            f"{op}: a tensor of sizes {tuple(dense.shape)} does not broadcast to a nested one of "
            f"sizes {tuple(sizes_of(x))}; the longest sequence has {x._ragged.longest}"
        )
    dense = dense.expand(len(x._ragged), *shape[1:])
    if length == 1:
        return dense.select(at, 0).index_select(0, x._ragged.samples).movedim(0, at - 1)
    return from_padded(dense, x)


def pointwise(name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator that looks at each element by itself."""
    written = args[0] if args and (name in _IN_PLACE or name.endswith("_")) else None
    if written is not None and not isinstance(written, NestedTensor):
        raise RuntimeError(
            f"{name}: the result is nested, and cannot be written to a tensor of one size"
        )
    nested = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    x = nested[0]
    if written is None and not all(a._ragged.is_whole for a in nested):
        args = tuple(contiguous(a) if isinstance(a, NestedTensor) else a for a in args)
        kwargs = {k: contiguous(a) if isinstance(a, NestedTensor) else a for k, a in kwargs.items()}
        x = contiguous(x)

    def part(a):
        if isinstance(a, NestedTensor):
            if a._ragged_idx != x._ragged_idx or a._vals.dim() != x._vals.dim() or (
                not a._ragged.same_as(x._ragged)
            ):  # fmt: skip
                raise RuntimeError(
                    f"{name}: the sequences of sizes {tuple(sizes_of(x))} and "
                    f"{tuple(sizes_of(a))} differ"
                )
            return a._vals
        return _spread(name, a, x) if isinstance(a, Tensor) and name != "type_as" else a

    found = func(*map(part, args), **{k: part(a) for k, a in kwargs.items()})
    if written is not None:
        return written
    return with_values(x, found) if isinstance(found, Tensor) else found


def _of_values(name, func, args, kwargs):
    """A factory or move."""
    x = args[0]
    others = [a._vals if isinstance(a, NestedTensor) else a for a in args[1:]]
    kwargs = {k: a._vals if isinstance(a, NestedTensor) else a for k, a in kwargs.items()}
    if not isinstance(x, NestedTensor):
        if name == "to":  # .to(a nested tensor): its dtype and device
            return x.to(*others, **kwargs)
        raise TypeError(f"{name}: a nested tensor beside one of one size is no argument of this")
    kwargs.pop("memory_format", None)
    layout = kwargs.pop("layout", None)
    if layout is not None and layout is not x.layout:
        raise RuntimeError(f"{name}: layout must be {x.layout}, that of the nested tensor")
    found = func(x._vals, *others, **kwargs)
    if found is x._vals:
        return x
    return with_values(x, found)


@rule
def _dropout(x, shape, p):
    return with_values(x, _C._dropout(x._vals, x._vals.shape, p))


@rule
def is_floating_point(x):
    return x._vals.is_floating_point()


@rule
def is_complex(x):
    return x._vals.is_complex()


@rule
def is_same_size(x, other):
    if not isinstance(x, NestedTensor) or not isinstance(other, NestedTensor):
        return False
    return sizes_of(x) == sizes_of(other)


@rule
def element_size(x):
    return x._vals.element_size()


@rule
def copy_(x, src, non_blocking=False):
    if not isinstance(x, NestedTensor):
        raise RuntimeError("copy_: a nested tensor does not fit a tensor of one size; use "
                           "to_padded_tensor()")  # fmt: skip
    if not isinstance(src, NestedTensor):
        raise RuntimeError("copy_: the source must be nested, too")
    same = x._ragged.counts == src._ragged.counts and x._ragged_idx == src._ragged_idx
    if not same:
        raise RuntimeError(
            f"copy_: the sizes {tuple(sizes_of(x))} and {tuple(sizes_of(src))} differ"
        )
    if not x._ragged.is_whole:
        for to, part in zip(_shapes.unbind(x), _shapes.unbind(src), strict=True):
            to.copy_(part)
        return x
    x._vals.copy_(contiguous(src)._vals, non_blocking)
    return x


def _both_packed(op, x, other):
    if not isinstance(x, NestedTensor) or not isinstance(other, NestedTensor):
        raise RuntimeError(f"{op}: both tensors must be nested, or none")
    return contiguous(x), contiguous(other)


@rule
def equal(x, other):
    x, other = _both_packed("equal", x, other)
    return (
        x._ragged.counts == other._ragged.counts
        and x._ragged_idx == other._ragged_idx
        and bool(_C.equal(x._vals, other._vals))
    )


@rule
def allclose(x, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    x, other = _both_packed("allclose", x, other)
    return bool(_C.allclose(x._vals, values_like("allclose", x, other), rtol, atol, equal_nan))


@rule
def embedding(weight, indices, *args, **kwargs):
    if isinstance(weight, NestedTensor):
        raise NotImplementedError("embedding: the table must be a tensor of one size")
    x = contiguous(indices)
    return with_values(x, _C.embedding(weight, x._vals, *args, **kwargs))


def _over_last(name):
    """A norm over dims at the end, none of them ragged."""

    def run(func, input, normalized_shape, *rest, **kwargs):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        if len(shape) > input._vals.dim() - input._ragged_idx:
            raise RuntimeError(f"{name}: normalized_shape {tuple(shape)} reaches the ragged dim")
        return with_values(input, func(input._vals, normalized_shape, *rest, **kwargs))

    return run


_with_function = {
    name: _over_last(name) for name in ("layer_norm", "rms_norm", "native_layer_norm")
}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function returns that was called with a nested tensor."""
    given = getattr(func, "__name__", "")
    name = given.strip("_") if given.startswith("__") else given
    if "input" in kwargs and not args:
        args = (kwargs.pop("input"),)
    if _SEVERAL.get(name) in kwargs:
        args = (*args, kwargs.pop(_SEVERAL[name]))
    if "axis" in kwargs:  # NumPy's word
        kwargs["dim"] = kwargs.pop("axis")
    if kwargs.pop("out", None) is not None:
        raise NotImplementedError(f"{name}: has no out= for nested tensors")
    first = args[0] if args else None
    if name in _rules and (isinstance(first, NestedTensor) or name in _OTHERS_FIRST):
        return _rules[name](*args, **kwargs)
    if name in _with_function and isinstance(first, NestedTensor):
        return _with_function[name](func, *args, **kwargs)
    if name in _OF_VALUES:
        return _of_values(name, func, args, kwargs)
    base = name[:-1] if name.endswith("_") and not given.startswith("__") else name
    flat = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    if base in _POINTWISE and flat:
        return pointwise(name, func, args, kwargs)
    raise NotImplementedError(
        f"{name or func}: not there for nested tensors; call it on values(), on the parts "
        "(unbind()) or on to_padded_tensor()"
    )
