"""Linear algebra under the names of the package itself and of Tensor's methods."""

from rushlight._names.publish import publish
from rushlight.linalg._factor import cholesky as _cholesky
from rushlight.linalg._factor import (
    cholesky_inverse,
    cholesky_solve,
    geqrf,
    lu_unpack,
    orgqr,
    ormqr,
)
from rushlight.linalg._factor import old_lu as lu
from rushlight.linalg._factor import old_qr as _qr
from rushlight.linalg._matrix_functions import matrix_exp as _matrix_exp
from rushlight.linalg._products import matrix_power as _matrix_power
from rushlight.linalg._results import named, with_out
from rushlight.linalg._solve import det as _det
from rushlight.linalg._solve import inv as _inv
from rushlight.linalg._solve import logdet, pinverse, triangular_solve
from rushlight.linalg._solve import old_lu_solve as lu_solve
from rushlight.linalg._solve import slogdet as _slogdet
from rushlight.linalg._spectral import old_svd as svd

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu",
    "lu_solve", "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "ormqr", "pinverse", "qr",
    "slogdet", "svd", "triangular_solve",
]  # fmt: skip

_Slogdet = named("slogdet", ("sign", "logabsdet"))
_QR = named("qr", ("Q", "R"))


def cholesky(input, upper=False, *, out=None):
    """linalg.cholesky by its old name."""
    return _cholesky(input, upper=upper, out=out)


def inverse(input, *, out=None):
    """linalg.inv by its old name."""
    return _inv(input, out=out)


def det(input):
    """linalg.det by its old name."""
    return _det(input)


def matrix_exp(input):
    """linalg.matrix_exp by its old name."""
    return _matrix_exp(input)


def matrix_power(input, n, *, out=None):
    """linalg.matrix_power by its old name."""
    return _matrix_power(input, n, out=out)


def qr(input, some=True, *, out=None):
    """linalg.qr by its old name."""
    return _QR(_qr(input, some, out=out))


def slogdet(input, *, out=None):
    """linalg.slogdet by its old name."""
    return with_out("slogdet", _Slogdet(_slogdet(input)), out)


publish(globals(), "", __all__)
