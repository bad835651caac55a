"""Fourier transforms on the GPU against NumPy's, in every layout; plans, streams, graphs."""

import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck

FFT = rl.fft
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 13, 17, 30, 64, 100, 127, 128, 131, 243, 360, 1000, 1009, 1024,
           4096, 10007, 65536]  # fmt: skip


def random(*shape, dtype="complex128", seed=0):
    rng = np.random.RandomState(seed)
    x = rng.randn(*shape)
    return np.asarray(x + 1j * rng.randn(*shape) if "complex" in dtype else x).astype(dtype)


def gpu(x):
    return rl.from_numpy(np.ascontiguousarray(x)).cuda()


def near(got, want, single=False):
    assert got.is_cuda and tuple(got.shape) == want.shape
    scale = max(1.0, np.abs(want).max()) if want.size else 1
    np.testing.assert_allclose(
        got.cpu().numpy(), want, rtol=0, atol=(4e-6 if single else 1e-13) * scale
    )


@pytest.mark.parametrize("n", LENGTHS)
def test_length(n):
    x = random(3, n)
    near(FFT.fft(gpu(x)), np.fft.fft(x))
    near(FFT.ifft(gpu(x)), np.fft.ifft(x))
    near(FFT.rfft(gpu(x.real)), np.fft.rfft(x.real))
    near(FFT.irfft(gpu(np.fft.rfft(x.real)), n), x.real)
    near(FFT.ihfft(gpu(x.real)), np.fft.ihfft(x.real))
    single = x.astype("complex64")
    near(FFT.fft(gpu(single)), np.fft.fft(single), True)
    near(FFT.rfft(gpu(single.real)), np.fft.rfft(single.real), True)
    column = random(n, 4)
    near(FFT.fft(gpu(column), dim=0), np.fft.fft(column, axis=0))
    near(FFT.rfft(gpu(column.real), dim=0), np.fft.rfft(column.real, axis=0))
    near(FFT.irfft(gpu(np.fft.rfft(column.real, axis=0)), n, dim=0), column.real)


@pytest.mark.parametrize("norm", [None, "ortho", "forward", "backward"])
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (-1, 0), (0, 2), (1, 2), (2, 1, 0), (0, 1, 2)])
def test_dims_and_norms(dims, norm):
    x = random(4, 6, 5)
    for name in ("fftn", "ifftn"):
        near(getattr(FFT, name)(gpu(x), dim=dims, norm=norm),
             getattr(np.fft, name)(x, axes=dims, norm=norm))  # fmt: skip
    near(FFT.rfftn(gpu(x.real), dim=dims, norm=norm), np.fft.rfftn(x.real, axes=dims, norm=norm))
    for last in (7, 8):
        sizes = [x.shape[d] for d in dims[:-1]] + [last]
        near(FFT.irfftn(gpu(x), sizes, dim=dims, norm=norm),
             np.fft.irfftn(x, sizes, axes=dims, norm=norm))  # fmt: skip
        near(FFT.hfft(gpu(x), last, dim=dims[0], norm=norm),
             np.fft.hfft(x, last, axis=dims[0], norm=norm))  # fmt: skip


def test_more_dims_than_cufft_takes():
    x = random(2, 3, 4, 5, 3)
    near(FFT.fftn(gpu(x)), np.fft.fftn(x))
    near(FFT.ifftn(gpu(x), dim=(0, 1, 3, 4)), np.fft.ifftn(x, axes=(0, 1, 3, 4)))
    near(FFT.rfftn(gpu(x.real)), np.fft.rfftn(x.real))
    near(FFT.irfftn(gpu(np.fft.rfftn(x.real)), x.shape), x.real)
    ones = random(1, 3, 1, 4, 1)
    near(FFT.fftn(gpu(ones)), np.fft.fftn(ones))
    near(FFT.rfftn(gpu(ones.real)), np.fft.rfftn(ones.real))


def test_padding_and_cutting():
    x = random(3, 10)
    for n in (4, 9, 15):
        near(FFT.fft(gpu(x), n), np.fft.fft(x, n))
        near(FFT.rfft(gpu(x.real), n), np.fft.rfft(x.real, n))
        near(FFT.irfft(gpu(x), n), np.fft.irfft(x, n))
    near(FFT.fft2(gpu(x), (4, 12)), np.fft.fft2(x, (4, 12)))


def test_layouts():
    x = random(4, 6, 8)
    t = gpu(x)
    near(FFT.fft(t.transpose(0, 2)), np.fft.fft(x.transpose(2, 1, 0)))
    near(FFT.fft2(t.permute(1, 0, 2)), np.fft.fft2(x.transpose(1, 0, 2)))
    near(FFT.fft(t[:, ::2, 1:]), np.fft.fft(x[:, ::2, 1:]))
    near(FFT.fft(t[:1].expand(3, 6, 8)), np.fft.fft(np.broadcast_to(x[:1], (3, 6, 8))))
    real = gpu(x.real)
    near(FFT.rfft(real.flatten()[1:]), np.fft.rfft(x.real.flatten()[1:]))  # not aligned
    near(FFT.rfft(real.transpose(0, 2)), np.fft.rfft(x.real.transpose(2, 1, 0)))
    near(FFT.irfft(t.transpose(1, 2)), np.fft.irfft(x.transpose(0, 2, 1)))
    before = t.clone()
    FFT.irfftn(t)
    FFT.irfft(t, dim=0)
    assert (t == before).all()  # cuFFT would write over it
    out = rl.empty(4, 6, 8, dtype=rl.complex128, device="cuda")
    assert FFT.fft(t, out=out) is out
    near(out, np.fft.fft(x))


