"""Losses that run in one pass, against the formula written out over ops."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

RNG = np.random.RandomState(0)


def written_out(x, target, weight, ignore, smoothing, reduction, scores):
    """Cross entropy or nll_loss of (N, C, P), by textbook."""
    logs = x.log_softmax(1) if scores else x
    counts = target != ignore
    places = target.masked_fill(~counts, 0)
    weight = rl.ones(x.shape[1], dtype=x.dtype) if weight is None else weight
    own = weight[places] * counts
    picked = logs.gather(1, places.unsqueeze(1)).squeeze(1)
    smooth = (logs * weight.view(1, -1, 1)).sum(1) * counts / x.shape[1]
    loss = -(1 - smoothing) * picked * own - smoothing * smooth
    if reduction == "none":
        return loss
    return loss.sum() / own.sum() if reduction == "mean" else loss.sum()


CASES = [(n, c, p) for n, c, p in [(5, 4, 1), (2, 3, 7), (1, 1000, 1), (3, 2, 300), (4, 1, 1)]]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", CASES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(reduction, shape, weighted, smoothing):
    n, c, p = shape
    x = rl.tensor(RNG.randn(*shape), requires_grad=True)
    target = rl.tensor(RNG.randint(0, c, (n, p)))
    if n * p > 1:
        target[0, 0] = -100
    weight = rl.tensor(RNG.rand(c) + 0.1, requires_grad=True) if weighted else None
    want = written_out(x, target, weight, -100, smoothing, reduction, True)
    got = F.cross_entropy(
        x, target, weight, ignore_index=-100, reduction=reduction, label_smoothing=smoothing
    )
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-10, 1e-12)
    wrt = [x] if weight is None else [x, weight]
    seed = rl.tensor(RNG.randn(*got.shape))
    for a, b in zip(
        rl.autograd.grad(got, wrt, seed), rl.autograd.grad(want, wrt, seed), strict=True
    ):
        assert rl.allclose(a, b, 1e-9, 1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_second_derivatives_and_forward_mode(reduction):
    target, weight = rl.tensor([[1, 2], [0, -100]]), rl.tensor([0.5, 2.0, 1.0], dtype=rl.float64)
    x = rl.tensor(RNG.randn(2, 3, 2), requires_grad=True)
    w = weight.clone().requires_grad_()
    for f in (
        lambda x: F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=0.1),
        lambda x: F.cross_entropy(x, target, reduction=reduction),
        lambda x: F.nll_loss(x, target, weight, reduction=reduction),
    ):
        assert gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(f, (x,))

    def by_weight(x, w):
        return F.cross_entropy(x, target, w, reduction=reduction, label_smoothing=0.1)

    assert gradcheck(by_weight, (x, w))
    assert gradgradcheck(by_weight, (x, w))


def test_per_sample_gradients():
    x, target = rl.randn(6, 4), rl.arange(6) % 4
    each = rl.vmap(rl.func.grad(lambda x, t: F.cross_entropy(x, t)))(x, target)
    loop = rl.stack([rl.func.grad(lambda x, t: F.cross_entropy(x, t))(a, b)
                     for a, b in zip(x, target, strict=True)])  # fmt: skip
    assert rl.allclose(each, loop)


def test_large_scores_and_infinities():
    x = rl.tensor([[1e4, -1e4, 0.0], [-np.inf, 0.0, 1.0], [88.0, 89.0, 90.0]], requires_grad=True)
    loss = F.cross_entropy(x, rl.tensor([0, 2, 2]), reduction="none")
    want = [0, np.log(1 + np.exp(-1)), np.log(1 + np.exp(-1) + np.exp(-2))]
    np.testing.assert_allclose(loss.detach().numpy(), want, 1e-5)
    loss.sum().backward()
    assert x.grad.isfinite().all()
    nan = F.cross_entropy(rl.tensor([[1.0, float("nan")]]), rl.tensor([0]))
    assert nan.isnan()


def test_nothing_counts():
    x = rl.randn(3, 4, requires_grad=True)
    ignored = rl.full((3,), -100)
    loss = F.cross_entropy(x, ignored)
    assert loss.isnan()
    for again in (True, False):
        assert (rl.autograd.grad(loss, x, create_graph=again)[0] == 0).all()
    assert float(F.cross_entropy(x, ignored, reduction="sum").detach()) == 0
    assert F.cross_entropy(x[:0], ignored[:0]).isnan()
    assert F.cross_entropy(x[:0], ignored[:0], reduction="none").shape == (0,)


def test_strided_scores_and_halves():
    wide = rl.randn(4, 5, 6)
    x, target = wide.transpose(1, 2), rl.arange(20).view(4, 5) % 6
    assert rl.equal(F.cross_entropy(x, target), F.cross_entropy(x.contiguous(), target))
    turned = rl.randn(6, 8).t().requires_grad_()
    F.cross_entropy(turned, rl.arange(8) % 6).backward()
    plain = turned.detach().contiguous().requires_grad_()
    F.cross_entropy(plain, rl.arange(8) % 6).backward()
    assert rl.equal(turned.grad, plain.grad)
    half = x.to(rl.bfloat16).requires_grad_()
    loss = F.cross_entropy(half, target)
    loss.backward()
    assert loss.dtype == half.grad.dtype == rl.bfloat16
    exact = F.cross_entropy(half.detach().double(), target)
    assert abs(float(loss.detach()) - float(exact)) < 0.02


ELEMENT = {
    "l1": (F.l1_loss, lambda d: d.abs()),
    "mse": (F.mse_loss, lambda d: d * d),
    "smooth_l1": (F.smooth_l1_loss, lambda d: rl.where(d.abs() < 1, d * d / 2, d.abs() - 0.5)),
    "huber": (
        lambda x, t, **k: F.huber_loss(x, t, delta=0.5, **k),
        lambda d: rl.where(d.abs() < 0.5, d * d / 2, 0.5 * (d.abs() - 0.25)),
    ),
}


@pytest.mark.parametrize("name", ELEMENT)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_element_losses(name, reduction):
    loss, formula = ELEMENT[name]
    x, t = (rl.tensor(RNG.randn(5, 7), requires_grad=True) for _ in range(2))
    want = formula(x - t)
    want = want if reduction == "none" else getattr(want, reduction)()
    assert rl.allclose(loss(x, t, reduction=reduction), want)
    assert gradcheck(lambda x, t: loss(x, t, reduction=reduction), (x, t), check_forward_ad=True)
    assert gradgradcheck(lambda x, t: loss(x, t, reduction=reduction), (x, t))
    turned = loss(x.t(), t.t(), reduction=reduction)
    assert rl.allclose(turned, want.t() if reduction == "none" else want)


@pytest.mark.parametrize("name", ELEMENT)
def test_element_losses_of_other_types(name):
    loss, _ = ELEMENT[name]
    single, double = rl.randn(9), rl.randn(9).double()
    assert loss(single, double).dtype == (rl.float32 if name == "huber" else rl.float64)
    assert loss(single.half(), single.half()).dtype == rl.float16
    assert loss(rl.zeros(0), rl.zeros(0), reduction="sum") == 0
    assert loss(rl.zeros(0), rl.zeros(0)).isnan()
    with pytest.warns(UserWarning, match="broadcast"):
        assert loss(single, single[:1]).shape == ()


@pytest.mark.threads
def test_a_sum_does_not_depend_on_the_number_of_threads():
    x, t = rl.randn(100_003), rl.randn(100_003)
    before, found = rl.get_num_threads(), []
    try:
        for n in (1, 2):
            rl.set_num_threads(n)
            found.append(float(F.mse_loss(x, t)))
    finally:
        rl.set_num_threads(before)
    assert found[0] == found[1]


def test_binary_scores():
    x, t = rl.tensor(RNG.randn(4, 3) * 3, requires_grad=True), rl.tensor(RNG.rand(4, 3))
    t.requires_grad_()

    def loss(x, t):
        return F.binary_cross_entropy_with_logits(x, t)

    want = F.binary_cross_entropy(x.sigmoid(), t)
    assert rl.allclose(loss(x, t), want)
    assert gradcheck(loss, (x, t), check_forward_ad=True) and gradgradcheck(loss, (x, t))
    far = rl.tensor([-1000.0, 1000.0], requires_grad=True)
    total = F.binary_cross_entropy_with_logits(far, rl.tensor([1.0, 0.0]), reduction="sum")
    total.backward()
    assert float(total.detach()) == 2000 and far.grad.tolist() == [-1.0, 1.0]


def test_binary_cross_entropy_at_the_edges_is_pytorchs():
    x = rl.tensor([0.0, 1.0, 0.5, 0.0, 1.0], requires_grad=True)
    t = rl.tensor([1.0, 0.0, 1.0, 0.0, 1.0])
    loss = F.binary_cross_entropy(x, t, reduction="none")
    assert loss.tolist() == pytest.approx([100, 100, 0.6931472, 0, 0])
    loss.sum().backward()
    assert x.grad.tolist() == pytest.approx([-1e12, 1e12, -2, 0, 0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_half_precision_scores_under_autocast(dtype, reduction, smoothing):
    """The same bits as from a float32 copy of the scores, which is not made."""
    scores, labels, weight = rl.randn(6, 9, 4).to(dtype), rl.randint(0, 9, (6, 4)), rl.rand(9)
    half, wide = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    arguments = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
    with rl.autocast("cpu", dtype=dtype):
        loss = F.cross_entropy(half, labels, **arguments)
    want = F.cross_entropy(wide.float(), labels, **arguments)
    assert loss.dtype == rl.float32
    node = loss.grad_fn if reduction != "none" else loss.grad_fn.next_functions[0][0]
    assert node._saved_self.dtype == dtype
    loss.sum().backward()
    want.sum().backward()
    assert rl.equal(loss, want) and rl.equal(half.grad, wide.grad)


def test_half_precision_scores_twice_differentiated():
    x = rl.randn(3, 5, dtype=rl.bfloat16, requires_grad=True)
    with rl.autocast("cpu"):
        loss = F.cross_entropy(x, rl.tensor([0, 4, 2]))
    (grad,) = rl.autograd.grad(loss, x, create_graph=True)
    (second,) = rl.autograd.grad(grad.square().sum(), x)
    y = x.detach().double().requires_grad_()
    (wide,) = rl.autograd.grad(F.cross_entropy(y, rl.tensor([0, 4, 2])), y, create_graph=True)
    (want,) = rl.autograd.grad(wide.square().sum(), y)
    assert second.dtype == rl.bfloat16
    rl.testing.assert_close(second.double(), want, rtol=3e-2, atol=1e-3)
