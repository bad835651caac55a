"""Transforms of overlapping windows, and back."""

from __future__ import annotations

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Tensor
from rushlight._names.publish import publish
from rushlight.fft._transforms import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]


def _window(op, window, win_length, n_fft, like):
    """The window in the middle of n_fft elements."""
    if window is None:
        real = {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(like.dtype, like.dtype)
        window = _C.ones(win_length, dtype=real, device=like.device)
    elif window.ndim != 1 or window.shape[0] != win_length:
        raise RuntimeError(f"{op}: the window must be a vector of {win_length} elements, got shape "
                           f"{list(window.shape)}")  # fmt: skip
    left = (n_fft - win_length) // 2
    return _C.constant_pad_nd(window, (left, n_fft - win_length - left))


def _lengths(op, n_fft, hop_length, win_length):
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if n_fft <= 0:
        raise RuntimeError(f"{op}: n_fft must be positive, got {n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{op}: hop_length must be positive, got {hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{op}: win_length must lie between 1 and n_fft={n_fft}, got {win}")
    return hop, win


@autocast_policy(cpu="float32")
def stft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
         normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
         align_to_window: bool | None = None) -> Tensor:  # fmt: skip
    """The transforms of windows that lie hop_length samples apart: (..., frequency, time).

    Arguments:
        input: (..., samples), real or complex.
        n_fft: length of a transform.
        hop_length: distance between windows; None is n_fft // 4.
        win_length: length of the window, filled up with zeros to n_fft; None is n_fft.
        window: a vector; None is ones.
        center: the first window is centred on the first sample, with borders at both ends.
        pad_mode: how borders are made, as for nn.functional.pad.
        normalized: divide by sqrt(n_fft).
        onesided: half of the frequencies; None does so for real input.
        return_complex: a complex result, which is the one to ask for.
        align_to_window: begin with whole windows, without center.

    Shape: (..., frequencies, windows).

    Example:
        >>> rl.stft(rl.zeros(100), n_fft=16, hop_length=8, window=rl.hann_window(16),
        ...     return_complex=True).shape
        rushlight.Size([9, 13])
    """
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"stft: needs floating or complex samples, got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: needs one signal or a batch of them, got {list(input.shape)}")
    hop, win = _lengths("stft", n_fft, hop_length, win_length)
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError("stft: pass return_complex=True (or False, for real and imaginary "
                               "parts in a last dim of 2) for real input")  # fmt: skip
        return_complex = True
    if onesided is None:
        onesided = not is_complex
    if onesided and is_complex:
        raise RuntimeError("stft: a complex signal has no mirror image: onesided must be False")
    if align_to_window is not None and center:
        raise RuntimeError("stft: align_to_window is for center=False")
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        from rushlight.nn.functional import pad

        signal = pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window:
        side = (n_fft - win) // 2
        signal = _C.constant_pad_nd(signal, (side, side))
    if signal.shape[-1] < n_fft:
        raise RuntimeError(f"stft: n_fft={n_fft} is longer than the signal of "
                           f"{signal.shape[-1]} samples")  # fmt: skip
    frames = signal.unfold(-1, n_fft, hop) * _window("stft", window, win, n_fft, input)
    norm = "ortho" if normalized else None
    result = rfft(frames, norm=norm) if onesided else fft(frames, norm=norm)
    result = result.transpose(-2, -1)
    if input.ndim == 1:
        result = result.squeeze(0)
    return result if return_complex else _C.view_as_real(result)


def istft(input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False,
          onesided: bool | None = None, length: int | None = None,
          return_complex: bool | None = False) -> Tensor:  # fmt: skip
    """The signal from its windows' transforms: windows are put together with overlap, and divided
    by the sum of the squared windows.

    Arguments:
        input: (..., frequencies, windows), complex.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as they were for
            stft.
        length: of the signal; None is what windows cover.
        return_complex: a complex signal.

    Example:
        >>> x = rl.linspace(0, 1, 64)
        >>> spectrum = rl.stft(x, 16, window=rl.hann_window(16), return_complex=True)
        >>> rl.allclose(rl.istft(spectrum, 16, window=rl.hann_window(16), length=64), x, atol=1e-5)
        True
    """
    if not input.is_complex():
        raise RuntimeError("istft: needs a complex tensor; make one with view_as_complex")
    if input.numel() == 0:
        raise RuntimeError(f"istft: there is nothing in a tensor of shape {list(input.shape)}")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"istft: needs (frequency, time) or a batch, got {list(input.shape)}")
    hop, win = _lengths("istft", n_fft, hop_length, win_length)
    rows = input.shape[-2]
    if onesided is None:
        onesided = rows != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if rows != expected:
        raise RuntimeError(f"istft: n_fft={n_fft} with onesided={onesided} needs {expected} "
                           f"frequencies, got {rows}")  # fmt: skip
    if return_complex and onesided:
        raise RuntimeError("istft: half a transform stands for a real signal: onesided must be "
                           "False for return_complex=True")  # fmt: skip
    spectra = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(-2, -1)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ifft(spectra, norm=norm)
    else:
        kept = spectra if onesided else spectra[..., : n_fft // 2 + 1]
        frames = irfft(kept, n_fft, norm=norm)
    shape = _window("istft", window, win, n_fft, frames)
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    signal = _overlapped(frames * shape, hop, total)
    weight = _overlapped((shape * shape).expand(1, count, n_fft), hop, total)
    start = n_fft // 2 if center else 0
    end = total - n_fft // 2 if center else total
    if length is not None:
        end = min(start + length, total)
    signal, weight = signal[..., start:end], weight[..., start:end]
    if weight.abs().min().item() < 1e-11:
        raise RuntimeError("istft: the windows do not cover every sample (their squares add up to "
                           "zero somewhere), so the signal cannot be recovered")  # fmt: skip
    signal = signal / weight
    if length is not None and signal.shape[-1] < length:
        signal = _C.constant_pad_nd(signal, (0, length - signal.shape[-1]))
    return signal if input.ndim == 3 else signal.squeeze(0)


def _overlapped(frames, hop, total):
    """(batch, count, n) frames added up, hop apart."""
    batch, count, n = frames.shape
    at = (
        _C.arange(count, device=frames.device).unsqueeze(1) * hop
        + _C.arange(n, device=frames.device)
    ).reshape(-1)
    zero = _C.zeros(batch, total, dtype=frames.dtype, device=frames.device)
    return zero.index_add(1, at, frames.reshape(batch, count * n))


publish(globals(), "", __all__)
