"""Products with numbers of 8 and 4 bits, and the layers made of them."""

import io

import pytest

import rushlight as rl
from rushlight.ao import float8, weight_only
from rushlight.nn import Linear, ReLU, Sequential


def relative(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("out", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("types", ["float8_e4m3fn float8_e4m3fn", "float8_e5m2 float8_e4m3fnuz"])
def test_scaled_mm(types, out, by_rows):
    rl.manual_seed(0)
    a, b = (
        rl.randn(*s).to(getattr(rl, t))
        for s, t in zip([(7, 33), (33, 12)], types.split(), strict=True)
    )
    scales = (rl.rand(7, 1), rl.rand(1, 12)) if by_rows else (rl.tensor(0.7), rl.tensor(1.3))
    out = getattr(rl, out)
    bias = rl.randn(12).to(out)
    want = a.double() @ b.double() * scales[0].double() * scales[1].double()
    for second in (b, b.t().contiguous().t()):
        got = rl._scaled_mm(a, second, *scales, out_dtype=out)
        assert got.dtype == out
        rl.testing.assert_close(got.double(), want, rtol=2 * rl.finfo(out).eps, atol=1e-5)
        got = rl._scaled_mm(a, second, *scales, bias, out_dtype=out, use_fast_accum=True)
        expected = want + bias.double()
        rl.testing.assert_close(got.double(), expected, rtol=2 * rl.finfo(out).eps, atol=1e-5)
    small = rl._scaled_mm(a, b, *scales, scale_result=rl.tensor(2.0))
    assert small.dtype == a.dtype
    assert rl.equal(small.float(), (want.float() / 2).to(a.dtype).float())


@pytest.mark.parametrize("out", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32"])
def test_scaled_mm_with_huge_scales(out):
    """What is beyond the largest number of a dtype becomes what a conversion makes of it: in
    float8_e4m3fn, which has no infinity, that largest number."""
    out = getattr(rl, out)
    a = (rl.eye(16) * 8).to(rl.float8_e4m3fn)
    for scale in (7.2, 7.3, 100.0, 1e30):
        got = rl._scaled_mm(a, a.t(), rl.tensor(scale), rl.tensor(1.0), out_dtype=out).float()
        want = (rl.eye(16) * 64 * rl.tensor(scale)).to(out).float()
        assert rl.equal(got, want)
    assert got[0, 0] == 448 or out != rl.float8_e4m3fn


@pytest.mark.parametrize("change, error, text", [
    ({"self": rl.ones(4, 16)}, ValueError, "float8"),
    ({"scale_a": rl.ones((), dtype=rl.float16)}, ValueError, "float32 scales"),
    ({"scale_b": rl.ones(2)}, ValueError, "scales"),
    ({"mat2": rl.ones(8, 4).to(rl.float8_e4m3fn)}, RuntimeError, "do not fit"),
    ({"bias": rl.ones(3)}, RuntimeError, "bias must have 4"),
    ({"out_dtype": rl.int32}, RuntimeError, "out_dtype"),
])  # fmt: skip
def test_scaled_mm_refuses(change, error, text):
    eight, one = rl.ones(4, 16).to(rl.float8_e4m3fn), rl.ones(())
    given = {"self": eight, "mat2": eight.t(), "scale_a": one, "scale_b": one}
    with pytest.raises(error, match=text):
        rl._scaled_mm(**{**given, **change})


def test_scaled_mm_by_recipes():
    """PyTorch's public name says how matrices are scaled, for each in a list of its own, or not."""
    from rushlight.nn import functional

    whole, rows = functional.ScalingType.TensorWise, functional.ScalingType.RowWise
    a = rl.randn(5, 16).to(rl.float8_e4m3fn)
    b = rl.randn(8, 16).to(rl.float8_e4m3fn).t()
    one, left, right, bias = rl.tensor(0.5), rl.rand(5, 1), rl.rand(1, 8), rl.randn(8)
    for s, t, kind in ((one, one, whole), (left, right, rows)):
        want = rl._scaled_mm(a, b, s, t, bias, out_dtype=rl.float32)
        got = functional.scaled_mm(a, b, s, kind, [t], [kind], bias=bias, output_dtype=rl.float32)
        assert rl.equal(got, want)
        out = rl.empty(5, 8)
        rl._scaled_mm_v2(
            a, b, [s], [int(kind)], [0], [t], [int(kind)], [], bias, rl.float32, out=out
        )
        assert rl.equal(out, want)
        assert functional.scaled_mm(a, b, s, kind, t, kind).dtype == rl.bfloat16
        assert functional.scaled_mm(a, b, s, kind, t, kind, output_dtype=None).dtype == a.dtype
    for change, error in (
        ({"scale_recipe_b": rows}, ValueError), ({"scale_a": left}, ValueError),
        ({"scale_a": [one, one]}, ValueError), ({"contraction_dim": (0, 1)}, NotImplementedError),
        ({"scale_recipe_a": functional.ScalingType.BlockWise1x128}, NotImplementedError),
        ({"swizzle_a": functional.SwizzleType.SWIZZLE_32_4_4}, NotImplementedError),
        ({"mat_a": a.float()}, ValueError),
    ):  # fmt: skip
        given = {"mat_a": a, "mat_b": b, "scale_a": one, "scale_recipe_a": whole, "scale_b": one,
                 "scale_recipe_b": whole}  # fmt: skip
        with pytest.raises(error):
            functional.scaled_mm(**{**given, **change})


def test_int_mm_is_exact():
    a, b = rl.randint(-128, 128, (17, 300), dtype=rl.int8), rl.randint(-128, 128, (300, 9)).char()
    assert rl.equal(rl._int_mm(a, b).long(), a.long() @ b.long())
    assert rl._int_mm(a, b).dtype == rl.int32
    with pytest.raises(TypeError, match="int8"):
        rl._int_mm(a, b.int())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_int8_weights(rows, dtype):
    rl.manual_seed(1)
    dtype = getattr(rl, dtype)
    x, scales = rl.randn(rows, 200).to(dtype), (rl.rand(24) / 100).to(dtype)
    w = rl.randint(-128, 128, (24, 200), dtype=rl.int8)
    want = x.double() @ w.double().t() * scales.double()
    got = rl._weight_int8pack_mm(x, w, scales)
    assert got.dtype == dtype
    rl.testing.assert_close(got.double(), want, rtol=3 * rl.finfo(dtype).eps, atol=3e-2
                            if dtype == rl.bfloat16 else 3e-3)  # fmt: skip


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("n", [16, 32, 48, 96])
def test_int4_weights(n, group):
    rl.manual_seed(2)
    q = rl.randint(0, 16, (n, 256), dtype=rl.int32)
    pairs = rl.randn(256 // group, n, 2)
    steps = (q - 8).view(n, -1, group) * pairs[:, :, 0].t().unsqueeze(-1)
    w = (steps + pairs[:, :, 1].t().unsqueeze(-1)).view(n, 256)
    columns = rl._convert_weight_to_int4pack_for_cpu(q, 2)
    bytes_ = (q[:, ::2] << 4 | q[:, 1::2]).to(rl.uint8)
    for rows in (1, 5):
        x = rl.randn(rows, 256)
        got = rl._weight_int4pack_mm_for_cpu(x, columns, group, pairs)
        rl.testing.assert_close(got, x @ w.t(), rtol=1e-4, atol=1e-3)
        for tiles in (2, 4, 8):
            packed = rl._convert_weight_to_int4pack(bytes_, tiles)
            assert packed.shape == (n // 8, 256 // (16 * tiles), 32, tiles // 2)
            got = rl._weight_int4pack_mm(x, packed, group, pairs)
            rl.testing.assert_close(got, x @ w.t(), rtol=1e-4, atol=1e-3)
            half = rl._weight_int4pack_mm(x.bfloat16(), packed, group, pairs.bfloat16())
            assert relative(half, x @ w.t()) < 0.02


def test_int4_tiles_lie_as_tensor_cores_take_them():
    # One number at row n, column k: where PyTorch's packing for CUDA puts it.
    for n, k in ((0, 0), (3, 5), (9, 17), (15, 63), (8, 40)):
        q = rl.zeros(16, 64, dtype=rl.int32)
        q[n, k] = 11
        packed = rl._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(rl.uint8), 4)
        ((tile, step, lane, word),) = packed.nonzero().tolist()
        inside = k % 16
        assert (tile, step, lane) == (n // 8, 0, n % 8 * 4 + inside % 8 // 2)
        assert word == k // 32
        shift = 8 * (k % 32 // 16) + 4 * (inside // 8) + 16 * (inside % 2)
        assert packed[tile, step, lane, word].item() & 0xFFFFFFFF == 11 << shift


def test_low_bit_weights_refuse_what_does_not_fit():
    w, s = rl.zeros(16, 64, dtype=rl.int8), rl.ones(16)
    with pytest.raises(RuntimeError, match="64 columns"):
        rl._weight_int8pack_mm(rl.ones(2, 63), w, s)
    with pytest.raises(TypeError, match="input's type"):
        rl._weight_int8pack_mm(rl.ones(2, 64), w, s.half())
    with pytest.raises(RuntimeError, match="16 scales"):
        rl._weight_int8pack_mm(rl.ones(2, 64), w, s[:3])
    with pytest.raises(TypeError, match="int8"):
        rl._weight_int8pack_mm(rl.ones(2, 64), w.int(), s)
    with pytest.raises(RuntimeError, match="multiples of 16"):
        rl._convert_weight_to_int4pack_for_cpu(rl.zeros(15, 64, dtype=rl.int32), 2)
    with pytest.raises(RuntimeError, match="innerKTiles"):
        rl._convert_weight_to_int4pack(rl.zeros(16, 32, dtype=rl.uint8), 3)
    packed = rl._convert_weight_to_int4pack_for_cpu(rl.zeros(16, 64, dtype=rl.int32), 2)
    with pytest.raises(RuntimeError, match="group size"):
        rl._weight_int4pack_mm_for_cpu(rl.ones(2, 64), packed, 16, rl.ones(4, 16, 2))
    with pytest.raises(ValueError, match="multiples of 16"):
        weight_only.Int4WeightOnlyLinear.from_float(Linear(128, 10))


def model():
    rl.manual_seed(3)
    return Sequential(Linear(128, 64), ReLU(), Linear(64, 32, bias=False), ReLU(), Linear(32, 10))


@pytest.mark.parametrize("bits, within", [(8, 0.02), (4, 0.25)])
def test_quantize_weights(bits, within):
    given = model()
    x = rl.randn(5, 3, 128)
    want = given(x)
    made = weight_only.quantize_weights_(given, bits, group_size=32)
    kinds = [type(layer).__name__ for layer in made]
    last = "Linear" if bits == 4 else "Int8WeightOnlyLinear"  # ten rows are no multiple of 16
    name = f"Int{bits}WeightOnlyLinear"
    assert kinds == [name, "ReLU", name, "ReLU", last]
    with rl.no_grad():
        got = made(x)
        assert got.shape == want.shape and relative(got, want) < within
        file = io.BytesIO()
        rl.save(made.state_dict(), file)
        file.seek(0)
        other = weight_only.quantize_weights_(model(), bits, group_size=32)
        other.load_state_dict(rl.load(file))
        assert rl.equal(other(x), got)
        half = made.to(rl.bfloat16)
        assert half[0].weight.dtype == (rl.int8 if bits == 8 else rl.uint8)
        assert relative(half(x.bfloat16()), want) < within + 0.02
    with pytest.raises(ValueError, match="bits must be"):
        weight_only.quantize_weights_(model(), 3)


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_float8_layers(recipe):
    given = model()
    x = rl.randn(5, 3, 128, requires_grad=True)
    want = given(x)
    want.square().sum().backward()
    grads = [*(p.grad.clone() for p in given.parameters()), x.grad.clone()]
    x.grad = None
    made = float8.convert_to_float8_training(given, recipe=recipe)
    assert type(made[0]) is float8.Float8Linear and made[0].weight is next(given.parameters())
    for p in made.parameters():
        p.grad = None
    got = made(x)
    got.square().sum().backward()
    assert relative(got, want) < 0.1
    for new, old in zip([*(p.grad for p in made.parameters()), x.grad], grads, strict=True):
        assert relative(new, old) < 0.25
    with rl.no_grad():
        stored = float8.quantize_float8_(model(), recipe=recipe).to(rl.bfloat16)
        assert stored[0].weight.dtype == rl.float8_e4m3fn and stored[0].scale.dtype == rl.float32
        assert relative(stored(x.bfloat16()), want) < 0.1
    values, factor = float8.to_float8(rl.zeros(4))
    assert values.float().abs().max() == 0 and factor.isfinite()
    with pytest.raises(ValueError, match="recipe"):
        float8.Float8Linear(4, 4, recipe="blockwise")


@pytest.mark.parametrize("make", [
    float8.Float8WeightLinear.from_float,
    lambda linear: float8.Float8WeightLinear.from_float(linear, "tensorwise"),
    weight_only.Int8WeightOnlyLinear.from_float,
    lambda linear: weight_only.Int4WeightOnlyLinear.from_float(linear, 32),
])  # fmt: skip
def test_layers_for_inference(make):
    layer = make(Linear(32, 16))
    assert layer(rl.ones(2, 0, 32)).shape == (2, 0, 16)
    with pytest.raises(RuntimeError, match="32 elements"):
        layer(rl.ones(64, 16))
    # A gradient that cannot be had is not quietly left out.
    x = rl.ones(3, 32, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no gradient"):
        (layer(x).sum() + x.sum()).backward()


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_training_in_float8_on_nothing(recipe):
    layer = float8.Float8Linear.from_float(Linear(32, 16), recipe)
    x = rl.ones(0, 32, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.shape == (0, 32) and layer.weight.grad.abs().sum() == 0
