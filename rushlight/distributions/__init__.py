"""Distributions to draw from, with densities, entropies and divergences. docs/distributions.md is
the guide."""

from rushlight._names.missing import names_missing_from
from rushlight.distributions import constraints as constraints
from rushlight.distributions import kl as kl
from rushlight.distributions import transforms as transforms
from rushlight.distributions import utils as utils
from rushlight.distributions.bernoulli import Bernoulli as Bernoulli
from rushlight.distributions.beta import Beta as Beta
from rushlight.distributions.binomial import Binomial as Binomial
from rushlight.distributions.categorical import Categorical as Categorical
from rushlight.distributions.cauchy import Cauchy as Cauchy
from rushlight.distributions.chi2 import Chi2 as Chi2
from rushlight.distributions.constraint_registry import biject_to as biject_to
from rushlight.distributions.constraint_registry import transform_to as transform_to
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from rushlight.distributions.dirichlet import Dirichlet as Dirichlet
from rushlight.distributions.distribution import Distribution as Distribution
from rushlight.distributions.exp_family import ExponentialFamily as ExponentialFamily
from rushlight.distributions.exponential import Exponential as Exponential
from rushlight.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from rushlight.distributions.gamma import Gamma as Gamma
from rushlight.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from rushlight.distributions.geometric import Geometric as Geometric
from rushlight.distributions.gumbel import Gumbel as Gumbel
from rushlight.distributions.half_cauchy import HalfCauchy as HalfCauchy
from rushlight.distributions.half_normal import HalfNormal as HalfNormal
from rushlight.distributions.independent import Independent as Independent
from rushlight.distributions.inverse_gamma import InverseGamma as InverseGamma
from rushlight.distributions.kl import kl_divergence as kl_divergence
from rushlight.distributions.kl import register_kl as register_kl
from rushlight.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
from rushlight.distributions.laplace import Laplace as Laplace
from rushlight.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
from rushlight.distributions.log_normal import LogNormal as LogNormal
from rushlight.distributions.logistic_normal import LogisticNormal as LogisticNormal
from rushlight.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal as LowRankMultivariateNormal,
)
from rushlight.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from rushlight.distributions.multinomial import Multinomial as Multinomial
from rushlight.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from rushlight.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from rushlight.distributions.normal import Normal as Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from rushlight.distributions.one_hot_categorical import (
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from rushlight.distributions.pareto import Pareto as Pareto
from rushlight.distributions.poisson import Poisson as Poisson
from rushlight.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from rushlight.distributions.relaxed_categorical import (
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from rushlight.distributions.studentT import StudentT as StudentT
from rushlight.distributions.transformed_distribution import (
    TransformedDistribution as TransformedDistribution,
)
from rushlight.distributions.transforms import *  # noqa: F403
from rushlight.distributions.transforms import __all__ as _transforms
from rushlight.distributions.uniform import Uniform as Uniform
from rushlight.distributions.von_mises import VonMises as VonMises
from rushlight.distributions.weibull import Weibull as Weibull
from rushlight.distributions.wishart import Wishart as Wishart

__all__ = sorted(  # as PyTorch has it
    [
        name
        for name, value in globals().items()
        if isinstance(value, type) and name not in _transforms
    ]
    + ["biject_to", "kl_divergence", "register_kl", "transform_to", *_transforms]
)

__getattr__ = names_missing_from(__name__)
