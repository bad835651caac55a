"""Activations. The kernels are operators of the table; here they get PyTorch's arguments."""

from __future__ import annotations

import warnings

from rushlight import _C
from rushlight._C import Tensor
from rushlight.types import _dtype

__all__ = [
    "celu", "celu_", "elu", "glu", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_softmax", "mish", "relu", "relu6", "rrelu", "rrelu_", "selu", "selu_",
    "silu", "softmax", "softmin", "threshold",
]  # fmt: skip

_relu, _relu_ = _C.relu, _C.relu_


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    The gradient at 0 is 0.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.relu(rl.tensor([-1.0, 0.0, 2.0]), inplace=True)
        tensor([0., 0., 2.])
    """
    return _relu_(input) if inplace else _relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x between 0 and 6.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.relu6(rl.tensor([-1.0, 3.0, 9.0]), inplace=True)
        tensor([0., 3., 6.])
    """
    return _C.hardtanh_(input, 0, 6) if inplace else _C.relu6(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above the threshold, value elsewhere.

    Arguments:
        input: the tensor to work on.
        threshold: elements above it stay.
        value: what the others become.
        inplace: write the result into the input.

    Example:
        >>> F.threshold(rl.tensor([0.1, 0.6, 2.0]), 0.5, 0.0)
        tensor([0.0000, 0.6000, 2.0000])
    """
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x between min_val and max_val.

    Arguments:
        input: the tensor to work on.
        min_val: lower bound.
        max_val: upper bound.
        inplace: write the result into the input.

    Example:
        >>> F.hardtanh(rl.tensor([-3.0, 0.5, 3.0]), min_val=-2.0, max_val=2.0)
        tensor([-2.0000,  0.5000,  2.0000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is greater than max_val {max_val}")
    if not input.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x) - 1) below.

    Arguments:
        input: the tensor to work on.
        alpha: minus the value that the function approaches far below zero.
        inplace: write the result into the input.

    Example:
        >>> F.elu(rl.tensor([-1.0, 2.0]), alpha=0.5)
        tensor([-0.3161,  2.0000])
    """
    return (_C.elu_ if inplace else _C.elu)(input, alpha)


# The numbers for which mean 0 and variance 1 is a fixed point (Klambauer et al., 2017).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu_(input: Tensor) -> Tensor:
    """selu in place.

    Arguments:
        input: the tensor that is changed.

    Example:
        >>> F.selu_(rl.tensor([-1.0, 1.0]))
        tensor([-1.1113,  1.0507])
    """
    return _C.elu_(input, _SELU_ALPHA, _SELU_SCALE)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the numbers that keep mean 0 and variance 1.

    Networks of such layers, with weights of variance 1 / fan-in, normalise themselves.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.selu(rl.tensor([-1.0, 1.0]), inplace=True)
        tensor([-1.1113,  1.0507])
    """
    return selu_(input) if inplace else _C.selu(input)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu in place.

    Arguments:
        input: the tensor that is changed.
        alpha: minus the value that the function approaches far below zero.

    Example:
        >>> F.celu_(rl.tensor([-1.0, 1.0]), alpha=2.0)
        tensor([-0.7869,  1.0000])
    """
    return _C.elu_(input, alpha, 1, 1 / alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x / alpha) - 1) below.

    Arguments:
        input: the tensor to work on.
        alpha: minus the value that the function approaches far below zero; the slope at 0 stays
            1.
        inplace: write the result into the input.

    Example:
        >>> F.celu(rl.tensor([-1.0, 1.0]), alpha=2.0)
        tensor([-0.7869,  1.0000])
    """
    return celu_(input, alpha) if inplace else _C.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above zero, x * negative_slope below.

    Unlike relu, it lets some gradient through below zero.

    Arguments:
        input: the tensor to work on.
        negative_slope: the slope below zero.
        inplace: write the result into the input.

    Example:
        >>> F.leaky_relu(rl.tensor([-1.0, 2.0]), negative_slope=0.1)
        tensor([-0.1000,  2.0000])
    """
    return (_C.leaky_relu_ if inplace else _C.leaky_relu)(input, negative_slope)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x).

    Also called swish.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.silu(rl.tensor([-1.0, 0.0, 1.0]), inplace=True)
        tensor([-0.2689,  0.0000,  0.7311])
    """
    return _C.silu_(input) if inplace else _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)).

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.mish(rl.tensor([-1.0, 0.0, 1.0]), inplace=True)
        tensor([-0.3034,  0.0000,  0.8651])
    """
    return _C.mish_(input) if inplace else _C.mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """clamp(x + 3, 0, 6) / 6.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.hardsigmoid(rl.tensor([-4.0, 0.0, 1.5]), inplace=True)
        tensor([0.0000, 0.5000, 0.7500])
    """
    return _C.hardsigmoid_(input) if inplace else _C.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * clamp(x + 3, 0, 6) / 6.

    A silu made of straight lines and a parabola, for small machines.

    Arguments:
        input: the tensor to work on.
        inplace: write the result into the input.

    Example:
        >>> F.hardswish(rl.tensor([-4.0, 1.0, 4.0]), inplace=True)
        tensor([-0.0000, 0.6667, 4.0000])
    """
    return _C.hardswish_(input) if inplace else _C.hardswish(input)


def _check_rrelu(lower, upper):
    if not lower <= upper:
        raise RuntimeError(f"rrelu: lower {lower} is greater than upper {upper}")


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:  # fmt: skip
    """x above zero, x times a slope below: random in [lower, upper] when training, else their
    mean.

    Arguments:
        input: the tensor to work on.
        lower, upper: the range of slopes.
        training: draw the slopes.
        inplace: write the result into the input.

    Example:
        >>> F.rrelu(rl.tensor([-1.0, 2.0]), lower=0.1, upper=0.3)
        tensor([-0.2000,  2.0000])
    """
    _check_rrelu(lower, upper)
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _C.empty_like(input, requires_grad=False).uniform_(lower, upper)
    factor = slope.masked_fill(input > 0, 1.0)
    return input.mul_(factor) if inplace else input * factor


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """rrelu in place.

    Arguments:
        input: the tensor that is changed.
        lower, upper: the range of slopes.
        training: draw the slopes.

    Example:
        >>> F.rrelu_(rl.tensor([-1.0, 2.0]), lower=0.1, upper=0.3)
        tensor([-0.2000,  2.0000])
    """
    return rrelu(input, lower, upper, training, True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along dim times the sigmoid of the second half.

    A gate: half of the channels decide how much of the other half passes.

    Arguments:
        input: a tensor whose size along dim is even.
        dim: the dim to work along; negative numbers count from the last one.

    Example:
        >>> F.glu(rl.tensor([[1.0, 2.0, 0.0, 100.0]]), dim=1)
        tensor([[0.5000, 2.0000]])
    """
    if input.dim() == 0:
        raise RuntimeError("glu: a 0-d tensor has no halves")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(
            f"glu: the size of dim {dim} must be even to be halved, got {size} of shape "
            f"{list(input.shape)}"
        )
    first, second = input.chunk(2, dim)
    return _C._glu(first, second)


