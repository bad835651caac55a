"""Layers other than losses: activations, dropout, norms, embeddings, padding, rearrangements."""

import numpy as np
import pytest
from gradcheck import gradcheck
from scipy import special

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

T = rl.tensor
RNG = np.random.RandomState(0)
X = RNG.randn(3, 4, 2, 3)


def leaf(a):
    return T(a).requires_grad_()


# ---- activations

XS = np.linspace(-4, 4, 23)
SIG = special.expit(XS)
ACTIVATIONS = {
    "relu": (nn.ReLU(), np.maximum(XS, 0)),
    "relu6": (nn.ReLU6(), np.clip(XS, 0, 6)),
    "hardtanh": (nn.Hardtanh(-0.5, 2), np.clip(XS, -0.5, 2)),
    "elu": (nn.ELU(0.7), np.where(XS > 0, XS, 0.7 * np.expm1(XS))),
    "celu": (nn.CELU(0.7), np.where(XS > 0, XS, 0.7 * np.expm1(XS / 0.7))),
    "selu": (
        nn.SELU(),
        1.0507009873554805 * np.where(XS > 0, XS, 1.6732632423543772 * np.expm1(XS)),
    ),
    "leaky_relu": (nn.LeakyReLU(0.2), np.where(XS > 0, XS, 0.2 * XS)),
    "silu": (nn.SiLU(), XS * SIG),
    "mish": (nn.Mish(), XS * np.tanh(np.log1p(np.exp(XS)))),
    "gelu": (nn.GELU(), XS * special.ndtr(XS)),
    "gelu tanh": (
        nn.GELU("tanh"),
        0.5 * XS * (1 + np.tanh(np.sqrt(2 / np.pi) * (XS + 0.044715 * XS**3))),
    ),
    "hardsigmoid": (nn.Hardsigmoid(), np.clip(XS + 3, 0, 6) / 6),
    "hardswish": (nn.Hardswish(), XS * np.clip(XS + 3, 0, 6) / 6),
    "sigmoid": (nn.Sigmoid(), SIG),
    "logsigmoid": (nn.LogSigmoid(), np.log(SIG)),
    "tanh": (nn.Tanh(), np.tanh(XS)),
    "tanhshrink": (nn.Tanhshrink(), XS - np.tanh(XS)),
    "softsign": (nn.Softsign(), XS / (1 + np.abs(XS))),
    "softplus": (nn.Softplus(2.0), np.log1p(np.exp(2 * XS)) / 2),
    "softshrink": (nn.Softshrink(0.6), np.sign(XS) * np.maximum(np.abs(XS) - 0.6, 0)),
    "hardshrink": (nn.Hardshrink(0.6), np.where(np.abs(XS) > 0.6, XS, 0)),
    "threshold": (nn.Threshold(0.1, 9.0), np.where(XS > 0.1, XS, 9)),
    "rrelu": (nn.RReLU().eval(), np.where(XS >= 0, XS, XS * (1 / 8 + 1 / 3) / 2)),
    "softmax": (nn.Softmax(0), special.softmax(XS)),
    "softmin": (nn.Softmin(0), special.softmax(-XS)),
    "log_softmax": (nn.LogSoftmax(0), special.log_softmax(XS)),
    "prelu": (nn.PReLU(dtype=rl.float64), np.where(XS > 0, XS, 0.25 * XS)),
    "glu": (nn.GLU(), XS[:11] * special.expit(XS[11:22])),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    module, want = ACTIVATIONS[name]
    given = XS[:22] if name == "glu" else XS
    x = leaf(given)
    np.testing.assert_allclose(module(x).detach().numpy(), want, 1e-6, 1e-12)
    x = leaf(given + 0.01)  # away from the kinks
    gradcheck(lambda: (module(x),), [x])


@pytest.mark.parametrize(
    "name",
    "relu relu6 hardtanh elu celu selu leaky_relu silu mish hardsigmoid hardswish rrelu".split(),
)
def test_in_place_activations_have_the_same_gradient(name):
    f = getattr(F, name)
    a, b = leaf(XS), leaf(XS)
    plain, base = f(a), b * 1
    written = f(base, inplace=True)
    assert written is base and rl.equal(plain, written)
    plain.sum().backward()
    written.sum().backward()
    assert rl.allclose(a.grad, b.grad)


def test_rrelu_in_training():
    x = rl.full((1000,), -1.0)
    y = F.rrelu(x, 0.2, 0.6, training=True)
    assert float(y.min()) >= -0.6 and float(y.max()) <= -0.2 and abs(float(y.mean()) + 0.4) < 0.02


def test_softmax_over_channels_and_implicit_dims():
    x = rl.randn(2, 3, 4, 4)
    assert rl.allclose(nn.Softmax2d()(x).sum(1), rl.ones(2, 4, 4))
    with pytest.warns(UserWarning, match="dim"):
        assert rl.equal(F.softmax(rl.ones(2, 2)), rl.full((2, 2), 0.5))


def test_gumbel_softmax():
    logits = rl.log(T([0.1, 0.2, 0.7])).expand(4000, 3)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    assert (hard.detach().sum(1) - 1).abs().max() < 1e-6
    np.testing.assert_allclose(hard.mean(0).numpy(), [0.1, 0.2, 0.7], atol=0.04)
    x = rl.randn(5, 3, requires_grad=True)
    F.gumbel_softmax(x, hard=True).pow(2).sum().backward()
    assert x.grad.isfinite().all()


# ---- dropout


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("inplace", [False, True])
def test_dropout(p, inplace):
    x = rl.ones(10000)
    y = F.dropout(x, p, inplace=inplace)
    assert (y is x) == (inplace or p == 0)
    kept = y != 0
    assert abs(float(kept.float().mean()) - (1 - p)) < 0.03
    if p < 1:
        np.testing.assert_allclose(y[kept].numpy(), 1 / (1 - p), 1e-6)
    assert F.dropout(x, p, training=False) is x
    m = nn.Dropout(p).eval()
    assert m(x) is x


def test_dropout_is_the_same_on_the_way_back():
    x = rl.ones(100, requires_grad=True)
    y = nn.Dropout(0.4)(x)
    y.sum().backward()
    assert rl.equal(x.grad, y.detach())


@pytest.mark.parametrize(
    "module, shape",
    [
        (nn.Dropout1d, (8, 50, 6)),
        (nn.Dropout1d, (50, 6)),
        (nn.Dropout2d, (8, 50, 3, 2)),
        (nn.Dropout3d, (8, 50, 3, 2, 2)),
        (nn.Dropout3d, (50, 3, 2, 2)),
    ],
)
def test_dropout_of_channels(module, shape):
    y = module(0.4)(rl.ones(shape))
    spatial = {nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}[module]
    flat = y.reshape(-1, int(np.prod(shape[-spatial:])))
    assert (flat == flat[:, :1]).all() and 0.2 < float((flat[:, 0] == 0).float().mean()) < 0.6


def test_alpha_dropout_keeps_mean_and_variance():
    x = rl.randn(50, 400)
    for y in (F.alpha_dropout(x, 0.3, True), F.feature_alpha_dropout(x, 0.3, True)):
        assert abs(float(y.mean())) < 0.05 and abs(float(y.var()) - 1) < 0.1
    assert nn.AlphaDropout().eval()(x) is x


def test_dropout_errors():
    for wrong in (lambda: F.dropout(rl.ones(1), 2.0), lambda: nn.Dropout(-1)):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(RuntimeError):
        F.dropout1d(rl.ones(3))
    with pytest.raises(RuntimeError):
        F.dropout(T([1, 2]))


# ---- norms


def standard(x, axes, eps=1e-5):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def channels(a):
    return a.reshape(1, -1, 1, 1)


W2, B2 = RNG.randn(2, 3), RNG.randn(2, 3)
W4, B4 = RNG.randn(4), RNG.randn(4)
NORMS = {
    "layer": (
        lambda x, w, b: F.layer_norm(x, (2, 3), w, b),
        (W2, B2),
        standard(X, (2, 3)) * W2 + B2,
    ),
    "rms": (
        lambda x, w: F.rms_norm(x, (2, 3), w, 1e-3),
        (W2,),
        X / np.sqrt((X**2).mean((2, 3), keepdims=True) + 1e-3) * W2,
    ),
    "group": (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (W4, B4),
        standard(X.reshape(3, 2, -1), 2).reshape(X.shape) * channels(W4) + channels(B4),
    ),
    "instance": (
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        (W4, B4),
        standard(X, (2, 3)) * channels(W4) + channels(B4),
    ),
    "batch": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (W4, B4),
        standard(X, (0, 2, 3)) * channels(W4) + channels(B4),
    ),
    "batch, evaluating": (
        lambda x, w, b: F.batch_norm(x, T(B4), T(W4**2), w, b),
        (W4, B4),
        (X - channels(B4)) / np.sqrt(channels(W4**2) + 1e-5) * channels(W4) + channels(B4),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    f, params, want = NORMS[name]
    inputs = [leaf(X), *[leaf(p) for p in params]]
    np.testing.assert_allclose(f(*inputs).detach().numpy(), want, 1e-7, 1e-9)
    gradcheck(lambda: (f(*inputs),), inputs)


def test_half_precision_norms_are_computed_wide():
    x = (rl.randn(4, 256) * 100 + 300).half()
    got = F.layer_norm(x, (256,))
    want = standard(x.double().numpy(), 1)
    assert got.dtype == rl.float16
    np.testing.assert_allclose(got.double().numpy(), want, atol=4e-3)


def test_local_response_norm():
    size, alpha, beta, k = 3, 0.5, 0.6, 2.0
    want = np.empty_like(X)
    for c in range(4):
        low, high = max(0, c - size // 2), min(4, c + (size - 1) // 2 + 1)
        square = (X[:, low:high] ** 2).sum(1) / size
        want[:, c] = X[:, c] / (k + alpha * square) ** beta
    got = nn.LocalResponseNorm(size, alpha, beta, k)(T(X))
    np.testing.assert_allclose(got.numpy(), want, 1e-7)


def test_running_statistics():
    m = nn.BatchNorm2d(4, momentum=0.3, dtype=rl.float64)
    m(T(X))
    mean, var = X.mean((0, 2, 3)), X.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(m.running_mean.numpy(), 0.3 * mean)
    np.testing.assert_allclose(m.running_var.numpy(), 0.7 + 0.3 * var)
    assert m.num_batches_tracked.item() == 1
    before = m.running_mean.clone()
    m.eval()(T(X))
    assert rl.equal(before, m.running_mean)
    cumulative = nn.BatchNorm2d(4, momentum=None, dtype=rl.float64)
    cumulative(T(X)), cumulative(T(X + 1))
    np.testing.assert_allclose(cumulative.running_mean.numpy(), mean + 0.5)
    plain = nn.BatchNorm2d(4, track_running_stats=False, affine=False, dtype=rl.float64).eval()
    np.testing.assert_allclose(plain(T(X)).numpy(), standard(X, (0, 2, 3)), 1e-7)
    n = nn.InstanceNorm2d(4, track_running_stats=True, momentum=0.3, dtype=rl.float64)
    n(T(X))
    np.testing.assert_allclose(n.running_mean.numpy(), 0.3 * X.mean((2, 3)).mean(0))
    assert nn.InstanceNorm2d(4)(rl.ones(4, 3, 3)).shape == (4, 3, 3)


@pytest.mark.parametrize(
    "error, wrong",
    [
        (RuntimeError, lambda: F.layer_norm(rl.ones(2, 3), (2,))),
        (TypeError, lambda: F.layer_norm(rl.ones(2, 3), 3)),
        (RuntimeError, lambda: F.layer_norm(rl.ones(2, 3), (3,), rl.ones(2))),
        (NotImplementedError, lambda: F.layer_norm(T([[1, 2]]), (2,))),
        (RuntimeError, lambda: F.group_norm(rl.ones(2, 3), 2)),
        (ValueError, lambda: nn.GroupNorm(2, 3)),
        (ValueError, lambda: F.batch_norm(rl.ones(1, 3), None, None, training=True)),
        (RuntimeError, lambda: F.batch_norm(rl.ones(2, 3), None, None)),
        (RuntimeError, lambda: nn.BatchNorm1d(3)(rl.ones(2, 2))),
        (ValueError, lambda: nn.BatchNorm1d(3)(rl.ones(3))),
        (ValueError, lambda: nn.BatchNorm2d(3)(rl.ones(2, 3))),
        (ValueError, lambda: F.instance_norm(rl.ones(2, 3, 1))),
        (ValueError, lambda: F.local_response_norm(rl.ones(3, 3), 2)),
    ],
)
def test_norm_errors(error, wrong):
    with pytest.raises(error):
        wrong()


# ---- linear maps, embeddings, distances


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6), (0, 6), (2, 0, 6)])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(shape, bias):
    x, w, b = RNG.randn(*shape), RNG.randn(4, 6), RNG.randn(4)
    inputs = [leaf(x), leaf(w)] + ([leaf(b)] if bias else [])
    want = x @ w.T + (b if bias else 0)
    np.testing.assert_allclose(F.linear(*inputs).detach().numpy(), want, 1e-9)
    gradcheck(lambda: (F.linear(*inputs),), inputs)


