"""Functions of the package that few programs call, made of others; and those that PyTorch removed,
which say what to use."""

import math

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._out import write_out
from rushlight._public import publish

_REDUCTIONS = ("none", "mean", "sum")


def _functional():
    from rushlight.nn import functional

    return functional


def _reduced(reduction):
    """PyTorch's losses at the top take a number: 0 none, 1 mean, 2 sum."""
    return reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]


# ----- losses and layers under the names of the package


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """nn.functional.binary_cross_entropy_with_logits."""
    f = _functional().binary_cross_entropy_with_logits
    return f(input, target, weight, pos_weight=pos_weight, reduction=_reduced(reduction))


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.cosine_embedding_loss."""
    f = _functional().cosine_embedding_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """nn.functional.hinge_embedding_loss."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_reduced(reduction))


def kl_div(input, target, reduction=1, *, log_target=False):
    """nn.functional.kl_div."""
    f = _functional().kl_div
    return f(input, target, reduction=_reduced(reduction), log_target=log_target)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.margin_ranking_loss."""
    f = _functional().margin_ranking_loss
    return f(input1, input2, target, margin, reduction=_reduced(reduction))


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """nn.functional.poisson_nll_loss."""
    f = _functional().poisson_nll_loss
    return f(input, target, log_input, full, eps=eps, reduction=_reduced(reduction))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False,
                        reduction=1):  # fmt: skip
    """nn.functional.triplet_margin_loss."""
    f = _functional().triplet_margin_loss
    return f(anchor, positive, negative, margin, p, eps, swap, reduction=_reduced(reduction))


def dropout(input, p, train):
    """nn.functional.dropout."""
    return _functional().dropout(input, p, train)


def dropout_(input, p, train):
    """nn.functional.dropout in place."""
    return _functional().dropout(input, p, train, inplace=True)


def alpha_dropout(input, p, train):
    """nn.functional.alpha_dropout."""
    return _functional().alpha_dropout(input, p, train)


def alpha_dropout_(input, p, train):
    """nn.functional.alpha_dropout in place."""
    return input.copy_(_functional().alpha_dropout(input, p, train))


def feature_alpha_dropout(input, p, train):
    """nn.functional.feature_alpha_dropout."""
    return _functional().feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input, p, train):
    """nn.functional.feature_alpha_dropout in place."""
    return input.copy_(_functional().feature_alpha_dropout(input, p, train))


def feature_dropout(input, p, train):
    """Whole channels (dim 1) set to zero with probability p, the others scaled up."""
    if not train or p == 0 or input.numel() == 0:
        return input.clone()
    if not 0 <= p <= 1:
        raise ValueError(f"feature_dropout: p must lie between 0 and 1, got {p}")
    shape = [*input.shape[:2], *(1 for _ in input.shape[2:])]
    keep = _C.rand(shape, device=input.device) >= p
    return input * keep * (1 / (1 - p) if p < 1 else 0.0)


def feature_dropout_(input, p, train):
    """feature_dropout in place."""
    return input.copy_(feature_dropout(input, p, train))


def native_dropout(input, p, train):
    """Dropout's result, and which elements were kept."""
    if train is False:
        return input.clone(), _C.ones_like(input, dtype=_C.bool)
    keep = _C.rand(input.shape, device=input.device) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * keep * scale, keep


def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """nn.functional.embedding_bag's result first; what PyTorch keeps for backward is empty here."""
    result = _functional().embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode], sparse=sparse, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    empty = _C.empty(0, dtype=_C.int64, device=weight.device)
    return result, empty, empty, empty


