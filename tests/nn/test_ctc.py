"""The loss of connectionist temporal classification against a sum over all alignments."""

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import gradcheck
from rushlight.nn import functional as F

RNG = np.random.RandomState(0)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def collapse(path, blank):
    """Repetitions become one, then blanks go."""
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def brute_force(logs, labels, blank):
    """-log of the sum over all paths of (T, C) that collapse to the labels."""
    steps, classes = logs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        if collapse(path, blank) == tuple(labels):
            total += np.exp(sum(logs[t, c] for t, c in enumerate(path)))
    return -np.log(total) if total > 0 else np.inf


LABELS = [(1,), (2, 1), (1, 1), (), (2, 2, 2)]


@pytest.mark.parametrize("blank", [0, 3])
def test_against_all_alignments(blank):
    logs = log_softmax(RNG.randn(4, 5, 4))
    labels = [tuple(k - 1 if blank == 3 else k for k in row) for row in LABELS]
    want = [brute_force(logs[:, b], row, blank) for b, row in enumerate(labels)]
    assert np.isinf(want[-1])  # three equal labels need five steps
    flat = rl.tensor([k for row in labels for k in row])
    counts = [len(row) for row in labels]
    got = F.ctc_loss(rl.tensor(logs), flat, [4] * 5, counts, blank, "none")
    np.testing.assert_allclose(got.numpy(), want, 1e-12)
    padded = rl.full((5, 3), blank)
    for b, row in enumerate(labels):
        padded[b, : len(row)] = rl.tensor(row, dtype=rl.int64)
    lengths = rl.tensor([4] * 5), rl.tensor(counts)
    assert rl.equal(got, F.ctc_loss(rl.tensor(logs), padded, *lengths, blank, "none"))
    assert rl.equal(got, F.ctc_loss(rl.tensor(logs), padded.int(), *lengths, blank, "none"))


def test_shorter_inputs_read_only_their_steps():
    logs = log_softmax(RNG.randn(6, 3, 4))
    labels, steps = [(1, 2), (3,), (2, 3)], [3, 6, 4]
    want = [
        brute_force(logs[:n, b], row, 0)
        for b, (row, n) in enumerate(zip(labels, steps, strict=True))
    ]
    x = rl.tensor(logs, requires_grad=True)
    got = F.ctc_loss(x, rl.tensor([1, 2, 3, 2, 3]), steps, (2, 1, 2), reduction="none")
    np.testing.assert_allclose(got.detach().numpy(), want, 1e-12)
    got.sum().backward()
    assert (x.grad[3:, 0] == 0).all() and (x.grad[4:, 2] == 0).all()


def test_reductions():
    logs = rl.tensor(log_softmax(RNG.randn(8, 3, 5)))
    targets, lengths = rl.tensor([[1, 2, 3], [4, 0, 0], [0, 0, 0]]), (3, 1, 0)
    args = (logs, targets, (8, 7, 6), lengths)
    each = F.ctc_loss(*args, reduction="none")
    assert rl.allclose(F.ctc_loss(*args, reduction="sum"), each.sum())
    by = rl.tensor([3.0, 1.0, 1.0])  # no labels count as one
    assert rl.allclose(F.ctc_loss(*args), (each / by).mean())
    assert rl.equal(nn.CTCLoss(reduction="none")(*args), each)
    assert rl.equal(rl.ctc_loss(*args), each)
    assert repr(nn.CTCLoss()) == "CTCLoss()"


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gradients_in_front_of_log_softmax(reduction):
    scores = rl.tensor(RNG.randn(6, 3, 4), requires_grad=True)
    targets = rl.tensor([[1, 1], [2, 3], [3, 0]])

    def loss(x):
        return F.ctc_loss(x.log_softmax(2), targets, (6, 5, 4), (2, 2, 1), reduction=reduction)

    assert gradcheck(loss, (scores,))
    assert gradcheck(lambda x: loss(x).sum(), (scores,), check_forward_ad=True)


