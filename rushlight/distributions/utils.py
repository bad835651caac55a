"""Small tools of distributions."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F
from rushlight.types import Number

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def _is_number(x):
    return isinstance(x, int | float | complex) and not isinstance(x, Tensor)


def broadcast_all(*values: Tensor | Number) -> tuple[Tensor, ...]:
    """The values as tensors of one shape; numbers take the tensors' dtype and device."""
    if not all(isinstance(v, Tensor) or _is_number(v) for v in values):
        kinds = [type(v).__name__ for v in values]
        raise ValueError(f"broadcast_all: expected tensors and numbers, got {', '.join(kinds)}")
    if all(isinstance(v, Tensor) for v in values):
        return _C_broadcast(values)
    options = {"dtype": _C.get_default_dtype()}
    for v in values:
        if isinstance(v, Tensor):
            options = {"dtype": v.dtype, "device": v.device}
            break
    return _C_broadcast([v if isinstance(v, Tensor) else _C.tensor(v, **options) for v in values])


def _C_broadcast(tensors):
    from rushlight.functional import broadcast_tensors

    return broadcast_tensors(*tensors)


def _standard_normal(shape, dtype, device):
    return _C.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """The sum over the last `dim` dims."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[: value.dim() - dim], -1)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds (binary) or unnormalised log-probabilities."""
    return _C.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1, where logarithms end."""
    eps = _C.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds (binary) or log-probabilities."""
    clamped = clamp_probs(probs)
    return _C.log(clamped) - _C.log1p(-clamped) if is_binary else _C.log(clamped)


class lazy_property:
    """An attribute that is computed at its first use and then kept."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]  # for name and docstring only

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        from rushlight.autograd import enable_grad

        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What the class shows: documentation, for subclasses that read it."""

    def __init__(self, wrapped: Any) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle's elements, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag ({diag}) is not in [{-n}, {n - 1}]")
    rows, columns = _C.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix whose lower triangle holds the elements, row by row."""
    count = vec.shape[-1]
    # count = n (n + 1) / 2 for diag 0; the root of the general equation
    n = (
        -(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    ) / 2
    if abs(n - round(n)) > _C.finfo(_C.float32).eps:
        raise ValueError(f"vec_to_tril_matrix: {count} elements fill no triangle")
    n = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    rows, columns = _C.tril_indices(n, n, diag)
    mat[..., rows, columns] = vec
    return mat
