"""Draws follow their laws, and gradients flow through them."""

import math

import numpy as np
import pytest
from scipy import stats

import rushlight as rl
from rushlight import distributions as D

N = 20_000

LAWS = [
    (lambda: D.Normal(1.0, 2.0), stats.norm(1, 2)),
    (lambda: D.Laplace(1.0, 2.0), stats.laplace(1, 2)),
    (lambda: D.Cauchy(1.0, 2.0), stats.cauchy(1, 2)),
    (lambda: D.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
    (lambda: D.Exponential(2.0), stats.expon(scale=0.5)),
    (lambda: D.Gamma(rl.tensor(0.3), rl.tensor(2.0)), stats.gamma(0.3, scale=0.5)),
    (lambda: D.Gamma(rl.tensor(20.0), rl.tensor(2.0)), stats.gamma(20, scale=0.5)),
    (lambda: D.Chi2(rl.tensor(3.0)), stats.chi2(3)),
    (lambda: D.Beta(0.5, 2.0), stats.beta(0.5, 2)),
    (lambda: D.StudentT(rl.tensor(4.0), 1.0, 2.0), stats.t(4, 1, 2)),
    (lambda: D.FisherSnedecor(rl.tensor(5.0), rl.tensor(7.0)), stats.f(5, 7)),
    (lambda: D.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2)),
    (lambda: D.Weibull(rl.tensor(2.0), rl.tensor(1.5)), stats.weibull_min(1.5, scale=2)),
    (lambda: D.Pareto(rl.tensor(2.0), rl.tensor(3.0)), stats.pareto(3, scale=2)),
    (lambda: D.LogNormal(0.5, 0.3), stats.lognorm(0.3, scale=math.exp(0.5))),
    (lambda: D.HalfNormal(2.0), stats.halfnorm(scale=2)),
    (lambda: D.HalfCauchy(2.0), stats.halfcauchy(scale=2)),
    (lambda: D.InverseGamma(rl.tensor(3.0), rl.tensor(2.0)), stats.invgamma(3, scale=2)),
    (lambda: D.GeneralizedPareto(1.0, 2.0, 0.3), stats.genpareto(0.3, 1, 2)),
    (lambda: D.VonMises(rl.tensor(0.5), rl.tensor(3.0)), stats.vonmises(3, 0.5)),
]
COUNTS = [
    (lambda: D.Bernoulli(0.3), stats.bernoulli(0.3)),
    (lambda: D.Geometric(0.3), stats.geom(0.3, -1)),
    (lambda: D.Poisson(4.0), stats.poisson(4)),
    (lambda: D.Poisson(40.0), stats.poisson(40)),
    (lambda: D.Binomial(10, rl.tensor(0.3)), stats.binom(10, 0.3)),
    (lambda: D.Binomial(200, rl.tensor(0.8)), stats.binom(200, 0.8)),
    (lambda: D.NegativeBinomial(3.0, rl.tensor(0.4)), stats.nbinom(3, 0.6)),
    (lambda: D.Categorical(rl.tensor([0.2, 0.3, 0.5])), stats.rv_discrete(
        values=([0, 1, 2], [0.2, 0.3, 0.5]))),
]  # fmt: skip


