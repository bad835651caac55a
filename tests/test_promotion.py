"""Result dtypes: PyTorch's table (oracle/promotion.json), and laws that must hold for any pair."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

ORACLE = json.loads((Path(__file__).parent / "oracle" / "promotion.json").read_text())
DTYPES, NUMBERS = ORACLE["dtypes"], {"bool": True, "int": 2, "float": 2.5, "complex": 2j}


def name(dtype):
    return None if dtype is None else str(dtype).split(".")[-1]


def attempt(f, *args):
    try:
        return f(*args)
    except (RuntimeError, TypeError, ValueError):
        return None


def ones(dtype, *shape):
    return rl.ones(shape, dtype=getattr(rl, dtype))


def test_pairs():
    for pair, (promoted, tensors, with_0d, castable) in ORACLE["pairs"].items():
        a, b = pair.split()
        da, db = getattr(rl, a), getattr(rl, b)
        assert name(attempt(rl.promote_types, da, db)) == promoted, pair
        assert name(attempt(rl.result_type, ones(a, 2), ones(b, 2))) == tensors, pair
        assert name(attempt(rl.result_type, ones(a, 2), ones(b))) == with_0d, pair
        assert rl.can_cast(da, db) == castable, pair


def test_numbers():
    for dtype, found in ORACLE["numbers"].items():
        for kind, (one, zero) in found.items():
            assert name(rl.result_type(ones(dtype, 2), NUMBERS[kind])) == one, (dtype, kind)
            assert name(rl.result_type(ones(dtype), NUMBERS[kind])) == zero, (dtype, kind)


@pytest.mark.parametrize("text", [k for k in ORACLE["ops"] if " " not in k])
def test_ops(text):
    """An op may accept a dtype that PyTorch refuses, but not answer with another dtype."""
    op, _, dim = text.partition("@")
    if not hasattr(rl, op):
        pytest.skip("not there yet")
    f, recorded = getattr(rl, op), ORACLE["ops"][text]
    rest = (int(dim),) if dim else ()
    for a, want in zip(DTYPES, recorded, strict=False):
        if not isinstance(want, list):
            assert want is None or name(f(ones(a, 2), *rest).dtype) == want, (text, a)
            continue
        for b, want_b in zip(DTYPES, want, strict=False):
            if want_b is not None:
                assert name(f(ones(a, 2), ones(b, 2)).dtype) == want_b, (text, a, b)
        numbers = zip(
            NUMBERS.values(), ORACLE["ops"][text + " number"][DTYPES.index(a)], strict=False
        )
        for number, want_n in numbers:
            if want_n is not None:
                assert name(f(ones(a, 2), number).dtype) == want_n, (text, a, number)


dtypes = st.sampled_from(DTYPES)


@given(dtypes, dtypes, dtypes)
@settings(max_examples=200, deadline=None)
def test_promotion_laws(a, b, c):
    a, b, c = (getattr(rl, d) for d in (a, b, c))
    p = rl.promote_types
    assert p(a, b) == p(b, a)
    assert p(a, a) == a
    half = {rl.float16, rl.bfloat16}  # the pair that has no common ancestor below float32
    if not half <= {a, b, c}:
        assert p(p(a, b), c) == p(a, p(b, c))
    assert rl.can_cast(a, p(a, b)) and rl.can_cast(b, p(a, b))


@given(dtypes, dtypes, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_result_type_is_the_dtype_of_a_product(a, b, flat_a, flat_b):
    x, y = ones(a, *[2] * flat_a), ones(b, *[2] * flat_b)
    assert (x * y).dtype == rl.result_type(x, y) == (y * x).dtype


def test_default_dtype():
    try:
        rl.set_default_dtype(rl.float64)
        assert rl.tensor(1.0).dtype == rl.zeros(2).dtype == rl.float64
        assert (rl.tensor([1, 2]) / 2).dtype == rl.float64
        assert (rl.tensor([1, 2]) * 1.5).dtype == rl.float64
        assert rl.tensor(1j).dtype == rl.complex128
        rl.set_default_dtype(rl.float16)
        assert rl.exp(rl.tensor([1])).dtype == rl.float16
    finally:
        rl.set_default_dtype(rl.float32)
    assert rl.get_default_dtype() == rl.float32


def test_numpy_scalars_and_arrays():
    np = pytest.importorskip("numpy")
    x = rl.ones(2, dtype=rl.float32)
    assert (x * np.float64(2)).dtype == rl.float32
    assert (x + np.int64(1)).dtype == rl.float32


def test_casts_in_place():
    x = rl.ones(2, dtype=rl.float16)
    x += rl.ones(2, dtype=rl.float64)
    assert x.dtype == rl.float16 and x.tolist() == [2, 2]
    i = rl.ones(2, dtype=rl.int8)
    i += rl.tensor([300, 1])
    assert i.tolist() == [45, 2]
    with pytest.raises(RuntimeError):
        i += 0.5
    with pytest.raises(RuntimeError):
        i /= 2


def test_conversions():
    x = rl.tensor([-1.7, 0.0, 2.9, 100.0])
    assert x.to(rl.int32).tolist() == [-1, 0, 2, 100]
    assert x.to(rl.bool).tolist() == [True, False, True, True]
    assert rl.tensor([-1, 300]).to(rl.uint8).tolist() == [255, 44]
    assert rl.tensor([1 + 2j]).abs().dtype == rl.float32
    for d in ("uint16", "uint32", "uint64"):
        t = rl.tensor([1, 2, 3]).to(getattr(rl, d))
        assert t.tolist() == [1, 2, 3] and t.to(rl.float32).tolist() == [1, 2, 3]
        assert (t == t).all()
