"""Linear maps, look-ups and distances."""

from rushlight import _C
from rushlight.autograd import no_grad
from rushlight.functional import broadcast_tensors

__all__ = """bilinear cosine_similarity embedding linear normalize one_hot
pairwise_distance""".split()

linear = _C.linear
bilinear = _C.bilinear


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """Rows of weight by index. The row padding_idx gets no gradient.

    max_norm: rows that are looked up and longer than this are shortened first, in place.
    """
    if sparse:
        raise NotImplementedError(
            "embedding: sparse=True needs sparse gradients, which there are not; use sparse=False"
        )
    if input.is_floating_point() or input.is_complex() or input.dtype == _C.bool:
        raise _C.DTypeError(f"embedding: indices must be integers, got {input.dtype}")
    if weight.dim() != 2:
        raise _C.ShapeError(f"embedding: weight must have 2 dims, got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError(
                f"embedding: padding_idx {padding_idx} is out of range for {rows} rows"
            )
        padding_idx %= rows
    flat = input.reshape(-1)
    if flat.dtype not in (_C.int64, _C.int32):
        flat = flat.long()
    if max_norm is not None:
        _shorten_rows(weight, flat, max_norm, norm_type)
    rows_found = weight.index_select(0, flat)
    if (padding_idx is not None or scale_grad_by_freq) and rows_found.requires_grad:
        rows_found = _scale_gradient(rows_found, flat, rows, padding_idx, scale_grad_by_freq)
    return rows_found.view(*input.shape, weight.shape[1])


def _shorten_rows(weight, indices, max_norm, norm_type):
    with no_grad():
        used = indices.unique()
        rows = weight.detach().index_select(0, used)
        norms = _C._vector_norm(rows, norm_type, [1], True)
        scale = (max_norm / (norms + 1e-7)).clamp(max=1.0)
        weight.detach().index_copy_(0, used, rows * scale)


def _scale_gradient(found, indices, rows, padding_idx, scale_grad_by_freq):
    """The same values; the gradient of each row is multiplied on its way back."""
    if scale_grad_by_freq:
        counts = _C.bincount(indices, minlength=rows)
        factor = counts.index_select(0, indices).to(found.dtype).reciprocal_().unsqueeze(1)
        fixed = found.detach()
        found = fixed + (found - fixed) * factor
    if padding_idx is not None:
        found = _C.where((indices != padding_idx).unsqueeze(1), found, found.detach())
    return found


def one_hot(tensor, num_classes=-1):
    """A new last dim with one 1 at the index that the tensor holds."""
    if tensor.dtype != _C.int64:
        raise _C.DTypeError(f"one_hot: indices must be int64, got {tensor.dtype}")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("one_hot: num_classes must be given for an empty tensor")
        return _C.zeros((*tensor.shape, num_classes), dtype=_C.int64, device=tensor.device)
    if tensor.device.type != "meta":
        least, most = int(tensor.min()), int(tensor.max())
        if least < 0:
            raise RuntimeError(f"one_hot: indices must not be negative, got {least}")
        if num_classes == -1:
            num_classes = most + 1
        elif num_classes < 1:
            raise RuntimeError(f"one_hot: num_classes must be positive, got {num_classes}")
        elif most >= num_classes:
            raise RuntimeError(f"one_hot: index {most} is out of range for {num_classes} classes")
    elif num_classes == -1:
        raise RuntimeError("one_hot: num_classes must be given for a meta tensor")
    out = _C.zeros((*tensor.shape, num_classes), dtype=_C.int64, device=tensor.device)
    return out.scatter_(-1, tensor.unsqueeze(-1), 1)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x divided by its p-norm along dim, or by eps where that is smaller."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else _C.div(input, length, out=out)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along dim; lengths below eps count as eps."""
    kind = _C.promote_types(x1.dtype, x2.dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise _C.DTypeError(f"cosine_similarity: expects floating point tensors, got {kind}")
    x1, x2 = broadcast_tensors(x1.to(kind), x2.to(kind)) if x1.shape != x2.shape else (
        x1.to(kind), x2.to(kind))  # fmt: skip
    # Each is divided before the product, which then cannot overflow.
    first = x1 / x1.norm(2, dim, keepdim=True).clamp_min(eps)
    second = x2 / x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return (first * second).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last dim."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)
