"""The pulse: one call of everything that matters, in a few seconds, on every commit."""

import numpy as np
import pytest

import rushlight as rl


def test_arithmetic():
    a, b = rl.tensor([1.0, 2.0, 3.0]), rl.ones(3)
    assert (a + b * 2 - 1).tolist() == [2, 3, 4]
    assert a.sum().item() == 6 and a.mean().item() == 2 and a.max().item() == 3
    a += 1
    assert a.tolist() == [2, 3, 4]
    np.testing.assert_allclose(a.exp().numpy(), np.exp([2, 3, 4]), rtol=1e-6)


def test_shapes_and_views():
    x = rl.arange(12).reshape(3, 4)
    assert x.shape == (3, 4) and x.t().shape == (4, 3)
    x[1, 1:3] = 0
    assert x.tolist() == [[0, 1, 2, 3], [4, 0, 0, 7], [8, 9, 10, 11]]
    assert rl.cat([x, x], 1).shape == (3, 8) and rl.stack([x, x]).shape == (2, 3, 4)
    assert x[x > 8].tolist() == [9, 10, 11] and x[[0, 2], [1, 1]].tolist() == [1, 9]


def test_matmul():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal((rl.from_numpy(a) @ rl.from_numpy(b)).numpy(), a @ b)


def test_dtypes():
    assert (rl.tensor([1, 2]) / 2).dtype == rl.float32
    assert (rl.tensor([1, 2]) + rl.tensor(1.5)).dtype == rl.float32
    assert rl.tensor([1.5]).to(rl.bfloat16).float().item() == 1.5


def test_random():
    rl.manual_seed(0)
    a = rl.randn(1000)
    rl.manual_seed(0)
    assert rl.equal(a, rl.randn(1000)) and abs(a.mean().item()) < 0.2


def test_printing():
    assert repr(rl.tensor([[1.0, 2.5], [3.0, 4.0]])) == (
        "tensor([[1.0000, 2.5000],\n        [3.0000, 4.0000]])"
    )


def test_errors():
    with pytest.raises(RuntimeError):
        rl.zeros(2, 3) + rl.zeros(4)
    with pytest.raises(IndexError):
        rl.zeros(3)[5]
    with pytest.raises(TypeError):
        rl.zeros(2, foo=1)


def test_gradient_descent():
    rng = np.random.RandomState(0)
    x = rl.from_numpy(rng.randn(64, 3))
    truth = rl.tensor([[1.0], [-2.0], [0.5]], dtype=rl.float64)
    w = rl.zeros(3, 1, dtype=rl.float64, requires_grad=True)
    for _ in range(200):
        loss = ((x @ w - x @ truth) ** 2).mean()
        (grad,) = rl.autograd.grad(loss, [w])
        with rl.no_grad():
            w -= 0.1 * grad
    np.testing.assert_allclose(w.detach().numpy(), truth.numpy(), atol=1e-3)


def test_numpy_shares():
    a = np.zeros(3)
    rl.from_numpy(a).fill_(2)
    assert a.tolist() == [2, 2, 2]
