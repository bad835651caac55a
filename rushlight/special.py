"""Special functions under the names of the ``special`` namespace."""

from rushlight._C import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    sinc,
    softmax,
    xlogy,
)
from rushlight._C import digamma as psi
from rushlight._C import lgamma as gammaln
from rushlight._C import mvlgamma as multigammaln
from rushlight._C import round as round
from rushlight._C import sigmoid as expit
from rushlight._missing import names_missing_from

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "log1p",
    "log_softmax", "logit", "logsumexp", "multigammaln", "psi", "round", "sinc", "softmax",
    "xlogy",
]  # fmt: skip

__getattr__ = names_missing_from(__name__)
