"""Ways to fill parameters before training. All work in place, record nothing, return the tensor."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Literal, cast

from rushlight import _C
from rushlight._C import Generator, Tensor
from rushlight._names.missing import names_missing_from
from rushlight.autograd import no_grad
from rushlight.types import _F

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip

# PyTorch's names for these types.
_NonlinearityType = Literal[
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu",
]  # fmt: skip
_FanMode = Literal["fan_in", "fan_out"]

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "sigmoid")  # fmt: skip


def calculate_gain(
    nonlinearity: _NonlinearityType,
    param: int | float | None = None,
) -> float:
    """The factor on the standard deviation that a nonlinearity asks for.

    Arguments:
        nonlinearity: 'linear', 'conv2d', 'sigmoid', 'tanh', 'relu', 'leaky_relu' or 'selu'.
        param: the slope below zero, for 'leaky_relu'.

    Example:
        >>> nn.init.calculate_gain("relu"), nn.init.calculate_gain("leaky_relu", 0.5)
        (1.4142135623730951, 1.2649110640673518)
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, int | float) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"calculate_gain: negative_slope {param!r} is not a number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}")


def _calculate_fan_in_and_fan_out(tensor):
    """How many numbers go into one output, and how many outputs one input reaches."""
    if tensor.dim() < 2:
        raise ValueError(
            f"fan in and fan out need a tensor of 2 or more dims, got shape {list(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


@no_grad()
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers in [a, b).

    Arguments:
        tensor: the tensor to fill.
        a: the lower bound.
        b: the upper bound, which is not drawn.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.uniform_(rl.empty(1000), -1.0, 1.0)
        >>> bool((x >= -1).all() and (x < 1).all())
        True
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers.

    Arguments:
        tensor: the tensor to fill.
        mean: the mean.
        std: the standard deviation.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.normal_(rl.empty(10000), mean=5.0, std=0.1)
        >>> round(x.mean().item())
        5
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0,
                  b: float = 2.0, generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Normal numbers, but only those between a and b.

    Arguments:
        tensor: the tensor to fill.
        mean, std: of the normal numbers before they are cut.
        a, b: the bounds, as values, not as deviations.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.trunc_normal_(rl.empty(1000), std=0.02, a=-0.04, b=0.04)
        >>> bool(x.abs().max() <= 0.04)
        True
    """
    if not tensor.is_floating_point():
        raise NotImplementedError(f"trunc_normal_: not implemented for {tensor.dtype} tensors")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std away from [a, b]; the distribution may be off",
            stacklevel=2,
        )

    def below(x):
        return (1 + math.erf((x - mean) / std / math.sqrt(2))) / 2

    # The inverse of the distribution function, at uniform points between its values at a and b.
    # In half precision the points would be too coarse for the tails.
    low, high = below(a), below(b)
    narrow = tensor.dtype in (_C.float16, _C.bfloat16)
    points = _C.empty_like(tensor, dtype=_C.float32) if narrow else tensor
    points.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
    points.erfinv_().mul_(std * math.sqrt(2)).add_(mean).clamp_(min=a, max=b)
    return tensor.copy_(points) if narrow else tensor


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere.

    Arguments:
        tensor: the tensor to fill.
        val: the value.

    Example:
        >>> nn.init.constant_(rl.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with the number 1.

    Arguments:
        tensor: the tensor to fill.

    Example:
        >>> nn.init.ones_(rl.zeros(2))
        tensor([1., 1.])
    """
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with the number 0.

    Arguments:
        tensor: the tensor to fill.

    Example:
        >>> nn.init.zeros_(rl.ones(2))
        tensor([0., 0.])
    """
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, as far as it goes.

    Arguments:
        tensor: a matrix.

    Example:
        >>> nn.init.eye_(rl.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: expects a tensor of 2 dims, got {list(tensor.shape)}")
    return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that pass as many input channels through as they can.

    Arguments:
        tensor: (out, in, ...), a weight of a convolution.
        groups: groups of the convolution.

    Example:
        >>> nn.init.dirac_(rl.empty(2, 1, 3), groups=2)
        tensor([[[0., 1., 0.]],
        <BLANKLINE>
                [[0., 1., 0.]]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"dirac_: expects a tensor of 3, 4 or 5 dims, got {list(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ValueError(
            f"dirac_: dim 0 of size {tensor.shape[0]} must be divisible by groups {groups}"
        )
    out_of_group = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for d in range(min(out_of_group, tensor.shape[1])):
            place = (group * out_of_group + d, d, *middle)
            tensor[place] = 1
    return tensor


def _xavier_std(tensor, gain):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / (fan_in + fan_out))


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot).

    Keeps the variance of what flows through a layer about the same in both directions.

    Arguments:
        tensor: of at least two dims; fan_in is the second size times the rest, fan_out the first.
        gain: see calculate_gain.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.xavier_uniform_(rl.empty(30, 70), gain=1.0)
        >>> bool(x.abs().max() <= (6 / 100) ** 0.5)
        True
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot).

    Arguments:
        tensor: of at least two dims.
        gain: see calculate_gain.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> nn.init.xavier_normal_(rl.empty(300, 100), gain=2.0).std().item() > 0.1
        True
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _is_empty(tensor):
    if 0 not in tensor.shape:
        return False
    warnings.warn("there is nothing to initialize in a tensor without elements", stacklevel=3)
    return True


def _kaiming_std(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: _FanMode = "fan_in",
                     nonlinearity: _NonlinearityType = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Uniform numbers whose variance is gain^2 / fan (He).

    Keeps the variance through layers with relu; nn.Linear and nn.Conv2d begin with a=sqrt(5).

    Arguments:
        tensor: of at least two dims.
        a: the slope of leaky_relu below zero.
        mode: 'fan_in' keeps the variance forward, 'fan_out' backward.
        nonlinearity: see calculate_gain.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.kaiming_uniform_(rl.empty(10, 6), nonlinearity="relu")
        >>> bool(x.abs().max() <= 1.0)
        True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: _FanMode = "fan_in",
                    nonlinearity: _NonlinearityType = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Normal numbers whose variance is gain^2 / fan (He).

    Arguments:
        tensor: of at least two dims.
        a: the slope of leaky_relu below zero.
        mode: 'fan_in' keeps the variance forward, 'fan_out' backward.
        nonlinearity: see calculate_gain.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.kaiming_normal_(rl.empty(100, 200), mode="fan_out", nonlinearity="relu")
        >>> round(x.std().item(), 1)
        0.1
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random (semi-)orthogonal matrix; further dims count as columns.

    Arguments:
        tensor: of at least two dims.
        gain: factor for the matrix.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> x = nn.init.orthogonal_(rl.empty(2, 3), gain=2.0)
        >>> rl.allclose(x @ x.T, 4 * rl.eye(2), atol=1e-5)
        True
    """
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_: expects 2 or more dims, got {list(tensor.shape)}")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise NotImplementedError(f"orthogonal_: not implemented for {tensor.dtype} tensors")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    wide = _C.float64 if tensor.dtype == _C.float64 else _C.float32
    flat = _C.empty((rows, columns), dtype=wide, device=tensor.device)
    flat.normal_(0, 1, generator=generator)
    q = _orthonormal_columns(flat.t() if rows < columns else flat)
    q = (q.t() if rows < columns else q).mul(gain)
    return tensor.copy_(q.reshape(tensor.shape))


def _orthonormal_columns(a):
    """The Q of QR with a positive diagonal of R, by Householder reflections.

    With that sign the result is uniform over all such matrices (the Haar measure).
    """
    a = a.double().clone()
    rows, columns = a.shape
    normals, signs = [], []
    for k in range(columns):
        x = a[k:, k].clone()
        length = x.norm()
        sign = -1.0 if float(x[0]) > 0 else 1.0  # away from cancellation; R_kk = sign * length
        x[0] -= sign * length
        norm = x.norm()
        v = x / norm if float(norm) > 0 else x
        a[k:, k:] -= 2 * _C.outer(v, v @ a[k:, k:])
        normals.append(v)
        signs.append(sign)
    q = _C.zeros((rows, columns), dtype=a.dtype, device=a.device)
    for k in range(columns):
        q[k, k] = signs[k]
    for k in reversed(range(columns)):
        v = normals[k]
        q[k:, :] -= 2 * _C.outer(v, v @ q[k:, :])
    return q


@no_grad()
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers, with a fraction `sparsity` of each column set to zero.

    Arguments:
        tensor: a matrix.
        sparsity: the part of each column that is zero.
        std: the deviation of the others.
        generator: where the random numbers come from; None is the default generator.

    Example:
        >>> nn.init.sparse_(rl.empty(10, 2), sparsity=0.3, std=0.1).count_nonzero(dim=0)
        tensor([7, 7])
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: expects a tensor of 2 dims, got {list(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[_C.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function: _F) -> _F:
    new, old = function.__name__, function.__name__[:-1]

    @functools.wraps(function)
    def renamed(*args, **kwargs):
        warnings.warn(
            f"nn.init.{old} is deprecated, use nn.init.{new}", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    renamed.__name__ = old
    renamed.__doc__ = f"The old name of {new}."
    return cast(_F, renamed)


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
_make_deprecate = _deprecated

__getattr__ = names_missing_from(__name__)
