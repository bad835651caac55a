"""Losses against their formulas in NumPy, and their gradients against differences in float64."""

import numpy as np
import pytest
from gradcheck import gradcheck
from scipy import special, stats

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

N, C = 5, 4
RNG = np.random.RandomState(0)
X, Y, Z = (RNG.randn(N, C) for _ in range(3))
P, Q = special.expit(X), special.expit(Y)  # probabilities
SIGNS = np.where(RNG.rand(N, C) < 0.5, 1.0, -1.0)
ROWS = np.where(RNG.rand(N) < 0.5, 1.0, -1.0)
LABELS = np.array([0, 3, 2, 1, 2])
WEIGHT = np.array([0.5, 2.0, 1.0, 0.1])
LISTS = np.array([[0, -1, 2, 3], [1, 2, -1, 0], [3, 2, 1, 0], [-1, 0, 1, 2], [2, -1, -1, -1]])


def relu(x):
    return np.maximum(x, 0)


def length(x, p=2):
    return np.linalg.norm(x, p, axis=-1)


def huber(d, beta):
    d = np.abs(d)
    return np.where(d < beta, 0.5 * d * d, beta * (d - 0.5 * beta))


def cosine(a, b):
    return (a * b).sum(-1) / length(a) / length(b)


def multi_margin(x, labels, p, margin, weight):
    out = np.zeros(len(x))
    for n, y in enumerate(labels):
        for j in range(x.shape[1]):
            if j != y:
                out[n] += weight[y] * max(0, margin - x[n, y] + x[n, j]) ** p
    return out / x.shape[1]


def multilabel_margin(x, lists):
    out = np.zeros(len(x))
    for n, row in enumerate(lists):
        targets = [t for k, t in enumerate(row) if (row[: k + 1] >= 0).all()]
        others = [i for i in range(x.shape[1]) if i not in targets]
        out[n] = sum(max(0, 1 - (x[n, j] - x[n, i])) for j in targets for i in others)
    return out / x.shape[1]


def triplet(a, p, n, swap, margin=1.0):
    near, far = length(a - p + 1e-6), length(a - n + 1e-6)
    if swap:
        far = np.minimum(far, length(p - n + 1e-6))
    return relu(margin + near - far)


T = rl.tensor
# name: (loss of tensors, its inputs, the same for each element in NumPy)
CASES = {
    "l1": (F.l1_loss, (X, Y), np.abs(X - Y)),
    "mse": (F.mse_loss, (X, Y), (X - Y) ** 2),
    "smooth_l1": (
        lambda a, b, **k: F.smooth_l1_loss(a, b, beta=0.7, **k),
        (X, Y),
        huber(X - Y, 0.7) / 0.7,
    ),
    "smooth_l1 with beta 0": (
        lambda a, b, **k: F.smooth_l1_loss(a, b, beta=0.0, **k),
        (X, Y),
        np.abs(X - Y),
    ),
    "huber": (
        lambda a, b, **k: F.huber_loss(a, b, delta=0.7, **k),
        (X, Y),
        huber(X - Y, 0.7),
    ),
    "bce": (
        F.binary_cross_entropy,
        (P, Q),
        -(Q * np.log(P) + (1 - Q) * np.log1p(-P)),
    ),
    "bce with logits": (
        lambda a, b, **k: F.binary_cross_entropy_with_logits(a, b, pos_weight=T(WEIGHT), **k),
        (X, Q),
        -(WEIGHT * Q * np.log(P) + (1 - Q) * np.log1p(-P)),
    ),
    "kl_div": (
        F.kl_div,
        (np.log(P), Q),
        special.xlogy(Q, Q) - Q * np.log(P),
    ),
    "kl_div of logs": (
        lambda a, b, **k: F.kl_div(a, b, log_target=True, **k),
        (np.log(P), np.log(Q)),
        Q * (np.log(Q) - np.log(P)),
    ),
    "hinge": (
        lambda a, **k: F.hinge_embedding_loss(a, T(SIGNS), margin=0.6, **k),
        (X,),
        np.where(SIGNS > 0, X, relu(0.6 - X)),
    ),
    "cosine": (
        lambda a, b, **k: F.cosine_embedding_loss(a, b, T(ROWS), margin=0.1, **k),
        (X, Y),
        np.where(ROWS > 0, 1 - cosine(X, Y), relu(cosine(X, Y) - 0.1)),
    ),
    "ranking": (
        lambda a, b, **k: F.margin_ranking_loss(a, b, T(SIGNS), margin=0.3, **k),
        (X, Y),
        relu(-SIGNS * (X - Y) + 0.3),
    ),
    "soft margin": (
        lambda a, **k: F.soft_margin_loss(a, T(SIGNS), **k),
        (X,),
        np.log1p(np.exp(-SIGNS * X)),
    ),
    "multi margin": (
        lambda a, **k: F.multi_margin_loss(a, T(LABELS), margin=0.8, weight=T(WEIGHT), **k),
        (X,),
        multi_margin(X, LABELS, 1, 0.8, WEIGHT),
    ),
    "multi margin squared": (
        lambda a, **k: F.multi_margin_loss(a, T(LABELS), p=2, **k),
        (X,),
        multi_margin(X, LABELS, 2, 1.0, np.ones(C)),
    ),
    "multilabel margin": (
        lambda a, **k: F.multilabel_margin_loss(a, T(LISTS), **k),
        (X,),
        multilabel_margin(X, LISTS),
    ),
    "multilabel soft margin": (
        lambda a, **k: F.multilabel_soft_margin_loss(a, T((SIGNS + 1) / 2), **k),
        (X,),
        -np.where(SIGNS > 0, np.log(P), np.log1p(-P)).mean(1),
    ),
    "triplet": (
        lambda a, b, c, **k: F.triplet_margin_loss(a, b, c, **k),
        (X, Y, Z),
        triplet(X, Y, Z, False),
    ),
    "triplet swapped": (
        lambda a, b, c, **k: F.triplet_margin_loss(a, b, c, swap=True, **k),
        (X, Y, Z),
        triplet(X, Y, Z, True),
    ),
    "poisson": (
        lambda a, **k: F.poisson_nll_loss(a, T(np.arange(N * C).reshape(N, C) * 1.0), **k),
        (X,),
        np.exp(X) - np.arange(N * C).reshape(N, C) * X,
    ),
    "gaussian": (
        lambda a, b, v, **k: F.gaussian_nll_loss(a, b, v, full=True, **k),
        (X, Y, Q),
        -stats.norm(X, np.sqrt(Q)).logpdf(Y),
    ),
}