def test_empty_batches_and_errors():
    assert FFT.fft(rl.empty(0, 5, device="cuda")).shape == (0, 5)
    assert FFT.rfft(rl.empty(3, 0, 8, device="cuda")).shape == (3, 0, 5)
    with pytest.raises(RuntimeError, match="at least one"):
        FFT.fft(rl.empty(3, 0, device="cuda"))
    with pytest.raises(RuntimeError):
        FFT.fft(rl.zeros(8, device="cuda", dtype=rl.bfloat16))


def test_numbers_that_a_hermitian_sequence_does_not_have():
    x = random(3, 5)  # its first and last numbers have imaginary parts
    for n in (8, 9):
        near(FFT.irfft(gpu(x), n), np.fft.irfft(x, n))
    y = random(4, 5)
    near(FFT.irfft2(gpu(y), (4, 8)), np.fft.irfft2(y, (4, 8)))


def test_all_names_as_on_the_cpu():
    x, c = random(3, 4, 6).real.astype("float64"), random(3, 4, 6)
    for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "irfft2", "irfftn",
                 "hfft", "hfft2", "hfftn"):  # fmt: skip
        f = getattr(FFT, name)
        near(f(gpu(c)), f(rl.from_numpy(c)).numpy())
    for name in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn", "fft", "fftn"):
        f = getattr(FFT, name)
        near(f(gpu(x)), f(rl.from_numpy(x)).numpy())
    near(FFT.fftshift(gpu(x)), np.fft.fftshift(x))
    near(FFT.fftfreq(7, device="cuda"), np.fft.fftfreq(7).astype("float32"), True)


@pytest.mark.parametrize("onesided", [True, False])
def test_windowed(onesided):
    x = rl.from_numpy(random(2, 400, dtype="float64"))
    w = rl.hann_window(64, dtype=rl.float64)
    options = {"n_fft": 64, "hop_length": 16, "onesided": onesided, "return_complex": True}
    host = rl.stft(x, window=w, **options)
    got = rl.stft(x.cuda(), window=w.cuda(), **options)
    near(got, host.numpy())
    del options["return_complex"]
    back = rl.istft(got, window=w.cuda(), length=400, **options)
    near(back, x.numpy())


def test_gradients():
    c, r = gpu(random(3, 4)).requires_grad_(), gpu(random(3, 5).real).requires_grad_()
    for f in (FFT.fft, FFT.ifft2, lambda t: FFT.irfft(t, 6), lambda t: FFT.irfft(t, 7),
              lambda t: FFT.irfft2(t, (3, 6)), FFT.hfft):  # fmt: skip
        assert gradcheck(lambda t, f=f: rl.view_as_real(f(t)) if f(t).is_complex() else f(t), (c,))
    for f in (FFT.rfft, FFT.rfft2, FFT.ihfft, FFT.fft):
        assert gradcheck(lambda t, f=f: rl.view_as_real(f(t)), (r,))


def test_nothing_waits():
    x = gpu(random(8, 16))
    rl.cuda.set_sync_debug_mode("error")
    try:
        FFT.fft(x), FFT.irfft2(x), FFT.rfft(x.real), FFT.fft(x, dim=0), FFT.fftn(x)
    finally:
        rl.cuda.set_sync_debug_mode("default")


def test_plans_are_kept_and_bounded():
    cache = rl.backends.cuda.cufft_plan_cache
    old = cache.max_size
    try:
        cache.clear()
        assert cache.size == 0
        for n in range(10, 20):
            FFT.fft(rl.zeros(n, device="cuda"))
        FFT.fft(rl.zeros(10, device="cuda"))
        assert cache.size == cache[0].size == 10
        cache.max_size = 4
        assert cache.size == 4 and cache.max_size == 4
        x = random(2, 21)
        near(FFT.fft(gpu(x)), np.fft.fft(x))
        assert cache.size == 4
        cache.max_size = 0
        near(FFT.fft(gpu(x)), np.fft.fft(x))  # kept by nobody
        assert cache.size == 0
        with pytest.raises(ValueError):
            cache.max_size = -1
    finally:
        cache.max_size = old


def test_working_memory_is_ours():
    x = rl.zeros(64, 10007, dtype=rl.complex64, device="cuda")  # a prime: needs some
    FFT.fft(x)
    rl.cuda.synchronize()
    rl.cuda.reset_peak_memory_stats()
    base = rl.cuda.memory_allocated()
    y = FFT.fft(x)
    assert rl.cuda.max_memory_allocated() > base + y.numel() * 8
    assert rl.cuda.memory_allocated() < base + y.numel() * 8 + (1 << 20)


def test_streams_and_threads_share_plans():
    x = random(50, 360)
    want, t, failures = np.fft.fft(x), gpu(x), []
    rl.cuda.synchronize()

    def work():
        try:
            side = rl.cuda.Stream()
            with rl.cuda.stream(side):
                for _ in range(20):
                    got = FFT.fft(t)
            side.synchronize()
            near(got, want)
        except Exception as error:  # told by the thread that asked
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    assert not failures, failures[0]


def test_captured():
    cache = rl.backends.cuda.cufft_plan_cache
    x = gpu(random(4, 30))
    for warm in (True, False):
        cache.clear()
        if warm:
            FFT.fft(x)
        g = rl.cuda.CUDAGraph()
        with rl.cuda.graph(g):
            y = FFT.fft(x)
            z = FFT.irfft(y)
        cache.clear()  # what a graph uses stays
        new = random(4, 30, seed=5)
        x.copy_(gpu(new))
        g.replay()
        near(y, np.fft.fft(new))
        near(z, np.fft.irfft(np.fft.fft(new)))
        del g, y, z
