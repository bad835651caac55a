"""Shapes, constraints, transforms and subclasses."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributions as D
from rushlight.distributions import constraints, transforms


def test_bad_parameters_and_values():
    with pytest.raises(
        ValueError, match=r"Normal: the parameter scale .* GreaterThan\(lower_bound=0.0"
    ):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="NaN|nan|constraint Real"):
        D.Normal(float("nan"), 1.0)
    with pytest.raises(ValueError, match="must lie in the support"):
        D.Bernoulli(0.3).log_prob(rl.tensor(0.5))
    with pytest.raises(ValueError, match="either `probs` or `logits`"):
        D.Categorical()
    with pytest.raises(ValueError, match="cannot be broadcast"):
        D.Normal(rl.zeros(3), 1.0).log_prob(rl.zeros(2))
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Normal(rl.zeros(3), rl.ones(3)),
        lambda: D.Categorical(rl.ones(3, 4)),
        lambda: D.Beta(rl.ones(3), 2.0),
        lambda: D.Dirichlet(rl.ones(3, 4)),
        lambda: D.Gumbel(rl.zeros(3), 1.0),
        lambda: D.StudentT(rl.full((3,), 3.0)),
        lambda: D.LogNormal(rl.zeros(3), 1.0),
        lambda: D.MultivariateNormal(rl.zeros(3, 2), rl.eye(2)),
        lambda: D.Independent(D.Normal(rl.zeros(3, 4), 1.0), 1),
        lambda: D.OneHotCategorical(rl.ones(3, 4)),
        lambda: D.RelaxedBernoulli(rl.tensor(0.5), rl.full((3,), 0.5)),
        lambda: D.MixtureSameFamily(D.Categorical(rl.ones(3, 5)), D.Normal(rl.zeros(3, 5), 1.0)),
        lambda: D.Weibull(rl.ones(3), 1.0),
        lambda: D.Multinomial(4, rl.ones(3, 4)),
        lambda: D.LKJCholesky(3, rl.ones(3)),
        lambda: D.Bernoulli(logits=rl.zeros(3)),
        lambda: D.Binomial(4, rl.full((3,), 0.5)),
        lambda: D.Cauchy(rl.zeros(3), 1.0),
        lambda: D.Chi2(rl.ones(3)),
        lambda: D.ContinuousBernoulli(rl.full((3,), 0.3)),
        lambda: D.Exponential(rl.ones(3)),
        lambda: D.FisherSnedecor(rl.ones(3), 2.0),
        lambda: D.GeneralizedPareto(rl.zeros(3), rl.ones(3), rl.ones(3)),
        lambda: D.Geometric(rl.full((3,), 0.5)),
        lambda: D.HalfCauchy(rl.ones(3)),
        lambda: D.HalfNormal(rl.ones(3)),
        lambda: D.InverseGamma(rl.ones(3), 2.0),
        lambda: D.Kumaraswamy(rl.ones(3), 2.0),
        lambda: D.Laplace(rl.zeros(3), 1.0),
        lambda: D.LogisticNormal(rl.zeros(3, 2), rl.ones(3, 2)),
        lambda: D.LowRankMultivariateNormal(rl.zeros(3, 2), rl.ones(3, 2, 1), rl.ones(3, 2)),
        lambda: D.NegativeBinomial(4, rl.full((3,), 0.5)),
        lambda: D.Pareto(rl.ones(3), 2.0),
        lambda: D.Poisson(rl.ones(3)),
        lambda: D.RelaxedOneHotCategorical(rl.tensor(0.5), logits=rl.zeros(3, 4)),
        lambda: D.Uniform(rl.zeros(3), 1.0),
        lambda: D.VonMises(rl.zeros(3), rl.ones(3)),
        lambda: D.Wishart(rl.full((3,), 4.0), rl.eye(2)),
    ],
)
def test_expand(make):
    d = make()
    big = d.expand((2, 3))
    assert big.batch_shape == (2, 3) and big.event_shape == d.event_shape and type(big) is type(d)
    x = big.sample()
    assert x.shape == (2, 3, *d.event_shape)
    assert big.log_prob(x).shape == (2, 3)
    assert rl.allclose(big.log_prob(x)[1], d.log_prob(x[1]), equal_nan=True)
    assert big.sample((4,)).shape == (4, 2, 3, *d.event_shape)
    assert repr(big)
    again = pickle.loads(pickle.dumps(d))
    assert again.batch_shape == d.batch_shape
    assert copy.deepcopy(d).batch_shape == d.batch_shape


TRANSFORMS = [
    (transforms.ExpTransform(), rl.linspace(-1, 1, 5)),
    (transforms.SigmoidTransform(), rl.linspace(-2, 2, 5)),
    (transforms.TanhTransform(), rl.linspace(-2, 2, 5)),
    (transforms.SoftplusTransform(), rl.linspace(-2, 2, 5)),
    (transforms.PowerTransform(rl.tensor(2.5)), rl.linspace(0.3, 2, 5)),
    (transforms.AffineTransform(1.0, -2.0), rl.linspace(-1, 1, 5)),
    (transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(1.0, 2.0)]),
     rl.linspace(-1, 1, 5)),
    (transforms.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), rl.linspace(-1, 1, 5)),
]  # fmt: skip


@pytest.mark.parametrize("t,x", TRANSFORMS, ids=[type(t).__name__ for t, _ in TRANSFORMS])
def test_transforms(t, x):
    x = x.double().requires_grad_()
    y = t(x)
    assert t.inv(y).allclose(x, atol=1e-6)
    (slope,) = rl.autograd.grad(y.sum(), x)
    assert t.log_abs_det_jacobian(x, y).allclose(slope.abs().log(), atol=1e-6)
    assert t.inv.inv is t or t.inv.inv == t


def test_transforms_of_vectors():
    x = rl.tensor([[0.3, -0.5, 1.0], [0.0, 2.0, -1.0]], dtype=rl.float64)
    t = transforms.StickBreakingTransform()
    y = t(x)
    assert bool(constraints.simplex.check(y).all()) and t.inv(y).allclose(x)
    for row in range(2):
        J = rl.autograd.functional.jacobian(lambda v: t(v)[:-1], x[row])
        expected = np.linalg.slogdet(J.numpy())[1]
        assert abs(float(t.log_abs_det_jacobian(x, y)[row]) - expected) < 1e-8
    t = transforms.CorrCholeskyTransform()
    y = t(x)
    assert y.shape == (2, 3, 3) and bool(constraints.corr_cholesky.check(y).all())
    assert t.inv(y).allclose(x)
    t = transforms.ReshapeTransform((3,), (3, 1))
    assert t(x).shape == (2, 3, 1) and t.inv(t(x)).equal(x)
    cat = transforms.CatTransform(
        [transforms.ExpTransform(), transforms.identity_transform], -1, [1, 2]
    )
    assert cat(x)[:, 0].allclose(x[:, 0].exp()) and cat.inv(cat(x)).allclose(x)
    cached = transforms.TanhTransform(cache_size=1)
    y = cached(x)
    assert cached.inv(y) is x


def test_transformed_distribution_is_the_named_one():
    base = D.Normal(rl.tensor(0.5), rl.tensor(0.8))
    d = D.TransformedDistribution(base, [transforms.ExpTransform()])
    x = rl.tensor([0.3, 1.0, 4.0])
    assert d.log_prob(x).allclose(D.LogNormal(0.5, 0.8).log_prob(x))
    assert d.cdf(x).allclose(D.LogNormal(0.5, 0.8).cdf(x))
    falling = D.TransformedDistribution(base, transforms.AffineTransform(0.0, -1.0))
    assert falling.cdf(rl.tensor(-0.5)).allclose(rl.tensor(0.5))
    assert falling.icdf(rl.tensor(0.3)).allclose(-base.icdf(rl.tensor(0.7)))


@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to])
@pytest.mark.parametrize(
    "constraint",
    [
        constraints.real,
        constraints.positive,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.interval(-2.0, 3.0),
        constraints.unit_interval,
        constraints.simplex,
        constraints.real_vector,
        constraints.corr_cholesky,
    ],
    ids=repr,
)
def test_registries(registry, constraint):
    rl.manual_seed(0)
    y = registry(constraint)(rl.randn(5, 6))
    assert bool(constraint.check(y).all())


def test_a_distribution_of_ones_own():
    class Triangle(D.Distribution):
        arg_constraints = {"width": constraints.positive}  # noqa: RUF012
        support = constraints.nonnegative
        has_rsample = True

        def __init__(self, width, validate_args=None):
            self.width = width
            super().__init__(width.shape, validate_args=validate_args)

        def rsample(self, sample_shape=()):
            u = rl.rand(self._extended_shape(sample_shape))
            return self.width * u.sqrt()

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return (2 * value / self.width**2).log()

    d = Triangle(rl.tensor([1.0, 2.0]))
    assert d.sample((3,)).shape == (3, 2)
    with pytest.raises(ValueError):
        Triangle(rl.tensor([-1.0]))

    @D.register_kl(Triangle, Triangle)
    def _kl(p, q):
        return p.width - q.width

    assert D.kl_divergence(d, d).tolist() == [0.0, 0.0]
    with pytest.raises(NotImplementedError, match="register_kl"):
        D.kl_divergence(d, D.Normal(0.0, 1.0))

    class Named(D.Normal):
        pass

    assert type(Named(0.0, 1.0).expand((2,))) is Named

    class Centred(D.Normal):
        def __init__(self, scale):
            super().__init__(0.0, scale)

    with pytest.raises(NotImplementedError, match="Centred defines its own __init__"):
        Centred(1.0).expand((2,))


def test_parameters_of_the_base_are_only_read():
    d = D.LogNormal(0.5, 2.0)
    assert d.loc == 0.5 and d.scale == 2.0
    with pytest.raises(AttributeError, match="loc cannot be set"):
        d.loc = rl.tensor(1.0)


def test_policy_gradient_shapes():
    logits = rl.zeros(4, 3, requires_grad=True)
    d = D.Categorical(logits=logits)
    action = d.sample()
    (-(d.log_prob(action) * rl.ones(4)).mean() - 0.01 * d.entropy().mean()).backward()
    assert logits.grad.shape == (4, 3)
    mu, sigma = rl.zeros(4, 2, requires_grad=True), rl.ones(4, 2)
    latent = D.Independent(D.Normal(mu, sigma), 1)
    kl = D.kl_divergence(latent, D.Independent(D.Normal(rl.zeros(4, 2), rl.ones(4, 2)), 1))
    assert kl.shape == (4,) and latent.log_prob(latent.rsample()).shape == (4,)
