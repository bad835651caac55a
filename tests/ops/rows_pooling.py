"""Pools; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 10)
    return OpSample(name, ORACLE, list(calls), **kw)


F = "nn.functional."


def D(*shape):
    return T(*shape, distinct=True)


MAX1 = [C(D(2, 3, 8), 2), C(D(3, 9), 3, 2, 1), C(D(2, 2, 9), 3, 2, 1, 2), C(D(0, 3, 8), 2),
        C(D(1, 2, 7), 2, ceil_mode=True)]  # fmt: skip
MAX2 = [C(D(2, 3, 6, 5), 2), C(D(3, 7, 6), (3, 2), (2, 1), (1, 0)), C(D(0, 3, 6, 5), 2),
        C(D(1, 2, 7, 7), 3, 1, 1, 2), C(D(1, 2, 5, 7), 2, 2, 1, ceil_mode=True)]  # fmt: skip
MAX3 = [C(D(1, 2, 4, 4, 5), 2), C(D(2, 5, 4, 4), 3, 2, 1), C(D(1, 1, 5, 4, 4), 2, 1, 0, 2),
        C(D(1, 2, 3, 5, 4), (2, 3, 2), (2, 2, 1), (1, 1, 0), ceil_mode=True)]  # fmt: skip


ROWS = [
    recorded("max_pool1d_with_indices", *MAX1, layouts=False),
    recorded(F + "max_pool1d", *MAX1, C(D(2, 3, 8), 2, return_indices=True)),
    recorded(F + "max_pool2d", *MAX2, C(D(2, 3, 6, 5), 2, return_indices=True)),
    recorded(F + "max_pool3d", *MAX3, C(D(1, 2, 4, 4, 5), 2, return_indices=True)),
    recorded(F + "avg_pool1d", C(T(2, 3, 8), 2), C(T(3, 9), 3, 2, 1),
             C(T(2, 3, 9), 3, 2, 1, True, False), C(T(0, 3, 9), 3)),
    recorded(F + "avg_pool2d", C(T(2, 3, 6, 5), 2), C(T(3, 7, 6), (3, 2), (2, 1), (1, 0)),
             C(T(2, 3, 5, 7), 3, 2, 1, True, False), C(T(2, 3, 5, 7), 3, 2, 1, True),
             C(T(1, 2, 6, 6), 2, divisor_override=3)),
    recorded(F + "avg_pool3d", C(T(1, 2, 4, 4, 5), 2), C(T(2, 5, 4, 4), 3, 2, 1, True, False),
             C(T(1, 2, 4, 4, 4), (1, 2, 2), divisor_override=5)),
    recorded(F + "adaptive_avg_pool1d", C(T(2, 3, 8), 3), C(T(3, 8), 5)),
    recorded(F + "adaptive_avg_pool2d", C(T(2, 3, 7, 5), 3), C(T(3, 7, 5), (None, 2)),
             C(T(1, 2, 4, 4), 1), C(T(1, 2, 3, 3), (5, 4))),
    recorded(F + "adaptive_avg_pool3d", C(T(1, 2, 4, 5, 3), (2, 3, 2)), C(T(2, 4, 4, 4), 2)),
    recorded(F + "adaptive_max_pool1d", C(D(2, 3, 8), 3), C(D(3, 8), 5)),
    recorded(F + "adaptive_max_pool2d", C(D(2, 3, 7, 5), 3), C(D(3, 7, 5), (None, 2)),
             C(D(2, 2, 4, 4), (2, 1), return_indices=True)),
    recorded(F + "adaptive_max_pool3d", C(D(1, 2, 4, 5, 3), (2, 3, 2))),
    recorded(F + "lp_pool1d", C(T(2, 3, 8, lo=0.5), 2, 2)),
    recorded(F + "lp_pool2d", C(T(2, 3, 6, 6, lo=0.5), 2, 2), C(T(3, 6, 6, lo=0.5), 3, 3, 1)),
    recorded(F + "lp_pool3d", C(T(1, 2, 4, 4, 4, lo=0.5), 2, 2)),
]  # fmt: skip