def test_linear_with_one_output_and_errors():
    assert F.linear(rl.ones(3), rl.ones(3)).shape == ()
    with pytest.raises(RuntimeError):
        F.linear(rl.ones(2, 3), rl.ones(2, 4))
    with pytest.raises(RuntimeError):
        F.linear(rl.ones(2, 3), rl.ones(2, 3, 1))


def test_bilinear():
    a, b, w, c = RNG.randn(2, 3, 4), RNG.randn(2, 3, 5), RNG.randn(6, 4, 5), RNG.randn(6)
    inputs = [leaf(t) for t in (a, b, w, c)]
    want = np.einsum("nsi,kij,nsj->nsk", a, w, b) + c
    np.testing.assert_allclose(F.bilinear(*inputs).detach().numpy(), want, 1e-9)
    gradcheck(lambda: (F.bilinear(*inputs),), inputs)
    assert nn.Bilinear(2, 3, 4)(rl.ones(5, 2), rl.ones(5, 3)).shape == (5, 4)
    with pytest.raises(RuntimeError):
        F.bilinear(rl.ones(2, 4), rl.ones(3, 5), rl.ones(6, 4, 5))


def test_embedding_gradients():
    index, table = np.array([[1, 2, 1], [0, 3, 3]]), RNG.randn(4, 2)
    for options, factor in (
        ({}, [1, 2, 1, 2]),
        ({"padding_idx": -1}, [1, 2, 1, 0]),
        ({"scale_grad_by_freq": True, "padding_idx": 1}, [1, 0, 1, 1]),
    ):
        w = leaf(table)
        out = F.embedding(T(index), w, **options)
        np.testing.assert_array_equal(out.detach().numpy(), table[index])
        out.sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), np.repeat([factor], 2, 0).T)


