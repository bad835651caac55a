"""Linear algebra: factors, systems, singular values and eigenvalues, norms and products.

All functions take batches of matrices in the last two dims, real or complex. LAPACK comes from
OpenBLAS (the wheel scipy-openblas32), opened when first needed.
"""

# ruff: noqa: F403 -- the op table says which functions stand over one of its ops

from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight._places.linalg import *
from rushlight._places.linalg import __all__ as _over_ops
from rushlight.linalg._matrix_functions import matrix_exp
from rushlight.linalg._norms import cond, matrix_norm, matrix_rank, norm
from rushlight.linalg._products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    multi_dot,
    vander,
    vecdot,
)
from rushlight.linalg._results import LinAlgError
from rushlight.linalg._solve import tensorinv, tensorsolve

__all__ = [
    *_over_ops, "LinAlgError", "cond", "cross", "diagonal", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "tensorinv", "tensorsolve", "vander",
    "vecdot",
]  # fmt: skip

__getattr__ = names_missing_from(__name__)

publish(globals(), "linalg", __all__)
