"""Functions of neural networks."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor

__all__ = ["pad"]

_MODES = ("constant", "reflect", "replicate", "circular")


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Adds borders to the last dims, or cuts them off.

    Arguments:
        input: the tensor to pad.
        pad: (left, right) of the last dim, then of the one before it, ...; negative numbers cut
            off.
        mode: 'constant', 'reflect' (mirrored, without the edge), 'replicate' (the edge repeated)
            or 'circular'.
        value: what a constant border holds; None is 0.

    Example:
        >>> x = rl.tensor([[1.0, 2.0, 3.0]])
        >>> F.pad(x, (1, 2), value=9.0)
        tensor([[9., 1., 2., 3., 9., 9.]])
        >>> F.pad(x, (1, 1), mode="reflect")
        tensor([[2., 1., 2., 3., 2.]])
    """
    if mode not in _MODES:
        raise NotImplementedError(f"pad: mode must be one of {_MODES}, got {mode!r}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(f"pad: expects pairs of widths for at most {input.ndim} dims, got "
                           f"{tuple(pad)} for shape {list(input.shape)}")  # fmt: skip
    if mode == "constant":
        return _C.constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: mode {mode!r} takes no value, got {value!r}")
    count = len(pad) // 2
    if not (1 <= count <= 3 and input.ndim in (count + 1, count + 2)):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1 to 3 dims of a tensor with 1 or 2 more; "
            f"got {tuple(pad)} for shape {list(input.shape)}"
        )
    for i in range(count):
        dim, before, after = input.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        _check_widths(dim, input.shape[dim], before, after, mode)
        if mode == "circular" and min(before, after) < 0:  # the circle is what the cut leaves
            first, last = max(-before, 0), input.shape[dim] - max(-after, 0)
            input = input.narrow(dim, first, last - first)
            _check_widths(dim, last - first, max(before, 0), max(after, 0), mode)
    if mode == "circular":
        return _pad(input, [max(n, 0) for n in pad], mode)
    if mode == "replicate" or (mode == "reflect" and count < 3):
        return _pad_in_float32(input, pad, mode)
    return _pad(input, pad, mode)


def _pad(input, pad, mode):
    if input.device.type == "cpu":
        return _C._pad_from_inside(input, pad, list(_MODES).index(mode) - 1)
    for i in range(len(pad) // 2):
        input = _extend(input, input.ndim - 1 - i, pad[2 * i], pad[2 * i + 1], mode)
    return input


# PyTorch's list names reflection_pad1d and 2d, replication_pad1d, 2d and 3d.
_pad_in_float32 = autocast_policy(cpu="float32")(_pad)


def _check_widths(dim, size, before, after, mode):
    most = {"reflect": size - 1, "circular": size}.get(mode)
    if most is not None and max(before, after) > most:
        raise RuntimeError(
            f"pad: mode {mode!r} can pad dim {dim} of size {size} by at most {most}, "
            f"got {before} and {after}"
        )
    if size + before + after <= 0 or size == 0:
        raise RuntimeError(f"pad: {before} and {after} leave nothing of dim {dim} of size {size}")


def _extend(input, dim, before, after, mode):
    size = input.shape[dim]
    if before == 0 and after == 0:
        return input
    # Where each element of the result comes from.
    place = _C.arange(-before, size + after, device=input.device)
    if mode == "replicate":
        place = place.clamp(0, size - 1)
    elif mode == "circular":
        place = place.remainder(size)
    else:
        place = (size - 1) - ((size - 1) - place.abs()).abs()
    return input.index_select(dim, place)
