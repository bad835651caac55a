"""Fourier transforms of many lengths and layouts, against NumPy's in float64; stft and istft."""

import numpy as np
import pytest
import scipy.signal

import rushlight as rl

LENGTHS = [*range(1, 65), 81, 96, 100, 121, 125, 128, 143, 169, 210, 243, 256, 343, 360, 500, 512,
           625, 1000, 1024, 1331, 2048, 2187, 4096, 5040, 8192, 16384, 20000, 32768, 65536, 100000,
           # large primes, and numbers that have one
           53, 59, 61, 97, 101, 211, 499, 1009, 2 * 53, 6 * 101, 4001, 10007, 65537]  # fmt: skip


def random(*shape, dtype="complex128"):
    rng = np.random.RandomState(0)
    x = rng.randn(*shape)
    return (x + 1j * rng.randn(*shape) if "complex" in dtype else x).astype(dtype)


def near(got, want, single=False):
    scale = max(1.0, np.abs(want).max()) if want.size else 1
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=(2e-6 if single else 3e-14) * scale)


@pytest.mark.parametrize("n", LENGTHS)
def test_length(n):
    x = random(2, n)
    t = rl.from_numpy(x)
    near(rl.fft.fft(t), np.fft.fft(x))
    near(rl.fft.ifft(t), np.fft.ifft(x))
    near(rl.fft.rfft(t.real), np.fft.rfft(x.real))
    half = np.fft.rfft(x.real)
    near(rl.fft.irfft(rl.from_numpy(half), n), x.real)
    single = x.astype("complex64")
    near(rl.fft.fft(rl.from_numpy(single)), np.fft.fft(single), True)
    near(rl.fft.rfft(rl.from_numpy(single.real.copy())), np.fft.rfft(single.real), True)
    if n < 3000:
        column = random(n, 5)
        near(rl.fft.fft(rl.from_numpy(column), dim=0), np.fft.fft(column, axis=0))


def test_long_rows_agree_with_themselves():
    n = 1 << 20
    x = rl.from_numpy(random(n))
    y = rl.fft.fft(x)
    near(rl.fft.ifft(y), x.numpy())
    k = 12345
    want = (x.numpy() * np.exp(-2j * np.pi * (k * np.arange(n) % n) / n)).sum()
    assert abs(y[k].item() - want) < 1e-9 * n**0.5


@pytest.mark.threads
@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    before = rl.get_num_threads()
    x = random(3, 70, 90)
    long = random(1 << 17)
    try:
        rl.set_num_threads(threads)
        near(rl.fft.fftn(rl.from_numpy(x), dim=(1, 2)), np.fft.fftn(x, axes=(1, 2)))
        near(rl.fft.fft(rl.from_numpy(long)), np.fft.fft(long))
    finally:
        rl.set_num_threads(before)


def test_layouts():
    x = rl.from_numpy(random(4, 6, 8))
    for view in (x.transpose(0, 2), x[::2, :, ::2], x[:1].expand(4, 6, 8), x.permute(1, 2, 0)):
        for dim in (0, 1, 2, (0, 1), (1, 2), (2, 0), (0, 1, 2)):
            dims = (dim,) if isinstance(dim, int) else dim
            near(rl.fft.fftn(view, dim=dims), np.fft.fftn(view.numpy(), axes=dims))
            real = view.real
            near(rl.fft.rfftn(real, dim=dims), np.fft.rfftn(real.numpy(), axes=dims))
            sizes = [view.shape[d] for d in dims]
            back = rl.fft.irfftn(rl.fft.rfftn(real, dim=dims), s=sizes, dim=dims)
            near(back, real.numpy())
    out = rl.empty(4, 6, 8, dtype=rl.complex128).transpose(0, 2)
    assert rl.fft.fft(x.transpose(0, 2), out=out) is out
    near(out, np.fft.fft(x.transpose(0, 2).numpy()))