def test_embedding_max_norm_writes_the_rows_it_reads():
    w = leaf(np.array([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]]))
    out = F.embedding(T([0, 1]), w, max_norm=1.0)
    np.testing.assert_allclose(out.detach().numpy(), [[0.6, 0.8], [0.3, 0.4]], 1e-6)
    np.testing.assert_allclose(w.detach().numpy(), [[0.6, 0.8], [0.3, 0.4], [30, 40]], 1e-6)


@pytest.mark.parametrize(
    "error, wrong",
    [
        (IndexError, lambda: F.embedding(T([5]), rl.ones(3, 2))),
        (IndexError, lambda: F.embedding(T([-1]), rl.ones(3, 2))),
        (RuntimeError, lambda: F.embedding(T([1.0]), rl.ones(3, 2))),
        (AssertionError, lambda: F.embedding(T([1]), rl.ones(3, 2), padding_idx=9)),
        (RuntimeError, lambda: F.embedding(T([1]), rl.ones(3))),
        (IndexError, lambda: nn.Embedding(3, 2, sparse=True)(T([5]))),
        (AssertionError, lambda: nn.Embedding(3, 2, padding_idx=9)),
        (AssertionError, lambda: nn.Embedding.from_pretrained(rl.ones(2))),
        (RuntimeError, lambda: F.one_hot(T([1.0]))),
        (RuntimeError, lambda: F.one_hot(T([-1]))),
        (RuntimeError, lambda: F.one_hot(T([3]), 2)),
        (RuntimeError, lambda: F.one_hot(rl.zeros(0, dtype=rl.int64))),
    ],
)
def test_lookup_errors(error, wrong):
    with pytest.raises(error):
        wrong()