def _implicit_dim(name, ndim, stacklevel):
    warnings.warn(
        f"{name}: the choice of dim by the number of dims is deprecated; pass dim",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """exp(x) / sum of exp(x) along dim.

    The largest element is subtracted first, so that nothing overflows. Elements of -inf get 0. A
    loss wants logits instead: see cross_entropy.

    Arguments:
        input: the scores, of any range.
        dim: the dim along which the results add up to 1; leave it out and you are warned.
        dtype: dtype to convert to before, such as float32 for inputs of 16 bits.

    Returns: a tensor of the same shape.

    Example:
        >>> F.softmax(rl.tensor([[1.0, 2.0, 3.0]]), dim=1)
        tensor([[0.0900, 0.2447, 0.6652]])
        >>> F.softmax(rl.tensor([1.0, 1.0]).half(), dim=0, dtype=rl.float32)
        tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return _C.softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """softmax of -x.

    Arguments:
        input: the scores, of any range.
        dim: the dim along which the results add up to 1.
        dtype: dtype to convert to before.

    Example:
        >>> F.softmin(rl.tensor([[1.0, 2.0, 3.0]]), dim=1)
        tensor([[0.6652, 0.2447, 0.0900]])
    """
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return _C.softmax(-input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """The logarithm of softmax, without overflow.

    More exact than softmax(x).log(), which is -inf where softmax has rounded to 0.

    Arguments:
        input: the scores, of any range.
        dim: the dim along which the exponentials of the results add up to 1.
        dtype: dtype to convert to before.

    Example:
        >>> F.log_softmax(rl.tensor([[1.0, 2.0, 3.0]]), dim=1)
        tensor([[-2.4076, -1.4076, -0.4076]])
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return _C.log_softmax(input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the relaxed categorical distribution; hard: one-hot, with the soft gradient.

    Lets gradients flow through a choice among classes. With hard, the result is one-hot and the
    gradient that of the soft sample.

    Arguments:
        logits: unnormalised log-probabilities.
        tau: the temperature: small values are nearly one-hot.
        hard: return one-hot vectors.
        eps: not used, as in PyTorch.
        dim: the dim of the classes.

    Example:
        >>> F.gumbel_softmax(rl.tensor([[0.0, 100.0, 0.0]]), tau=0.5, hard=True)
        tensor([[0., 1., 0.]])
    """
    if eps != 1e-10:
        warnings.warn("gumbel_softmax: eps has no effect and is deprecated", stacklevel=2)
    noise = -_C.empty_like(logits, requires_grad=False).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = _C.zeros_like(logits, requires_grad=False).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
