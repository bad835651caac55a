"""randperm: a permutation for every length, the same for any number of threads, and fair."""

import itertools
from collections import Counter

import pytest

import rushlight as rl
from rushlight import config

LENGTHS = [0, 1, 2, 3, 5, 17, 64, 100, 1000, 4097, 32767, 32768, 32769, 100_000, 300_001]


@pytest.mark.parametrize("n", LENGTHS)
def test_every_number_appears_once(n):
    p = rl.randperm(n)
    assert p.dtype == rl.int64 and p.shape == (n,)
    assert rl.equal(p.sort()[0], rl.arange(n))


@pytest.mark.parametrize("n", [1000, 100_000])
def test_the_seed_decides_and_the_threads_do_not(n):
    results = []
    for threads in (1, 2, 3):
        with config.patch(threads=threads):
            rl.manual_seed(7)
            results.append(rl.randperm(n))
    assert rl.equal(results[0], results[1]) and rl.equal(results[0], results[2])
    assert not rl.equal(results[0], rl.randperm(n))
    # Neither close to the identity nor turned round: a third of n away on average.
    distance = (results[0] - rl.arange(n)).abs().double().mean().item() / n
    assert 0.3 < distance < 0.37


def test_all_orders_are_equally_likely():
    rl.manual_seed(0)
    draws = 24 * 400
    counts = Counter(tuple(rl.randperm(4).tolist()) for _ in range(draws))
    assert set(counts) == set(itertools.permutations(range(4)))
    # 23 degrees of freedom: 49.7 is passed once in a thousand times.
    assert sum((c - 400) ** 2 / 400 for c in counts.values()) < 49.7


def test_dtypes_and_generators():
    g = rl.Generator().manual_seed(3)
    a = rl.randperm(50, generator=g, dtype=rl.int32)
    b = rl.randperm(50, generator=rl.Generator().manual_seed(3))
    assert a.dtype == rl.int32 and rl.equal(a.long(), b)
    assert rl.randperm(5, device="meta").shape == (5,)
