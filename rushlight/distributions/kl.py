"""Kullback-Leibler divergences, by the classes of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight import _C, linalg
from rushlight._C import Tensor
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.half_normal import HalfNormal
from rushlight.distributions.independent import Independent
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from rushlight.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import _sum_rightmost, euler_constant
from rushlight.types import _F

if TYPE_CHECKING:
    from rushlight.distributions.distribution import Distribution


__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY = {}  # (class of p, class of q) -> function
_KL_MEMOIZE = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_F], _F]:
    """A decorator: the function is KL(p || q) for these classes and their subclasses.

    Arguments:
        type_p, type_q: the classes.

    Example:
        >>> class Mine(rl.distributions.Normal): pass
        >>> @rl.distributions.register_kl(Mine, Mine)
        ... def kl(p, q):
        ...     return rl.tensor(7.0)
        >>> rl.distributions.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0))
        tensor(7.)
    """
    for cls in (type_p, type_q):
        if not isinstance(cls, type):
            raise TypeError(f"register_kl: expected a class of distributions, got {cls!r}")

    def decorate(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorate


def _find(type_p, type_q):
    """The function of the nearest classes: first for p, then for q; they must agree."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented

    def distance(pair):
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    by_p = min(matches, key=distance)
    by_q = min(matches, key=lambda pair: distance(pair)[::-1])
    if by_p != by_q and _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        import warnings

        warnings.warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}) is ambiguous; register a "
            f"function for ({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), for each distribution of the batch.

    Arguments:
        p, q: two distributions; NotImplementedError where no formula is registered for their
            classes.

    Example:
        >>> N = rl.distributions.Normal
        >>> rl.distributions.kl_divergence(N(0.0, 1.0), N(1.0, 1.0))
        tensor(0.5000)
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _find(*key)
    function = _KL_MEMOIZE[key]
    if function is NotImplemented:
        raise NotImplementedError(
            f"kl_divergence: there is no formula for {key[0].__name__} and {key[1].__name__}; add "
            "one with register_kl"
        )
    return function(p, q)


def _x_log_x(tensor):
    return _C.xlogy(tensor, tensor)


def _trace_of_product(first, second):
    """trace(A A^T) of A = first^-1 second."""
    batch = _broadcast(first.shape[:-2], second.shape[:-2])
    first = first.expand((*batch, *first.shape[-2:]))
    second = second.expand((*batch, *second.shape[-2:]))
    return linalg.solve_triangular(first, second, upper=False).pow(2).sum((-2, -1))


