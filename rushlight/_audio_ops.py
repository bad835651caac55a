"""The operators of torchaudio's C++ library that it looks up as it is imported, by its names and
with its arguments: recursive filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor


def _lfilter_core_loop(
    input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor
) -> None:
    """Fills padded_output_waveform (batch, channel, order - 1 + time), whose beginning is the state
    before, from the input (batch, channel, time) and coefficients (channel, order), the latest of
    which counts for the sample itself and is 1."""
    order = a_coeff_flipped.shape[1]
    before = padded_output_waveform[:, :, : order - 1]
    padded_output_waveform[:, :, order - 1 :] = _C._recursive_filter(
        input_signal_windows, a_coeff_flipped[:, : order - 1], before
    )


def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> None:
    """Fills output_waveform (channel, time): half the waveform and three quarters of temp without
    its slow parts."""
    steps = rushlight.diff(temp, dim=1, prepend=last_in[:, None])
    feedback = temp.new_full((1, 1), -0.995)
    fast = _C._recursive_filter(steps[:, None], feedback, last_out[:, None, None])
    output_waveform.copy_(waveform * 0.5 + fast[:, 0] * 0.75)


OPERATORS: dict[str, Callable[..., Any]] = {
    "_lfilter_core_loop": _lfilter_core_loop,
    "_overdrive_core_loop": _overdrive_core_loop,
}
