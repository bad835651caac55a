"""Graphs a million nodes deep or a hundred thousand leaves wide run, and are freed entirely."""

import gc

import pytest

import rushlight as rl

pytestmark = pytest.mark.skipif(
    not hasattr(rl, "memory_stats"), reason="memory_stats is Rushlight's own"
)
LONG = 1_000_000


@pytest.fixture
def nothing_left():
    gc.collect()
    gc.disable()  # reference counting alone must do
    before = rl.memory_stats()["allocated"]
    yield
    assert rl.memory_stats()["allocated"] == before
    gc.enable()


def chain(x, step, n=LONG):
    y = x
    for _ in range(n):
        y = step(y)
    return y


@pytest.mark.usefixtures("nothing_left")
class TestChains:
    def test_forward_backward_freed(self):
        x = rl.ones(1, requires_grad=True)
        y = chain(x, lambda y: y * 1.0)
        y.sum().backward()
        assert x.grad.item() == 1.0

    def test_freed_without_backward(self):
        x = rl.ones(1, requires_grad=True)
        chain(x, lambda y: y * x)

    def test_of_saved_results(self):
        x = rl.zeros(1, requires_grad=True)
        chain(x, lambda y: y.exp() * 0.0).sum().backward()
        assert x.grad.item() == 0.0

    def test_of_views(self):
        x = rl.ones(2, 2, requires_grad=True)
        y = chain(x, lambda y: y.t(), LONG // 4)
        y.sum().backward()
        assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]

    def test_of_tuples(self):
        x = rl.ones(2, requires_grad=True)
        y = chain(x, lambda y: y.sort()[0], LONG // 10)
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_of_writes(self):
        x = rl.ones(2, requires_grad=True)
        y = x * 1.0
        for _ in range(LONG // 4):
            y.mul_(1.0)
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_of_writes_through_views(self):
        x = rl.ones(2, requires_grad=True)
        y = x * 1.0
        for _ in range(LONG // 50):
            y[:1].mul_(1.0)
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]

    def test_only_a_stretch_of_it(self):
        x = rl.ones(1, requires_grad=True)
        middle = chain(x, lambda y: y * 1.0, LONG // 10)
        y = chain(middle, lambda y: y * 1.0, LONG // 10)
        (g,) = rl.autograd.grad(y.sum(), middle)
        assert g.item() == 1.0

    def test_twice_differentiated(self):
        x = rl.ones(1, dtype=rl.float64, requires_grad=True)
        n = LONG // 20
        y = chain(x, lambda y: y * x, n)
        (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = rl.autograd.grad(g.sum(), x)
        assert g.item() == n + 1 and h.item() == n * (n + 1)
        del g, h, y

    def test_double_backward_graph_freed_unused(self):
        x = rl.ones(1, requires_grad=True)
        y = chain(x, lambda y: y * x, LONG // 20)
        (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
        del y, g

    def test_of_grads(self):
        t = rl.zeros(1)
        for _ in range(LONG):
            u = rl.zeros(1)
            u.grad = t
            t = u
        del t, u

    def test_grads_with_graphs(self):
        x = rl.ones(1, requires_grad=True)
        for _ in range(2000):
            (x * x).sum().backward(create_graph=True)
        x.grad = None


@pytest.mark.usefixtures("nothing_left")
class TestWide:
    N = 100_000

    def test_one_node_with_many_leaves(self):
        leaves = [rl.ones(1, requires_grad=True) for _ in range(self.N)]
        (rl.cat(leaves) * 2).sum().backward()
        assert all(t.grad.item() == 2.0 for t in leaves)

    def test_a_sum_of_many_leaves(self):
        leaves = [rl.ones(1, requires_grad=True) for _ in range(self.N)]
        total = leaves[0]
        for t in leaves[1:]:
            total = total + t
        total.backward()
        assert all(t.grad.item() == 1.0 for t in leaves)

    def test_one_leaf_used_by_many(self):
        x = rl.ones(1, dtype=rl.float64, requires_grad=True)
        rl.cat([x * float(i) for i in range(self.N)]).sum().backward()
        assert x.grad.item() == self.N * (self.N - 1) / 2

    def test_many_roots(self):
        x = rl.ones(1, requires_grad=True)
        rl.autograd.backward([x * 1.0 for _ in range(self.N)])
        assert x.grad.item() == self.N


@pytest.mark.usefixtures("nothing_left")
def test_a_failed_backward_leaves_nothing():
    x = rl.ones(1000, requires_grad=True)
    y = (x * 2).exp()
    z = (y * y).sum()
    y.data.zero_()
    y.add_(1)
    with pytest.raises(RuntimeError, match="overwritten|modified"):
        z.backward()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad[0].item() == 2.0


def test_dying_gradients_lend_their_memory():
    n, itemsize = 1 << 18, 4
    x, w = rl.ones(n, requires_grad=True), rl.full((n,), 0.5)
    y = x
    for _ in range(10):
        y = y * w
    y = y.sum()
    rl.reset_peak_memory_stats()
    before = rl.memory_stats()["allocated"]
    y.backward()
    assert rl.memory_stats()["peak"] - before < 1.5 * n * itemsize
    assert rl.memory_stats()["allocated"] - before < 1.1 * n * itemsize  # the gradient itself
    assert x.grad[0].item() == 0.5**10
