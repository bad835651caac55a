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
