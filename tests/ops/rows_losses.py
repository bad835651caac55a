"""Losses and look-ups; their float64 values are recorded."""

from ops.sample import ORACLE, C, OpSample, T, V, no_grad


def recorded(name, *calls, **kw):
    kw.setdefault("slack", 40)
    return OpSample(name, ORACLE, list(calls), **kw)


F = "nn.functional."
FLOATS = ("float32", "float64", "float16", "bfloat16")
LABELS = V([0, 3, 2, 1, 2], "int64")
SOME = V([0, 3, -100, 1, -100], "int64")
IMAGE = V([[[0, 1, 2], [2, 2, 1]], [[1, -100, 0], [0, 2, 2]]], "int64")
W4 = V([0.5, 2.0, 1.0, 0.1])
X, PICTURE = T(5, 4), T(2, 3, 2, 3)


def lengths(*n):
    return V(list(n), "int64")


CLASSES = [
    C(X, LABELS), C(X, LABELS, reduction="none"), C(X, LABELS, reduction="sum"),
    C(X, SOME), C(X, SOME, reduction="none"), C(X, V([1, 1, 3, 3, 2], "int64"), ignore_index=3),
    C(PICTURE, IMAGE), C(PICTURE, IMAGE, reduction="none"), C(T(4), V(2, "int64")),
    C(T(2, 3, 2), V([[1, 0], [2, 1]], "int64"), reduction="sum"),
]  # fmt: skip
SMOOTH = [
    C(X, SOME, label_smoothing=0.3), C(PICTURE, IMAGE, label_smoothing=0.1, reduction="none"),
    C(X, LABELS, label_smoothing=1.0, reduction="sum"),
    C(X, T(5, 4, lo=0.1, hi=1), label_smoothing=0.2), C(PICTURE, T(2, 3, 2, 3, lo=0.0, hi=1.0)),
    C(X, T(5, 4, lo=0.1, hi=1), reduction="sum"), C(T(4), T(4, lo=0.1, hi=1)),
]  # fmt: skip
BAG = V([0, 2, 1, 4, 4, 3, 2], "int64")
STARTS = V([0, 2, 2, 5], "int64")

ROWS = [
    recorded(F + "cross_entropy", *CLASSES, *SMOOTH, dtypes=FLOATS, layouts=False),
    recorded(F + "linear_cross_entropy",
             C(T(5, 3), T(4, 3), LABELS), C(T(5, 3), T(4, 3), SOME, reduction="none"),
             C(T(5, 3), T(4, 3), SOME, linear_bias=T(4), reduction="sum"),
             C(T(5, 3), T(4, 3), SOME, linear_bias=T(4), label_smoothing=0.2),
             C(T(5, 3), T(4, 3), LABELS, weight=W4, ignore_index=2),
             C(T(3), T(4, 3), V(2, "int64")), C(T(5, 3), T(4, 3), T(5, 4, lo=0.1, hi=1)),
             C(T(2, 3), T(3, 2, 3, 3), IMAGE, linear_bias=T(3, 2, 3)),
             dtypes=FLOATS, layouts=False),
    recorded(F + "nll_loss", *CLASSES, dtypes=FLOATS, layouts=False),
    recorded(F + "binary_cross_entropy_with_logits",
             C(X, T(5, 4, lo=0, hi=1)), C(T(), T(lo=0, hi=1), reduction="sum"),
             C(X, T(5, 4, lo=0, hi=1), reduction="none"),
             C(X, T(5, 4, lo=0, hi=1), T(5, 4, lo=0.5, hi=2), pos_weight=V([1.0, 2.0, 0.5, 1.0])),
             dtypes=("float32", "float64")),
    recorded("embedding", C(T(5, 3), BAG), no_grad(C(T(5, 3), V([[1, 4], [1, 1]], "int64"), 1)),
             no_grad(C(T(5, 3), BAG, 2, True)), C(T(5, 3), V([1, 2], "int32")),
             C(T(4, 2), V([], "int64")), dtypes=FLOATS),
    recorded(F + "embedding_bag", C(BAG, T(5, 3), STARTS), C(BAG, T(5, 3), STARTS, mode="sum"),
             C(BAG, T(5, 3, distinct=True), STARTS, mode="max"),
             C(V([[1, 0, 2], [2, 2, 4]], "int64"), T(5, 3)),
             C(BAG, T(5, 3), STARTS, mode="sum", per_sample_weights=T(7)),
             C(BAG, T(5, 3), STARTS, padding_idx=2),
             C(BAG, T(5, 3), STARTS, mode="sum", per_sample_weights=T(7), padding_idx=4),
             C(BAG, T(5, 3), V([0, 3, 7], "int64"), include_last_offset=True),
             dtypes=("float32", "float64"), layouts=False, meta=False),
    # The gradient is that in front of a log_softmax, see tests/nn/test_ctc.py.
    recorded("ctc_loss", C(T(5, 2, 4, hi=0), V([[1, 2], [3, 1]], "int64"), (5, 4), (2, 1)),
             C(T(5, 2, 4, hi=0), V([1, 2, 3], "int64"), lengths(5, 4), lengths(2, 1), 0, 1),
             C(T(5, 4, hi=0), V([1, 1], "int64"), (5,), (2,), 3, 2), grad=False, meta=False,
             dtypes=("float32", "float64")),
    recorded("grid_sampler", C(T(2, 2, 4, 5), T(2, 3, 2, 2, lo=-1.7, hi=1.7), 0, 1, False),
             C(T(2, 2, 4, 5), T(2, 3, 2, 2, lo=-1.7, hi=1.7), 1, 2, True),
             dtypes=("float32", "float64")),
]  # fmt: skip
