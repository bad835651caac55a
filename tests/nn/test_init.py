"""nn.init: distributions, bounds and errors."""

import math

import numpy as np
import pytest
from scipy import stats

import rushlight as rl
from rushlight import nn
from rushlight.nn import init

LARGE = (300, 200)


def filled(fill, *args, shape=LARGE, **kwargs):
    tensor = nn.Parameter(rl.empty(shape))
    assert fill(tensor, *args, **kwargs) is tensor
    assert tensor.is_leaf and tensor.requires_grad and tensor.grad_fn is None
    return tensor.detach().numpy().ravel()


def same_distribution(values, distribution):
    assert stats.kstest(values, distribution.cdf).pvalue > 1e-3


def uniform(bound):
    return stats.uniform(-bound, 2 * bound)


@pytest.mark.parametrize(
    "fill, distribution",
    [
        (lambda t: init.uniform_(t, -2, 3), stats.uniform(-2, 5)),
        (lambda t: init.normal_(t, 1, 2), stats.norm(1, 2)),
        (lambda t: init.trunc_normal_(t, 1, 2, -1, 2), stats.truncnorm(-1, 0.5, 1, 2)),
        (lambda t: init.xavier_uniform_(t, 2.0), uniform(2 * math.sqrt(6 / 500))),
        (lambda t: init.xavier_normal_(t), stats.norm(0, math.sqrt(2 / 500))),
        (lambda t: init.kaiming_uniform_(t), uniform(math.sqrt(6 / 200))),
        (
            lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="tanh"),
            uniform(5 / 3 * math.sqrt(3 / 300)),
        ),
        (lambda t: init.kaiming_normal_(t, a=2), stats.norm(0, math.sqrt(2 / 5 / 200))),
    ],
)
def test_distributions(fill, distribution):
    same_distribution(filled(fill), distribution)


def test_a_generator_decides():
    def draw(fill):
        return filled(fill, generator=rl.Generator().manual_seed(3), shape=(4, 5))

    for fill in (init.uniform_, init.normal_, init.xavier_uniform_, init.kaiming_normal_,
                 init.trunc_normal_, init.orthogonal_):  # fmt: skip
        assert np.array_equal(draw(fill), draw(fill))


def test_constants():
    assert (filled(init.constant_, 0.5) == 0.5).all()
    assert (filled(init.ones_) == 1).all() and (filled(init.zeros_) == 0).all()
    assert np.array_equal(filled(init.eye_, shape=(3, 4)).reshape(3, 4), np.eye(3, 4))


def test_dirac_passes_channels_through():
    want = np.zeros((4, 2, 3, 3))
    want[0, 0, 1, 1] = want[1, 1, 1, 1] = want[2, 0, 1, 1] = want[3, 1, 1, 1] = 1
    assert np.array_equal(filled(init.dirac_, 2, shape=want.shape).reshape(want.shape), want)
    assert filled(init.dirac_, shape=(4, 2, 3)).sum() == 2


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3), (1, 1)])
def test_orthogonal(shape):
    q = filled(init.orthogonal_, 2.0, shape=shape).reshape(shape[0], -1).astype(np.float64)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_orthogonal_is_uniform_over_rotations():
    # The sign of the determinant and of each entry must be as often plus as minus.
    corner = [rl.empty(2, 2) for _ in range(400)]
    signs = np.array([np.sign(init.orthogonal_(t).numpy()) for t in corner])
    assert (np.abs(signs.mean(0)) < 0.2).all()


def test_sparse():
    values = filled(init.sparse_, 0.3, std=2, shape=(10, 50)).reshape(10, 50)
    assert ((values == 0).sum(0) == 3).all()


def test_fans_and_gains():
    assert init._calculate_fan_in_and_fan_out(rl.empty(4, 3, 2, 5)) == (30, 40)
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)
    assert init.calculate_gain("conv2d") == 1 and init.calculate_gain("selu") == 0.75
    assert init.calculate_gain("tanh") == 5 / 3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: init.calculate_gain("x"),
        lambda: init.calculate_gain("leaky_relu", "a"),
        lambda: init.xavier_uniform_(rl.empty(3)),
        lambda: init.kaiming_normal_(rl.empty(3, 3), mode="x"),
        lambda: init.eye_(rl.empty(3)),
        lambda: init.dirac_(rl.empty(3, 3)),
        lambda: init.dirac_(rl.empty(3, 3, 3), groups=2),
        lambda: init.orthogonal_(rl.empty(3)),
        lambda: init.sparse_(rl.empty(3), 0.1),
    ],
)
def test_errors(wrong):
    with pytest.raises(ValueError):
        wrong()


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [
        (init.trunc_normal_, rl.complex64),
        (init.trunc_normal_, rl.int64),
        (init.orthogonal_, rl.int64),
    ],
)
def test_dtypes_that_are_not_filled_stay_as_they_are(fill, dtype):
    t = rl.full((3, 4), 7, dtype=dtype)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        fill(t)
    assert bool((t == 7).all())


def test_old_names_and_nothing_to_do():
    with pytest.warns(FutureWarning, match="xavier_normal_"):
        init.xavier_normal(rl.empty(2, 2))
    with pytest.warns(UserWarning, match="without elements"):
        init.kaiming_uniform_(rl.empty(0, 2))


def test_layers_start_as_pytorchs_do():
    bound = 1 / math.sqrt(400)
    m = nn.Linear(400, 300)
    same_distribution(m.weight.detach().numpy().ravel(), uniform(bound))
    same_distribution(m.bias.detach().numpy(), uniform(bound))
    e = nn.Embedding(300, 50, padding_idx=3)
    same_distribution(e.weight.detach().numpy()[4:].ravel(), stats.norm())
    assert not e.weight[3].any()
