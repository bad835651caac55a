"""What operators do with DTensors: how inputs must lie, and how the result does.

A rule gets the call with DTensors in it, moves them to placements that fit, runs the operator on
the local tensors, and says how the result lies. Along each mesh dim, an input that is replicated
beside others that are not gets only a part of its gradient on each rank, which `run` adds up
(Note [Gradients of placements]).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight import distributed as dist
from rushlight.distributed._placements import Replicate, Shard
from rushlight.distributed.tensor import _products, _shapes
from rushlight.distributed.tensor._calls import (
    all_replicated,
    as_replicated,
    check_mixed,
    dtensors,
    mixing,
    moved,
    replace,
    run,
    unsupported,
    without_partial,
)
from rushlight.distributed.tensor._dtensor import DTensor, local_of, redistributed, wrap
from rushlight.distributed.tensor._pointwise import ADDING, LINEAR, SCALING, in_place, pointwise
from rushlight.utils._pytree import tree_map

# Element by element.
POINTWISE = LINEAR | ADDING | SCALING | frozenset(
    """abs absolute sin cos tan asin acos atan arcsin arccos arctan sinh cosh tanh asinh acosh atanh
    atan2 sigmoid exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal pow float_power
    relu relu6 gelu silu mish elu selu celu leaky_relu softplus softsign hardswish hardtanh
    hardsigmoid hardshrink softshrink tanhshrink threshold logsigmoid dropout where masked_fill
    clamp clip clamp_min clamp_max minimum maximum fmin fmax eq ne lt le gt ge greater less isclose
    logical_and logical_or logical_xor logical_not isnan isinf isfinite isneginf isposinf signbit
    erf erfc erfinv floor ceil round trunc frac sign sgn fmod remainder lgamma digamma logit hypot
    floordiv floor_divide mod lerp addcmul addcdiv bool int long short char byte zeros_like
    ones_like empty_like full_like rand_like randn_like bitwise_and bitwise_or bitwise_xor
    bitwise_not and or xor invert nan_to_num copysign logaddexp xlogy positive negative conj real
    imag angle subtract multiply divide true_divide deg2rad rad2deg
    heaviside""".split()
)  # fmt: skip
# In place: these too. Others depend on the places of elements in the whole.
_FILLING = frozenset(
    """zero fill copy normal uniform random bernoulli exponential log_normal cauchy geometric
    set_data""".split()
)
# Questions about the local tensor whose answer is that of the whole, and registrations.
PASSED = frozenset(
    """dim ndimension is_floating_point is_complex is_signed element_size requires_grad_
    register_hook retain_grad register_post_accumulate_grad_hook is_contiguous get_device hash
    backward is_same_size data_ptr untyped_storage""".split()
)
GATHERED = frozenset(
    "item tolist bool_ float_ int_ numpy array format index_ equal allclose".split()
)
LOSSES = frozenset("cross_entropy nll_loss _nll_loss mse_loss l1_loss _element_loss".split())
PERMUTING = frozenset("transpose t permute movedim moveaxis swapaxes swapdims adjoint".split())
RESHAPING = frozenset("view reshape flatten unflatten".split())
REDUCING = frozenset(
    """sum mean amax amin max min prod var std any all norm vector_norm argmax argmin logsumexp
    nansum nanmean count_nonzero""".split()
)
ALONG_DIM = frozenset("softmax log_softmax cumsum cumprod sort topk".split())
TRIANGULAR = frozenset("tril triu".split())
# Of whole tensors, whatever cuts them.
GATHERING = frozenset(
    """einsum gather index_select take take_along_dim scatter scatter_add index_add index_fill
    index_copy index_put repeat_interleave diagonal diag diag_embed trace outer cdist kthvalue
    median mode bincount unique nonzero masked_select one_hot pad _pad constant_pad_nd baddbmm
    addmv mv dot inner kron cross tensordot unfold rot90 ravel diff cov corrcoef quantile
    nanquantile argsort aminmax msort hstack vstack dstack hsplit vsplit dsplit fliplr flipud trapz
    trapezoid searchsorted bucketize histc renorm logcumsumexp cummax cummin pinv inv det slogdet
    svdvals svd qr eigh eigvalsh cholesky solve matrix_exp matrix_power matrix_norm""".split()
)
# In place they would change a shape that the local tensor does not know.
_OTHER_SHAPES = frozenset(
    """transpose_ t_ swapaxes_ swapdims_ squeeze_ unsqueeze_ resize_ resize_as_ set_
    as_strided_""".split()
)
MAKING = frozenset("new_zeros new_ones new_full new_empty new_tensor".split())
SPLITTING = frozenset("split chunk narrow select unbind tensor_split".split())
_LOSS = "rushlight.distributed.tensor.parallel.loss"  # which needs this module
_CONVERSIONS = {
    "__bool__": "bool_",
    "__float__": "float_",
    "__int__": "int_",
    "__index__": "index_",
}


def _name(func):
    name = getattr(func, "__name__", str(func))
    if name in _CONVERSIONS:
        return _CONVERSIONS[name]
    name = name.removeprefix("__").removesuffix("__")
    if name in ("rtruediv", "rdiv"):
        return "reciprocal"
    if name.startswith("r") and name[1:] in {*ADDING, "mul", "pow", "matmul", "floordiv", "mod"}:
        return name[1:]
    return name


def _normalisation(func, name, args, kwargs):
    """layer_norm and rms_norm: over the last dims, which must be whole; weights are replicated."""
    args, kwargs = without_partial(args, kwargs)
    x = args[0]
    if not isinstance(x, DTensor):
        raise unsupported(name, dtensors(args, kwargs))
    normalised = args[1] if len(args) > 1 else kwargs["normalized_shape"]
    last = x.dim() - (len(normalised) if isinstance(normalised, (list, tuple)) else 1)
    for mesh_dim, p in enumerate(x._placements):
        if isinstance(p, Shard) and p.dim >= last:
            x = moved(x, mesh_dim, Replicate())
    whole = [redistributed(t, tuple(Replicate() for _ in t._placements))
             for t in dtensors(args, kwargs)[1:]]  # fmt: skip
    args, kwargs = replace(args, kwargs, [x, *whole])
    return run(func, args, kwargs, x._placements, x._shape)


def _attention(func, name, args, kwargs):
    """Batches and heads are independent of each other; sequences and features must be whole."""
    args, kwargs = without_partial(args, kwargs)
    tensors = dtensors(args, kwargs)
    placements = []
    for mesh_dim, p in enumerate(tensors[0]._placements):
        first = isinstance(p, Shard) and p.dim < tensors[0].dim() - 2
        alike = all(t._placements[mesh_dim] == p for t in tensors)
        placements.append(p if first and alike else Replicate())
    moved = [redistributed(t, tuple(placements)) for t in tensors]
    args, kwargs = replace(args, kwargs, moved)
    return run(func, args, kwargs, tuple(placements))


def _norm_of(tensor, order):
    """The norm of the whole tensor, on every rank; only numbers travel."""
    if not isinstance(tensor, DTensor):
        return rushlight.linalg.vector_norm(tensor, order)
    (tensor,), _ = without_partial((tensor,), {})
    local = local_of(tensor)
    if local.numel():
        norm = rushlight.linalg.vector_norm(local, order)
    else:
        norm = rushlight.zeros((), dtype=local.dtype, device=local.device)
    unlimited = math.isinf(order)
    power = norm if unlimited else norm**order
    op = dist.ReduceOp.MAX if order > 0 and unlimited else dist.ReduceOp.SUM
    for mesh_dim, p in enumerate(tensor._placements):
        if isinstance(p, Shard):
            dist.all_reduce(power, op, tensor._mesh.get_group(mesh_dim))
    return power if unlimited else power ** (1 / order)


def _norm_of_list(func, name, args, kwargs):
    """_list_norm and _list_norms: of clip_grad_norm_ and _foreach_norm."""
    order = float(kwargs.get("ord", args[1] if len(args) > 1 else 2))
    if order <= 0:
        raise unsupported(f"{name} of order {order}", dtensors(args, kwargs))
    with rushlight.no_grad():
        norms = [_norm_of(t, order) for t in args[0]]
        if name != "_list_norm":
            return norms
        return rushlight.linalg.vector_norm(rushlight.stack(norms), order)


def _local_list(func, name, args, kwargs):
    """_foreach_ and _fused_ ops of optimisers: element by element, alike on both sides."""
    with _C.DisableTorchFunctionSubclass():
        return func(*tree_map(local_of, args), **tree_map(local_of, kwargs))


def _gathering(func, name, args, kwargs):
    return all_replicated(func, args, kwargs)


def _making(func, name, args, kwargs):
    """A new tensor of the same kind: the same on every rank."""
    like = args[0]
    with _C.DisableTorchFunctionSubclass():
        made = func(local_of(like), *args[1:], **kwargs)
    return wrap(made, like._mesh, tuple(Replicate() for _ in like._placements), made.shape)


def _is_elementwise(name):
    """Whether a function that changes its tensor does so element by element."""
    base = name.removesuffix("_")
    changing = name.startswith("i") and name[1:] in ADDING | SCALING
    return changing or base in POINTWISE or base in _FILLING


_RULES: dict[str, Callable[..., Any]] = {
    name: rule
    for rule, names in (
        (pointwise, POINTWISE),
        (_products.matmul, ("matmul", "mm", "bmm")),
        (_products.addmm, ("addmm",)),
        (_products.embedding, ("embedding",)),
        (_products.linear, ("linear",)),
        (_shapes.permuting, PERMUTING),
        (_shapes.reshaping, RESHAPING),
        (_shapes.reducing, REDUCING),
        (_shapes.along_dim, ALONG_DIM),
        (_shapes.splitting, SPLITTING),
        (_shapes.cat, ("cat", "stack")),
        (_shapes.getitem, ("getitem",)),
        (_shapes.unsqueeze, ("unsqueeze",)),
        (_shapes.squeeze, ("squeeze",)),
        (_shapes.expand, ("expand", "broadcast_to", "expand_as")),
        (_shapes.repeat, ("repeat", "tile")),
        (_shapes.triangular, TRIANGULAR),
        (_shapes.turning, ("flip", "roll")),
        (_gathering, GATHERING),
        (_making, MAKING),
        (_normalisation, ("layer_norm", "rms_norm")),
        (_attention, ("scaled_dot_product_attention",)),
    )
    for name in names
}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with at least one DTensor among its arguments."""
    name = _name(func)
    tensors = dtensors(args, kwargs)
    if not tensors or name in PASSED:
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if getattr(mixing, "allowed", False):
        args, kwargs = as_replicated(args, kwargs, tensors[0]._mesh)
        tensors = dtensors(args, kwargs)
    if name in GATHERED:
        whole = [t.full_tensor() for t in tensors]
        args, kwargs = replace(args, kwargs, whole)
        return func(*args, **kwargs)
    if name in ("_list_norm", "_list_norms", "_foreach_norm"):
        return _norm_of_list(func, name, args, kwargs)
    if name.startswith(("_foreach_", "_fused_", "_list_", "_optimizer_")):
        return _local_list(func, name, args, kwargs)
    if name == "_nll_loss" and _LOSS in sys.modules and sys.modules[_LOSS].is_on():
        with _C.DisableTorchFunctionSubclass():
            return sys.modules[_LOSS].cut_cross_entropy(*args)
    if name != "embedding":  # whose indices may be a plain tensor, the same on every rank
        check_mixed(name, args, kwargs, tensors[0]._mesh)
    changes = name.endswith("_") or (name.startswith("i") and name[1:] in ADDING | SCALING)
    whole = all(isinstance(p, Replicate) for t in tensors for p in t._placements)
    if changes and not (_is_elementwise(name) or (whole and name not in _OTHER_SHAPES)):
        raise unsupported(name, tensors)
    if changes:
        return in_place(func, name, args, kwargs)
    if name in LOSSES:
        return all_replicated(func, args, kwargs)
    rule = _RULES.get(name)
    if rule is not None:
        return rule(func, name, args, kwargs)
    if whole:
        return run(func, args, kwargs, tensors[0]._placements)
    raise unsupported(name, tensors)