@pytest.mark.filterwarnings("ignore:kl_div")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", CASES)
def test_against_the_formula(name, reduction):
    loss, inputs, each = CASES[name]
    want = {"none": each, "mean": each.mean(), "sum": each.sum()}[reduction]
    got = loss(*[T(a) for a in inputs], reduction=reduction)
    assert got.dtype == rl.float64 and got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, 1e-6, 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    loss, inputs, _ = CASES[name]
    tensors = [T(a).requires_grad_() for a in inputs]
    gradcheck(lambda: (loss(*tensors, reduction="none"),), tensors)


def cross_entropy(x, labels, weight, ignore, smoothing, reduction):
    """By the definition: classes last, one sum for each position."""
    logs = special.log_softmax(x, 1)
    logs, labels = np.moveaxis(logs, 1, -1).reshape(-1, x.shape[1]), labels.reshape(-1)
    classes = x.shape[1]
    each, total = np.zeros(len(labels)), 0.0
    for i, y in enumerate(labels):
        if y == ignore:
            continue
        each[i] = -(1 - smoothing) * weight[y] * logs[i, y]
        each[i] -= smoothing / classes * (weight * logs[i]).sum()
        total += weight[y]
    if reduction == "none":
        return each
    return each.sum() if reduction == "sum" else each.sum() / total