@pytest.mark.parametrize("make,law", LAWS, ids=[str(i) for i in range(len(LAWS))])
def test_continuous_laws(make, law):
    rl.manual_seed(3)
    x = make().sample((N,))
    assert x.shape == (N,) and not x.requires_grad
    assert stats.kstest(x.numpy(), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("make,law", LAWS, ids=[str(i) for i in range(len(LAWS))])
def test_densities(make, law):
    d = make()
    x = law.ppf([0.1, 0.4, 0.8])
    got = d.log_prob(rl.tensor(x)).numpy()
    np.testing.assert_allclose(got, law.logpdf(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make,law", COUNTS, ids=[str(i) for i in range(len(COUNTS))])
def test_discrete_laws(make, law):
    rl.manual_seed(3)
    values, counts = np.unique(make().sample((N,)).numpy(), return_counts=True)
    p = law.pmf(values)
    assert (p > 0).all()
    keep = p * N > 10
    chi = ((counts - N * p) ** 2 / (N * p))[keep].sum()
    assert chi < stats.chi2.ppf(1 - 1e-6, keep.sum())
    got = make().log_prob(rl.tensor(values, dtype=rl.float32)).numpy()
    np.testing.assert_allclose(got, law.logpmf(values), rtol=2e-4, atol=1e-4)


def test_gamma_gradient_moves_quantiles():
    """A draw's derivative by the shape: the quantile's, by SciPy."""
    from scipy.special import gammainc, gammaincinv

    for a in (0.05, 0.5, 1.0, 3.0, 40.0, 2000.0):
        rl.manual_seed(1)
        shape = rl.full((50,), a, dtype=rl.float64, requires_grad=True)
        x = rl._C._standard_gamma(shape)
        x.sum().backward()
        q, h = gammainc(a, x.detach().numpy()), a * 1e-6
        expected = (gammaincinv(a + h, q) - gammaincinv(a - h, q)) / (2 * h)
        fine = (q > 1e-6) & (q < 1 - 1e-6)
        np.testing.assert_allclose(shape.grad.numpy()[fine], expected[fine], rtol=2e-4)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Chi2"])
def test_reparameterised_means(name):
    """The gradient of a mean over draws is near the gradient of the mean."""
    rl.manual_seed(0)
    make = {
        "Gamma": lambda a: D.Gamma(a, a * 0 + 2.0),
        "Beta": lambda a: D.Beta(a, a * 0 + 2.0),
        "Dirichlet": lambda a: D.Dirichlet(rl.stack([a, a * 0 + 2.0, a * 0 + 1.0])),
        "StudentT": lambda a: D.StudentT(a * 0 + 5.0, a, 1.0),
        "Chi2": lambda a: D.Chi2(a),
    }[name]
    a = rl.tensor(1.7, dtype=rl.float64, requires_grad=True)
    (exact,) = rl.autograd.grad(make(a).mean.reshape(-1)[0], a)
    (found,) = rl.autograd.grad(make(a).rsample((N,)).mean(0).reshape(-1)[0], a)
    assert abs(float(found) - float(exact)) < 0.03 * (1 + abs(float(exact)))


def test_gamma_cdf():
    a = rl.tensor([0.3, 2.0, 50.0], dtype=rl.float64, requires_grad=True)
    x = rl.tensor([0.1, 1.0, 90.0], dtype=rl.float64, requires_grad=True)
    d = D.Gamma(a, rl.tensor([1.0, 3.0, 0.5], dtype=rl.float64))
    expected = stats.gamma(a.detach().numpy(), scale=1 / np.array([1, 3, 0.5])).cdf(
        x.detach().numpy()
    )
    np.testing.assert_allclose(d.cdf(x).detach().numpy(), expected, rtol=1e-12)
    assert rl.autograd.gradcheck(
        lambda a, x: D.Gamma(a, rl.ones(3, dtype=rl.float64)).cdf(x), (a, x)
    )


def test_vectors_and_matrices():
    rl.manual_seed(0)
    cov = rl.tensor([[2.0, 0.6], [0.6, 1.0]])
    x = D.MultivariateNormal(rl.tensor([1.0, -1.0]), cov).sample((N,))
    assert (rl.cov(x.T) - cov).abs().max() < 0.1 and (
        x.mean(0) - rl.tensor([1.0, -1.0])
    ).norm() < 0.1
    w = D.Wishart(5.0, cov).sample((4000,))
    assert (w.mean(0) - 5 * cov).abs().max() < 0.4
    low = D.LowRankMultivariateNormal(rl.zeros(2), rl.tensor([[1.0], [0.5]]), rl.tensor([0.5, 1.0]))
    assert (rl.cov(low.sample((N,)).T) - low.covariance_matrix).abs().max() < 0.1
    factors = D.LKJCholesky(3, 2.0).sample((500,))
    assert bool(D.constraints.corr_cholesky.check(factors).all())
    counts = D.Multinomial(7, rl.tensor([0.2, 0.8])).sample((N,))
    assert (counts.sum(-1) == 7).all() and abs(float(counts[:, 0].mean()) - 1.4) < 0.05
    hot = D.OneHotCategorical(rl.tensor([0.2, 0.8])).sample((N,))
    assert abs(float(hot[:, 1].mean()) - 0.8) < 0.02
    assert bool(D.constraints.simplex.check(D.Dirichlet(rl.full((3,), 0.01)).sample((200,))).all())


def test_mixture_and_relaxed():
    rl.manual_seed(0)
    mixture = D.MixtureSameFamily(
        D.Categorical(rl.tensor([0.3, 0.7])),
        D.Normal(rl.tensor([-2.0, 1.0]), rl.tensor([0.5, 1.0])),
    )
    x = mixture.sample((N,))
    assert abs(float(x.mean() - mixture.mean)) < 0.05
    assert abs(float(x.var() / mixture.variance) - 1) < 0.05
    points = np.linspace(-4, 4, 7)
    expected = 0.3 * stats.norm(-2, 0.5).pdf(points) + 0.7 * stats.norm(1, 1).pdf(points)
    np.testing.assert_allclose(
        mixture.log_prob(rl.tensor(points)).exp().numpy(), expected, rtol=1e-5
    )
    logits = rl.zeros(3, requires_grad=True)
    y = D.RelaxedOneHotCategorical(rl.tensor(0.5), logits=logits).rsample((10,))
    y[:, 0].sum().backward()
    assert y.sum(-1).allclose(rl.ones(10)) and logits.grad.abs().sum() > 0
    straight = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert straight.requires_grad and set(straight.tolist()) <= {0.0, 1.0}