def _broadcast(*shapes):
    from rushlight.functional import broadcast_shapes

    return broadcast_shapes(*shapes)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    t1 = _x_log_x(p.probs) - _C.xlogy(p.probs, q.probs)
    rest = 1 - p.probs
    return t1 + _x_log_x(rest) - _C.xlogy(rest, 1 - q.probs)


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    constant = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    constant = constant - p.concentration1.lgamma() - p.concentration0.lgamma() - total_q.lgamma()
    ones = (p.concentration1 - q.concentration1) * _C.digamma(p.concentration1)
    zeros = (p.concentration0 - q.concentration0) * _C.digamma(p.concentration0)
    return constant + ones + zeros + (total_q - total_p) * _C.digamma(total_p)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _C.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = _C.where((q.probs == 0).expand_as(terms), math.inf, terms)
    terms = _C.where((p.probs == 0).expand_as(terms), 0.0, terms)
    return terms.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli(p, q):
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + _C.log1p(-p.probs)
    return t1 + t2 - q._cont_bern_log_norm() - _C.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total_a, total_b = a.sum(-1), b.sum(-1)
    t1 = total_a.lgamma() - total_b.lgamma()
    t2 = (a.lgamma() - b.lgamma()).sum(-1)
    t3 = ((a - b) * (a.digamma() - total_a.digamma().unsqueeze(-1))).sum(-1)
    return t1 - t2 + t3


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log-normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence: no formula for {type(p).__name__} and {type(q).__name__}"
        )
    from rushlight.autograd import grad

    mine = [n.detach().requires_grad_() for n in p._natural_params]
    normalizer = p._log_normalizer(*mine)
    gradients = grad(normalizer.sum(), mine, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for ours, theirs, gradient in zip(mine, q._natural_params, gradients, strict=True):
        result = result - _sum_rightmost((theirs - ours) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = q.concentration.lgamma() - p.concentration.lgamma()
    t3 = (p.concentration - q.concentration) * p.concentration.digamma()
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio = p.scale / q.scale
    shift = q.loc / q.scale
    loc = p.loc / q.scale
    t1 = -ratio.log() - shift + loc
    t2 = ratio * euler_constant
    t3 = _C.exp(shift + (1 + ratio).lgamma() - loc)
    return t1 + t2 + t3 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - _C.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio = p.scale / q.scale
    away = (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * _C.exp(-away / p.scale) - 1


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_normal_vectors(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "kl_divergence: normal vectors of other lengths: "
            f"{list(p.event_shape)} and {list(q.event_shape)}"
        )
    own, other = p.scale_tril, q.scale_tril
    log_ratio = (other.diagonal(dim1=-2, dim2=-1).log() - own.diagonal(dim1=-2, dim2=-1).log()).sum(
        -1
    )
    trace = _trace_of_product(other, own)
    distance = _batch_mahalanobis(other, q.loc - p.loc)
    return log_ratio + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    away = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    scale, alpha = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scale.log() - alpha.log() + alpha - 1
    return _C.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the two distributions have other transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return _C.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: other numbers of reinterpreted batch dims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


# Distributions with other supports: infinite, or by the moments of p.


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - _C.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p, q):
    t1 = -p.entropy()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return t1 + t2 - (q.concentration - 1) * log_mean + q.rate * p.mean


@register_kl(Beta, Normal)
def _kl_beta_normal(p, q):
    variance = q.scale.pow(2)
    t2 = 0.5 * (variance * 2 * math.pi).log()
    t3 = (p.variance + p.mean.pow(2)) * 0.5
    return -p.entropy() + t2 + (t3 - p.mean * q.loc + q.loc.pow(2) * 0.5) / variance


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p, q):
    ratio = q.rate / p.rate
    t1 = -q.concentration * ratio.log()
    return (
        t1
        + ratio
        + q.concentration.lgamma()
        + q.concentration * euler_constant
        - (1 + euler_constant)
    )


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p, q):
    product = p.rate * q.scale
    shift = q.loc / q.scale
    t1 = product.log() - 1
    t2 = product.reciprocal()
    return t1 + t2 - shift + shift.exp() * product / (product + 1)


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p, q):
    variance = q.scale.pow(2)
    rate2 = p.rate.pow(2)
    t1 = 0.5 * (rate2 * variance * 2 * math.pi).log()
    return t1 - 1 + (rate2.reciprocal() - q.loc / p.rate + q.loc.pow(2) * 0.5) / variance


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p, q):
    variance = q.scale.pow(2)
    second = (p.concentration + p.concentration.pow(2)) / p.rate.pow(2)
    t2 = 0.5 * (variance * 2 * math.pi).log()
    away = 0.5 * second - p.mean * q.loc + 0.5 * q.loc.pow(2)
    return -p.entropy() + t2 + away / variance


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p, q):
    ratio = p.scale / q.scale
    t1 = (ratio / math.sqrt(2 * math.pi)).log()
    t2 = (math.pi * ratio * 0.5).pow(2) / 3
    t3 = ((p.loc + p.scale * euler_constant - q.loc) / q.scale).pow(2) * 0.5
    return -t1 + t2 + t3 - (euler_constant + 1)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p, q):
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    t1 = 0.5 * (2 * ratio / math.pi).log()
    t2 = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return -t1 + ratio + t2 / variance - 1


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p, q):
    mean, variance = p.loc / q.scale, (p.scale / q.scale).pow(2)
    shift = q.loc / q.scale
    t1 = mean - shift
    t2 = (-mean + 0.5 * variance + shift).exp()
    return t1 + t2 - 0.5 * (1 + math.log(2 * math.pi)) - (p.scale / q.scale).log()


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    away = p.loc - q.loc
    ratio = p.scale / q.scale
    z = away / p.scale
    t1 = ratio.log()
    t2 = math.sqrt(2 / math.pi) * p.scale * _C.exp(-0.5 * z.pow(2))
    t3 = away * _C.erf(math.sqrt(0.5) * z)
    return -t1 + (t2 + t3) / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    width = p.high - p.low
    t1 = width.log()
    t2 = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    low, high = 1 - p.high, 1 - p.low
    t3 = (q.concentration0 - 1) * (_x_log_x(low) - _x_log_x(high) + width) / width
    constant = q.concentration1.lgamma() + q.concentration0.lgamma()
    t4 = constant - (q.concentration1 + q.concentration0).lgamma()
    return _C.where((p.high > 1) | (p.low < 0), math.inf, t3 + t4 - t1 - t2)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return _C.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    width = p.high - p.low
    t1 = width.log()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = -t1 + t2 + t3 + q.rate * (p.high + p.low) / 2
    return _C.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p, q):
    scaled = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    t1 = scaled.log() + 0.5 * (high + low)
    return t1 - scaled * (_C.exp(-high) - _C.exp(-low))


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p, q):
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    t2 = width.pow(2) / 12
    t3 = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (t2 + t3) / q.scale.pow(2)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits - _C.log1p(-q.probs) - q._cont_bern_log_norm()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return _C.where(outside, math.inf, result)


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p, q):
    t1 = -p.entropy()
    t2 = 0.5 * (math.log(2 * math.pi) + (q.loc / q.scale).square()) + q.scale.log()
    second = p.variance + p.mean.square()
    return t1 + t2 + (second - 2 * q.loc * p.mean) / (2 * q.scale.square())


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return _C.where(outside, math.inf, result)


