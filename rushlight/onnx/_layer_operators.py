"""ONNX's convolutions, pools, norms and recurrent layers, for modules made of ONNX files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
import rushlight.nn.functional as F
from rushlight._C import Tensor
from rushlight.onnx._operators import _ints, _op


def _padded(
    x: Tensor, pads: Sequence[int] | None, n: int, value: float
) -> tuple[Tensor, list[int]]:
    """The input, padded by itself where both ends differ, and the padding that is left."""
    pads = list(pads or [0] * 2 * n)
    begins, ends = pads[:n], pads[n:]
    if begins == ends:
        return x, begins
    pairs = [p for d in reversed(range(n)) for p in (begins[d], ends[d])]
    return F.pad(x, pairs, value=value), [0] * n


def _no_auto(kind: str, auto_pad: str) -> None:
    if auto_pad not in ("NOTSET", "VALID"):
        raise NotImplementedError(f"{kind}: auto_pad={auto_pad!r} is not supported")


@_op("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None, group: int = 1,
    kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    _no_auto("Conv", auto_pad)
    n = x.dim() - 2
    x, padding = _padded(x, pads, n, 0.0)
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return function(x, weight, bias, list(strides or [1] * n), padding,
                    list(dilations or [1] * n), group)  # fmt: skip


@_op("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None, group: int = 1,
    kernel_shape: Sequence[int] | None = None, output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    _no_auto("ConvTranspose", auto_pad)
    n = x.dim() - 2
    given = list(pads or [0] * 2 * n)
    if given[:n] != given[n:] or output_shape is not None:
        raise NotImplementedError("ConvTranspose: only the same padding at both ends is supported")
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    return function(x, weight, bias, list(strides or [1] * n), given[:n],
                    list(output_padding or [0] * n), group, list(dilations or [1] * n))  # fmt: skip


@_op("MaxPool")
def max_pool(
    x: Tensor, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    storage_order: int = 0, strides: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    _no_auto("MaxPool", auto_pad)
    n = len(kernel_shape)
    x, padding = _padded(x, pads, n, float("-inf"))
    function: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    return function(x, list(kernel_shape), list(strides or [1] * n), padding,
                    list(dilations or [1] * n), bool(ceil_mode))  # fmt: skip


@_op("AveragePool")
def average_pool(
    x: Tensor, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    _no_auto("AveragePool", auto_pad)
    n = len(kernel_shape)
    given = list(pads or [0] * 2 * n)
    if given[:n] != given[n:] or any(d != 1 for d in dilations or ()):
        raise NotImplementedError("AveragePool: only the same padding at both ends, and no "
                                  "dilation, is supported")  # fmt: skip
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    return function(x, list(kernel_shape), list(strides or [1] * n), given[:n], bool(ceil_mode),
                    bool(count_include_pad))  # fmt: skip


@_op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.dim())), keepdim=True)


@_op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.dim())), keepdim=True)


@_op("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0,
) -> Tensor:  # fmt: skip
    if training_mode:
        raise NotImplementedError("BatchNormalization: training_mode is not supported")
    return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)


@_op("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@_op("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:  # fmt: skip
    return F.layer_norm(x, list(x.shape[axis % x.dim() :]), scale, bias, epsilon)


@_op("Resize")
def resize(
    x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None,
    sizes: Tensor | None = None, mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, axes: Sequence[int] | None = None, **attributes: Any,
) -> Tensor:  # fmt: skip
    """Resampling one dim after the other, each as interpolate does it."""
    dims = [d % x.dim() for d in (axes if axes is not None else range(x.dim()))]
    wanted = _ints(sizes) if sizes is not None and sizes.numel() else None
    factors = scales.tolist() if scales is not None and scales.numel() else None
    corners = coordinate_transformation_mode == "align_corners"
    pairs = (mode, coordinate_transformation_mode)
    if mode == "nearest" and pairs[1] == "half_pixel" and nearest_mode == "round_prefer_floor":
        kind = "nearest-exact"
    elif pairs == ("nearest", "asymmetric") and nearest_mode == "floor":
        kind = "nearest"
    elif mode in ("linear", "cubic") and (
        corners or pairs[1] in ("half_pixel", "pytorch_half_pixel")
    ):
        kind = mode
    else:
        raise NotImplementedError(
            f"Resize: {mode} with {pairs[1]} and {nearest_mode} is not supported"
        )
    if kind == "cubic" and cubic_coeff_a != -0.75:
        raise NotImplementedError("Resize: cubic_coeff_a must be -0.75")
    for i, dim in enumerate(dims):
        size = wanted[i] if wanted is not None else int(x.shape[dim] * (factors or [1.0])[i])
        scale = 0.0 if wanted is not None or factors is None else factors[i]
        if size != x.shape[dim]:
            x = rushlight._C._resample(x, dim, size, kind, corners, scale)
    return x


# ---- recurrent layers: ours have other orders of gates


def _own_order(tensor: Tensor, gates: Sequence[int]) -> Tensor:
    parts = tensor.chunk(len(gates), 0)
    return rushlight.cat([parts[i] for i in gates], 0)


def _recurrent(
    kind: str, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None, states: list[Tensor | None],
    gates: Sequence[int], direction: str, layout: int,
) -> list[Tensor]:  # fmt: skip
    if layout or direction == "reverse":
        raise NotImplementedError(f"{kind.upper()}: layout=1 and direction='reverse' are not "
                                  "supported")  # fmt: skip
    both, hidden = direction == "bidirectional", r.shape[-1]
    params = []
    for d in range(w.shape[0]):
        params += [_own_order(w[d], gates), _own_order(r[d], gates)]
        if bias is not None:
            params += [_own_order(half, gates) for half in bias[d].chunk(2, 0)]
    zeros = rushlight.zeros(w.shape[0], x.shape[1], hidden, dtype=x.dtype)
    first = [zeros if state is None else state for state in states]
    start: Any = first if kind == "lstm" else first[0]
    function = getattr(rushlight, kind)
    y, *last = function(x, start, params, bias is not None, 1, 0.0, False, both, False)
    # (length, batch, directions * hidden) to (length, directions, batch, hidden).
    y = y.reshape(y.shape[0], y.shape[1], w.shape[0], hidden).transpose(1, 2)
    return [y, *last]


def _plain(kind: str, lens: Tensor | None, attributes: dict[str, Any], known: set[str]) -> None:
    more = sorted(set(attributes) - known - {"hidden_size"})
    if lens is not None or more:
        raise NotImplementedError(f"{kind}: sequence_lens and {more} are not supported")


@_op("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lens: Tensor | None = None,
    hidden: Tensor | None = None, cell: Tensor | None = None, peepholes: Tensor | None = None,
    direction: str = "forward", layout: int = 0, **attributes: Any,
) -> list[Tensor]:  # fmt: skip
    _plain("LSTM", lens, attributes, set())
    if peepholes is not None:
        raise NotImplementedError("LSTM: peepholes are not supported")
    return _recurrent("lstm", x, w, r, bias, [hidden, cell], [0, 2, 3, 1], direction, layout)


@_op("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lens: Tensor | None = None,
    hidden: Tensor | None = None, direction: str = "forward", layout: int = 0,
    linear_before_reset: int = 0, **attributes: Any,
) -> list[Tensor]:  # fmt: skip
    _plain("GRU", lens, attributes, set())
    if not linear_before_reset:
        raise NotImplementedError("GRU: only linear_before_reset=1 is supported")
    return _recurrent("gru", x, w, r, bias, [hidden], [1, 0, 2], direction, layout)


@_op("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lens: Tensor | None = None,
    hidden: Tensor | None = None, activations: Sequence[str] = ("Tanh",),
    direction: str = "forward", layout: int = 0, **attributes: Any,
) -> list[Tensor]:  # fmt: skip
    _plain("RNN", lens, attributes, set())
    kind = f"rnn_{activations[0].lower()}"
    return _recurrent(kind, x, w, r, bias, [hidden], [0], direction, layout)
