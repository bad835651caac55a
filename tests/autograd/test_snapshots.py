"""Saved tensors that are copied when the program writes to them, and not before."""

import threading

import pytest
from peak import peak_of

import rushlight as rl
import rushlight.nn.functional as F


def scores():
    rl.manual_seed(0)
    x = rl.randn(6, 5, dtype=rl.float64, requires_grad=True)
    return x, x * 2


TARGET = rl.tensor([0, 1, 2, 3, 4, 0])
WRITES = {
    "in place": lambda y: y.mul_(3),
    "by index": lambda y: y.__setitem__((slice(None), 1), float("-inf")),
    "through a view": lambda y: y[1:3].zero_(),
    "detached": lambda y: y.detach().fill_(7),
    "without grad mode": lambda y: no_grad(y.zero_),
    "through out=": lambda y: rl.exp(rl.zeros(y.shape, dtype=y.dtype), out=y.detach()),
    "through data": lambda y: y.data.copy_(rl.zeros_like(y)),
    "over and over": lambda y: (y.add_(1), y.detach().add_(1), y[0].zero_()),
}


@rl.no_grad()
def no_grad(f):
    f()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_the_scores_of_a_loss(write):
    x, y = scores()
    (want,) = rl.autograd.grad(F.cross_entropy(y, TARGET), x)
    x, y = scores()
    loss = F.cross_entropy(y, TARGET)
    write(y)
    (got,) = rl.autograd.grad(loss, x)
    assert rl.equal(got, want)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_to_a_result(write):
    x, y = scores()
    z = F.relu6(y)
    total = z.sum()
    write(z)
    (got,) = rl.autograd.grad(total, x)
    assert rl.equal(got, 2.0 * ((y > 0) & (y < 6)))


def test_nothing_is_copied_before_a_write():
    _, y = scores()
    z = F.hardtanh(y)
    loss = F.cross_entropy(y, TARGET)
    node = loss.grad_fn
    assert z.grad_fn._saved_result.data_ptr() == z.data_ptr()
    assert node._saved_self.data_ptr() == y.data_ptr()
    assert node._raw_saved_self.data.data_ptr() == y.data_ptr()
    assert node._raw_saved_self.unpack_hook is None
    old = y.detach().clone()
    y.zero_()
    assert node._saved_self.data_ptr() != y.data_ptr()
    assert rl.equal(node._saved_self.detach().reshape(old.shape), old)


def test_second_derivatives_after_a_write():
    def second(write):
        x, y = scores()
        loss = F.cross_entropy(y, TARGET)
        if write:
            y.zero_()
        (first,) = rl.autograd.grad(loss, x, create_graph=True)
        return rl.autograd.grad(first.square().sum(), x)[0]

    assert rl.allclose(second(True), second(False), 1e-12, 1e-14)
    assert second(False).abs().max() > 1e-3


def test_backward_twice_with_a_write_between():
    x, y = scores()
    loss = F.cross_entropy(y, TARGET)
    (first,) = rl.autograd.grad(loss, x, retain_graph=True)
    y.zero_()
    (second,) = rl.autograd.grad(loss, x)
    assert rl.equal(first, second)


def test_hooks_of_the_program_come_first():
    seen = []
    _, y = scores()
    hooks = (lambda t: seen.append(t.shape) or t.clone(), lambda t: t)
    with rl.autograd.graph.saved_tensors_hooks(*hooks):
        z = F.hardtanh(y)
    assert len(seen) == 1
    node = F.relu6(y).grad_fn
    node._raw_saved_result.register_hooks(lambda t: t * 0 + 1, lambda t: t)
    assert rl.equal(node._saved_result.detach(), rl.ones_like(y))
    assert z.grad_fn is not None


def test_memory():
    x = rl.randn(1 << 16, requires_grad=True)
    size = x.numel() * 4

    def step(write):
        y = F.relu6(x * 2)
        total = y.sum()
        if write:
            y.zero_()
        total.backward()
        x.grad = None

    before = rl.memory_stats()["allocated"]
    plain, written = peak_of(lambda: step(False)), peak_of(lambda: step(True))
    assert rl.memory_stats()["allocated"] == before
    assert plain < 3.5 * size, "x * 2 dies, the result is saved, the gradient is made"
    assert 0 <= written - plain <= size + 1024


@pytest.mark.threads
def test_threads_write_while_others_save():
    failures = []

    def work(seed):
        try:
            for k in range(50):
                x = rl.full((64,), 0.25 + seed, dtype=rl.float64, requires_grad=True)
                z = F.hardtanh(x * 1, -2.0, 2.0)
                total = z.sum()
                z.fill_(float(k))
                total.backward()
                assert x.grad.tolist() == [1.0] * 64
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n / 4,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
