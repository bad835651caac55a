"""Pieces of one tensor share a node: their gradients are joined, not added up one by one."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck

CUTS = {
    "split": lambda x: x.split(2, 1),
    "sizes": lambda x: x.split([1, 0, 4], 1),
    "chunk": lambda x: x.chunk(2, -1),
    "unbind": lambda x: x.unbind(1),
    "iterate": lambda x: tuple(x),
    "tensor_split": lambda x: x.tensor_split([1, 2], 1),
    "overlapping": lambda x: x.tensor_split([3, 1], 1),
    "hsplit": lambda x: x.hsplit([2]),
    "one": lambda x: x.split(5, 1),
}


def leaf():
    return rl.tensor(np.random.RandomState(0).randn(4, 5), requires_grad=True)


@pytest.mark.parametrize("name", CUTS)
def test_derivatives(name):
    cut = CUTS[name]
    assert gradcheck(
        lambda x: tuple(p * (i + 2) for i, p in enumerate(cut(x)) if p.numel()),
        (leaf(),),
        check_forward_ad=True,
        check_batched_grad=True,
    )
    assert gradgradcheck(lambda x: tuple(p**3 for p in cut(x) if p.numel()), (leaf(),))


@pytest.mark.parametrize("name", CUTS)
def test_pieces_that_nobody_uses_count_as_zero(name):
    x = leaf()
    parts = CUTS[name](x)
    parts[-1].sum().backward()
    want = rl.zeros(4, 5, dtype=rl.float64, requires_grad=True)
    CUTS[name](want)[-1].detach().fill_(1)
    assert (x.grad == want).all()


def test_one_node_of_many_results():
    x = leaf()
    first, second, third = (x * 1).split(2, 1)
    assert first.grad_fn is second.grad_fn is third.grad_fn
    assert first.grad_fn.name() == "SplitBackward0"
    assert x.unbind(0)[0].grad_fn.name() == "UnbindBackward0"
    seen = []
    second.register_hook(lambda g: seen.append(g.clone()) or g * 10)
    (first + 2 * second).sum().backward()
    assert (seen[0] == 2).all()
    assert x.grad[0].tolist() == [1, 1, 20, 20, 0]


def test_writing_to_pieces():
    x = leaf()
    y = x * 1
    first, second = y.split([2, 3], 1)
    first.mul_(3)
    second[:, 0] = 7
    (y * 2).sum().backward()
    assert x.grad[0].tolist() == [6, 6, 0, 2, 2]
    x.grad = None
    y = x * 1
    a, b, *_ = y.unbind(0)
    y.mul_(5)
    (a.sum() + 2 * b.sum()).backward()
    assert x.grad.sum(1).tolist() == [25, 50, 0, 0]


def test_a_loop_over_rows_costs_a_row_a_step():
    x = rl.randn(4000, 500, requires_grad=True)
    rl.reset_peak_memory_stats()
    before = rl.memory_stats()["allocated"]
    state = rl.zeros(500)
    for row in x:
        state = state + row
    state.sum().backward()
    # the gradient, the rows' states and little more; one of the whole size a row would be 32 GB
    assert rl.memory_stats()["peak"] - before < 5 * x.numel() * 4
    assert (x.grad == 1).all()


def test_vmap_over_pieces():
    x = rl.randn(3, 4, 5)
    got = rl.vmap(lambda s: sum(s.unbind(0)) + s.split(2, 0)[1].sum(0))(x)
    np.testing.assert_allclose(got.numpy(), (x.sum(1) + x[:, 2:].sum(1)).numpy(), 1e-5, 1e-6)
