"""Creation ops: no tensor in, or only its shape and dtype."""

import numpy as np

from ops.sample import C, DType, OpSample, T

ROW = DType()  # dtype= of the row under test


def make(name, ref, *calls, **kw):
    return OpSample(name, ref, list(calls), layouts=kw.pop("layouts", False), grad=False, **kw)


def filled(value):
    return lambda *s, dtype=None: np.full(s[0] if isinstance(s[0], tuple) else s, value, dtype)


def like(value):
    return lambda x, dtype=None: np.full(x.shape, value, dtype or x.dtype)


def arange(*a, dtype=None):
    return np.arange(*a, dtype=dtype)


def linspace(a, b, n, dtype=None):
    return np.linspace(a, b, n).astype(dtype)


def logspace(a, b, n, base=10.0, dtype=None):
    return np.logspace(a, b, n, base=base).astype(dtype)


def indices(f):
    return lambda r, c, offset=0, dtype=None: np.stack(f(r, offset, c))


def window(name):
    def ref(n, periodic=True, dtype=None):
        if n == 1:
            return np.ones(1)
        k = 2 * np.pi * np.arange(n) / (n - (not periodic))
        return {
            "hann": 0.5 - 0.5 * np.cos(k), "hamming": 0.54 - 0.46 * np.cos(k),
            "blackman": 0.42 - 0.5 * np.cos(k) + 0.08 * np.cos(2 * k),
            "bartlett": 1 - np.abs(k / np.pi - 1),
        }[name]  # fmt: skip

    return ref


def literal(x, dtype=None):
    return np.array(x, dtype=dtype)


M = T(3, 5)
ROWS = [
    make("tensor", literal, C([[1, 0], [1, 1]], dtype=ROW), C(1, dtype=ROW), C([], dtype=ROW),
         C([[], []], dtype=ROW), C([True, False])),
    make("zeros", filled(0), C(3, 4, dtype=ROW), C((2, 0), dtype=ROW), C((), dtype=ROW)),
    make("ones", filled(1), C(3, 4, dtype=ROW), C((2, 0), dtype=ROW), C((), dtype=ROW)),
    make("empty", filled(0), C(3, 4, dtype=ROW), C((2, 0), dtype=ROW), C((), dtype=ROW),
         values=False),
    make("full", lambda s, v, dtype=None: np.full(s, v, dtype), C((3, 4), 1, dtype=ROW),
         C((), 1, dtype=ROW), C((2,), 2.5), C((2,), True), C((0, 2), 3)),
    make("empty_strided", lambda s, st, dtype=None: np.zeros(s, dtype), C((2, 3), (1, 2),
         dtype=ROW),
         values=False),
    make("empty_permuted", lambda s, p, dtype=None: np.zeros(s, dtype), C((2, 3), (1, 0),
         dtype=ROW),
         values=False),
    make("zeros_like", like(0), C(M), C(T()), C(T(0, 3)), C(M, dtype=DType("int32")), layouts=True),
    make("ones_like", like(1), C(M), C(T()), C(T(0, 3)), C(M, dtype=DType("int32")), layouts=True),
    make("empty_like", like(0), C(M), C(T()), C(M, dtype=DType("int32")), values=False,
         layouts=True),
    make("full_like", lambda x, v, dtype=None: np.full(x.shape, v, dtype or x.dtype), C(M, 1),
         C(T(), 2), C(M, 3, dtype=DType("float64")), layouts=True),
    make("new_zeros", lambda x, s, dtype=None: np.zeros(s, x.dtype), C(M, (2, 3)), C(T(), ())),
    make("new_ones", lambda x, s, dtype=None: np.ones(s, x.dtype), C(M, (2, 3)), C(T(), ())),
    make("new_full", lambda x, s, v: np.full(s, v, x.dtype), C(M, (2, 3), 1)),
    make("new_empty", lambda x, s: np.zeros(s, x.dtype), C(M, (2, 3)), values=False),
    make("new_empty_strided", lambda x, s, st: np.zeros(s, x.dtype), C(M, (2, 3), (1, 2)),
         values=False),
    make("new_tensor", lambda x, v: np.array(v, x.dtype), C(M, [1, 0])),
    make("arange", arange, C(5, dtype=ROW), C(1, 5, dtype=ROW), C(0, 9, 2, dtype=ROW), C(5), C(2.5),
         C(0.0, 1.0, 0.25), C(5, 0, -2), C(0), C(300, dtype=DType("int32"))),
    make("range", lambda a, b, s=1, dtype=None: np.arange(a, b + s / 2, s, dtype),
         C(1, 4, dtype=ROW),
         C(0, 1, 0.5)),
    make("linspace", linspace, C(0, 8, 5, dtype=ROW), C(3, 3, 1, dtype=ROW), C(0, 1, 0, dtype=ROW),
         C(-1.0, 1.0, 300, dtype=DType("float32")), slack=2),
    make("logspace", logspace, C(0, 2, 3, dtype=ROW), C(0, 3, 4, base=2.0, dtype=ROW), slack=4,
         dtypes=("float32", "float64", "float16", "bfloat16", "complex64", "complex128")),
    make("eye", lambda n, m=None, dtype=None: np.eye(n, m, dtype=dtype), C(3, dtype=ROW),
         C(2, 4, dtype=ROW), C(0, dtype=ROW)),
    make("tril_indices", indices(np.tril_indices), C(3, 4), C(3, 3, 1), C(4, 2, -1), C(0, 2)),
    make("triu_indices", indices(np.triu_indices), C(3, 4), C(3, 3, 1), C(4, 2, -1), C(0, 2)),
    make("scalar_tensor", lambda v, dtype=None: np.array(v, dtype), C(1, dtype=ROW), C(2.5)),
    make("asarray", literal, C([[1, 0], [1, 1]], dtype=ROW)),
    make("as_tensor", literal, C([[1, 0], [1, 1]], dtype=ROW), C(1, dtype=ROW)),
    make("kaiser_window", lambda n, periodic=True, beta=12.0, dtype=None: np.kaiser(
        n + periodic, beta)[:n], C(8, dtype=ROW), C(7, False, 5.0, dtype=ROW), slack=8),
    *[make(f"{w}_window", window(w), C(8, dtype=ROW), C(7, False, dtype=ROW), C(1, dtype=ROW),
           slack=4) for w in ("hann", "hamming", "blackman", "bartlett")],
]  # fmt: skip
