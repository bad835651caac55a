"""Indexing and assignment against NumPy; by hand where PyTorch has a rule of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as rl

pytestmark = pytest.mark.native

SETTINGS = settings(max_examples=250, deadline=None)
SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)


@st.composite
def basic_index(draw, shape):
    """Ints, slices with positive steps, None and one Ellipsis."""
    dims = draw(st.integers(0, len(shape)))
    parts = []
    for n in shape[:dims]:
        if n and draw(st.booleans()):
            parts.append(draw(st.integers(-n, n - 1)))
        else:
            ends = st.none() | st.integers(-n - 2, n + 2)
            parts.append(slice(draw(ends), draw(ends), draw(st.none() | st.integers(1, 3))))
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    if draw(st.booleans()):
        # an Ellipsis in front moves the given parts to the last dims only if none are left over
        parts.append(Ellipsis)
    return tuple(parts)


@st.composite
def integer_array(draw, n, shape):
    return np.array(
        draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(shape)),
                      max_size=int(np.prod(shape)))), "int64").reshape(shape)  # fmt: skip


@st.composite
def advanced_index(draw, shape):
    """Integer arrays that broadcast together, mixed with ints, slices, None; maybe one mask."""
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    parts, d = [], 0
    while d < len(shape):
        n = shape[d]
        kind = draw(st.sampled_from(["slice", "array", "int", "list", "stop"]))
        if n == 0 or kind == "slice":
            parts.append(slice(draw(st.integers(0, max(n, 1))), None, draw(st.integers(1, 2))))
        elif kind == "array":
            parts.append(draw(integer_array(n, common)))
        elif kind == "list":
            parts.append(draw(integer_array(n, (1,))).tolist())
        elif kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        else:
            break
        d += 1
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@st.composite
def case(draw, index):
    shape = draw(SHAPES)
    return shape, draw(index(shape))


def array(shape):
    return np.arange(int(np.prod(shape)), dtype="f4").reshape(shape)


def ours(index):
    return tuple(rl.from_numpy(p.copy()) if isinstance(p, np.ndarray) else p for p in index)


def split(index):
    """PyTorch takes ints first, as views, so that they do not count as arrays as NumPy has it."""
    index = [int(p) if isinstance(p, np.ndarray) and p.ndim == 0 else p for p in index]
    arrays = [isinstance(p, (np.ndarray, list)) for p in index]
    first = tuple(slice(None) if adv else p for p, adv in zip(index, arrays, strict=False))
    kept = [
        (p, adv)
        for p, adv in zip(index, arrays, strict=False)
        if not isinstance(p, int) and p is not ...
    ]
    return first, tuple(p if adv else slice(None) for p, adv in kept)


def check(shape, index):
    """Reads, writes a number, writes a tensor; NumPy must agree each time."""
    base = array(shape)
    t = rl.from_numpy(base.copy())
    first, index_np = split(index)
    a = base[(*first, ...)] if ... not in first else base[first]
    want = a[index_np]
    np.testing.assert_array_equal(t[ours(index)].numpy(), want, err_msg=str(index))
    a[index_np] = -1
    t[ours(index)] = -1
    np.testing.assert_array_equal(t.numpy(), base, err_msg=f"set number {index}")
    a[index_np] = 7  # one value: repeated indices may be written in any order
    t[ours(index)] = rl.full(np.shape(want), 7.0)
    np.testing.assert_array_equal(t.numpy(), base, err_msg=f"set tensor {index}")


@given(case(basic_index))
@SETTINGS
def test_basic(c):
    check(*c)


@given(case(basic_index))
@SETTINGS
def test_basic_is_a_view(c):
    shape, index = c
    t = rl.from_numpy(array(shape))
    part = t[index]
    if part.numel():
        part.fill_(-1)
        assert int((t == -1).sum()) == part.numel()


@given(case(advanced_index))
@SETTINGS
def test_advanced(c):
    check(*c)


@given(SHAPES, st.data())
@SETTINGS
def test_masks(shape, data):
    a = array(shape)
    dims = data.draw(st.integers(1, len(shape)))
    bits = st.lists(st.booleans(), min_size=int(np.prod(shape[:dims])),
                    max_size=int(np.prod(shape[:dims])))  # fmt: skip
    mask = np.array(data.draw(bits), bool).reshape(shape[:dims])
    t, m = rl.from_numpy(a.copy()), rl.from_numpy(mask)
    np.testing.assert_array_equal(t[m].numpy(), a[mask])
    np.testing.assert_array_equal(t[m, ...].numpy(), a[mask, ...])
    t[m] = -5
    a[mask] = -5
    np.testing.assert_array_equal(t.numpy(), a)
    values = np.arange(mask.sum(), dtype="f4").reshape((-1,) + (1,) * (len(shape) - dims))
    t[m] = rl.from_numpy(values.copy())
    a[mask] = values
    np.testing.assert_array_equal(t.numpy(), a)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=6))
@SETTINGS
def test_accumulate(pairs):
    rows, columns = (np.array(p) for p in zip(*pairs, strict=False))
    values = np.arange(1, len(pairs) + 1, dtype="f4")
    a, t = np.zeros((4, 5), "f4"), rl.zeros(4, 5)
    np.add.at(a, (rows, columns), values)
    index = (rl.from_numpy(rows), rl.from_numpy(columns))
    t.index_put_(index, rl.from_numpy(values), accumulate=True)
    np.testing.assert_array_equal(t.numpy(), a)


X = rl.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("index, shape", [
    (0, (3, 4)), (-1, (3, 4)), ((0, 1), (4,)), ((0, 1, 2), ()), (slice(None), (2, 3, 4)),
    (..., (2, 3, 4)), ((..., 0), (2, 3)), ((0, ..., 0), (3,)), (None, (1, 2, 3, 4)),
    ((None, 0, None), (1, 1, 3, 4)), ((slice(0, 9, 2),), (1, 3, 4)), ((), (2, 3, 4)),
    ([0, 1, 0], (3, 3, 4)), (([0, 1], [1, 2]), (2, 4)), ((slice(None), [0, 2]), (2, 2, 4)),
    (([0], slice(None), [1]), (1, 3)), ((0, slice(None), [1, 2]), (3, 2)),
    (([0, 1], None, [0, 1]), (2, 1, 4)), (True, (1, 2, 3, 4)), (False, (0, 2, 3, 4)),
    ((True, 0), (1, 3, 4)), ([[0, 1], [1, 0]], (2, 4)), ([True, False], (1, 3, 4)),
    ((slice(5, 9),), (0, 3, 4)), (np.array([1, 0]), (2, 3, 4)), (np.int64(1), (3, 4)),
    ((slice(1, 0),), (0, 3, 4)),
])  # fmt: skip
def test_shapes(index, shape):
    assert tuple(X[index].shape) == shape


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool"])
def test_index_dtypes(dtype):
    i = rl.tensor([1, 0]).to(getattr(rl, dtype))
    if dtype in ("int8", "int16"):
        assert not accepts(i) or rl.equal(X[i], X[[1, 0]])
        return
    got = X[i]
    want = X[[1, 0]] if dtype not in ("uint8", "bool") else X[[True, False]]
    assert rl.equal(got, want)


def accepts(i):
    try:
        X[i]
    except (IndexError, RuntimeError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")
def test_zero_dim_tensors_are_numbers():
    one = rl.tensor(1)
    assert rl.equal(X[one], X[1]) and rl.equal(X[0, one], X[0, 1])
    assert rl.equal(X[one:], X[1:]) and rl.equal(X[:, : rl.tensor(2)], X[:, :2])
    assert X[rl.tensor(True)].shape == (1, 2, 3, 4)


@pytest.mark.parametrize("index, words", [
    (2, ["2", "0"]), ((0, 5), ["5", "1", "3"]), ((0, 0, -5), ["-5", "2", "4"]),
    (rl.tensor([0, 9]), ["9", "0", "2"]), ((slice(None), rl.tensor([-4])), ["-4", "1", "3"]),
])  # fmt: skip
def test_out_of_range_says_where(index, words):
    with pytest.raises(IndexError) as caught:
        X[index]
    for word in words if rl.__name__ != "torch" else ():
        assert word in str(caught.value)
    y = X.clone()
    with pytest.raises(IndexError):
        y[index] = 1.0
    assert rl.equal(X, y) or rl.__name__ == "torch"  # PyTorch writes part of it


def test_set_converts_and_broadcasts():
    i = rl.zeros(2, 3, dtype=rl.int64)
    i[0] = 2.9
    i[1] = rl.tensor([1.5, 2.5, -1.5])
    assert i.tolist() == [[2, 2, 2], [1, 2, -1]]
    i[:, 1] = rl.tensor(True)
    assert i[:, 1].tolist() == [1, 1]
    x = rl.zeros(2, 3)
    x[...] = rl.tensor([[1.0], [2.0]])
    assert x.tolist() == [[1] * 3, [2] * 3]
    x[0] = rl.ones(1, 1, 3)  # leading ones are dropped
    x[1] = np.array([4.0, 5.0, 6.0]).tolist()[0]
    assert x.tolist() == [[1] * 3, [4] * 3]
    x[rl.tensor([[True, False, True], [False] * 3])] = rl.tensor([8.0, 9.0])
    assert x[0].tolist() == [8, 1, 9]


def test_set_from_an_overlapping_view():
    x = rl.arange(5.0)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_augmented_assignment_through_an_index():
    x = rl.arange(6.0).reshape(2, 3)
    x[0] += 10
    x[:, 1] *= 2
    x[x > 11] -= 1
    x[[0, 1], [0, 2]] = 0
    assert x.tolist() == [[0, 21, 11], [3, 8, 0]]


def test_reads_of_advanced_indices_are_copies():
    x = rl.arange(4.0)
    y = x[[0, 1]]
    y.fill_(9)
    assert x.tolist() == [0, 1, 2, 3]


def test_index_gradients():
    x = rl.arange(6.0, dtype=rl.float64).reshape(2, 3).requires_grad_()
    (x[0, 1:].sum() * 2 + x[[1, 1], [0, 0]].sum() + x[x > 4].sum()).backward()
    assert x.grad.tolist() == [[0, 2, 2], [2, 0, 1]]
    y = rl.zeros(3, dtype=rl.float64)
    v = rl.ones(2, dtype=rl.float64, requires_grad=True)
    y[rl.tensor([0, 2])] = v * 3
    y.sum().backward()
    assert v.grad.tolist() == [3, 3]


def test_strides_of_a_single_element_mean_nothing():
    # Contiguous, although the stride over the size of 1 is not the one of a fresh tensor.
    x = rl.arange(6.0).reshape(3, 1, 2).transpose(0, 1)
    assert x.is_contiguous() and x.stride() == (2, 2, 1)
    assert x.index_select(0, rl.tensor([0])).tolist() == x.tolist()
    assert x.index_select(1, rl.tensor([2])).tolist() == [[[4.0, 5.0]]]
    out = rl.zeros(3).as_strided((1, 3), (0, 1))
    assert rl.cumsum(rl.ones(1, 3), 0, out=out).tolist() == [[1.0, 1.0, 1.0]]
