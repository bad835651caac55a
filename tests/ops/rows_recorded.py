"""Ops without a NumPy counterpart: their float64 values are recorded in oracle/values.json."""

from ops.sample import ORACLE, C, OpSample, T, V


def recorded(name, *calls, **kw):
    return OpSample(name, ORACLE, list(calls) or [C(T(3, 5)), C(T()), C(T(0, 2))], **kw)


F = "nn.functional."
M = T(3, 5)

ROWS = [
    recorded("renorm", C(M, 2, 0, 1.0), C(T(2, 3, 4), 1, -1, 2.0), layouts=False),
    recorded("cosine_similarity", C(M, M), C(M, T(5), dim=1), C(T(4), T(4), dim=0)),
    recorded("pdist", C(T(4, 3)), C(T(4, 3), 1.0)),
    recorded(F + "pairwise_distance", C(M, M), C(M, M, p=1.0, keepdim=True)),
    recorded(F + "normalize", C(M), C(M, p=1.0, dim=0)),
    recorded(F + "leaky_relu", C(M), C(T(), 0.2)),
    recorded(F + "elu", C(M), C(T(4), alpha=0.5)),
    recorded(F + "celu", C(M), C(T(4), alpha=0.5)),
    recorded(F + "selu"),
    recorded(F + "relu6", C(T(3, 5, lo=-9, hi=9))),
    recorded(F + "hardtanh", C(M), C(M, -0.5, 0.5)),
    recorded(F + "hardswish", C(T(3, 5, lo=-9, hi=9))),
    recorded(F + "hardsigmoid", C(T(3, 5, lo=-9, hi=9))),
    recorded(F + "mish"),
    recorded(F + "softsign"),
    recorded(F + "tanhshrink"),
    recorded(F + "softshrink", C(M), C(M, 1.0)),
    recorded(F + "hardshrink", C(M), C(M, 1.0)),
    recorded(F + "threshold", C(M, 0.5, 2.0)),
    recorded(F + "glu", C(T(3, 6)), C(T(4, 3), 0)),
    recorded(F + "prelu", C(M, V([0.25])), C(M, T(5))),
    recorded(F + "mse_loss", C(M, M), C(M, M, reduction="none"), C(M, M, reduction="sum")),
    recorded(F + "l1_loss", C(M, M), C(M, M, reduction="none")),
    recorded(F + "smooth_l1_loss", C(M, M), C(M, M, beta=0.5, reduction="sum")),
    recorded(F + "huber_loss", C(M, M), C(M, M, delta=0.5, reduction="none")),
    recorded("mvlgamma", C(T(3, 5, lo=2, hi=5), 2)),
]