def test_non_finite_and_zero():
    x = rl.ones(2, 8)
    x[1, 3] = float("inf")
    y = rl.fft.fft(x)
    assert y[0].isfinite().all() and not y[1].isfinite().any()
    assert not rl.fft.fft(rl.zeros(16)).abs().any()


def test_frequencies():
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.5):
            np.testing.assert_allclose(
                rl.fft.fftfreq(n, d).numpy(), np.fft.fftfreq(n, d), rtol=1e-6
            )
            np.testing.assert_allclose(rl.fft.rfftfreq(n, d).numpy(), np.fft.rfftfreq(n, d),
                                       rtol=1e-6)  # fmt: skip
    assert rl.fft.fftfreq(4, dtype=rl.float64).dtype == rl.float64


def test_errors():
    for call in (
        lambda: rl.fft.fft(rl.ones(3), n=0),
        lambda: rl.fft.fft(rl.ones(3), norm="two"),
        lambda: rl.fft.fftn(rl.ones(2, 3), dim=(0, 0)),
        lambda: rl.fft.fft(rl.ones(0)),
        lambda: rl.fft.rfft(rl.ones(3, dtype=rl.complex64)),
        lambda: rl.fft.fft(rl.ones(3, dtype=rl.float16)),
        lambda: rl.fft.irfft(rl.ones(1)),
        lambda: rl.fft.fftn(rl.ones(2), s=(1, 2)),
    ):
        with pytest.raises(RuntimeError, match="fft"):
            call()
    with pytest.raises(IndexError):
        rl.fft.fft(rl.ones(3), dim=1)
    assert rl.fft.fft(rl.ones(3, dtype=rl.int64)).dtype == rl.complex64
    assert rl.fft.fft(rl.empty(2, 3, device="meta")).shape == (2, 3)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("length", [400, 401])
def test_stft(center, length):
    rng = np.random.RandomState(0)
    x = rng.randn(2, length)
    window = scipy.signal.get_window("hann", 64)
    got = rl.stft(rl.from_numpy(x), 64, 16, window=rl.from_numpy(window), center=center,
                  return_complex=True)  # fmt: skip
    padded = np.pad(x, [(0, 0), (32, 32)], "reflect") if center else x
    frames = np.lib.stride_tricks.sliding_window_view(padded, 64, -1)[:, ::16] * window
    np.testing.assert_allclose(got.numpy(), np.fft.rfft(frames).swapaxes(1, 2), atol=1e-12)
    if center:
        back = rl.istft(got, 64, 16, window=rl.from_numpy(window), length=length)
        np.testing.assert_allclose(back.numpy(), x, atol=1e-12)
    both = rl.stft(rl.from_numpy(x[0]), 64, 16, 50, center=center, onesided=False,
                   return_complex=False)  # fmt: skip
    assert both.shape[0] == 64 and both.shape[-1] == 2


def test_stft_gradients_and_errors():
    x = rl.randn(40, dtype=rl.float64, requires_grad=True)
    window = rl.hann_window(16, dtype=rl.float64)

    def f(x):
        return rl.view_as_real(rl.stft(x, 16, 4, window=window, return_complex=True))

    assert rl.autograd.gradcheck(f, (x,), fast_mode=True)
    y = rl.stft(x.detach(), 16, 4, window=window, return_complex=True).requires_grad_()
    assert rl.autograd.gradcheck(lambda y: rl.istft(y, 16, 4, window=window), (y,), fast_mode=True)
    with pytest.raises(RuntimeError, match="return_complex"):
        rl.stft(x, 16)
    with pytest.raises(RuntimeError, match="window"):
        rl.stft(x, 16, window=rl.ones(5), return_complex=True)
    with pytest.raises(RuntimeError, match="n_fft"):
        rl.stft(x, 100, center=False, return_complex=True)
    with pytest.raises(RuntimeError, match="cover"):
        rl.istft(rl.ones(9, 5, dtype=rl.complex64), 16, 16, 8, center=False)
