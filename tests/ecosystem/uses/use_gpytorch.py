"""Exact regression, nine kernels, predictions with gradients, several tasks, variational classification and sparse processes"""

import gpytorch
import torch
from same import Statistic, descend, integers, normal, use

PACKAGES = ["gpytorch", "linear-operator"]
X = torch.linspace(0, 1, 20, dtype=torch.float64)
Y = torch.sin(6 * X) + 0.1 * normal(20, dtype=torch.float64)
k = gpytorch.kernels


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel, tasks=0):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel
        self.tasks = tasks
        if tasks:
            self.mean_module = gpytorch.means.MultitaskMean(self.mean_module, num_tasks=tasks)

    def forward(self, x):
        kind = (
            gpytorch.distributions.MultitaskMultivariateNormal
            if self.tasks
            else gpytorch.distributions.MultivariateNormal
        )
        return kind(self.mean_module(x), self.covar_module(x))


def train(model, likelihood, x, y, steps=8, objective=None):
    model.train()
    likelihood.train()
    objective = objective or gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = descend(model, lambda step: -objective(model(x), y), steps, optimizer)
    model.eval()
    likelihood.eval()
    return losses


@use
def exact(folder):
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(X, Y, likelihood, k.ScaleKernel(k.RBFKernel())).double()
    yield "losses", train(model, likelihood, X, Y)
    at = torch.linspace(0, 1.2, 7, dtype=torch.float64).requires_grad_()
    with gpytorch.settings.fast_pred_var():
        out = likelihood(model(at))
    yield "mean", out.mean
    yield "variance", out.variance
    yield "bounds", list(out.confidence_region())
    yield "slope", torch.autograd.grad(out.mean.sum(), at)[0]
    yield "density", out.log_prob(torch.zeros(7, dtype=torch.float64))
    yield "hyperparameters", {name: value.detach() for name, value in model.named_parameters()}
    # Exact to rounding, but the samples are random.
    samples = model(at.detach()).rsample(torch.Size([4000]))
    yield "samples", [Statistic(float(v), 0.05) for v in samples.mean(0)]
    with (
        gpytorch.settings.max_cholesky_size(1),
        gpytorch.settings.cg_tolerance(1e-6),
        gpytorch.settings.eval_cg_tolerance(1e-6),
    ):
        yield "conjugate gradients", model.float().double()(at.detach()).mean.float()


@use
def kernels(folder):
    x = normal(6, 2, dtype=torch.float64)
    for kernel in (k.RBFKernel(), k.MaternKernel(1.5), k.MaternKernel(2.5, ard_num_dims=2), k.PeriodicKernel(), k.RQKernel(), k.LinearKernel(),
                   k.PolynomialKernel(2), k.RBFKernel() + k.LinearKernel(), k.ScaleKernel(k.RBFKernel() * k.PeriodicKernel())):  # fmt: skip
        name = type(kernel).__name__ + str(sum(p.numel() for p in kernel.parameters()))
        lazy = kernel.double()(x)
        yield name, [lazy.to_dense(), kernel(x, x[:2]).to_dense(), kernel(x, diag=True)]
        shifted = lazy.add_jitter(0.5)
        yield (
            f"{name} algebra",
            [shifted.solve(x), shifted.logdet(), shifted.inv_quad_logdet(x)[0], shifted @ x],
        )


@use
def several_tasks(folder):
    both = torch.stack([Y, torch.cos(6 * X)], 1)
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)
    kernel = k.MultitaskKernel(k.RBFKernel(), num_tasks=2, rank=1)
    model = Exact(X, both, likelihood, kernel, 2).double()
    with torch.no_grad():
        kernel.task_covar_module.covar_factor.copy_(torch.tensor([[0.5], [-0.3]]))
        kernel.task_covar_module.raw_var.copy_(torch.tensor([0.2, 0.1]))
    yield "losses", train(model, likelihood, X, both)
    out = likelihood(model(X[:3] + 0.01))
    yield "out", [out.mean, out.variance]


@use
def variational(folder):
    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            spread = gpytorch.variational.CholeskyVariationalDistribution(points.shape[0])
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, points, spread, learn_inducing_locations=True
                )
            )
            self.mean_module, self.covar_module = (
                gpytorch.means.ConstantMean(),
                k.ScaleKernel(k.RBFKernel()),
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    for name, likelihood, y in (
        ("regression", gpytorch.likelihoods.GaussianLikelihood(), Y), ("classes", gpytorch.likelihoods.BernoulliLikelihood(), (Y > 0).double()),
    ):  # fmt: skip
        # The means start from noise otherwise.
        model = Sparse(torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]).double()
        model.variational_strategy.variational_params_initialized.fill_(1)
        objective = gpytorch.mlls.VariationalELBO(likelihood.double(), model, num_data=20)
        yield f"{name} losses", train(model, likelihood, X[:, None], y, objective=objective)
        yield f"{name} means", likelihood(model(X[:4, None])).mean
    yield "labels", integers(0, 2, 3)
