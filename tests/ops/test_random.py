"""Random ops: the same seed gives the same numbers on any number of threads, and the right law."""

import numpy as np
import pytest
from scipy import stats

import rushlight as rl
from ops.rows_random import ROWS
from ops.sample import base_name, dtype_name, table_names, to_numpy

TABLE = table_names()
ROWS = [r for r in ROWS if TABLE is None or base_name(r.name) in TABLE]
each_row = pytest.mark.parametrize("row", ROWS, ids=str)
N = 40_000


def draw(row, dtype, n=N, seed=7):
    rl.manual_seed(seed)
    return row.draw(n, getattr(rl, dtype))


@each_row
def test_same_seed_same_numbers(row):
    first, again, other = (draw(row, row.dtypes[0], seed=s) for s in (7, 7, 8))
    np.testing.assert_array_equal(to_numpy(first), to_numpy(again))
    assert (to_numpy(first) != to_numpy(other)).any()


@pytest.mark.threads
@each_row
def test_any_number_of_threads(row):
    threads, found = rl.get_num_threads(), []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            found.append(to_numpy(draw(row, row.dtypes[0], 100_003)))
    finally:
        rl.set_num_threads(threads)
    np.testing.assert_array_equal(*found)


@each_row
def test_distribution(row):
    for dtype in row.dtypes:
        t = draw(row, dtype)
        x = to_numpy(t).astype("f8")
        assert x.shape == (N,)
        assert dtype_name(t.dtype) == dtype or row.name in ("multinomial",)
        mean, var = row.law.mean(), row.law.var()
        if np.isfinite(mean):
            assert abs(x.mean() - mean) < 6 * np.sqrt(var / N) + 0.002 * (abs(mean) + 1)
            assert abs(x.var() / var - 1) < 0.1
        if row.discrete:
            values, counts = np.unique(x, return_counts=True)
            p = row.law.pmf(values)
            assert (p > 0).all(), f"{dtype}: impossible values {values[p == 0]}"
            keep = p * N > 10
            chi = ((counts - N * p) ** 2 / (N * p))[keep].sum()
            assert chi < stats.chi2.ppf(1 - 1e-6, keep.sum())
        elif dtype in ("float32", "float64"):
            assert stats.kstest(x, row.law.cdf).pvalue > 1e-6
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.05 or not np.isfinite(mean)


@each_row
def test_meta(row):
    if row.name in ("rand", "randn"):
        t = getattr(rl, row.name)(3, 4, device="meta")
        assert (t.device.type, tuple(t.shape), t.dtype) == ("meta", (3, 4), rl.float32)


def test_uniform_stays_below_one():
    for dtype in (rl.float16, rl.bfloat16, rl.float32, rl.float64):
        x = rl.rand(200_000, dtype=dtype)
        assert float(x.min()) >= 0 and float(x.max()) < 1


def test_randperm():
    for n in (0, 1, 2, 1000):
        assert sorted(rl.randperm(n).tolist()) == list(range(n))
    assert rl.randperm(5, dtype=rl.int32).dtype == rl.int32
    firsts = [int(rl.randperm(4)[0]) for _ in range(2000)]
    assert min(np.bincount(firsts)) > 400


def test_multinomial_without_replacement():
    draws = rl.multinomial(rl.tensor([0.0, 1.0, 2.0, 3.0]).expand(100, 4), 3)
    for row in draws.tolist():
        assert sorted(row) == [1, 2, 3]
    with pytest.raises(RuntimeError):
        rl.multinomial(rl.tensor([1.0, 1.0]), 3)


def test_states_and_generators():
    state = rl.get_rng_state()
    a = rl.rand(5)
    rl.set_rng_state(state)
    assert rl.equal(a, rl.rand(5))
    g, h = rl.Generator().manual_seed(3), rl.Generator().manual_seed(3)
    assert rl.equal(rl.randn(7, generator=g), rl.randn(7, generator=h))
    assert g.initial_seed() == 3
    saved = g.get_state()
    b = rl.rand(4, generator=g)
    g.set_state(saved)
    assert rl.equal(b, rl.rand(4, generator=g))
    rl.manual_seed(11)
    assert rl.initial_seed() == 11


def test_a_generator_leaves_the_default_alone():
    rl.manual_seed(5)
    a = rl.rand(3)
    rl.manual_seed(5)
    rl.rand(3, generator=rl.Generator().manual_seed(1))
    assert rl.equal(a, rl.rand(3))
