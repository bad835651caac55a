"""Hooks on what is saved for backward."""

import gc
import threading

import pytest

import rushlight as rl
from rushlight.autograd import Function, graph


def leaf(*values):
    return rl.tensor(values, dtype=rl.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_pack_and_unpack():
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.clone())
        return len(packed) - 1

    def unpack(i):
        unpacked.append(i)
        return packed[i]

    a, b = leaf(5.0), leaf(7.0)
    with graph.saved_tensors_hooks(pack, unpack):
        y = a * b
    assert sorted(t.item() for t in packed) == [5, 7] and unpacked == []
    y.backward()
    assert sorted(unpacked) == [0, 1]
    assert (a.grad.item(), b.grad.item()) == (7, 5)


def test_values_come_from_unpack():
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t * 10):
        y = x.sin()
    y.backward()
    assert x.grad.item() == rl.cos(rl.tensor(200.0, dtype=rl.float64)).item()


def test_outputs_and_inner_results():
    x = leaf(1.0, 2.0)
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * x).exp()  # saves a leaf, a result, and its own output
        (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
        (gg,) = rl.autograd.grad(g.sum(), x)
    plain = (x * x).exp()
    (pg,) = rl.autograd.grad(plain.sum(), x, create_graph=True)
    (pgg,) = rl.autograd.grad(pg.sum(), x)
    assert g.tolist() == pg.tolist() and gg.tolist() == pgg.tolist()


def test_custom_functions_and_nesting():
    x = leaf(2.0)
    order = []
    with graph.saved_tensors_hooks(lambda t: order.append("out") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: order.append("in") or t, lambda t: t):
            y = Cube.apply(x)
        z = Cube.apply(y)
    Cube.apply(z)
    assert order == ["in", "out"]
    z.backward()
    assert x.grad.item() == 9 * 2**8


def test_tensors_that_need_no_gradient_are_packed_too():
    count = []
    with graph.saved_tensors_hooks(lambda t: count.append(t.requires_grad) or t, lambda t: t):
        y = leaf(1.0) * rl.tensor([3.0], dtype=rl.float64)
    assert count == [False]
    y.backward()


def test_writes_after_packing_do_not_matter():
    x = leaf(2.0)
    y = x * 1
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = y * y
    y.add_(5)
    z.backward()
    assert x.grad.item() == 4


def test_bad_hooks():
    x = leaf(2.0)

    def fails(t):
        raise KeyError("pack")

    with graph.saved_tensors_hooks(fails, lambda t: t), pytest.raises(KeyError, match="pack"):
        x.exp()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="Tensor"):
        y.backward()
    with graph.saved_tensors_hooks(lambda t: t, fails):
        y = x.exp()
    with pytest.raises(KeyError):
        y.backward()
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="in.?place"),
    ):
        x.exp()
    assert not hasattr(rl, "_hooks_left") and x.exp().requires_grad


def test_disable():
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass
    with (
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match="not here"),
        graph.disable_saved_tensors_hooks("not here"),
    ):
        pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        leaf(1.0).exp().backward()

    @graph.disable_saved_tensors_hooks("decorated")
    def f():
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    with pytest.raises(RuntimeError, match="decorated"):
        f()


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu(pin_memory):
    x = leaf(1.0, 2.0)
    with graph.save_on_cpu(pin_memory=pin_memory):
        y = (x.exp() * x).sum()
    y.backward()
    z = leaf(1.0, 2.0)
    (z.exp() * z).sum().backward()
    assert x.grad.tolist() == z.grad.tolist()


def test_mutation_of_saved_tensors():
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y.exp() * y).sum()
        y.mul_(100)
        y[0] = 3
        z.backward()
    p = leaf(1.0, 2.0)
    (p.exp() * p).sum().backward()
    assert x.grad.tolist() == p.grad.tolist()


def test_mutation_outside_of_the_block():
    x = leaf(1.0)
    with graph.allow_mutation_on_saved_tensors():
        y = (x * 1).exp()
    with pytest.raises((RuntimeError, AssertionError)):
        y.backward()


@pytest.mark.threads
def test_hooks_of_threads_are_apart():
    seen = []
    started, done = threading.Event(), threading.Event()

    def other():
        started.wait(10)
        leaf(1.0).exp().backward()
        done.set()

    t = threading.Thread(target=other)
    t.start()
    with graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        started.set()
        assert done.wait(10)
    t.join()
    assert seen == []


def test_memory_is_freed():
    def step():
        x = rl.ones(1000, requires_grad=True)
        with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = x.exp().sin()
        y.sum().backward()
        with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            x.exp().sin()  # never differentiated

    step()
    gc.collect()
    before = rl.memory_stats()["allocated"]
    for _ in range(10):
        step()
    assert rl.memory_stats()["allocated"] == before