def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scales down the rows that are named and whose norm is larger than max_norm."""
    rows = indices.reshape(-1).unique()
    found = input.detach().index_select(0, rows)
    norms = _C._vector_norm(found, norm_type, (1,), True)
    scale = _C.where(norms > max_norm, max_norm / (norms + 1e-7), _C.ones_like(norms))
    input.detach().index_copy_(0, rows, found * scale)
    return input


def conv_tbc(input, weight, bias, pad=0):
    """A convolution over (time, batch, channel), with weights (kernel, in, out)."""
    moved = input.permute(1, 2, 0)
    result = _functional().conv1d(moved, weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """nn.functional.grid_sample with its options as numbers."""
    return _functional().grid_sample(
        input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode], align_corners,
    )  # fmt: skip


grid_sampler_3d = grid_sampler_2d


@autocast_policy(cuda="float32")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """layer_norm, and the mean and 1 / deviation of each row."""
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    variance, mean = _C.var_mean(input, dims, correction=0, keepdim=True)
    result = _functional().layer_norm(input, normalized_shape, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """group_norm, and the mean and 1 / deviation of each group."""
    grouped = input.reshape(N, group, -1)
    variance, mean = _C.var_mean(grouped, 2, correction=0)
    result = _functional().group_norm(input, group, weight, bias, eps)
    return result, mean, (variance + eps).rsqrt()


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """batch_norm, and the mean and 1 / deviation it used."""
    dims = [d for d in range(input.ndim) if d != 1]
    result = _functional().batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        empty = input.new_empty(0)
        return result, empty, empty
    variance, mean = _C.var_mean(input, dims, correction=0)
    return result, mean, (variance + eps).rsqrt()


# ----- norms


def frobenius_norm(input, dim=(), keepdim=False, *, out=None):
    """The root of the sum of squares."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: dim must name at most two dims, got {dim!r}")
    return _C._vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input, dim=(-2, -1), keepdim=False, *, out=None):
    """The sum of the singular values."""
    from rushlight import linalg

    return linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dims but one."""
    if dim == -1:
        return _C._vector_norm(v, pow)
    return _C._vector_norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], True)


# ----- views, copied


def _copied(name, view):
    def copied(input, *args, out=None, **kwargs):
        result = view(input, *args, **kwargs).clone(memory_format=_C.contiguous_format)
        if out is None:
            return result
        from rushlight._out import write_out

        return write_out(name, result, out)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"{name.removesuffix('_copy')}, in memory of its own."
    return copied


_T = _C.Tensor
alias_copy = _copied("alias_copy", lambda x: x)
expand_copy = _copied("expand_copy", _T.expand)
view_copy = _copied("view_copy", _T.view)
unfold_copy = _copied("unfold_copy", _T.unfold)


def _slice(x, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


slice_copy = _copied("slice_copy", _slice)


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """input with src written into its view of that geometry."""
    result = input.clone(memory_format=_C.contiguous_format)
    result.as_strided(size, stride, storage_offset or 0).copy_(src)
    return result


def unsafe_chunk(input, chunks, dim=0):
    """chunk."""
    return input.chunk(chunks, dim)


def unsafe_split(input, split_size, dim=0):
    """split."""
    return input.split(split_size, dim)


def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """split into the given sizes."""
    return input.split(list(split_sizes), dim)


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None,
                   requires_grad=False, pin_memory=False):  # fmt: skip
    """Uninitialised, with the dims in memory in another order, from the outermost."""
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout must be an order of the {len(size)} "
                           f"dims, got {tuple(physical_layout)}")  # fmt: skip
    stride, step = [1] * len(size), 1
    for d in reversed(physical_layout):
        stride[d] = step
        step *= max(1, size[d])
    return _C.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad,
                            pin_memory=pin_memory)  # fmt: skip


def nonzero_static(input, *, size, fill_value=-1, out=None):
    """Where elements are not zero, cut or filled up to `size` rows."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {size}")
    found = input.nonzero()[:size]
    if found.shape[0] < size:
        rest = found.new_full((size - found.shape[0], found.shape[1]), fill_value)
        found = _C.cat([found, rest])
    return write_out("nonzero_static", found, out)


# ----- statistics


