"""Normalisations; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 40)
    return OpSample(name, ORACLE, list(calls), **kw)


TRAIN = (None, None, True, 0.1, 1e-5, True)
EVAL = (T(3), T(3, lo=0.5), False, 0.1, 1e-5, True)

ROWS = [
    recorded("batch_norm", C(T(4, 3, 2, 2), T(3), T(3), *TRAIN), C(T(5, 3), None, None, *TRAIN),
             C(T(2, 3, 4), T(3), None, *TRAIN), C(T(2, 3, 2, 2), T(3), T(3), *EVAL),
             C(T(4, 3), None, None, *EVAL), C(T(2, 3, 2, 2, 2), None, T(3), *TRAIN),
             C(T(0, 3, 2), T(3), T(3), *TRAIN)),
    recorded("instance_norm", C(T(2, 3, 4), T(3), T(3), *TRAIN),
             C(T(2, 3, 2, 3), None, None, *TRAIN), C(T(2, 3, 4), T(3), T(3), *EVAL)),
    recorded("layer_norm", C(T(3, 5), (5,)), C(T(2, 3, 4), (3, 4), T(3, 4), T(3, 4)),
             C(T(4), [4], T(4)), C(T(0, 4), (4,), T(4), T(4), 1e-3)),
    recorded("group_norm", C(T(2, 4, 3), 2), C(T(2, 6, 2, 2), 3, T(6), T(6)),
             C(T(3, 4), 1, T(4), None, 1e-3), C(T(0, 4, 3), 2)),
    recorded("rms_norm", C(T(3, 5), (5,)), C(T(2, 3, 4), (3, 4), T(3, 4)),
             C(T(4), [4], T(4), 1e-3), dtypes=("float32", "float64", "float16", "bfloat16")),
]  # fmt: skip