@pytest.mark.parametrize("shape", [(N, C), (3, C, 2), (2, C, 3, 2)])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(shape, smoothing, ignore, weighted, reduction):
    rng = np.random.RandomState(1)
    x, labels = rng.randn(*shape), rng.randint(0, C, (shape[0], *shape[2:]))
    weight = WEIGHT if weighted else np.ones(C)
    options = {"weight": T(WEIGHT) if weighted else None, "ignore_index": ignore,
               "reduction": reduction}  # fmt: skip
    got = F.cross_entropy(T(x), T(labels), label_smoothing=smoothing, **options)
    want = cross_entropy(x, labels, weight, ignore, smoothing, reduction)
    np.testing.assert_allclose(got.numpy().reshape(np.shape(want)), want, 1e-7)
    if smoothing == 0.0:
        again = F.nll_loss(T(special.log_softmax(x, 1)), T(labels), **options)
        np.testing.assert_allclose(again.numpy(), got.numpy(), 1e-7)
    leaf = T(x).requires_grad_()
    gradcheck(
        lambda: (F.cross_entropy(leaf, T(labels), label_smoothing=smoothing, **options),), [leaf]
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_of_probabilities(smoothing, reduction):
    target = special.softmax(Y, 1)
    smooth = target * (1 - smoothing) + smoothing / C
    each = -(special.log_softmax(X, 1) * smooth * WEIGHT).sum(1)
    want = {"none": each, "mean": each.mean(), "sum": each.sum()}[reduction]
    got = F.cross_entropy(
        T(X), T(target), weight=T(WEIGHT), reduction=reduction, label_smoothing=smoothing
    )
    np.testing.assert_allclose(got.numpy(), want, 1e-7)


def test_cross_entropy_at_the_edges():
    assert F.cross_entropy(rl.zeros(0, 3), rl.zeros(0, dtype=rl.int64)).isnan()
    assert F.cross_entropy(rl.zeros(0, 3), rl.zeros(0, dtype=rl.int64), reduction="sum") == 0
    assert F.nll_loss(rl.zeros(1, 3), T([-100])).isnan()
    assert F.nll_loss(rl.zeros(1, 3), T([-100]), reduction="none").tolist() == [0.0]
    assert np.isclose(float(F.cross_entropy(T([0.0, 0.0]), T(1))), np.log(2))
    # An ignored position must not spoil the sum, whatever is there.
    x = T([[0.0, 0.0], [float("-inf"), 0.0]])
    assert np.isclose(float(F.nll_loss(x, T([1, 0]), ignore_index=0, reduction="sum")), 0)


def test_weights_of_regression_losses():
    w = np.abs(Z)
    for loss, each in ((F.mse_loss, (X - Y) ** 2), (F.l1_loss, np.abs(X - Y))):
        got = loss(T(X), T(Y), weight=T(w))
        np.testing.assert_allclose(float(got), (each * w).sum() / w.sum(), 1e-7)
        got = loss(T(X), T(Y), weight=T(w), reduction="sum")
        np.testing.assert_allclose(float(got), (each * w).sum(), 1e-7)


def test_large_scores_do_not_overflow():
    x = T([1000.0, -1000.0])
    assert F.binary_cross_entropy_with_logits(x, T([1.0, 0.0])) == 0
    assert F.binary_cross_entropy_with_logits(x, T([0.0, 1.0])) == 1000
    assert F.binary_cross_entropy(T([0.0, 1.0]), T([0.0, 1.0])) == 0
    assert F.binary_cross_entropy(T([0.0]), T([1.0])) == 100
    p = T([0.0, 1.0]).requires_grad_()
    F.binary_cross_entropy(p, T([0.0, 1.0])).backward()
    assert p.grad.isfinite().all()
    assert F.soft_margin_loss(x, T([1.0, 1.0]), reduction="sum") == 1000


def test_poisson_in_full():
    target, rate = T([0.0, 1.0, 5.0]), T([1.0, 2.0, 3.0])
    got = F.poisson_nll_loss(rate, target, log_input=False, full=True, reduction="none").numpy()
    exact = -stats.poisson(rate.numpy()).logpmf(target.numpy())
    np.testing.assert_allclose(got[:2], exact[:2], atol=1e-6)  # Stirling is not used below 2
    np.testing.assert_allclose(got[2], exact[2], atol=0.02)


def test_kl_div_batchmean():
    got = F.kl_div(T(special.log_softmax(X, 1)), T(special.softmax(Y, 1)), reduction="batchmean")
    want = special.rel_entr(special.softmax(Y, 1), special.softmax(X, 1)).sum() / N
    np.testing.assert_allclose(float(got), want, 1e-7)
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(rl.zeros(1), rl.ones(1))


def test_modules_are_the_functions():
    x, y, z = T(X), T(Y), T(Z)
    labels, signs, rows = T(LABELS), T(SIGNS), T(ROWS)
    pairs = [
        (nn.L1Loss(reduction="sum")(x, y), F.l1_loss(x, y, reduction="sum")),
        (nn.MSELoss()(x, y), F.mse_loss(x, y)),
        (nn.SmoothL1Loss(beta=0.5)(x, y), F.smooth_l1_loss(x, y, beta=0.5)),
        (nn.HuberLoss(delta=0.5)(x, y), F.huber_loss(x, y, delta=0.5)),
        (nn.NLLLoss(T(WEIGHT))(x, labels), F.nll_loss(x, labels, T(WEIGHT))),
        (
            nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1)(x, labels),
            F.cross_entropy(x, labels, ignore_index=2, label_smoothing=0.1),
        ),
        (nn.BCELoss()(T(P), T(Q)), F.binary_cross_entropy(T(P), T(Q))),
        (
            nn.BCEWithLogitsLoss(pos_weight=T(WEIGHT))(x, T(Q)),
            F.binary_cross_entropy_with_logits(x, T(Q), pos_weight=T(WEIGHT)),
        ),
        (nn.KLDivLoss(reduction="sum")(x, T(Q)), F.kl_div(x, T(Q), reduction="sum")),
        (nn.HingeEmbeddingLoss(0.5)(x, signs), F.hinge_embedding_loss(x, signs, 0.5)),
        (nn.CosineEmbeddingLoss(0.1)(x, y, rows), F.cosine_embedding_loss(x, y, rows, 0.1)),
        (nn.MarginRankingLoss(0.1)(x, y, signs), F.margin_ranking_loss(x, y, signs, 0.1)),
        (nn.MultiMarginLoss(2)(x, labels), F.multi_margin_loss(x, labels, 2)),
        (nn.MultiLabelMarginLoss()(x, T(LISTS)), F.multilabel_margin_loss(x, T(LISTS))),
        (nn.SoftMarginLoss()(x, signs), F.soft_margin_loss(x, signs)),
        (nn.TripletMarginLoss(2.0)(x, y, z), F.triplet_margin_loss(x, y, z, 2.0)),
        (
            nn.TripletMarginWithDistanceLoss(margin=2.0)(x, y, z),
            F.triplet_margin_with_distance_loss(x, y, z, margin=2.0),
        ),
        (nn.PoissonNLLLoss()(x, T(Q)), F.poisson_nll_loss(x, T(Q))),
        (nn.GaussianNLLLoss()(x, y, T(Q)), F.gaussian_nll_loss(x, y, T(Q))),
    ]
    for i, (a, b) in enumerate(pairs):
        assert rl.equal(a, b), i
    assert list(nn.CrossEntropyLoss(T(WEIGHT)).state_dict()) == ["weight"]


