"""Which operators take sparse tensors, and what runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C
from rushlight.sparse import _products, _reduce, _shapes
from rushlight.sparse._arithmetic import (
    add,
    add_,
    change,
    div,
    mul,
    pow,
    rsub,
    same_places,
    sub,
    sub_,
)
from rushlight.sparse._convert import coalesce, merged, sparse_mask, to_dense
from rushlight.sparse._tensor import COO, NAMES, SparseTensor, make, replace, with_values

# A rule, and the other names that programs call it by.
_NAMES = """
add: __add__ __radd__
add_: __iadd__
sub: __sub__ subtract
sub_: __isub__ subtract_
rsub: __rsub__
mul: __mul__ __rmul__ multiply
mul_: __imul__ multiply_
div: __truediv__ __div__ true_divide
div_: __itruediv__ true_divide_
floor_divide: __floordiv__
floor_divide_: __ifloordiv__
pow: __pow__
pow_: __ipow__
neg: __neg__ negative
positive: __pos__
abs: __abs__ absolute
conj: conj_physical resolve_conj
trunc: fix
matmul: __matmul__
mm: spmm dsmm
cat: concat concatenate
vstack: row_stack
movedim: moveaxis
transpose: swapaxes swapdims
asin: arcsin
atan: arctan
asinh: arcsinh
atanh: arctanh
"""
_OPERATORS = {
    other: line.split(":")[0]
    for line in _NAMES.strip().splitlines()
    for other in line.split(":")[1].split()
}
_OPERATORS |= {other + "_": base + "_" for other, base in _OPERATORS.items() if other[-1] != "_"}

# Formulas that map 0 to 0; those of the first line are linear, so values may add up afterwards.
_LINEAR = "neg deg2rad rad2deg conj positive"
_FROM_ZERO = """abs asin asinh atan atanh ceil erf erfinv expm1 floor frac log1p relu round sgn sign
sin sinh sqrt square tan tanh trunc angle nan_to_num signbit isnan isinf isneginf isposinf"""
_CASTS = "double float half bfloat16 int long short char byte bool cfloat cdouble"

_rules: dict[str, Callable[..., Any]] = {
    "add": add, "add_": add_, "sub": sub, "sub_": sub_, "rsub": rsub, "mul": mul, "div": div,
    "pow": pow, "mm": _products.mm, "mv": _products.mv, "bmm": _products.bmm,
    "matmul": _products.matmul, "addmm": _products.addmm, "addmv": _products.addmv,
    "smm": _products.smm, "sspaddmm": _products.sspaddmm, "t": _shapes.t,
    "transpose": _shapes.transpose, "permute": _shapes.permute, "unsqueeze": _shapes.unsqueeze,
    "squeeze": _shapes.squeeze, "select": _shapes.select, "unbind": _shapes.unbind,
    "narrow": _shapes.narrow, "narrow_copy": _shapes.narrow,
    "index_select": _shapes.index_select, "__getitem__": _shapes.getitem, "cat": _shapes.cat,
    "stack": _shapes.stack, "hstack": _shapes.hstack, "vstack": _shapes.vstack,
    "dstack": _shapes.dstack, "column_stack": _shapes.column_stack, "movedim": _shapes.movedim,
    "sum": _reduce.sum, "norm": _reduce.norm, "sparse_mask": sparse_mask,
    "to_dense": to_dense,
}  # fmt: skip


# Whose first argument may be a dense tensor, beside a sparse one.
_DENSE_FIRST = frozenset(
    """add add_ sub sub_ rsub mul mul_ mm mv bmm matmul addmm addmv cat stack hstack vstack dstack
    column_stack sparse_mask linear to type_as copy_ equal is_same_size sspaddmm""".split()
)


def rule(function):
    """Makes a function the rule of the operator of its name."""
    _rules[function.__name__.removeprefix("of_")] = function
    return function


@rule
def floor_divide(input, other):
    return div(input, other, rounding_mode="floor")


def _formula(name, linear):
    run = getattr(_C.Tensor, name)

    def of_values(x, *args, **kwargs):
        x = x if linear or x._layout is not COO else coalesce(x)
        return with_values(x, run(x._vals, *args, **kwargs))

    return of_values


def _cast(name):
    run = getattr(_C.Tensor, name)

    def cast(x, *args, **kwargs):
        values = run(x._vals, *args, **kwargs)
        return x if values is x._vals else with_values(x, values)

    return cast


for _name in _LINEAR.split():
    _rules[_name] = _formula(_name, True)
for _name in _FROM_ZERO.split():
    _rules[_name] = _formula(_name, False)
for _name in _CASTS.split():
    _rules[_name] = _cast(_name)


def _in_place(name):
    run = _rules[name]

    def write(x, *args, **kwargs):
        args = (*args, *(kwargs.pop(k) for k in ("other", "exponent") if k in kwargs))
        if not isinstance(x, SparseTensor):
            dense = [to_dense(a) if isinstance(a, SparseTensor) else a for a in args]
            return getattr(x, name + "_")(*dense, **kwargs)
        return change(name + "_", x, run(x, *args, **kwargs))

    return write


for _name in [*_LINEAR.split(), *_FROM_ZERO.split(), "mul", "div", "floor_divide", "pow"]:
    if hasattr(_C.Tensor, _name + "_"):
        _rules[_name + "_"] = _in_place(_name)


def _moved(x, values, copy=False):
    """The tensor with values that may lie elsewhere, its indices beside them."""
    if values is x._vals:
        return x
    parts = tuple(p.to(values.device, copy=copy) for p in x._parts)
    made = make(x._layout, parts, values, x.shape, x._sorted)
    if all(a is b for a, b in zip(parts, x._parts, strict=True)):
        made._rows = x._rows
    return made


@rule
def __rmatmul__(x, other):
    return _products.matmul(other, x)


@rule
def to(x, *args, **kwargs):
    args = tuple(a._vals if isinstance(a, SparseTensor) else a for a in args)
    if "other" in kwargs and isinstance(kwargs["other"], SparseTensor):
        kwargs["other"] = kwargs["other"]._vals
    kwargs.pop("memory_format", None)
    if [a for a in kwargs.values() if isinstance(a, SparseTensor)]:  # a device, say
        return _unknown(_C.Tensor.to, "to", (x, *args), kwargs)
    if not isinstance(x, SparseTensor):
        return x.to(*args, **kwargs)
    return _moved(x, x._vals.to(*args, **kwargs), bool(kwargs.get("copy", False)))


@rule
def cpu(x, *, memory_format=None):
    return _moved(x, x._vals.cpu())


@rule
def cuda(x, *args, **kwargs):
    return _moved(x, x._vals.cuda(*args, **kwargs))


@rule
def pin_memory(x, device=None):
    values = x._vals.pin_memory()
    return make(x._layout, [p.pin_memory() for p in x._parts], values, x.shape, x._sorted)


@rule
def is_pinned(x, device=None):
    return x._vals.is_pinned()


@rule
def share_memory_(x):
    for part in (*x._parts, x._vals):
        part.share_memory_()
    return x


@rule
def is_shared(x):
    return x._vals.is_shared()


@rule
def linear(input, weight, bias=None):
    if isinstance(input, SparseTensor):
        found = _products.mm(input, weight.t(), name="linear")
    else:
        found = _products.mm(weight, merged(input, input.dim() - 1).t(), name="linear").t()
        found = found.reshape(*input.shape[:-1], weight.shape[0])
    return found if bias is None else found + bias


@rule
def type_as(x, other):
    values = other._vals if isinstance(other, SparseTensor) else other
    return (
        x.type_as(values) if not isinstance(x, SparseTensor) else _moved(x, x._vals.type_as(values))
    )


@rule
def clone(x, *, memory_format=None):
    parts = tuple(p.clone() for p in x._parts)
    return make(x._layout, parts, x._vals.clone(), x.shape, x._sorted)


@rule
def contiguous(x, *, memory_format=None):
    return x


@rule
def resolve_neg(x):
    return x


@rule
def is_neg(x):
    return False


@rule
def is_conj(x):
    return False


@rule
def adjoint(x):
    return x.mH


@rule
def detach(x):
    return with_values(x, x._vals.detach())


@rule
def detach_(x):
    x._vals = x._vals.detach()
    return x


def _empty_like(name):
    def like(x, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
             memory_format=None):  # fmt: skip
        device = x.device if device is None else device
        dtype = x.dtype if dtype is None else dtype
        layout = x._layout if layout is None else layout
        if layout is _C.strided:
            return getattr(_C, name)(
                x.shape, dtype=dtype, device=device, requires_grad=requires_grad
            )
        found = _cleared(x)
        values = found._vals.to(device, dtype)
        made = make(layout, [p.to(device) for p in found._parts], values, x.shape, found._sorted)
        if layout is not x._layout:
            raise NotImplementedError(f"{name}_like: layout must be that of the tensor, or strided")
        return made.requires_grad_(requires_grad)

    return like


def _cleared(x):
    """A tensor of the same sizes without elements."""
    values = x._vals.detach()[:0].clone()
    if x._layout is COO:
        return make(COO, (x._parts[0][:, :0],), values, x.shape, True)
    compressed, plain = x._parts
    return make(x._layout, (compressed.new_zeros(compressed.shape), plain[:0]), values, x.shape)


_rules["zeros_like"], _rules["empty_like"] = _empty_like("zeros"), _empty_like("empty")


def _same_pattern(name):
    """ones_like and its kin of compressed tensors: other values in the same places."""
    run = getattr(_C, name)

    def like(x, *args, layout=None, **options):
        if x._layout is COO or layout not in (None, x._layout):
            raise NotImplementedError(
                f"{name}: of sparse tensors only for compressed ones, in their own layout"
            )
        found = run(x._vals.detach(), *args, **options)
        return make(x._layout, [p.to(found.device) for p in x._parts], found, x.shape, x._sorted)

    return like


_rules |= {name: _same_pattern(name) for name in ("ones_like", "full_like", "randn_like")}


@rule
def zero_(x):
    if not isinstance(x, SparseTensor):
        return x.zero_()
    if x._is_grad:  # what it is the gradient of sees the same values
        x._vals.zero_()
        return x
    found = _cleared(x)
    if x.requires_grad and _C.is_grad_enabled() and x.is_leaf:
        raise RuntimeError("zero_: a leaf that requires grad is written in place; use no_grad()")
    replace(x, found._parts, found._vals.requires_grad_(x.requires_grad), True, x.shape)
    return x


@rule
def copy_(x, src, non_blocking=False):
    if not isinstance(x, SparseTensor) or not isinstance(src, SparseTensor) or (
        x._layout is not src._layout
    ):  # fmt: skip
        raise RuntimeError(
            "copy_: both tensors must have one layout; to_dense() or to_sparse() the source first"
        )
    if tuple(x.shape) != tuple(src.shape):
        raise RuntimeError(f"copy_: sizes {list(x.shape)} and {list(src.shape)} differ")
    parts = tuple(p.to(x.device, copy=True) for p in src._parts)
    values = src._vals.to(x.device, x.dtype, copy=True)
    return change("copy_", x, make(x._layout, parts, values, x.shape, src._sorted))


@rule
def any(x, dim=None, keepdim=False):
    if dim is not None:
        raise NotImplementedError("any: of a sparse tensor only over all dims")
    return x._vals.any()


@rule
def linalg_norm(x, ord=None, dim=None, keepdim=False, *, dtype=None):
    if ord is not None and x.dim() > 1:  # those of matrices are another thing
        raise NotImplementedError("linalg.norm: of a sparse matrix only the Frobenius norm, "
                                  "without ord; norm(p) takes elements as a vector")  # fmt: skip
    return _reduce.norm(x, "fro" if ord is None else ord, dim, keepdim, dtype=dtype)


@rule
def is_same_size(x, other):
    return tuple(x.shape) == tuple(other.shape)


@rule
def is_nonzero(x):
    return bool(to_dense(x))


@rule
def equal(x, other):
    if not isinstance(x, SparseTensor) or not isinstance(other, SparseTensor) or (
        x._layout is not other._layout
    ):  # fmt: skip
        raise NotImplementedError("equal: both tensors must have one layout")
    if x.shape != other.shape:
        return False
    if x._layout is COO:
        x, other = coalesce(x), coalesce(other)
    return same_places(x, other) and bool(_C.equal(x._vals, other._vals))


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function returns that was called with a sparse tensor."""
    name = getattr(func, "__name__", "")
    known = _OPERATORS.get(name, name)
    if known == "norm" and getattr(func, "__module__", "") == "rushlight.linalg":
        known = "linalg_norm"
    run = _rules.get(known)
    if "input" in kwargs and not args:
        args = (kwargs.pop("input"),)
    if "axis" in kwargs:  # NumPy's word
        kwargs["dim"] = kwargs.pop("axis")
    sparse = known in _DENSE_FIRST or (args and isinstance(args[0], SparseTensor))
    if run is None or not sparse:
        return _unknown(func, name, args, kwargs)
    out = kwargs.pop("out", None)
    found = run(*args, **kwargs)
    if out is None:
        return found
    if isinstance(out, SparseTensor):
        return out.copy_(found)
    from rushlight._functions.out import write_out

    return write_out(name, found, out)


def _unknown(func, name, args, kwargs):
    """Raises: a function that takes no sparse tensors, or not in this place."""
    layouts = {NAMES[a._layout] for a in (*args, *kwargs.values()) if isinstance(a, SparseTensor)}
    shown = f"tensors of layout {' and '.join(sorted(layouts))}" if layouts else "sparse tensors"
    raise NotImplementedError(
        f"{name.strip('_') or func}: not there for {shown}; to_dense() gives a tensor that it takes"
    )
