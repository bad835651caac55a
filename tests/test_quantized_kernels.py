"""Products and convolutions of integers: exact sums, and results within one step of the numbers."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C, nn
from rushlight.ao import quantization as aq

RNG = np.random.default_rng(0)


@pytest.fixture(params=[True, False], ids=["onednn", "floats"])
def engine(request):
    """Both ways; without oneDNN the first is the second."""
    before = rl.config.onednn
    rl.config.onednn = before and request.param
    yield request.param
    rl.config.onednn = before


def rounded(sums, factors, bias, scale, zero, relu):
    """The integers for sums of products, by float64."""
    numbers = sums.astype(np.float64) * factors + (0 if bias is None else bias.astype(np.float64))
    numbers = np.maximum(numbers, 0) if relu else numbers
    return np.clip(np.rint(numbers / scale + zero), 0, 255)


def integers(shape, low, high, dtype):
    return RNG.integers(low, high + 1, shape).astype(dtype)


# 127: what processors without VNNI multiply by oneDNN, too.
@pytest.mark.parametrize(
    "low, high, dtype", [(0, 255, "uint8"), (0, 127, "uint8"), (-128, 127, "int8")]
)
@pytest.mark.parametrize("rows, k, n", [(1, 5, 3), (40, 64, 17), (3, 300, 65)])
def test_products(engine, low, high, dtype, rows, k, n):
    x, w = integers((rows, k), low, high, dtype), integers((n, k), -128, 127, "int8")
    scales, bias = RNG.uniform(0.01, 0.05, n).astype("f4"), RNG.normal(size=n).astype("f4")
    for zero, relu, with_bias in ((0, False, True), (high, True, False), (7, True, True)):
        b = bias if with_bias else None
        got = _C._quantized_linear(
            rl.tensor(x), rl.tensor(w), rl.tensor(scales), None if b is None else rl.tensor(b),
            [0.5, 64.0], [zero, 20], relu, rl.uint8,
        )  # fmt: skip
        sums = (x.astype(np.int64) - zero) @ w.T.astype(np.int64)
        want = rounded(sums, scales * 0.5, b, 64.0, 20, relu)
        assert np.abs(got.numpy() - want).max() <= 1
        assert (got.numpy() != want).mean() <= 0.01  # ties


CONVOLUTIONS = [
    # batch, channels, outputs, groups, image, kernel, stride, padding, dilation, output padding
    (2, 3, 8, 1, (9, 10), (3, 3), (2, 1), (1, 2), (1, 1), None),
    (1, 16, 33, 1, (7, 7), (1, 1), (1, 1), (0, 0), (1, 1), None),
    (1, 8, 8, 8, (11, 5), (3, 3), (1, 1), (1, 1), (1, 2), None),
    (2, 12, 6, 3, (20,), (4,), (3,), (2,), (1,), None),
    (1, 2, 5, 1, (5, 6, 4), (2, 3, 1), (1, 1, 2), (1, 1, 0), (1, 1, 1), None),
    (2, 6, 4, 2, (5, 4), (3, 2), (2, 3), (1, 0), (1, 1), (1, 2)),
    (1, 4, 3, 1, (9,), (3,), (2,), (1,), (1,), (0,)),
]


@pytest.mark.parametrize("high", [127, 255])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: "x".join(map(str, c[4])) + str(c[5]))
def test_convolutions(engine, case, high):
    n, channels, outputs, groups, image, kernel, stride, padding, dilation, extra = case
    x = integers((n, channels, *image), 0, high, "uint8")
    transposed = extra is not None
    sides = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    w = integers((*sides, *kernel), -128, 127, "int8")
    scales = RNG.uniform(0.01, 0.05, outputs).astype("f4")
    bias = RNG.normal(size=outputs).astype("f4")
    geometry = (stride, padding, dilation, transposed, extra or [0], groups)
    for zero, relu in ((0, True), (77, False)):
        got = _C._quantized_convolution(
            rl.tensor(x), rl.tensor(w), rl.tensor(scales), rl.tensor(bias), *geometry,
            [0.5, 40.0], [zero, 100], relu, rl.uint8,
        )  # fmt: skip
        wide = rl.tensor(x.astype("f8") - zero), rl.tensor(w.astype("f8"))
        full = (*geometry[:4], extra or [0] * len(image), groups)
        sums = rl.convolution(*wide, None, *full).numpy()
        by_channel = (-1, *[1] * len(image))
        want = rounded(sums, scales.reshape(by_channel) * 0.5, bias.reshape(by_channel), 40.0, 100,
                       relu)  # fmt: skip
        assert got.shape == want.shape
        assert np.abs(got.numpy() - want).max() <= 1
        assert (got.numpy() != want).mean() <= 0.01


def test_convolutions_say_what_does_not_fit():
    x, w = rl.zeros(1, 3, 4, 4, dtype=rl.uint8), rl.zeros(2, 3, 3, 3, dtype=rl.int8)
    rest = ([1], [0], [1], False, [0], 1, [1.0, 1.0], [0, 0], False, rl.uint8)
    with pytest.raises(RuntimeError, match="2 scales"):
        _C._quantized_convolution(x, w, rl.ones(3), None, *rest)
    with pytest.raises(RuntimeError, match="channels"):
        _C._quantized_convolution(x[:, :2], w, rl.ones(2), None, *rest)
    with pytest.raises(RuntimeError, match="kernel reaches"):
        _C._quantized_convolution(x[..., :2], w, rl.ones(2), None, *rest)
    with pytest.raises((TypeError, NotImplementedError, RuntimeError), match="int8"):
        _C._quantized_convolution(x.float(), w, rl.ones(2), None, *rest)


def test_dynamic_layers_are_the_same_both_ways():
    linear = nn.Linear(33, 21)
    lstm = nn.LSTM(12, 10, 2, bidirectional=True)
    small = aq.quantize_dynamic(nn.ModuleList([linear, lstm]))
    x, sequence = rl.randn(5, 33), rl.randn(7, 18, 12)
    state = (rl.randn(4, 18, 10), rl.randn(4, 18, 10))
    got = [small[0](x), *(small[1](sequence, state)[0:1]), *small[1](sequence)[1]]
    before, rl.config.onednn = rl.config.onednn, False
    try:
        want = [small[0](x), *(small[1](sequence, state)[0:1]), *small[1](sequence)[1]]
    finally:
        rl.config.onednn = before
    for one, other in zip(got, want, strict=True):
        rl.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    # Seven bits: a step of the inputs and one of the weights.
    rl.testing.assert_close(got[0], linear(x), rtol=0, atol=0.08)
    rl.testing.assert_close(got[1], lstm(sequence, state)[0], rtol=0, atol=0.08)


def test_zero_points_are_among_the_integers():
    x, w = rl.ones(2, 4, dtype=rl.uint8), rl.ones(3, 4, dtype=rl.int8)
    for zeros in ([-1, 0], [256, 0], [0, 256], [0, 1 << 40]):  # 32 bits of the last are 0
        with pytest.raises(RuntimeError, match="from 0 to 255"):
            _C._quantized_linear(x, w, rl.ones(3), None, [1.0, 1.0], zeros, False, rl.uint8)
    with pytest.raises(RuntimeError, match="from -128 to 127"):
        _C._quantized_combine(w, w, [1.0] * 3, [0, 0, 128], False, False)


def test_rows_without_columns_give_the_bias(engine):
    x, w = rl.ones(2, 5, 0, dtype=rl.uint8), rl.ones(3, 0, dtype=rl.int8)
    bias = rl.tensor([1.0, 2.0, 3.0])
    got = _C._quantized_linear(x, w, rl.ones(3), bias, [1.0, 1.0], [0, 4], False, rl.uint8)
    assert got.tolist() == [[[5, 6, 7]] * 5] * 2
    assert rl.equal(_C._dynamic_linear(x.float(), w, rl.ones(3), bias, False), bias.expand(2, 5, 3))


def test_a_weight_that_was_written_to_is_laid_out_again():
    x, w = rl.ones(20, 16, dtype=rl.uint8), rl.ones(8, 16, dtype=rl.int8)
    rest = (rl.ones(8), None, [1.0, 1.0], [0, 0], False, rl.uint8)
    assert _C._quantized_linear(x, w, *rest).unique().tolist() == [16]
    w.fill_(2)
    assert _C._quantized_linear(x, w, *rest).unique().tolist() == [32]


@pytest.mark.parametrize("dtype", [rl.uint8, rl.int8])
@pytest.mark.parametrize("last", [False, True])
def test_maxima_of_bytes(dtype, last):
    x = rl.randint(-128 if dtype == rl.int8 else 0, 127, (2, 5, 9, 8)).to(dtype)
    x = x.to(memory_format=rl.channels_last) if last else x
    got = rl.max_pool2d(x, 3, 2, 1)
    assert got.dtype == dtype
    assert rl.equal(got, rl.max_pool2d(x.double(), 3, 2, 1).to(dtype))


@pytest.mark.parametrize("multiply", [False, True])
def test_sums_and_products_of_quantized_tensors(multiply):
    a, b = (rl.quantize_per_tensor(rl.randn(3, 50), 0.05, 60, rl.quint8) for _ in range(2))
    for one, other in ((a, b), (a.t(), b.t()), (a, b[:1]), (a[:, ::2], b[:, ::2])):
        parts = one.int_repr(), other.int_repr()
        got = _C._quantized_combine(*parts, [0.05, 0.05, 0.1], [60, 60, 10], multiply, True)
        x, y = one.dequantize(), other.dequantize()
        want = rl.quantize_per_tensor((x * y if multiply else x + y).relu(), 0.1, 10, rl.quint8)
        assert (got.int() - want.int_repr().int()).abs().max() <= 1
        assert (got.int() != want.int_repr().int()).float().mean() < 0.1


def test_steps_keep_the_layout():
    x = rl.randn(2, 3, 4, 5).to(memory_format=rl.channels_last)
    q = rl.quantize_per_tensor(x, 0.1, 3, rl.qint8)
    assert q.stride() == x.stride() and q.dequantize().stride() == x.stride()
    assert rl.equal(
        q.int_repr(), rl.quantize_per_tensor(x.contiguous(), 0.1, 3, rl.qint8).int_repr()
    )
    gaps = rl.randn(4, 6)[:, ::2]
    want = rl.quantize_per_tensor(gaps.contiguous(), 0.1, 3, rl.quint8).int_repr()
    assert rl.equal(rl.quantize_per_tensor(gaps, 0.1, 3, rl.quint8).int_repr(), want)


def test_steps_are_rounded_alike_in_every_layout():
    halves = (rl.arange(-600, 600).float() + 0.5) * rl.tensor(0.1)
    for shape in ((30, 40), (2, 5, 10, 12)):
        x = halves.reshape(shape)
        q = rl.quantize_per_tensor(x, 0.1, 3, rl.qint8)
        apart = rl.stack([x, x], -1)[..., 0]  # with gaps
        for other in (apart, x.transpose(0, 1).contiguous().transpose(0, 1)):
            found = rl.quantize_per_tensor(other, 0.1, 3, rl.qint8)
            assert rl.equal(found.int_repr(), q.int_repr())
            assert rl.equal(found.dequantize(), q.dequantize())


@pytest.mark.parametrize("rows", [2, 3000])  # by one thread, and by several
def test_dynamic_layers_hide_no_nan(engine, rows):
    layer = aq.quantize_dynamic(nn.Sequential(nn.Linear(40, 3)), {nn.Linear})
    x = rl.randn(rows, 40)
    assert layer(x).isfinite().all()
    for place in ((0, 0), (rows - 1, 39)):
        y = x.clone()
        y[place] = float("nan")
        assert layer(y)[place[0]].isnan().all()