@pytest.mark.parametrize(
    "error, wrong",
    [
        (IndexError, lambda: F.nll_loss(rl.zeros(2, 3), T([0, 5]))),
        (IndexError, lambda: F.cross_entropy(rl.zeros(2, 3), T([0, -1]))),
        (RuntimeError, lambda: F.nll_loss(rl.zeros(2, 3), T([0.0, 1.0]))),
        (ValueError, lambda: F.nll_loss(rl.zeros(2, 3), T([0, 1, 2]))),
        (ValueError, lambda: F.nll_loss(T(1.0), T(0))),
        (RuntimeError, lambda: F.nll_loss(rl.zeros(2, 3), T([0, 1]), weight=rl.ones(2))),
        (RuntimeError, lambda: F.cross_entropy(rl.zeros(2, 3), rl.ones(2, 3).long())),
        (RuntimeError, lambda: F.cross_entropy(rl.zeros(2, 3), rl.zeros(2, 4))),
        (RuntimeError, lambda: F.cross_entropy(rl.zeros(2, 3), T([0, 1]), label_smoothing=2.0)),
        (RuntimeError, lambda: F.cross_entropy(rl.zeros(2, 3), rl.zeros(2, 3), ignore_index=1)),
        (ValueError, lambda: F.mse_loss(rl.zeros(2), rl.zeros(2), reduction="x")),
        (ValueError, lambda: F.mse_loss(rl.zeros(2), rl.zeros(2), weight=rl.ones(3))),
        (NotImplementedError, lambda: F.mse_loss(T([1]), T([1]))),
        (RuntimeError, lambda: F.smooth_l1_loss(rl.zeros(2), rl.zeros(2), beta=-1)),
        (RuntimeError, lambda: F.huber_loss(rl.zeros(2), rl.zeros(2), delta=0)),
        (TypeError, lambda: nn.HuberLoss(delta=1j)),
        (RuntimeError, lambda: F.binary_cross_entropy(T([2.0]), T([1.0]))),
        (ValueError, lambda: F.binary_cross_entropy(T([0.5]), T([1.0, 1.0]))),
        (ValueError, lambda: F.binary_cross_entropy_with_logits(T([0.5]), T([1.0, 1.0]))),
        (RuntimeError, lambda: F.margin_ranking_loss(rl.zeros(2), rl.zeros(2), rl.ones(2, 1))),
        (ValueError, lambda: F.multi_margin_loss(rl.zeros(2, 3), T([0, 1]), p=3)),
        (RuntimeError, lambda: F.multi_margin_loss(rl.zeros(2, 3), T([0, 9]))),
        (RuntimeError, lambda: F.multilabel_margin_loss(rl.zeros(2, 3), T([0, 1]))),
        (ValueError, lambda: F.gaussian_nll_loss(rl.zeros(2), rl.zeros(2), -rl.ones(2))),
        (ValueError, lambda: F.gaussian_nll_loss(rl.zeros(3), rl.zeros(3), rl.ones(2))),
        (ValueError, lambda: F.triplet_margin_loss(*[rl.zeros(2)] * 3, margin=-1)),
        (ValueError, lambda: nn.TripletMarginLoss(margin=-1)),
        (ValueError, lambda: nn.MultiMarginLoss(p=3)),
    ],
)
def test_errors(error, wrong):
    with pytest.raises(error):
        wrong()


def test_old_flags_and_sizes_that_differ():
    x, y = rl.ones(2), rl.zeros(2)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.mse_loss(x, y, size_average=False) == 2
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.MSELoss(reduce=False).reduction == "none"
    with pytest.warns(UserWarning, match="broadcast"):
        F.l1_loss(x, rl.zeros(2, 2))
