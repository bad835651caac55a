"""Programs write to the result of an op before backward; that must work where PyTorch allows it.

Which results a gradient reads was compared with PyTorch 2.13: it leaves these free.
"""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


def grads_of(f, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    return rl.autograd.grad(f(*leaves), leaves)


def check_write(make, *inputs):
    """make(*inputs) gives the results; scaling them in place gives what scaling a copy gives."""

    def written(*xs):
        results = make(*xs)
        for r in results:
            r *= 3
        return sum(r.sum() for r in results)

    def copied(*xs):
        return sum((r * 3).sum() for r in make(*xs))

    for a, b in zip(grads_of(written, *inputs), grads_of(copied, *inputs), strict=True):
        assert rl.equal(a, b)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_can_be_scaled_in_place(reduction):
    target = rl.tensor([1, 0, 2])
    x = rl.randn(3, 4)
    check_write(lambda x: [F.cross_entropy(x, target, reduction=reduction)], x)
    check_write(lambda x: [F.nll_loss(x, target, reduction=reduction)], x)
    check_write(lambda x: [F.cross_entropy(x, target, reduction=reduction, label_smoothing=0.1)], x)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_outputs_and_states_of_recurrent_layers(kind, bidirectional, layers):
    net = getattr(nn, kind)(3, 4, num_layers=layers, bidirectional=bidirectional)

    def make(x):
        out, state = net(x)
        return [out, *(state if isinstance(state, tuple) else [state])]

    check_write(make, rl.randn(5, 2, 3))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_states_of_cells(kind):
    cell = getattr(nn, kind)(3, 4)

    def make(x):
        state = cell(x)
        state = cell(x, state)
        return list(state) if isinstance(state, tuple) else [state]

    check_write(make, rl.randn(2, 3))


def test_a_state_is_reset_between_steps():
    """Reinforcement learning: finished episodes start with a state of zeros."""
    cell = nn.LSTMCell(3, 4)
    x, alive = rl.randn(6, 2, 3), rl.tensor([[1.0], [0.0]])

    def run(x, in_place):
        h, c = rl.zeros(2, 4), rl.zeros(2, 4)
        total = 0
        for step in x:
            h, c = cell(step, (h, c))
            if in_place:
                h *= alive
                c *= alive
            else:
                h, c = h * alive, c * alive
            total = total + h.sum()
        return total

    (a,) = grads_of(lambda x: run(x, True), x)
    (b,) = grads_of(lambda x: run(x, False), x)
    assert rl.equal(a, b)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    index = rl.tensor([[0, 2, 1], [1, 1, 3]])
    check_write(lambda w: [F.embedding_bag(index, w, mode=mode)], rl.randn(4, 3))


def test_log_determinant():
    check_write(lambda a: [rl.linalg.slogdet(a)[1]], rl.randn(3, 3) + 3 * rl.eye(3))
