"""float8_e8m0fnu: powers of two without sign and zero, bit by bit as PyTorch 2.13 has them."""

import hashlib
import math
from pathlib import Path

import pytest

import rushlight as rl

E8M0 = rl.float8_e8m0fnu
OTHERS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def codes():
    return rl.arange(256, dtype=rl.int32).to(rl.uint8).view(E8M0)


def bits(t):
    return t.contiguous().view(rl.uint8)


def floats_from(patterns):
    wrapped = rl.where(patterns >= 2**31, patterns - 2**32, patterns)
    return wrapped.to(rl.int32).view(rl.float32)


def code_of(pattern):
    """What PyTorch makes of the bits of a float, told by its exponent and mantissa."""
    exponent, mantissa = pattern >> 23 & 255, pattern & 0x7FFFFF
    if exponent == 255:
        return 255
    tie_goes_up = exponent > 0  # the hidden bit is the last one, and odd
    up = mantissa > 0x400000 or (mantissa == 0x400000 and tie_goes_up)
    return exponent + up


def test_every_code_is_a_power_of_two():
    values = codes().double().tolist()
    assert values[:255] == [math.ldexp(1.0, e - 127) for e in range(255)]
    assert math.isnan(values[255]) and codes().isnan().nonzero().tolist() == [[255]]
    assert rl.equal(bits(codes().float().to(E8M0)), bits(codes()))
    assert rl.equal(bits(codes().bfloat16().to(E8M0)), bits(codes()))


def test_rounding_at_every_exponent():
    """Around the ties, of either sign, subnormals, infinities and NaN included."""
    exponents = rl.arange(256)[:, None] << 23
    mantissas = rl.tensor([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF, 0x200000, 0x600000])
    positive = (exponents | mantissas).reshape(-1)
    patterns = rl.cat([positive, positive | 1 << 31])
    got = bits(floats_from(patterns).to(E8M0))
    assert got.tolist() == [code_of(p) for p in patterns.tolist()]
    # The same by PyTorch 2.13, as a digest.
    assert hashlib.sha256(got.numpy().tobytes()).hexdigest()[:16] == "266a41aaed2379db"
    scattered = floats_from(patterns).view(64, 64).t().to(E8M0).t()  # not the flat loop
    assert rl.equal(bits(scattered).view(-1), got)


def test_rounding_of_any_floats():
    patterns = rl.randint(0, 2**32, (20000,), dtype=rl.int64)
    floats = floats_from(patterns)
    want = [code_of(p) for p in patterns.tolist()]
    assert bits(floats.to(E8M0)).tolist() == want
    assert bits(floats.double().to(E8M0)).tolist() == want


def test_other_types():
    integers = rl.tensor([0, 1, 2, 3, 5, 6, -3, 2**62, -(2**63)])
    assert bits(integers.to(E8M0)).tolist() == [0, 127, 128, 129, 129, 130, 129, 189, 190]
    assert bits(rl.tensor([True, False]).to(E8M0)).tolist() == [127, 0]
    assert bits(rl.tensor([1 + 2j, -3j, 5]).to(E8M0)).tolist() == [127, 0, 129]
    assert codes().bool().all() and rl.zeros(2, dtype=E8M0).any()  # there is no zero
    few = codes()[120:135]
    assert few.to(rl.uint8).tolist() == [0] * 7 + [1, 2, 4, 8, 16, 32, 64, 128]
    assert codes()[[127, 253, 254]].to(rl.int32).tolist() == [1, -(2**31), -(2**31)]
    assert codes()[[0, 1, 128, 254]].half().tolist() == [0, 0, 2, math.inf]
    assert codes()[127:130].to(rl.complex64).tolist() == [1, 2, 4]
    for name in OTHERS:
        other = getattr(rl, name)
        assert rl.equal(bits(few.to(other)), bits(few.float().to(other)))
        all_others = codes().view(rl.uint8).view(other)
        assert rl.equal(bits(all_others.to(E8M0)), bits(all_others.float().to(E8M0)))