def test_pretrained_embeddings_and_one_hot():
    table = rl.randn(4, 2)
    m = nn.Embedding.from_pretrained(table, padding_idx=-1)
    assert not m.weight.requires_grad and rl.equal(m(T([1, 3])), table[T([1, 3])])
    assert repr(m) == "Embedding(4, 2, padding_idx=3)"
    assert F.one_hot(T([[0], [2]])).tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
    assert F.one_hot(T(1), 3).tolist() == [0, 1, 0]


def test_distances():
    a, b = RNG.randn(4, 3), RNG.randn(4, 3)
    for p in (1, 2, 3, np.inf):
        want = np.linalg.norm(a - b + 1e-6, p, 1)
        got = F.pairwise_distance(T(a), T(b), p)
        np.testing.assert_allclose(got.numpy(), want, 1e-7)
        unit = F.normalize(T(a), p, 1).numpy()
        np.testing.assert_allclose(unit, a / np.linalg.norm(a, p, 1, keepdims=True), 1e-7)
    cos = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    x, y = leaf(a), leaf(b)
    np.testing.assert_allclose(nn.CosineSimilarity()(x, y).detach().numpy(), cos, 1e-7)
    gradcheck(lambda: (F.cosine_similarity(x, y),), [x, y])
    assert F.cosine_similarity(rl.zeros(2, 3), rl.ones(2, 3)).tolist() == [0, 0]
    huge = rl.full((1, 2), 1e18)
    assert rl.allclose(F.cosine_similarity(huge, huge), rl.ones(1))
    assert not F.normalize(rl.zeros(2, 3)).isnan().any()


