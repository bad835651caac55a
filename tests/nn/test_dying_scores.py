"""cross_entropy writes the gradient of its scores over them where nobody else needs them."""

import threading

import numpy as np
import pytest
from peak import peak_of

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint

ROWS, FEATURES, CLASSES = 256, 16, 4100  # a piece of 4,096, and a rest


@pytest.fixture
def parts():
    rl.manual_seed(0)
    x = rl.randn(ROWS, FEATURES, requires_grad=True)
    w = rl.randn(CLASSES, FEATURES, requires_grad=True)
    target = rl.randint(0, CLASSES, (ROWS,))
    target[3] = -100
    return x, w, target


def reference(x, w, target, **kwargs):
    """The gradients where the scores are held, and so survive."""
    scores = F.linear(x, w)
    values = scores.detach().clone()
    loss = F.cross_entropy(scores, target, **kwargs)
    return rl.autograd.grad(loss, (x, w)), values


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.float16], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_peak_of_a_training_step(dtype, smoothing):
    rows, features, classes = 512, 8, 8192
    x = rl.randn(4, rows // 4, features, dtype=dtype, requires_grad=True)
    w = rl.randn(classes, features, dtype=dtype, requires_grad=True)
    target = rl.randint(0, classes, (rows,))
    size = rows * classes * x.element_size()

    def train(holds=False):
        x.grad = w.grad = None
        scores = F.linear(x, w)
        kept = scores if holds else None
        loss = F.cross_entropy(scores.view(-1, classes), target, label_smoothing=smoothing)
        del scores
        loss.backward()
        return kept

    # The scores alone, and what is as small as the inputs; twice of them where they are held.
    # (Where the processor has no products of a half type, blocks of float32 come to it.)
    gone, held = peak_of(train), peak_of(lambda: train(True))
    assert gone < held - 0.95 * size
    if dtype == rl.float32:
        assert gone < 1.1 * size


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16], ids=str)
@pytest.mark.parametrize("classes", [5, 16, 33, 4095, 4100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_same_gradient_in_place(dtype, classes, weighted, smoothing):
    rl.manual_seed(classes)
    x = rl.randn(7, classes, dtype=dtype, requires_grad=True)
    weight = (rl.rand(classes) + 0.5).to(dtype) if weighted else None
    target = rl.randint(0, classes, (7,))
    target[2] = -100
    options = {"weight": weight, "label_smoothing": smoothing}
    (gone,) = rl.autograd.grad(F.cross_entropy(x * 1, target, **options), x)
    held = x * 1
    (kept,) = rl.autograd.grad(F.cross_entropy(held, target, **options), x)
    # The ends of rows are computed by another loop, which may round otherwise.
    if dtype in (rl.float32, rl.float64):
        assert rl.allclose(gone, kept, 1e-6, 1e-9)
    else:
        assert rl.equal(gone, kept)
    exact = x.detach().double().requires_grad_()
    options["weight"] = None if weight is None else weight.double()
    (want,) = rl.autograd.grad(F.cross_entropy(exact, target, **options), exact)
    tolerance = {rl.float64: 1e-12, rl.float32: 1e-5}.get(dtype, 1e-2)
    assert rl.allclose(gone.double(), want, tolerance, tolerance * 1e-1)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_pictures_in_place(reduction):
    x = rl.randn(2, 5, 7, 300, requires_grad=True)
    target = rl.randint(0, 5, (2, 7, 300))
    (want,) = rl.autograd.grad(F.cross_entropy(x, target, reduction=reduction).sum(), x)
    (got,) = rl.autograd.grad(F.cross_entropy(x * 1, target, reduction=reduction).sum(), x)
    assert rl.allclose(got, want, 1e-6, 1e-9)
    turned = rl.randn(6, 9, requires_grad=True)
    labels = rl.arange(9) % 6
    (want,) = rl.autograd.grad(F.cross_entropy(turned.t(), labels), turned)
    (got,) = rl.autograd.grad(F.cross_entropy((turned * 1).t(), labels), turned)
    assert rl.allclose(got, want)


def test_backward_twice(parts):
    x, w, target = parts
    want, _ = reference(*parts)
    loss = F.cross_entropy(F.linear(x, w), target)
    first = rl.autograd.grad(loss, (x, w), retain_graph=True)
    second = rl.autograd.grad(loss, (x, w), retain_graph=True)
    third = rl.autograd.grad(loss, (x, w))
    for a, b, c, d in zip(first, second, third, want, strict=True):
        assert rl.equal(a, b)
        assert rl.allclose(a, c, 1e-5, 1e-7)
        assert rl.allclose(a, d)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        loss.backward()


def test_scores_that_the_program_keeps(parts):
    x, w, target = parts
    want, values = reference(*parts)
    scores = F.linear(x, w)
    F.cross_entropy(scores, target).backward()
    assert rl.equal(scores.detach(), values)
    assert rl.equal(x.grad, want[0])
    accuracy = (scores.argmax(1) == target).sum()
    assert int(accuracy) == int((values.argmax(1) == target).sum())


@pytest.mark.parametrize(
    "keep",
    [
        lambda scores: scores.detach(),
        lambda scores: scores.view(-1),
        lambda scores: scores[5:6],
        lambda scores: scores.detach().numpy(),
        lambda scores: rl.from_dlpack(scores.detach()),
        lambda scores: scores.untyped_storage(),
    ],
    ids=["detach", "view", "slice", "numpy", "dlpack", "storage"],
)
def test_memory_that_the_program_keeps(parts, keep):
    x, w, target = parts
    want, values = reference(*parts)
    scores = F.linear(x, w)
    kept = keep(scores)
    loss = F.cross_entropy(scores, target)
    del scores
    loss.backward()
    assert rl.equal(w.grad, want[1])
    same = keep(values)
    if isinstance(kept, (np.ndarray, rl.Tensor)):
        assert (kept == same).all()
    else:
        assert bytes(kept) == bytes(same)


def test_scores_that_another_node_saved(parts):
    x, w, target = parts
    scores = F.linear(x, w)
    want = rl.autograd.grad(F.cross_entropy(scores, target) + scores.exp().mean(), (x, w))
    scores = F.linear(x, w)
    loss = F.cross_entropy(scores, target) + scores.exp().mean()
    square = (scores * scores).mean()
    del scores
    got = rl.autograd.grad(loss + 0 * square, (x, w))
    for a, b in zip(got, want, strict=True):
        assert rl.allclose(a, b, 1e-4, 1e-5)
    # Two losses of the same scores: neither may spoil the other's.
    scores = F.linear(x, w)
    other = (target + 1).clamp(0, CLASSES - 1)
    both = F.cross_entropy(scores, target) + F.cross_entropy(scores, other)
    del scores
    got = rl.autograd.grad(both, (x, w))
    apart = [reference(x, w, t)[0] for t in (target, other)]
    for a, b, c in zip(got, *apart, strict=True):
        assert rl.allclose(a, b + c, 1e-4, 1e-6)


def test_second_derivatives(parts):
    x, w, target = (p[:8].detach() if p.dtype != rl.int64 else p[:8] % 8 for p in parts)
    x, w = x.double().requires_grad_(), w.double().requires_grad_()
    loss = F.cross_entropy(F.linear(x, w), target)
    (first,) = rl.autograd.grad(loss, x, create_graph=True)
    (second,) = rl.autograd.grad(first.square().sum(), w)
    assert second.shape == w.shape and second.abs().sum() > 0
    held = F.linear(x, w)
    (again,) = rl.autograd.grad(F.cross_entropy(held, target), x, create_graph=True)
    assert rl.allclose(second, rl.autograd.grad(again.square().sum(), w)[0])


def test_hooks_that_pack(parts):
    x, w, target = parts
    want, values = reference(*parts)
    packed = []

    def pack(t):
        packed.append(t)
        return t

    with rl.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = F.cross_entropy(F.linear(x, w), target)
    got = rl.autograd.grad(loss, (x, w))
    assert any(
        t.shape == (ROWS, CLASSES, 1) and rl.equal(t.view_as(values), values) for t in packed
    )
    del packed[:]
    with rl.autograd.graph.save_on_cpu():
        loss = F.cross_entropy(F.linear(x, w), target)
    for a, b in zip(got, rl.autograd.grad(loss, (x, w)), strict=True):
        assert rl.allclose(a, b)
    for a, b in zip(got, want, strict=True):
        assert rl.equal(a, b)


def test_what_the_node_shows(parts):
    x, w, target = parts
    want, values = reference(*parts)
    loss = F.cross_entropy(F.linear(x, w), target)
    node = loss.grad_fn
    while not hasattr(node, "_saved_self"):
        node = node.next_functions[0][0]
    seen = node._saved_self
    loss.backward()
    assert rl.equal(seen.view_as(values), values)
    assert rl.equal(x.grad, want[0])


def test_gradients_are_their_own(parts):
    """Gradients that are asked for, and hooks, see what nobody writes to afterwards."""
    x, w, target = parts
    seen = []
    scores = F.linear(x, w)
    scores.register_hook(lambda g: seen.append(g))
    loss = F.cross_entropy(scores, target)
    del scores
    (gx,) = rl.autograd.grad(loss, x)
    assert rl.allclose(seen[0] @ w.detach(), gx, 1e-4, 1e-6)
    leaf = F.linear(x, w).detach().requires_grad_()
    values = leaf.detach().clone()
    F.cross_entropy(leaf, target).backward()
    assert rl.equal(leaf.detach(), values)
    assert leaf.grad.data_ptr() != leaf.data_ptr()
    scores = F.linear(x, w)
    loss = F.cross_entropy(scores, target)
    loss.backward(inputs=[w])
    assert x.grad is None
    assert rl.allclose(w.grad, reference(x, w, target)[0][1])


def test_scores_that_die_after_a_write(parts):
    x, w, target = parts
    want, _ = reference(*parts)
    scores = F.linear(x, w)
    loss = F.cross_entropy(scores, target)
    scores.add_(1)
    del scores
    loss.backward()
    assert rl.allclose(x.grad, want[0]) and rl.allclose(w.grad, want[1])


def test_checkpoint(parts):
    x, w, target = parts
    want, _ = reference(*parts)
    for reentrant in (False, True):
        loss = checkpoint(
            lambda x, w: F.cross_entropy(F.linear(x, w), target), x, w, use_reentrant=reentrant
        )
        x.grad = w.grad = None
        loss.backward()
        assert rl.allclose(x.grad, want[0])
        assert rl.allclose(w.grad, want[1])
    scores = checkpoint(lambda x, w: F.linear(x, w), x, w, use_reentrant=False)
    got = rl.autograd.grad(F.cross_entropy(scores, target), (x, w))
    assert rl.allclose(got[0], want[0])


def test_forward_mode_and_vmap(parts):
    x, w, target = parts
    x, w = x[:4].detach(), w[:9].detach()
    target = target[:4].clamp(0, 8)

    def loss(x):
        return F.cross_entropy(F.linear(x, w), target)

    hessian = rl.func.hessian(loss)(x)
    assert rl.allclose(hessian, rl.func.jacrev(rl.func.jacrev(loss))(x), 1e-4, 1e-6)
    each = rl.vmap(rl.func.grad(lambda x, t: F.cross_entropy(F.linear(x, w), t)))(x, target)
    one = rl.func.grad(lambda x: F.cross_entropy(F.linear(x, w), target[1]))(x[1])
    assert rl.allclose(each[1], one, 1e-5, 1e-7)
    y = x.clone().requires_grad_()
    losses = F.cross_entropy(F.linear(y, w), target, reduction="none")
    seeds = rl.eye(4)
    rows = rl.autograd.grad(losses, y, seeds, is_grads_batched=True)[0]
    assert rl.allclose(rows.sum(0), rl.autograd.grad(loss(y) * 4, y)[0], 1e-5, 1e-7)


def test_compiled(parts):
    x, w, target = parts
    want, _ = reference(*parts)
    run = rl.compile(lambda x, w: F.cross_entropy(F.linear(x, w).mul(2).div(2), target) * 3)
    size = ROWS * CLASSES * 4
    for _ in range(2):
        for a, b in zip(rl.autograd.grad(run(x, w), (x, w)), want, strict=True):
            assert rl.allclose(a, b * 3, 1e-4, 1e-6)
    assert peak_of(lambda: rl.autograd.grad(run(x, w), (x, w))) < 2.5 * size


@pytest.mark.threads
def test_two_threads_in_one_graph(parts):
    x, w, target = parts
    want, _ = reference(*parts)
    found, errors = [], []

    def work(loss):
        try:
            found.append(rl.autograd.grad(loss, (x, w)))
        except RuntimeError as error:  # another thread has released the linear map's node
            errors.append(str(error))

    for _ in range(5):
        shared = F.linear(x, w)
        losses = [F.cross_entropy(shared, target) for _ in range(4)]
        del shared
        threads = [threading.Thread(target=work, args=(loss,)) for loss in losses]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(found) + len(errors) == 20 and len(found) >= 5
    assert all("retain_graph" in e for e in errors)
    for gx, gw in found:
        assert rl.allclose(gx, want[0], 1e-4, 1e-6)
        assert rl.allclose(gw, want[1], 1e-4, 1e-6)
