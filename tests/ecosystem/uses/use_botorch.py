"""Models fitted by L-BFGS, analytic and Monte Carlo acquisition functions, optimising them, several objectives"""

import botorch
import torch
from botorch import acquisition, fit, models, optim
from botorch.acquisition import analytic
from botorch.models.transforms import Normalize, Standardize
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils import multi_objective
from gpytorch.mlls import ExactMarginalLogLikelihood
from same import Statistic, rng, use

PACKAGES = ["botorch"]
X = torch.tensor(rng("points").uniform(size=(12, 2)))
Y = (torch.sin(4 * X[:, :1]) + X[:, 1:].square()) * 1.0
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def fitted(y=Y):
    model = models.SingleTaskGP(
        X, y, input_transform=Normalize(2), outcome_transform=Standardize(y.shape[-1])
    )
    fit.fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


@use
def analytic_functions(folder):
    model = fitted()
    # Where the optimiser stopped depends on rounding: values as of float32.
    at = torch.tensor(rng("at").uniform(size=(5, 1, 2)))
    posterior = model.posterior(at[:, 0])
    yield "posterior", [posterior.mean.float(), posterior.variance.float()]
    for name, made in {
        "ei": analytic.ExpectedImprovement(model, 0.5), "log ei": analytic.LogExpectedImprovement(model, 0.5), "ucb": analytic.UpperConfidenceBound(model, 0.2),
        "pi": analytic.ProbabilityOfImprovement(model, 0.5), "mean": analytic.PosteriorMean(model),
    }.items():  # fmt: skip
        yield name, made(at).float()
    point, value = optim.optimize_acqf(
        analytic.UpperConfidenceBound(model, 0.2), BOUNDS, 1, num_restarts=4, raw_samples=32
    )
    yield "best", [point.detach().to(torch.float16), value.float()]


@use
def monte_carlo(folder):
    model = models.SingleTaskGP(X, Y)
    sampler = SobolQMCNormalSampler(torch.Size([64]))  # scrambled by random numbers
    at = torch.tensor(rng("at").uniform(size=(3, 2, 2)))
    with botorch.settings.propagate_grads(True):
        for name, made in {
            "qei": acquisition.qExpectedImprovement(model, 0.5, sampler), "qlogei": acquisition.qLogExpectedImprovement(model, 0.5, sampler),
            "qucb": acquisition.qUpperConfidenceBound(model, 0.2, sampler), "qnei": acquisition.qSimpleRegret(model, sampler),
        }.items():  # fmt: skip
            x = at.clone().requires_grad_()
            value = made(x)
            slopes = torch.autograd.grad(value.sum(), x)[0]
            parts = ((value, 0.1), (slopes, 1.0))
            yield (
                name,
                [
                    [Statistic(float(v), within) for v in part.detach().reshape(-1)]
                    for part, within in parts
                ],
            )
    yield "sobol", botorch.utils.sampling.draw_sobol_samples(BOUNDS, 4, 1, seed=3).shape[0]


@use
def several_objectives(folder):
    both = torch.cat([Y, -X.sum(1, keepdim=True)], 1)
    yield "pareto", multi_objective.pareto.is_non_dominated(both)
    volume = multi_objective.hypervolume.Hypervolume(
        torch.tensor([-3.0, -3.0], dtype=torch.float64)
    )
    yield "volume", volume.compute(both[multi_objective.pareto.is_non_dominated(both)])
    model = fitted(both)
    posterior = model.posterior(X[:3])
    yield (
        "posterior",
        [
            posterior.mean.float(),
            posterior.mvn.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2).float(),
        ],
    )
    parts = multi_objective.box_decompositions.NondominatedPartitioning(
        torch.tensor([-3.0, -3.0], dtype=torch.float64), Y=both
    )
    yield "cells", parts.get_hypercell_bounds()
    listed = models.ModelListGP(models.SingleTaskGP(X, Y), models.SingleTaskGP(X, both[:, 1:]))
    yield "list", listed.posterior(X[:2]).mean.float()
    mixed = models.MixedSingleTaskGP(torch.cat([X, (X[:, :1] > 0.5).double()], 1), Y, cat_dims=[2])
    yield "mixed", mixed.posterior(torch.cat([X[:2], X[:2, :1] * 0], 1)).mean.float()
    yield "test function", botorch.test_functions.Branin()(X)
