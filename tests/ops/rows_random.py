"""Random ops: each row gives a call that draws n samples, and the distribution they follow."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

import rushlight as rl


@dataclass(frozen=True)
class RandomSample:
    name: str
    draw: object  # n -> tensor of n samples
    law: object  # a frozen SciPy distribution
    dtypes: tuple = ("float32", "float64")
    discrete: bool = False

    def __str__(self):
        return self.name


def inplace(name, *args):
    return lambda n, d: getattr(rl.empty(n, dtype=d), name)(*args)


def chances(n, d):
    return rl.full((n,), 0.3, dtype=d)


FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32")
unit, normal = stats.uniform(), stats.norm()

ROWS = [
    RandomSample("rand", lambda n, d: rl.rand(n, dtype=d), unit, FLOATS),
    RandomSample("rand_like", lambda n, d: rl.rand_like(rl.empty(n, dtype=d)), unit, FLOATS),
    RandomSample("randn", lambda n, d: rl.randn(n, dtype=d), normal, FLOATS),
    RandomSample("randn_like", lambda n, d: rl.randn_like(rl.empty(n, dtype=d)), normal, FLOATS),
    RandomSample("normal", lambda n, d: rl.normal(rl.full((n,), 2.0, dtype=d), 3.0),
                 stats.norm(2, 3)),
    RandomSample("normal_", inplace("normal_", 2.0, 3.0), stats.norm(2, 3), FLOATS),
    RandomSample("uniform_", inplace("uniform_", -1.0, 3.0), stats.uniform(-1, 4), FLOATS),
    RandomSample("exponential_", inplace("exponential_", 2.0), stats.expon(scale=0.5)),
    RandomSample("cauchy_", inplace("cauchy_", 1.0, 2.0), stats.cauchy(1, 2)),
    RandomSample("log_normal_", inplace("log_normal_", 0.5, 0.25),
                 stats.lognorm(0.25, scale=np.exp(0.5))),
    RandomSample("geometric_", inplace("geometric_", 0.25), stats.geom(0.25), (*INTS, "float32"),
                 True),
    RandomSample("random_", inplace("random_", 3, 9), stats.randint(3, 9), (*INTS, "uint8"), True),
    RandomSample("randint", lambda n, d: rl.randint(-2, 7, (n,), dtype=d), stats.randint(-2, 7),
                 (*INTS, "float32"), True),
    RandomSample("randint_like", lambda n, d: rl.randint_like(rl.empty(n, dtype=d), 5),
                 stats.randint(0, 5), INTS, True),
    RandomSample("bernoulli", lambda n, d: rl.bernoulli(chances(n, d)), stats.bernoulli(0.3),
        FLOATS,
                 True),
    RandomSample("bernoulli_", inplace("bernoulli_", 0.3), stats.bernoulli(0.3), (*FLOATS, "bool"),
                 True),
    RandomSample("binomial", lambda n, d: rl.binomial(rl.full((n,), 10, dtype=d), chances(n, d)),
                 stats.binom(10, 0.3), discrete=True),
    RandomSample("_standard_gamma", lambda n, d: rl._C._standard_gamma(rl.full((n,), 0.7, dtype=d)),
                 stats.gamma(0.7), FLOATS),
    RandomSample("poisson", lambda n, d: rl.poisson(rl.full((n,), 4.0, dtype=d)), stats.poisson(4),
                 discrete=True),
    RandomSample("multinomial", lambda n, d: rl.multinomial(
        rl.tensor([1.0, 2.0, 5.0], dtype=d), n, replacement=True),
        stats.rv_discrete(values=([0, 1, 2], [0.125, 0.25, 0.625])), discrete=True),
    RandomSample("dropout", lambda n, d: rl.dropout(rl.ones(n, dtype=d), 0.25, True) * 0.75,
                 stats.bernoulli(0.75), discrete=True),
]  # fmt: skip

# randperm has no distribution over its elements; test_random.py checks that it permutes
NAMES = {r.name.rstrip("_") for r in ROWS} | {"randperm"}
