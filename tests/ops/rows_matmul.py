"""The matmul family."""

import numpy as np

from ops.sample import DTYPES, C, OpSample, T


def product(name, ref, *calls, **kw):
    kw.setdefault("slack", 8)
    return OpSample(name, ref, list(calls), **kw)


def addmm(c, a, b, beta=1, alpha=1):
    return beta * c + alpha * np.matmul(a, b)


def addbmm(c, a, b, beta=1, alpha=1):
    return beta * c + alpha * np.matmul(a, b).sum(0)


def einsum(equation, *xs):
    return np.einsum(equation, *(xs[0] if isinstance(xs[0], (list, tuple)) else xs))


def tensordot(a, b, dims=2):
    return np.tensordot(a, b, dims)


def cdist(a, b, p=2.0):
    d = np.abs(a[..., :, None, :] - b[..., None, :, :])
    return (d**p).sum(-1) ** (1 / p) if p != np.inf else d.max(-1)


def cross(a, b, dim=-1):
    return np.cross(a, b, axis=dim)


def cov(x, correction=1):
    return np.cov(x, ddof=correction)


ROWS = [
    product("matmul", np.matmul, C(T(3, 4), T(4, 5)), C(T(4), T(4)), C(T(3, 4), T(4)), C(T(4),
            T(4, 5)),
            C(T(2, 3, 4), T(4, 5)), C(T(2, 1, 3, 4), T(3, 4, 5)), C(T(0, 4), T(4, 5)),
            C(T(3, 0), T(0, 5)), C(T(2, 3, 4), T(4)), C(T(17, 33), T(33, 9)),
            peer_bugs=("out",)),
    product("mm", np.matmul, C(T(3, 4), T(4, 5)), C(T(0, 4), T(4, 5)), C(T(3, 0), T(0, 5)),
            C(T(1, 7), T(7, 1))),
    product("bmm", np.matmul, C(T(2, 3, 4), T(2, 4, 5)), C(T(0, 3, 4), T(0, 4, 5)),
            C(T(2, 3, 0), T(2, 0, 5))),
    product("mv", np.matmul, C(T(3, 4), T(4)), C(T(3, 0), T(0))),
    product("dot", np.dot, C(T(5), T(5)), C(T(0), T(0)), C(T(100), T(100)), slack=100),
    product("vdot", np.vdot, C(T(5), T(5)), C(T(0), T(0))),
    product("inner", np.inner, C(T(5), T(5)), C(T(2, 3), T(4, 3)), C(T(), T(3))),
    product("outer", np.outer, C(T(3), T(4)), C(T(0), T(4)), aliases=("ger",)),
    product("addmm", addmm, C(T(3, 5), T(3, 4), T(4, 5)), C(T(5), T(3, 4), T(4, 5)),
            C(T(3, 5), T(3, 4), T(4, 5), beta=2, alpha=3), C(T(3, 5), T(3, 0), T(0, 5))),
    product("addmv", addmm, C(T(3), T(3, 4), T(4)), C(T(3), T(3, 4), T(4), beta=0, alpha=2)),
    product("addr", lambda c, a, b, beta=1, alpha=1: beta * c + alpha * np.outer(a, b),
            C(T(3, 4), T(3), T(4)), C(T(3, 4), T(3), T(4), beta=2, alpha=3)),
    product("baddbmm", addmm, C(T(2, 3, 5), T(2, 3, 4), T(2, 4, 5)),
            C(T(5), T(2, 3, 4), T(2, 4, 5), beta=2, alpha=3)),
    product("addbmm", addbmm, C(T(3, 5), T(2, 3, 4), T(2, 4, 5)),
            C(T(3, 5), T(2, 3, 4), T(2, 4, 5), beta=2, alpha=3), peer_bugs=("out",)),
    product("chain_matmul", lambda *x: np.linalg.multi_dot(x), C(T(2, 3), T(3, 4), T(4, 2)),
            slack=50),
    product("einsum", einsum, C("ij,jk->ik", T(3, 4), T(4, 5)), C("ii->i", T(3, 3)),
            C("ij->ji", T(3, 4)), C("bij,bjk->bik", T(2, 3, 4), T(2, 4, 5)), C("i,j->ij", T(3),
            T(4)),
            C("ij->", T(3, 4)), C("...ij,...jk->...ik", T(2, 3, 4), T(4, 5)), C("i,i", T(4), T(4)),
            slack=30, dtypes=tuple(d for d in DTYPES if d != "bool")),
    product("tensordot", tensordot, C(T(3, 4), T(4, 5), 1), C(T(2, 3, 4), T(3, 4, 5)),
            C(T(2, 3), T(4), 0), slack=30),
    product("kron", np.kron, C(T(2, 3), T(3, 2)), C(T(2), T(3))),
    product("cross", cross, C(T(2, 3), T(2, 3), dim=1), C(T(3), T(3), dim=0)),
    product("cdist", cdist, C(T(3, 4), T(5, 4)), C(T(2, 3, 4), T(2, 5, 4), p=1.0),
            C(T(3, 4), T(5, 4), p=np.inf), slack=30),
    product("nn.functional.linear", lambda x, w, b=0: x @ w.T + b, C(T(3, 4), T(5, 4)),
            C(T(2, 3, 4), T(5, 4), T(5)), C(T(4), T(5, 4), T(5))),
    product("cov", cov, C(T(3, 6)), C(T(3, 6), correction=0), slack=50, peer_bugs=("meta",)),
    product("corrcoef", np.corrcoef, C(T(3, 6)), slack=50, peer_bugs=("meta",)),
]  # fmt: skip
