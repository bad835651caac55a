"""How results of transforms, rolls and borders lie in memory, as PyTorch 2.13 has it on the CPU."""

import pytest

import rushlight as rl

# function, shape, the order of its dims in memory, dims, strides of the result
RECORDED = [
    ("rfft", (2, 3, 4, 5), (1, 0, 2, 3), 2, (15, 30, 1, 3)),
    ("rfft", (3, 4, 6), (2, 1, 0), 2, (4, 12, 1)),
    ("rfft", (2, 3, 4, 5), (0, 2, 1, 3), 1, (40, 1, 10, 2)),
    ("rfft", (2, 3, 4, 5), (0, 3, 2, 1), 0, (1, 2, 6, 24)),
    ("rfft", (4, 6), (0, 1), 0, (1, 3)),
    ("ihfft", (3, 4, 6), (2, 1, 0), 1, (3, 1, 9)),
    ("ihfft", (3, 4, 6), (1, 0, 2), 2, (4, 12, 1)),
    ("rfftn", (2, 3, 4, 5), (0, 1, 3, 2), (1, 3), (36, 3, 9, 1)),
    ("rfftn", (2, 3, 4, 5), (0, 2, 3, 1), (0,), (1, 2, 30, 6)),
    ("rfftn", (3, 4, 6), (2, 0, 1), (0, 1, 2), (16, 4, 1)),
    ("rfftn", (2, 3, 4, 5), (0, 1, 3, 2), (2, 1), (40, 1, 2, 8)),
    ("fft", (2, 3, 4, 5), (0, 2, 3, 1), 1, (60, 1, 15, 3)),
    ("fft", (2, 3, 4, 5), (0, 1, 3, 2), 0, (1, 40, 2, 8)),
    ("fft", (3, 4, 6), (2, 0, 1), 0, (1, 3, 12)),
    ("fft", (3, 4, 6), (0, 1, 2), 2, (24, 6, 1)),
    ("ifft", (3, 4, 6), (1, 2, 0), 0, (1, 18, 3)),
    ("ifft", (2, 3, 4, 5), (0, 2, 3, 1), 3, (60, 5, 15, 1)),
    ("irfft", (4, 6), (1, 0), 0, (1, 6)),
    ("irfft", (4, 6), (0, 1), 0, (1, 6)),
    ("irfft", (3, 4, 6), (2, 0, 1), 2, (40, 10, 1)),
    ("irfft", (2, 3, 4, 5), (0, 1, 3, 2), 1, (80, 1, 4, 16)),
    ("hfft", (2, 3, 4, 5), (0, 3, 2, 1), 1, (80, 1, 4, 16)),
    ("hfft", (3, 4, 6), (2, 0, 1), 0, (1, 4, 16)),
    ("fftn", (2, 3, 4, 5), (1, 0, 2, 3), (0, 2), (4, 40, 1, 8)),
    ("fftn", (3, 4, 6), (1, 2, 0), (1, 2, 0), (1, 18, 3)),
    ("fftn", (3, 4, 6), (0, 2, 1), None, (24, 1, 4)),
    ("ifftn", (2, 3, 4, 5), (0, 1, 3, 2), (0, 3), (5, 40, 10, 1)),
    ("ifftn", (3, 4, 6), (2, 0, 1), (2, 0, 1), (4, 1, 12)),
    ("irfftn", (3, 4, 6), (0, 2, 1), (0, 2, 1), (36, 1, 6)),
    ("irfftn", (3, 4, 6), (2, 1, 0), (2, 0), (1, 24, 4)),
    ("irfftn", (2, 3, 4, 5), (0, 3, 1, 2), (3, 0), (1, 40, 10, 2)),
    ("hfftn", (4, 6), (1, 0), None, (10, 1)),
    ("hfftn", (2, 3, 4, 5), (1, 0, 2, 3), (2, 0), (1, 40, 2, 8)),
]
REAL = ("rfft", "ihfft", "rfftn")


