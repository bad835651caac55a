"""Linear algebra whose results are unique, against NumPy and SciPy; the rest is in tests/linalg."""

import numpy as np
import scipy.linalg

from ops.sample import C, OpSample, T, V, no_grad

# Well-conditioned matrices: random ones are not.
A2 = [[2.0, 1.0], [0.5, -3.0]]
A3 = [[4.0, 1.0, -2.0], [0.5, 3.0, 1.0], [1.0, -1.0, 5.0]]
A4 = [[3.0, 0.5, 1.0, 0.0], [1.0, -4.0, 0.5, 1.0], [0.0, 1.0, 2.5, -1.0], [0.5, 0.0, 1.0, 3.5]]
TALL = [[1.0, 2.0], [0.5, -1.0], [2.0, 0.25], [-1.0, 1.5]]
WIDE = [[1.0, 0.5, 2.0, -1.0], [2.0, -1.0, 0.25, 1.5]]
BATCH = [A3, [[1.0, 0.0, 0.5], [2.0, -3.0, 0.0], [0.25, 1.0, 2.0]]]
NONE = np.zeros((0, 0))
NO_BATCH = np.zeros((0, 3, 3))


def matrix(name, ref, *calls, **kw):
    kw.setdefault("slack", 64)
    return OpSample(name, ref, list(calls), **kw)


def each(f):
    """f of every matrix of a batch."""

    def ref(a, *args, **kw):
        if a.ndim == 2:
            return f(a, *args, **kw)
        found = [ref(x, *args, **kw) for x in a]
        return np.array(found) if found else np.zeros((0, *np.shape(f(np.eye(a.shape[-1])))))

    return ref


def solve(a, b, left=True):
    if b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]):
        return np.linalg.solve(a, b[..., None])[..., 0]
    if not left:
        return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return np.linalg.solve(a, b)


def matrix_rank(a):
    """(NumPy before 2.3 refuses empty ones.)"""
    return np.linalg.matrix_rank(a) if a.size else np.zeros(a.shape[:-2], np.int64)


def matrix_norm(a, ord="fro", dim=(-2, -1), keepdim=False):
    return np.linalg.norm(a, ord, axis=tuple(dim), keepdims=keepdim)