def test_numbers_that_are_written():
    assert rl.full((2,), 3.0, dtype=E8M0).tolist() == [4, 4]
    assert bits(rl.full((1,), -3, dtype=E8M0)).item() == 129  # integers for what they round to
    assert bits(rl.full((1,), 0, dtype=E8M0)).item() == 0
    assert rl.full((1,), math.nan, dtype=E8M0).isnan().all()
    assert bits(rl.full((1,), 2.0**-127, dtype=E8M0)).item() == 0
    for value in (0.0, -1.0, 1e-40, 3e38, 1e39, math.inf):
        with pytest.raises(RuntimeError, match="out of range for float8_e8m0fnu"):
            rl.full((2,), value, dtype=E8M0)
        with pytest.raises(RuntimeError, match="out of range for float8_e8m0fnu"):
            rl.ones(2, dtype=E8M0).fill_(value)
    assert bits(rl.tensor([0.0, -1.0, 5.0, 1e39], dtype=E8M0)).tolist() == [0, 127, 129, 255]
    assert bits(rl.eye(2, dtype=E8M0)).tolist() == [[127, 0], [0, 127]]
    assert bits(rl.ones(2, dtype=E8M0).zero_()).tolist() == [0, 0]
    x = rl.ones(4, dtype=E8M0)
    x[0], x[1], x[2:], x[3] = 0.0, -2.0, math.inf, rl.tensor(3.0)
    assert bits(x).tolist() == [0, 128, 255, 129]
    x[rl.tensor([True, False, False, False])] = 16
    assert x[0].item() == 16


def test_questions():
    x = rl.tensor([1.0, math.nan, math.inf, -2.0]).to(E8M0)
    assert (x == x).tolist() == [True, False, False, True]
    assert (x != x.roll(1, 0)).tolist() == [True] * 4
    assert x.isnan().tolist() == [False, True, True, False]
    assert x.isfinite().tolist() == [True, False, False, True]  # PyTorch calls NaN finite
    assert not x.isinf().any() and not x.signbit().any()
    assert (x == 1.0).tolist() == [True, False, False, False]
    assert rl.where(x.isnan(), 2.0, x).tolist() == [1, 2, 2, 2]
    assert x[:1].sum(dtype=rl.float32).item() == 1


def test_printing():
    assert repr(rl.tensor([1.0, 2, 3]).to(E8M0)) == (
        "tensor([1., 2., 4.], dtype=rushlight.float8_e8m0fnu)"
    )
    assert repr(codes()[:2]) == "tensor([5.8775e-39, 1.1755e-38], dtype=rushlight.float8_e8m0fnu)"
    assert repr(rl.finfo(E8M0)) == (
        "finfo(resolution=1, min=5.87747e-39, max=1.70141e+38, eps=1, "
        "smallest_normal=5.87747e-39, tiny=5.87747e-39, dtype=float8_e8m0fnu)"
    )


def test_scales_are_no_factors():
    a = rl.ones(16, 16).to(rl.float8_e4m3fn)
    one = rl.ones(())
    with pytest.raises(ValueError, match="two float8 matrices"):
        rl._scaled_mm(a.float().to(E8M0), a.t(), one, one, out_dtype=rl.float32)
    with pytest.raises(TypeError, match="out_dtype must be"):
        rl._scaled_mm(a, a.t(), one, one, out_dtype=E8M0)


def test_a_file_of_pytorch(tmp_path):
    x = rl.load(Path(__file__).resolve().parent / "data" / "float8_e8m0fnu.pt")
    assert x.dtype is E8M0 and bits(x).tolist() == list(range(120, 136))
    rl.save(x, tmp_path / "x.pt")
    assert b"float8_e8m0fnu" in (tmp_path / "x.pt").read_bytes()  # by PyTorch's name
    assert bits(rl.load(tmp_path / "x.pt")).tolist() == list(range(120, 136))


def test_safetensors(tmp_path):
    from rushlight.utils import safetensors as own

    own.save_file({"scales": codes()}, tmp_path / "x.safetensors")
    got = own.load_file(tmp_path / "x.safetensors")["scales"]
    assert got.dtype is E8M0 and rl.equal(bits(got), bits(codes()))
    assert b'"dtype":"F8_E8M0"' in (tmp_path / "x.safetensors").read_bytes()


def test_blocks_of_numbers_and_their_scales():
    """What the type is for: each block's largest exponent, stored in a byte, divides it exactly."""
    x = rl.randn(8, 32) * rl.tensor([2.0**e for e in range(-20, 60, 10)])[:, None]
    exponents = x.abs().amax(1, keepdim=True).log2().floor()
    scales = rl.exp2(exponents).to(E8M0)
    assert scales.float().log2().tolist() == exponents.tolist()
    small = (x / scales.float()).to(rl.float8_e4m3fn)
    back = small.float() * scales.float()
    assert ((back - x).abs() <= x.abs() * 2**-4 + scales.float() * 2**-10).all()