def _infinite_for(p_classes, q_classes):
    for p in p_classes:
        for q in q_classes:
            _KL_REGISTRY[p, q] = _infinite


def _infinite(p, q):
    shape = _broadcast(p.batch_shape, q.batch_shape)
    return _C.full(shape, math.inf)


_infinite_for((Beta,), (Pareto,))
_infinite_for((ContinuousBernoulli,), (Pareto,))
_infinite_for((Exponential,), (Beta, ContinuousBernoulli, Pareto, Uniform))
_infinite_for((Gamma,), (Beta, ContinuousBernoulli, Pareto, Uniform))
_infinite_for((Gumbel,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform))
_infinite_for((Laplace,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform))
_infinite_for((Normal,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform))
_infinite_for((Pareto,), (Beta, ContinuousBernoulli, Uniform))
_infinite_for((Poisson,), (Bernoulli, Binomial))


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return _C.where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    width = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * width).log()
    t2 = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    return _C.where(p.low < q.scale, math.inf, t2 * (q.alpha + 1) - t1)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    product = p.scale * q.rate
    t1 = (p.alpha / product).log() - p.alpha.reciprocal()
    result = t1 + p.alpha * product / (p.alpha - 1) - 1
    return _C.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    common = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - common
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * common
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return _C.where(p.alpha <= 1, math.inf, t1 + t2 + t3 + t4 - 1)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    variance = 2 * q.scale.pow(2)
    mean = p.scale * p.alpha / (p.alpha - 1)
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    t3 = p.alpha * p.scale.pow(2) / (p.alpha - 2) - 2 * mean * q.loc + q.loc.pow(2)
    result = t1 - p.alpha.reciprocal() + t3 / variance - 1
    return _C.where(p.alpha <= 2, math.inf, result)