def solve_triangular(a, b, upper, left=True, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - np.diag(np.diag(a)) + np.eye(len(a))
    return solve(a, b, left)


def vander(x, N=None):
    n = x.shape[-1] if N is None else N
    return x[..., None] ** np.arange(n)


def cond(a, p=None):
    return np.linalg.cond(a, p)


def pinv(a, rcond=None, hermitian=False):
    return np.linalg.pinv(a, hermitian=hermitian)


S = np.array(A3) + np.array(A3).T  # symmetric, eigenvalues apart
ROWS = [
    matrix("linalg.inv", np.linalg.inv, C(V(A3)), C(V(BATCH)), C(V(NONE)), C(V(NO_BATCH))),
    matrix("inverse", np.linalg.inv, C(V(A3)), C(V(BATCH))),
    matrix("linalg.det", np.linalg.det, C(V(A3)), C(V(BATCH)), C(V(A2)), C(V(NONE)),
           no_grad(C(V([[1.0, 2.0], [2.0, 4.0]])))),
    matrix("det", np.linalg.det, C(V(A3)), C(V(BATCH))),
    matrix("linalg.slogdet", lambda a: tuple(np.linalg.slogdet(a)), C(V(A3)), C(V(BATCH)),
           C(V(A2))),
    matrix("slogdet", lambda a: tuple(np.linalg.slogdet(a)), C(V(A3))),
    matrix("logdet", lambda a: np.log(np.linalg.det(a)), C(V(A3)), C(V(BATCH[:1]))),
    matrix("linalg.solve", solve, C(V(A3), T(3, 2)), C(V(A3), T(3)), C(V(BATCH), T(2, 3)),
           C(V(BATCH), T(2, 3, 4)), C(V(A3), T(2, 3, 2)), C(V(BATCH), T(3, 1)),
           C(V(A3), T(2, 3), left=False), C(V(A3), T(3, 0))),
    matrix("linalg.solve_triangular", solve_triangular, C(V(A3), T(3, 2), upper=True),
           C(V(A3), T(3, 2), upper=False), C(V(A3), T(2, 3), upper=True, left=False),
           C(V(A3), T(3, 2), upper=True, unitriangular=True)),
    matrix("linalg.pinv", pinv, C(V(TALL)), C(V(WIDE)), C(V(A3)), C(V(np.eye(3))),
           C(V(np.zeros((0, 3)))), slack=128),
    matrix("pinverse", pinv, C(V(TALL)), slack=128),
    matrix("linalg.matrix_power", each(np.linalg.matrix_power), C(V(A3), 3), C(V(A3), 0),
           C(V(A3), 1), C(V(BATCH), 2), C(V(A3), -2), slack=2000),
    matrix("matrix_power", each(np.linalg.matrix_power), C(V(A3), 5), slack=3000),
    matrix("linalg.matrix_exp", each(scipy.linalg.expm), C(V(A2)), C(V(BATCH)), slack=4000,
           aliases=("matrix_exp",)),
    matrix("linalg.svdvals", lambda a: np.linalg.svd(a, compute_uv=False), C(V(A3)), C(V(TALL)),
           C(V(WIDE)), C(V(BATCH)), C(V(NONE)), C(V(np.zeros((0, 3))))),
    matrix("linalg.eigvalsh", np.linalg.eigvalsh, no_grad(C(V(S))), no_grad(C(V([S, S + 1]))),
           no_grad(C(V(A3), "U")), no_grad(C(V(NONE))),
           grad=False),  # one triangle is read, the gradient is that of both
    matrix("linalg.cond", cond, C(V(A3)), C(V(BATCH)), C(V(A3), 1), C(V(A3), -np.inf),
           C(V(A3), "fro"), C(V(A3), "nuc"), C(V(TALL)), C(V(TALL), -2), slack=512),
    matrix("linalg.matrix_rank", matrix_rank, C(V(A3)), C(V(TALL)), C(V(BATCH)),
           C(V([[1.0, 2.0], [2.0, 4.0]])), C(V(NONE)), grad=False),
    matrix("linalg.matrix_norm", matrix_norm, C(T(3, 4)), C(T(3, 4), "nuc"), C(T(3, 4), 2),
           C(T(3, 4), -2), C(T(3, 4), 1), C(T(3, 4), -1), C(T(3, 4), np.inf), C(T(3, 4), -np.inf),
           C(T(2, 3, 4), 2), C(T(2, 3, 4), "nuc", (0, 2)), C(T(2, 3, 4), 2, (2, 0), True)),
    matrix("linalg.multi_dot", np.linalg.multi_dot, C([T(2, 3), T(3, 4), T(4, 2)]),
           C([T(3), T(3, 4), T(4, 2)]), C([T(3), T(3, 4), T(4)]), C([T(2, 3), T(3, 4)]),
           C([T(10, 2), T(2, 10), T(10, 2), T(2, 10)]), slack=100),
    matrix("linalg.vander", vander, C(T(4)), C(T(2, 3)), C(T(3), N=5), C(T(3), N=2), slack=500),
    matrix("linalg.tensorinv", lambda a, ind=2: np.linalg.tensorinv(a, ind),
           C(V(np.array(A4).reshape(2, 2, 4)), 2), C(V(np.array(A4).reshape(4, 2, 2)), 1)),
    matrix("linalg.tensorsolve", lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
           C(V(np.array(A4).reshape(2, 2, 4)), T(2, 2)),
           C(V(np.array(A4).reshape(4, 4, 1)), T(4))),
    matrix("linalg.vecdot", lambda x, y, dim=-1: (np.conj(x) * y).sum(dim), C(T(3, 4), T(3, 4)),
           C(T(3, 4), T(3, 4), dim=0)),
    matrix("linalg.cross", lambda a, b, dim=-1: np.cross(a, b, axis=dim), C(T(2, 3), T(2, 3)),
           C(T(3, 2), T(3, 2), dim=0), aliases=()),
]  # fmt: skip
