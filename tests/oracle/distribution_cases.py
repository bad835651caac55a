"""Distributions with parameters and values: one table, evaluated by PyTorch for the record and by
Rushlight in the tests. A case is (class, keyword arguments, value); lists become float64
tensors."""

LOW = [[2.0, 0.0, 0.0], [0.5, 1.5, 0.0], [-0.3, 0.2, 0.8]]
COV = [[4.0, 1.0, -0.6], [1.0, 2.5, 0.15], [-0.6, 0.15, 0.77]]

CASES = [
    ("Bernoulli", {"probs": [0.1, 0.5, 0.9]}, [0.0, 1.0, 1.0]),
    ("Bernoulli", {"logits": [-2.0, 0.3, 40.0]}, [1.0, 0.0, 1.0]),
    ("Beta", {"concentration1": [0.5, 2.0, 30.0], "concentration0": [0.7, 5.0, 1.0]},
     [0.2, 0.3, 0.99]),
    ("Binomial", {"total_count": 10, "probs": [0.1, 0.5, 0.99]}, [0.0, 4.0, 10.0]),
    ("Binomial", {"total_count": 3, "logits": [-1.0, 2.0]}, [1.0, 3.0]),
    ("Categorical", {"probs": [[0.2, 0.3, 0.5], [1.0, 1.0, 6.0]]}, [0.0, 2.0]),
    ("Categorical", {"logits": [[-1.0, 0.0, 3.0], [0.1, 0.2, 0.3]]}, [2.0, 1.0]),
    ("Cauchy", {"loc": [0.0, 2.0], "scale": [1.0, 0.3]}, [1.5, 2.1]),
    ("Chi2", {"df": [1.0, 4.5]}, [0.7, 3.0]),
    ("ContinuousBernoulli", {"probs": [0.1, 0.5, 0.5003, 0.8]}, [0.2, 0.3, 0.4, 0.9]),
    ("ContinuousBernoulli", {"logits": [-3.0, 1.0]}, [0.1, 0.6]),
    ("Dirichlet", {"concentration": [[0.5, 2.0, 3.0], [1.0, 1.0, 1.0]]},
     [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
    ("Exponential", {"rate": [0.5, 3.0]}, [1.0, 0.2]),
    ("FisherSnedecor", {"df1": [3.0, 5.0], "df2": [6.0, 4.5]}, [0.5, 2.0]),
    ("Gamma", {"concentration": [0.3, 2.0, 50.0], "rate": [1.0, 3.0, 0.5]}, [0.1, 1.0, 90.0]),
    ("Geometric", {"probs": [0.2, 0.9]}, [3.0, 0.0]),
    ("Geometric", {"logits": [-1.0, 2.0]}, [2.0, 1.0]),
    ("Gumbel", {"loc": [0.0, 1.0], "scale": [1.0, 2.5]}, [0.5, -1.0]),
    ("HalfCauchy", {"scale": [1.0, 0.2]}, [0.5, 3.0]),
    ("HalfNormal", {"scale": [1.0, 3.0]}, [0.5, 3.0]),
    ("InverseGamma", {"concentration": [1.5, 4.0], "rate": [1.0, 2.0]}, [0.5, 1.2]),
    ("Kumaraswamy", {"concentration1": [1.5, 2.0], "concentration0": [3.0, 1.2]}, [0.3, 0.8]),
    ("LKJCholesky", {"dim": 3, "concentration": [0.7, 2.0]},
     [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]),
    ("Laplace", {"loc": [0.0, 1.0], "scale": [1.0, 0.4]}, [-0.5, 2.0]),
    ("LogNormal", {"loc": [0.0, 1.0], "scale": [1.0, 0.4]}, [0.5, 2.0]),
    ("LogisticNormal", {"loc": [0.0, 0.5], "scale": [1.0, 0.4]}, [0.2, 0.5, 0.3]),
    ("LowRankMultivariateNormal", {"loc": [0.0, 1.0, -1.0],
     "cov_factor": [[1.0, 0.2], [0.3, -0.5], [0.0, 0.7]], "cov_diag": [0.5, 1.0, 0.3]},
     [0.3, 0.1, -0.6]),
    ("Multinomial", {"total_count": 5, "probs": [0.2, 0.3, 0.5]}, [1.0, 2.0, 2.0]),
    ("MultivariateNormal", {"loc": [0.0, 1.0, -1.0], "covariance_matrix": COV}, [0.3, 0.1, -0.6]),
    ("MultivariateNormal", {"loc": [0.0, 1.0, -1.0], "precision_matrix": COV}, [0.3, 0.1, -0.6]),
    ("MultivariateNormal", {"loc": [[0.0, 1.0, -1.0], [1.0, 1.0, 1.0]], "scale_tril": LOW},
     [0.3, 0.1, -0.6]),
    ("NegativeBinomial", {"total_count": [3.0, 5.5], "probs": [0.3, 0.6]}, [2.0, 4.0]),
    ("NegativeBinomial", {"total_count": 3.0, "logits": [-0.3, 0.6]}, [2.0, 0.0]),
    ("Normal", {"loc": [0.0, -2.0], "scale": [1.0, 0.1]}, [0.7, -2.3]),
    ("OneHotCategorical", {"probs": [[0.2, 0.3, 0.5]]}, [[0.0, 1.0, 0.0]]),
    ("Pareto", {"scale": [1.0, 2.0], "alpha": [3.0, 1.5]}, [1.5, 4.0]),
    ("Poisson", {"rate": [0.5, 20.0]}, [1.0, 17.0]),
    ("RelaxedBernoulli", {"temperature": [0.7], "probs": [0.3, 0.6]}, [0.2, 0.9]),
    ("RelaxedOneHotCategorical", {"temperature": [0.7], "logits": [0.3, 0.6, -1.0]},
     [0.2, 0.7, 0.1]),
    ("StudentT", {"df": [2.5, 5.0], "loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.7, -3.0]),
    ("Uniform", {"low": [0.0, -1.0], "high": [1.0, 3.0]}, [0.5, 2.0]),
    ("VonMises", {"loc": [0.0, 1.0], "concentration": [0.5, 8.0]}, [0.5, 1.2]),
    ("Weibull", {"scale": [1.0, 2.0], "concentration": [1.5, 0.8]}, [0.5, 3.0]),
    ("Wishart", {"df": 5.0, "covariance_matrix": COV},
     [[5.0, 1.0, 0.2], [1.0, 4.0, 0.3], [0.2, 0.3, 2.0]]),
]  # fmt: skip

ANSWERS = ("mean", "variance", "stddev", "mode")
METHODS = ("log_prob", "cdf", "icdf")
PROBABILITIES = [0.2, 0.7]

# Pairs of cases, by place in the table, whose divergences are compared: the same class with other
# parameters, and different classes.
OTHER = {
    "Bernoulli": {"probs": [0.3, 0.4, 0.8]},
    "Beta": {"concentration1": [1.5, 1.0, 3.0], "concentration0": [0.9, 2.0, 4.0]},
    "Binomial": {"total_count": 10, "probs": [0.2, 0.6, 0.9]},
    "Categorical": {"probs": [[0.3, 0.3, 0.4], [0.5, 0.2, 0.3]]},
    "Cauchy": {"loc": [0.5, 1.0], "scale": [2.0, 0.4]},
    "ContinuousBernoulli": {"probs": [0.3, 0.6, 0.7, 0.5]},
    "Dirichlet": {"concentration": [[1.5, 1.0, 0.3], [2.0, 3.0, 1.0]]},
    "Exponential": {"rate": [1.5, 1.0]},
    "Gamma": {"concentration": [1.3, 1.0, 40.0], "rate": [2.0, 1.0, 0.4]},
    "Geometric": {"probs": [0.4, 0.5]},
    "Gumbel": {"loc": [0.5, 0.0], "scale": [2.0, 1.5]},
    "HalfNormal": {"scale": [2.0, 1.0]},
    "Laplace": {"loc": [0.5, 0.0], "scale": [2.0, 1.5]},
    "LogNormal": {"loc": [0.5, 0.0], "scale": [2.0, 1.5]},
    "LowRankMultivariateNormal": {"loc": [0.5, 0.0, 0.0], "cov_factor": [[1.0], [0.3], [0.5]],
                                  "cov_diag": [1.5, 1.0, 0.3]},
    "MultivariateNormal": {"loc": [0.5, 0.0, 0.0], "scale_tril": LOW},
    "Normal": {"loc": [0.5, 0.0], "scale": [2.0, 1.5]},
    "OneHotCategorical": {"probs": [[0.3, 0.3, 0.4]]},
    "Pareto": {"scale": [0.5, 1.0], "alpha": [2.0, 2.5]},
    "Poisson": {"rate": [1.5, 15.0]},
    "Uniform": {"low": [-1.0, -2.0], "high": [2.0, 3.0]},
}  # fmt: skip


def _first(name):
    """One distribution of the batch: PyTorch's formulas do not all broadcast."""
    return {k: v[:1] for k, v in OTHER[name].items()}


MIXED = [
    (("Bernoulli", {"probs": [0.2]}), ("Poisson", {"rate": [0.7]})),
    *[((p, _first(p)), (q, _first(q))) for p, q in [
        ("Beta", "Normal"), ("Beta", "Gamma"), ("Beta", "Exponential"), ("Beta", "Uniform"),
        ("Beta", "ContinuousBernoulli"), ("Beta", "Pareto"), ("Exponential", "Gamma"),
        ("Exponential", "Gumbel"), ("Exponential", "Normal"), ("Exponential", "Uniform"),
        ("Gamma", "Exponential"), ("Gamma", "Normal"), ("Gumbel", "Normal"), ("Laplace", "Normal"),
        ("Normal", "Gumbel"), ("Normal", "Laplace"), ("Normal", "Beta"), ("Pareto", "Exponential"),
        ("Pareto", "Gamma"), ("Pareto", "Normal"), ("Uniform", "Normal"), ("Uniform", "Gumbel"),
        ("Uniform", "Exponential"), ("ContinuousBernoulli", "Normal"),
        ("ContinuousBernoulli", "Exponential"), ("ContinuousBernoulli", "Uniform"),
    ]],
    (("Uniform", {"low": [0.2], "high": [0.7]}), ("Beta", _first("Beta"))),
    (("Uniform", {"low": [0.2], "high": [0.7]}), ("Gamma", _first("Gamma"))),
    (("Uniform", {"low": [2.0], "high": [3.0]}), ("Pareto", _first("Pareto"))),
    (("MultivariateNormal", OTHER["MultivariateNormal"]),
     ("LowRankMultivariateNormal", OTHER["LowRankMultivariateNormal"])),
]  # fmt: skip


def tensor(lib, x):
    return lib.tensor(x, dtype=lib.float64) if isinstance(x, list) else x


def build(lib, name, kwargs):
    args = {k: tensor(lib, v) for k, v in kwargs.items()}
    return getattr(lib.distributions, name)(**args)


def _plain(x):
    return x.detach().tolist()


def answer(lib, name, kwargs, value):
    """Everything a distribution says about itself and about a value; None: it does not say."""
    d = build(lib, name, kwargs)
    value = tensor(lib, value)
    found = {"shapes": [list(d.batch_shape), list(d.event_shape)], "support": repr(d.support)}
    if "0x" in found["support"] or "tensor" in found["support"]:
        del found["support"]
    questions = [(a, lambda a=a: getattr(d, a)) for a in ANSWERS]
    questions += [("log_prob", lambda: d.log_prob(value)), ("cdf", lambda: d.cdf(value))]
    questions.append(("icdf", lambda: d.icdf(tensor(lib, PROBABILITIES[:1]))))
    questions.append(("entropy", lambda: d.entropy()))
    questions.append(("has_rsample", lambda: lib.tensor(float(d.has_rsample))))
    for key, ask in questions:
        try:
            found[key] = _plain(ask())
        except NotImplementedError:
            found[key] = None
    return found


def divergence(lib, p, q):
    return _plain(lib.distributions.kl_divergence(build(lib, *p), build(lib, *q)))


def divergences():
    same = []
    for name, kwargs, _ in CASES:
        if name in OTHER and name not in [p[0] for p, _ in same]:
            same.append(((name, kwargs), (name, OTHER[name])))
    return same + MIXED