# ---- padding and rearrangements


@pytest.mark.parametrize(
    "module, mode",
    [
        (nn.ReflectionPad2d, "reflect"),
        (nn.ReplicationPad2d, "edge"),
        (nn.CircularPad2d, "wrap"),
        (nn.ZeroPad2d, "constant"),
    ],
)
def test_padding_modules(module, mode):
    got = module((1, 2, 1, 0))(T(X))
    np.testing.assert_array_equal(got.numpy(), np.pad(X, ((0, 0), (0, 0), (1, 0), (1, 2)), mode))
    assert module(1).padding == (1, 1, 1, 1)


def test_constant_padding_and_reprs():
    assert nn.ConstantPad1d(1, 2.5)(rl.zeros(1, 1)).tolist() == [[2.5, 0, 2.5]]
    assert repr(nn.ConstantPad1d(1, 2.0)) == "ConstantPad1d(padding=(1, 1), value=2.0)"
    assert repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"
    assert nn.ReplicationPad3d(1)(rl.ones(1, 2, 2, 2)).shape == (1, 4, 4, 4)


def test_shuffles():
    x = rl.arange(16.0).view(1, 4, 2, 2)
    y = nn.PixelShuffle(2)(x)
    assert y.tolist() == [[[[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]]]
    assert rl.equal(nn.PixelUnshuffle(2)(y), x)
    assert nn.ChannelShuffle(2)(x)[0, :, 0, 0].tolist() == [0, 8, 4, 12]
    for wrong in (
        lambda: F.pixel_shuffle(rl.ones(3, 3, 3), 2),
        lambda: F.pixel_unshuffle(rl.ones(3, 3, 3), 2),
        lambda: F.pixel_shuffle(rl.ones(3, 3), 2),
        lambda: F.channel_shuffle(rl.ones(1, 3, 3), 2),
    ):
        with pytest.raises(RuntimeError):
            wrong()


def test_flatten_and_unflatten():
    x = rl.ones(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12) and nn.Unflatten(2, (2, 2))(x).shape == (2, 3, 2, 2)
    with pytest.raises(TypeError):
        nn.Unflatten(1, 5)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"


def test_names_that_the_package_itself_must_not_have():
    for name in "gelu elu silu mish hardtanh softplus relu6 leaky_relu".split():
        assert not hasattr(rl, name) and hasattr(F, name)
    assert rl.layer_norm is F.layer_norm and "nn" in dir(rl)
    with pytest.raises(AttributeError):
        _ = rl.no_such_name


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("size, output", [(1, 6), (1, 40), (2, 37), (3, 4), (5, 64)])
def test_adaptive_average_that_enlarges_has_the_right_gradient(dtype, size, output):
    x = rl.randn(2, 3, size, size, dtype=dtype, requires_grad=True)
    g = rl.randn(2, 3, output, output, dtype=dtype)
    F.adaptive_avg_pool2d(x, output).backward(g)
    # The matrix of one axis: row o averages inputs floor(o n / m) up to ceil((o + 1) n / m).
    a = np.zeros((output, size))
    for o in range(output):
        first, last = o * size // output, -(-(o + 1) * size // output)
        a[o, first:last] = 1 / (last - first)
    expected = np.einsum("oi,bcop,pj->bcij", a, g.double().numpy(), a)
    np.testing.assert_allclose(x.grad.double().numpy(), expected, rtol=1e-4, atol=1e-3)