def histogramdd(input, bins, range=None, *, weight=None, density=False):
    """A histogram over the rows of input (..., n): the counts, and the edges of each dim."""
    from rushlight.linalg._results import named

    if not input.is_floating_point():
        raise RuntimeError(f"histogramdd: needs floating numbers, got {input.dtype}")
    if input.ndim < 2:
        raise RuntimeError(f"histogramdd: needs at least 2 dimensions, got {list(input.shape)}")
    n = input.shape[-1]
    points = input.reshape(-1, n)
    if isinstance(bins, int):
        bins = [bins] * n
    bins = list(bins)
    if len(bins) != n:
        raise RuntimeError(
            f"histogramdd: bins must be one for each of the {n} dims, got {len(bins)}"
        )
    if isinstance(bins[0], _C.Tensor):
        if range is not None:
            raise TypeError("histogramdd: range goes with numbers of bins, not with edges")
        edges = [b.to(input.dtype) for b in bins]
    else:
        if range is not None and len(range) != 2 * n:
            raise RuntimeError(f"histogramdd: range needs {2 * n} numbers, got {len(range)}")
        edges = []
        for d, count in enumerate(bins):
            if count <= 0:
                raise RuntimeError(f"histogramdd: bins must be positive, got {count}")
            if range is not None:
                low, high = range[2 * d], range[2 * d + 1]
            elif points.shape[0]:
                low, high = points[:, d].min().item(), points[:, d].max().item()
            else:
                low, high = 0.0, 1.0
            if not (math.isfinite(low) and math.isfinite(high)):
                raise RuntimeError(
                    f"histogramdd: the range [{low}, {high}] of dim {d} is not finite"
                )
            if low > high:
                raise RuntimeError(f"histogramdd: the range [{low}, {high}] of dim {d} is reversed")
            if low == high:
                low, high = low - 0.5, high + 0.5
            edges.append(_C.linspace(low, high, count + 1, dtype=input.dtype, device=input.device))
    shape = [e.numel() - 1 for e in edges]
    place = _C.zeros(points.shape[0], dtype=_C.int64, device=input.device)
    inside = _C.ones(points.shape[0], dtype=_C.bool, device=input.device)
    for d, e in enumerate(edges):
        x = points[:, d].contiguous()
        at = _C.searchsorted(e, x, right=True) - 1
        at = _C.where(x == e[-1], shape[d] - 1, at)  # the last bin has both edges
        inside &= (x >= e[0]) & (x <= e[-1])
        place = place * shape[d] + at.clamp(0, shape[d] - 1)
    amount = _C.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(input.dtype)
    counts = _C.zeros(math.prod(shape), dtype=input.dtype, device=input.device)
    counts = counts.index_add(0, place[inside], amount[inside]).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / e.diff().reshape([-1 if k == d else 1 for k, _ in enumerate(edges)])
    kind = _C._return_types.get("histogramdd") or named("histogramdd", ("hist", "bin_edges"))
    return kind((counts, tuple(edges)))


def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False,
                   initial=None):  # fmt: skip
    """Sums, means, extremes or products of consecutive pieces of the first dim."""
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(
            f"segment_reduce: reduce must be sum, mean, max, min or prod, got {reduce!r}"
        )
    if axis != 0:
        raise RuntimeError(f"segment_reduce: only axis 0 is there, got {axis}")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce: lengths or offsets must be given")
    sizes = (lengths if lengths is not None else offsets.diff()).tolist()
    empty = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "mean": math.nan}[reduce]
    pieces = []
    for piece in data.split(sizes, 0):
        if piece.shape[0] == 0:
            value = empty if initial is None else initial
            pieces.append(_C.full(data.shape[1:], value, dtype=data.dtype, device=data.device))
            continue
        if reduce in ("max", "min"):
            found = piece.amax(0) if reduce == "max" else piece.amin(0)
            if initial is not None:
                found = found.clamp_min(initial) if reduce == "max" else found.clamp_max(initial)
        elif reduce == "prod":
            found = piece.prod(0) * (1 if initial is None else initial)
        else:
            found = piece.sum(0) + (0 if initial is None else initial)
            if reduce == "mean":
                found = found / piece.shape[0]
        pieces.append(found)
    return _C.stack(pieces)


# ----- removed by PyTorch


def _removed(name, instead):
    def removed(*args, **kwargs):
        raise RuntimeError(f"{name}: PyTorch removed this function; use {instead}")

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"Removed: use {instead}."
    return removed


eig = _removed("eig", "linalg.eig or linalg.eigvals")
lstsq = _removed("lstsq", "linalg.lstsq, whose arguments are the other way round")
matrix_rank = _removed("matrix_rank", "linalg.matrix_rank")
solve = _removed("solve", "linalg.solve, whose arguments are the other way round")
symeig = _removed("symeig", "linalg.eigh or linalg.eigvalsh")

publish(
    globals(),
    "",
    """as_strided_scatter empty_permuted frobenius_norm histogramdd nonzero_static norm_except_dim
    nuclear_norm segment_reduce unsafe_chunk unsafe_split unsafe_split_with_sizes""".split(),
)
