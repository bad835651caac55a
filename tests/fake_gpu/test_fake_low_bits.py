"""float8 and weights of few bits over the pretend driver: kernels are spelled and compiled, what is
not computed in is refused, and rows beyond the kernels' reach take another way."""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["float8_e5m2fnuz", "float8_e8m0fnu"])
def test_float8_on_a_device(run, name):
    out = run(
        f"name = {name!r}\n"
        """
x = rl.ones(4, 6, device="cuda").to(getattr(rl, name))
y = x.t().to(rl.bfloat16)
z = rl.full((3,), 2.5, dtype=rl.float8_e4m3fn, device="cuda")
moved = [x.t().contiguous(), x[:, [1, 2]], rl.cat([x, x]), x.flip(0), x.clone(), x.cpu()]
print(y.dtype, z.dtype, {t.dtype for t in moved}, (x == x).dtype, x.isnan().dtype)
for refused in (lambda: x + x, lambda: x.sum(), lambda: x.sort(), lambda: x.argmax(),
                lambda: x.nonzero(), lambda: rl.arange(3, dtype=x.dtype, device="cuda"),
                lambda: x.softmax(0), lambda: rl._foreach_add([x], 1.0), lambda: x.unique()):
    try:
        refused()
        print("not refused")
    except TypeError as e:
        assert name in str(e), e
"""
    )
    float8 = f"rushlight.{name}"
    assert out == [
        f"rushlight.bfloat16 rushlight.float8_e4m3fn {{{float8}}} rushlight.bool rushlight.bool"
    ]


def test_weights_of_few_bits_on_a_device(run):
    out = run(
        """
for dtype in (rl.bfloat16, rl.float16):
    w, s = rl.zeros(40, 64, dtype=rl.int8, device="cuda"), rl.ones(40, device="cuda").to(dtype)
    bytes_ = rl.zeros(16, 64, dtype=rl.uint8, device="cuda")
    pairs = rl.ones(4, 16, 2, device="cuda").to(dtype)
    for rows in (1, 20, 40, 70):
        x = rl.ones(rows, 128, device="cuda").to(dtype)
        packed = rl._convert_weight_to_int4pack(bytes_, 8 if rows > 1 else 4)
        print(tuple(rl._weight_int8pack_mm(x[:, :64], w, s).shape),
              tuple(rl._weight_int4pack_mm(x, packed, 32, pairs).shape))
layer = rl.ao.weight_only.Int4WeightOnlyLinear.from_float(rl.nn.Linear(128, 16), 32)
print(layer.weight.shape, layer.to(rl.bfloat16).cuda().weight.shape, layer.cpu().weight.shape)
a = rl.ones(16, 32, device="cuda").to(rl.float8_e4m3fn)
one = rl.ones((), device="cuda")
print(rl._scaled_mm(a, a.t(), one, one, out_dtype=rl.bfloat16).shape)
"""
    )
    shapes = [f"({rows}, 40) ({rows}, 16)" for rows in (1, 20, 40, 70)]
    assert out[:8] == shapes * 2
    size = "rushlight.Size"
    assert out[8] == f"{size}([16, 64]) {size}([2, 1, 32, 4]) {size}([16, 64])"
    assert out[9] == f"{size}([16, 16])"
