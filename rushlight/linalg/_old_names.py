"""Linear algebra under the names of the package itself and of Tensor's methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight._C import Tensor
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

if TYPE_CHECKING:
    from rushlight import return_types

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu",
    "lu_solve", "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "ormqr", "pinverse", "qr",
    "slogdet", "svd", "triangular_solve",
]  # fmt: skip

_Slogdet = named("slogdet", ("sign", "logabsdet"))
_QR = named("qr", ("Q", "R"))


def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """linalg.cholesky by its old name."""
    return _cholesky(input, upper=upper, out=out)


def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """linalg.inv by its old name."""
    return _inv(input, out=out)


def det(input: Tensor) -> Tensor:
    """linalg.det by its old name."""
    return _det(input)


def matrix_exp(input: Tensor) -> Tensor:
    """linalg.matrix_exp by its old name."""
    return _matrix_exp(input)


def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """linalg.matrix_power by its old name."""
    return _matrix_power(input, n, out=out)


def qr(input: Tensor, some: bool = True, *, out: Sequence[Tensor] | None = None) -> return_types.qr:
    """linalg.qr by its old name."""
    return _QR(_qr(input, some, out=out))


def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.slogdet:
    """linalg.slogdet by its old name."""
    return with_out("slogdet", _Slogdet(_slogdet(input)), out)


publish(globals(), "", __all__)
