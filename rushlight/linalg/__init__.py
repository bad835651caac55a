"""Linear algebra: factors, systems, singular values and eigenvalues, norms and products.

All functions take batches of matrices in the last two dims, real or complex. LAPACK comes from
OpenBLAS (the wheel scipy-openblas32), opened when first needed.
"""

from rushlight._names.missing import names_missing_from
from rushlight._names.publish import publish
from rushlight.linalg._factor import (
    cholesky,
    cholesky_ex,
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    qr,
)
from rushlight.linalg._matrix_functions import matrix_exp
from rushlight.linalg._norms import cond, matrix_norm, matrix_rank, norm, vector_norm
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
from rushlight.linalg._solve import (
    det,
    inv,
    inv_ex,
    lstsq,
    lu_solve,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from rushlight.linalg._spectral import eig, eigh, eigvals, eigvalsh, svd, svdvals

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip

__getattr__ = names_missing_from(__name__)

publish(globals(), "linalg", __all__)
