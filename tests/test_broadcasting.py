"""Broadcasting against NumPy: shapes, values, and the shapes that must not go together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rushlight as rl

SETTINGS = settings(max_examples=120, deadline=None)


def numbered(shape):
    return np.arange(1, int(np.prod(shape)) + 1, dtype="f4").reshape(shape)


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=5, max_side=4, min_side=0))
@SETTINGS
def test_binary(shapes):
    a, b = (numbered(s) for s in shapes.input_shapes)
    got = rl.from_numpy(a.copy()) - rl.from_numpy(b.copy())
    np.testing.assert_array_equal(got.numpy(), a - b)
    assert tuple(rl.broadcast_shapes(*shapes.input_shapes)) == shapes.result_shape


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=3))
@SETTINGS
def test_ternary(shapes):
    a, b, c = (numbered(s) for s in shapes.input_shapes)
    ta, tb, tc = (rl.from_numpy(x.copy()) for x in (a, b, c))
    got = rl.where(ta % 2 == 0, tb, tc)
    np.testing.assert_array_equal(got.numpy(), np.where(a % 2 == 0, b, c))
    np.testing.assert_array_equal(rl.addcmul(ta, tb, tc).numpy(), a + b * c)
    for t, x in zip(rl.broadcast_tensors(ta, tb, tc), np.broadcast_arrays(a, b, c), strict=False):
        np.testing.assert_array_equal(t.numpy(), x)


shape = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@given(shape, shape)
@SETTINGS
def test_mismatch_is_refused(s, t):
    try:
        want = np.broadcast_shapes(s, t)
    except ValueError:
        with pytest.raises(RuntimeError):
            rl.zeros(s) + rl.zeros(t)
        with pytest.raises(RuntimeError):
            rl.broadcast_shapes(s, t)
    else:
        assert tuple((rl.zeros(s) + rl.zeros(t)).shape) == want


@given(shape, shape)
@SETTINGS
def test_in_place_keeps_its_shape(s, t):
    x = rl.zeros(s)
    try:
        fits = np.broadcast_shapes(s, t) == s
    except ValueError:
        fits = False
    if fits:
        x += rl.ones(t)
        assert tuple(x.shape) == s and bool((x == 1).all())
    else:
        with pytest.raises(RuntimeError):
            x += rl.ones(t)
        assert bool((x == 0).all())


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), st.data())
@SETTINGS
def test_matmul_batches(shapes, data):
    m, k, n = (data.draw(st.integers(0, 3)) for _ in range(3))
    a, b = (numbered((*s, *t)) for s, t in zip(shapes.input_shapes, ((m, k), (k, n)), strict=False))
    got = rl.from_numpy(a.copy()) @ rl.from_numpy(b.copy())
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-5)


def test_expand_shares_memory():
    x = rl.ones(3, 1)
    y = x.expand(3, 4)
    assert y.data_ptr() == x.data_ptr() and y.stride() == (1, 0)
    x[1, 0] = 5
    assert y[1].tolist() == [5] * 4


def test_many_dimensions():
    s = (1,) * 60 + (2, 3)
    assert tuple((rl.zeros(s) + rl.ones(3)).shape) == s


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 16, 24, 31, 32, 63, 64, 65, 128, 129, 512, 513])
def test_rows_of_any_length(n, dtype):
    """Rows are copied together, filled, or taken where they lie, as their lengths ask for."""
    random = np.random.default_rng(n)
    rows = 37
    wide = random.integers(-9, 9, (rows, 2 * n + 3)).astype(dtype)
    column = random.integers(-9, 9, (rows, 1)).astype(dtype)
    row = random.integers(-9, 9, (n,)).astype(dtype)
    x, c, r = rl.tensor(wide), rl.tensor(column), rl.tensor(row)
    parts = [(wide[:, :n], x[:, :n]), (wide[:, n : 2 * n], x[:, n : 2 * n])]
    parts += [(wide[:, n + 3 :], x[:, n + 3 :]), (wide[::-1, :n], x.flip(0)[:, :n])]
    parts += [(wide[:, : 2 * n : 2], x[:, : 2 * n : 2]), (column, c), (row, r)]
    for a, of_a in parts:
        np.testing.assert_array_equal(of_a.clone().numpy(), a)
        np.testing.assert_array_equal(of_a.contiguous().numpy(), a)
        np.testing.assert_array_equal(of_a.flip(-1).numpy(), a[..., ::-1])
        joined = rl.cat([of_a, of_a, of_a[..., :1]], -1).numpy()
        np.testing.assert_array_equal(joined, np.concatenate([a, a, a[..., :1]], -1))
        np.testing.assert_array_equal(rl.stack([of_a, of_a], -1).numpy(), np.stack([a, a], -1))
        for b, of_b in parts:
            expected = a + b
            np.testing.assert_array_equal((of_a + of_b).numpy(), expected)
            if dtype != "complex128":  # of two types, one of which is converted
                np.testing.assert_array_equal((of_a + of_b.double()).numpy(), a + b.astype("f8"))
            if expected.shape != (rows, n):
                continue
            out = rl.zeros(rows, n + 5, dtype=of_a.dtype)
            rl.add(of_a, of_b, out=out[:, 2 : n + 2])
            np.testing.assert_array_equal(out[:, 2 : n + 2].numpy(), expected)
            assert not out[:, :2].any() and not out[:, n + 2 :].any()
            out[:, 2 : n + 2].mul_(of_b)
            np.testing.assert_array_equal(out[:, 2 : n + 2].numpy(), expected * b)
