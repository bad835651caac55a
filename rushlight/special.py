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
from rushlight._missing import names_missing_from, not_available

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "log1p",
    "log_softmax", "logit", "logsumexp", "multigammaln", "psi", "round", "sinc", "softmax",
    "xlogy",
]  # fmt: skip

# Names to import; calling them raises.
for _name in """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx gammainc gammaincc i0e i1
        i1e log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
        modified_bessel_k1 ndtr ndtri polygamma scaled_modified_bessel_k0
        scaled_modified_bessel_k1 spherical_bessel_j0 xlog1py zeta""".split():
    if _name not in globals():
        globals()[_name] = not_available(
            f"special.{_name}", "this special function is not there yet"
        )

__getattr__ = names_missing_from(__name__)
