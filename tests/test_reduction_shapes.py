"""Reductions pick their loop by shape: around every limit of that choice the values stay right."""

import numpy as np
import pytest

import rushlight as torch

# Below, at and above: a vector, four of them, a block of a row, a block of rows, a segment.
LENGTHS = [
    1,
    2,
    7,
    15,
    16,
    17,
    31,
    33,
    63,
    64,
    65,
    100,
    129,
    257,
    431,
    1023,
    1025,
    2047,
    2049,
    4100,
]
ROWS = [1, 7, 8, 17, 33, 65]


def relative_error(got: torch.Tensor, want: np.ndarray, scale: np.ndarray) -> float:
    return float(np.max(np.abs(got.double().numpy() - want) / scale))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_sums_and_extremes(n, dtype):
    rng = np.random.default_rng(n)
    kind = getattr(torch, dtype)
    tolerance = {"float32": 2e-6, "float64": 4e-15, "bfloat16": 5e-3, "int64": 0}[dtype]
    for rows in ROWS:
        numbers = rng.standard_normal((rows, n)) * 100
        for t in (torch.tensor(numbers).to(kind), torch.tensor(numbers.T.copy()).to(kind).t()):
            x = t.double().numpy()
            for dim in (0, 1):
                scale = np.abs(x).sum(dim) + 1
                assert relative_error(t.sum(dim), x.sum(dim), scale) <= tolerance
                assert np.array_equal(t.amax(dim).double().numpy(), x.max(dim))
                assert np.array_equal(t.amin(dim).double().numpy(), x.min(dim))


@pytest.mark.parametrize("shape", [(5, 33, 65), (65, 7, 100), (3, 100, 17), (2, 1100, 300)])
def test_cubes_have_the_same_bits_for_any_number_of_threads(shape):
    x = torch.tensor(np.random.default_rng(0).standard_normal((16, *shape)), dtype=torch.float32)
    before = torch.get_num_threads()
    try:
        for dim in (0, 1, 2, 3, (0, 2), (1, 3), (0, 1, 2)):
            results = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                results.append((x.sum(dim), x.mean(dim), x.amax(dim), x.var(dim)))
            for other in results[1:]:
                for a, b in zip(results[0], other, strict=True):
                    assert torch.equal(a, b)
            exact = x.double().numpy().sum(dim)
            scale = x.abs().double().numpy().sum(dim)
            assert relative_error(results[0][0], exact, scale) <= 1e-6
    finally:
        torch.set_num_threads(before)


def test_nan_wins_wherever_it_stands():
    for n in (3, 16, 40, 100, 2100):
        for at in {0, n // 2, n - 1}:
            x = torch.zeros(20, n)
            x[:, at] = float("nan")
            assert torch.isnan(x.amax(1)).all() and torch.isnan(x.amin(1)).all()
            columns = x.t().contiguous()
            assert torch.isnan(columns.amax(0)).all() and torch.isnan(columns.amin(0)).all()


def test_uint64_is_ordered_above_two_to_the_63():
    values = np.array([[1, 2**63 + 5, 7], [2**64 - 1, 0, 2**63]] * 20, dtype=np.uint64)
    x = torch.from_numpy(values)
    for dim in (0, 1):
        for name in ("amax", "amin", "argmax", "argmin"):
            assert np.array_equal(getattr(x, name)(dim).numpy(), getattr(np, name)(values, dim))
        assert np.array_equal(x.max(dim)[0].numpy(), values.max(dim))
    assert x.max().numpy() == np.uint64(2**64 - 1)
    with pytest.raises((TypeError, NotImplementedError)):  # PyTorch has none either
        x.cummax(0)