def lying(x, order):
    """x with its dims in that order in memory, the outermost first."""
    back = [order.index(d) for d in range(x.dim())]
    return x.permute(order).contiguous().permute(back)


def call(name, x, dims, **options):
    if dims is not None:
        options["dim"] = dims
    return getattr(rl.fft, name)(x, **options)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: "-".join(map(str, row[:4])))
def test_transforms(row):
    name, shape, order, dims, strides = row
    plain = rl.randn(shape, dtype=rl.float64 if name in REAL else rl.complex128)
    x = lying(plain, order)
    got, want = call(name, x, dims), call(name, plain, dims)
    assert got.stride() == strides
    rl.testing.assert_close(got, want)
    assert call(name, x.to("meta"), dims).stride() == strides
    out = rl.empty(0, dtype=want.dtype)
    call(name, x, dims, out=out)
    rl.testing.assert_close(out, want)


def test_a_contiguous_argument_is_transformed_where_it_lies():
    """By columns: PyTorch's result lies otherwise, at the price of another pass over memory."""
    x = rl.randn(4, 6, dtype=rl.complex64)
    assert rl.fft.fft(x, dim=0).is_contiguous() and rl.fft.fft2(x).is_contiguous()
    rl.testing.assert_close(rl.fft.fft(x, dim=0), rl.fft.fft(x.t().contiguous(), dim=1).t())


def test_arguments_with_gaps_and_repeats():
    for shape in ((6, 8), (4, 6, 8)):
        wide = rl.randn([2 * n for n in shape], dtype=rl.complex128)
        gaps = wide[tuple(slice(None, None, 2) for _ in shape)]
        repeated = rl.randn(1, *shape[1:], dtype=rl.complex128).expand(shape)
        for x in (gaps, repeated, repeated.transpose(0, 1)):
            for dim in range(len(shape)):
                for f in (rl.fft.fft, rl.fft.ifft, rl.fft.irfft):
                    rl.testing.assert_close(f(x, dim=dim), f(x.contiguous(), dim=dim))
                rl.testing.assert_close(
                    rl.fft.rfft(x.real, dim=dim), rl.fft.rfft(x.real.contiguous(), dim=dim)
                )


def test_gradients_of_what_lies_otherwise():
    x = lying(rl.randn(3, 4, 5, dtype=rl.float64), (2, 0, 1)).requires_grad_()
    assert rl.autograd.gradcheck(lambda t: rl.fft.rfftn(t, dim=(0, 1)).abs().square(), (x,))
    z = lying(rl.randn(3, 4, 5, dtype=rl.complex128), (1, 2, 0)).requires_grad_()
    assert rl.autograd.gradcheck(lambda t: rl.fft.irfft(t, dim=1), (z,))
    assert rl.autograd.gradcheck(lambda t: rl.fft.fftn(t, dim=(0, 2)), (z,))


IMAGES = {"2d": ((2, 3, 4, 5), rl.channels_last), "3d": ((2, 3, 4, 5, 6), rl.channels_last_3d)}


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("kind", IMAGES)
def test_borders_of_images_with_channels_last(kind, mode):
    shape, form = IMAGES[kind]
    plain = rl.randn(shape)
    x = plain.to(memory_format=form)
    for widths in ((1, 2, 0, 1, 2, 1), (-1, 1, 1, 0, 0, 2)):
        pad = widths[: 2 * len(shape) - 4]
        got, want = (rl.nn.functional.pad(t, pad, mode=mode) for t in (x, plain))
        assert rl.equal(got, want) and want.is_contiguous()
        assert got.is_contiguous(memory_format=form) == (mode != "circular")


def test_rolled_images_with_channels_last():
    x = rl.randn(2, 3, 4, 5).to(memory_format=rl.channels_last)
    for f in (lambda t: t.roll(1, 2), lambda t: t.roll((1, 2), (3, 0)), rl.fft.fftshift):
        got = f(x)
        assert rl.equal(got, f(x.contiguous()))
        assert got.is_contiguous(memory_format=rl.channels_last)
    assert x.roll(3).is_contiguous()  # of all elements in a row
