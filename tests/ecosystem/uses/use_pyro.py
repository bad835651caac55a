"""Variational inference (point estimates, enumeration, normal guides), Hamiltonian sampling, handlers, predictive samples,
a Gaussian process"""

import pyro
import pyro.contrib.gp
import pyro.distributions as dist
import pyro.infer
import pyro.infer.autoguide
import pyro.optim
import torch
from same import Statistic, normal, use
from torch.distributions import constraints

PACKAGES = ["pyro-ppl"]
DATA = normal(30, dtype=torch.float64) * 1.5 + 2.0


def gaussian(data):
    mean = pyro.sample("mean", dist.Normal(torch.tensor(0.0, dtype=torch.float64), 10.0))
    scale = pyro.sample("scale", dist.LogNormal(torch.tensor(0.0, dtype=torch.float64), 1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(mean, scale), obs=data)


def optimise(model, guide, loss, *data, steps=200, lr=0.05):
    pyro.clear_param_store()
    svi = pyro.infer.SVI(model, guide, pyro.optim.ClippedAdam({"lr": lr}), loss)
    return [svi.step(*data) for _ in range(steps)]


@use
def point_estimates(folder):
    start = pyro.infer.autoguide.init_to_value(
        values={
            "mean": torch.tensor(0.5, dtype=torch.float64),
            "scale": torch.tensor(1.0, dtype=torch.float64),
        }
    )
    guide = pyro.infer.autoguide.AutoDelta(gaussian, init_loc_fn=start)
    losses = optimise(gaussian, guide, pyro.infer.Trace_ELBO(), DATA, steps=60)
    yield "losses", torch.tensor(losses[::10], dtype=torch.float64)
    yield "found", dict(guide.median().items())
    yield "parameters", sorted(pyro.get_param_store().keys())
    pyro.get_param_store().save(str(folder / "parameters"))


@use
def enumeration(folder):
    def mixture(data):
        weights = pyro.param(
            "weights", torch.tensor([0.5, 0.5], dtype=torch.float64), constraint=constraints.simplex
        )
        means = pyro.param("means", torch.tensor([0.0, 3.0], dtype=torch.float64))
        with pyro.plate("data", len(data)):
            kind = pyro.sample("kind", dist.Categorical(weights), infer={"enumerate": "parallel"})
            pyro.sample("x", dist.Normal(means[kind], 1.0), obs=data)

    losses = optimise(
        mixture, lambda data: None, pyro.infer.TraceEnum_ELBO(max_plate_nesting=1), DATA, steps=30
    )
    yield "losses", torch.tensor(losses[::5], dtype=torch.float64)
    yield "weights", pyro.param("weights")
    yield "means", pyro.param("means")
    kinds = pyro.infer.infer_discrete(
        pyro.infer.config_enumerate(mixture), first_available_dim=-2, temperature=0
    )
    trace = pyro.poutine.trace(kinds).get_trace(DATA)
    yield "kinds", trace.nodes["kind"]["value"]

    def hidden(data):
        start = torch.tensor([0.6, 0.4], dtype=torch.float64)
        moves = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
        pyro.sample(
            "x",
            dist.DiscreteHMM(
                start.log(),
                moves.log(),
                dist.Normal(torch.tensor([0.0, 3.0], dtype=torch.float64), 1.0),
            ),
            obs=data,
        )

    yield "hidden", pyro.poutine.trace(hidden).get_trace(DATA).log_prob_sum()


@use
def random_guides(folder):
    pyro.set_rng_seed(0)
    for guide in (
        pyro.infer.autoguide.AutoNormal(gaussian),
        pyro.infer.autoguide.AutoMultivariateNormal(gaussian),
    ):
        optimise(gaussian, guide, pyro.infer.Trace_ELBO(num_particles=4), DATA, steps=150)
        found = guide.median(DATA)
        yield (
            type(guide).__name__,
            [Statistic(found["mean"], 0.25), Statistic(found["scale"], 0.25)],
        )
    predictive = pyro.infer.Predictive(gaussian, guide=guide, num_samples=200)
    yield "predicted", {name: list(value.shape) for name, value in predictive(DATA).items()}


@use
def sampling(folder):
    pyro.set_rng_seed(1)
    chain = pyro.infer.MCMC(
        pyro.infer.NUTS(gaussian), num_samples=120, warmup_steps=60, disable_progbar=True
    )
    chain.run(DATA)
    found = chain.get_samples()
    yield "means", [Statistic(found["mean"].mean(), 0.2), Statistic(found["scale"].mean(), 0.2)]
    yield "spread", Statistic(found["mean"].std(), 0.12)
    yield "diagnostics", sorted(chain.diagnostics())


@use
def handlers(folder):
    given = pyro.poutine.condition(
        gaussian,
        data={
            "mean": torch.tensor(1.0, dtype=torch.float64),
            "scale": torch.tensor(2.0, dtype=torch.float64),
        },
    )
    trace = pyro.poutine.trace(given).get_trace(DATA)
    yield "density", trace.log_prob_sum()
    yield "shapes", trace.format_shapes()
    for name, law in {
        "mixture": dist.MixtureOfDiagNormals(normal(2, 3), normal(2, 3).exp(), torch.zeros(2)), "beta binomial": dist.BetaBinomial(2.0, 3.0, 10),
        "zero inflated": dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)), "low rank": dist.LowRankMultivariateNormal(torch.zeros(3), normal(3, 2), torch.ones(3)),
        "lkj": dist.LKJCholesky(3, 1.5), "von mises": dist.VonMises(torch.tensor(0.3), torch.tensor(2.0)),
        "spline": dist.TransformedDistribution(dist.Normal(torch.zeros(2), 1.0).to_event(1), [dist.transforms.AffineTransform(1.0, 2.0)]),
    }.items():  # fmt: skip
        value = {"beta binomial": torch.tensor(4.0), "zero inflated": torch.tensor(3.0), "lkj": torch.linalg.cholesky(torch.eye(3) + 0.2),
                 "von mises": torch.tensor(0.5), "spline": torch.tensor([0.3, 0.4])}.get(name, torch.tensor([0.1, 0.2, 0.3]))  # fmt: skip
        if name == "lkj":
            value = value / value.norm(dim=1, keepdim=True)
        yield name, law.log_prob(value)
    kernel = pyro.contrib.gp.kernels.RBF(1)
    process = pyro.contrib.gp.models.GPRegression(
        torch.linspace(0, 1, 8, dtype=torch.float64),
        torch.linspace(0, 6, 8, dtype=torch.float64).sin(),
        kernel,
        noise=torch.tensor(0.1),
    ).double()
    mean, covariance = process(torch.linspace(0, 1, 3, dtype=torch.float64), full_cov=True)
    yield "process", [mean, covariance]