def test_infinite_losses():
    x = rl.tensor(log_softmax(RNG.randn(3, 2, 4)), requires_grad=True)
    targets = rl.tensor([[1, 1, 1], [1, 2, 0]])
    plain = F.ctc_loss(x, targets, (3, 3), (3, 2), reduction="none")
    assert plain[0].isinf() and plain[1].isfinite()
    grad = rl.autograd.grad(plain.sum(), x)[0]
    assert grad[:, 0].isnan().all() and grad[:, 1].isfinite().all()
    mended = F.ctc_loss(x, targets, (3, 3), (3, 2), reduction="none", zero_infinity=True)
    assert mended[0] == 0 and mended[1] == plain[1]
    grad = rl.autograd.grad(mended.sum(), x)[0]
    assert (grad[:, 0] == 0).all() and (grad[:, 1] != 0).any()


def test_no_steps():
    x = rl.zeros(3, 2, 4)
    got = F.ctc_loss(x, rl.tensor([1]), (0, 0), (0, 1), reduction="none")
    assert got.tolist() == [0.0, float("inf")]


def test_one_sample_without_a_batch():
    logs = rl.tensor(log_softmax(RNG.randn(5, 4)))
    single = F.ctc_loss(logs, rl.tensor([1, 2]), (5,), (2,), reduction="none")
    batch = F.ctc_loss(logs[:, None], rl.tensor([[1, 2]]), (5,), (2,), reduction="none")
    assert single.shape == () and single == batch[0]
    assert F.ctc_loss(logs, rl.tensor([1, 2]), rl.tensor(5), rl.tensor(2)).shape == ()


def test_float32_long_sequences_keep_their_digits():
    logs = log_softmax(RNG.randn(400, 2, 30))
    targets = rl.tensor(RNG.randint(1, 30, (2, 80)))
    args = targets, (400, 350), (80, 60)
    want = F.ctc_loss(rl.tensor(logs), *args)
    got = F.ctc_loss(rl.tensor(logs).float(), *args)
    assert abs(float(got) - float(want)) < 1e-5 * float(want)
    single, double = (rl.tensor(logs).to(t).requires_grad_() for t in (rl.float32, rl.float64))
    for x in (single, double):
        F.ctc_loss(x, *args).backward()
    assert (single.grad.double() - double.grad).abs().max() < 1e-5


def test_strided_log_probs():
    logs = rl.tensor(log_softmax(RNG.randn(2, 5, 4)))
    args = rl.tensor([[1, 2], [3, 1]]), (5, 5), (2, 2)
    turned = logs.transpose(0, 1)
    assert not turned.is_contiguous()
    assert rl.equal(F.ctc_loss(turned, *args), F.ctc_loss(turned.contiguous(), *args))


X = rl.zeros(5, 2, 4)
BAD = [
    (RuntimeError, "one number", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (5,), (1, 1))),
    (RuntimeError, "between 0", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (6, 5), (1, 1))),
    (RuntimeError, "between 0", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (5, 5), (3, -1))),
    (RuntimeError, "add up", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (5, 5), (1, 2))),
    (RuntimeError, "width", lambda: F.ctc_loss(X, rl.ones(2, 2).long(), (5, 5), (3, 1))),
    (RuntimeError, "blank 9", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (5, 5), (1, 1), 9)),
    (IndexError, "target 7", lambda: F.ctc_loss(X, rl.tensor([1, 7]), (5, 5), (1, 1))),
    (RuntimeError, "empty", lambda: F.ctc_loss(X[:, :0], rl.tensor([1]), (), ())),
    (ValueError, "reduction", lambda: F.ctc_loss(X, rl.tensor([1, 2]), (5, 5), (1, 1), 0, "x")),
    (NotImplementedError, "float32", lambda: F.ctc_loss(X.half(), rl.tensor([1]), (5, 5), (1, 0))),
    (RuntimeError, "integers", lambda: F.ctc_loss(X, rl.tensor([1, 2]), rl.ones(2), rl.ones(2))),
    (TypeError, "ctc_loss", lambda: F.ctc_loss(X, rl.tensor([1, 2]), rl.ones(2).long(), (1, 1))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_wrong_calls(case):
    kind, text, call = BAD[case]
    with pytest.raises(kind, match=text):
        call()


def test_second_derivatives_are_refused():
    x = rl.tensor(log_softmax(RNG.randn(4, 1, 3)), requires_grad=True)
    loss = F.ctc_loss(x, rl.tensor([[1]]), (4,), (1,))
    grad = rl.autograd.grad(loss, x, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="ctc_loss_backward"):
        grad.sum().backward()
