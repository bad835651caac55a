"""autograd.functional: derivatives of a function at a point."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import functional as F


def x64(*shape):
    rng = np.random.RandomState(3 + sum(shape))
    return rl.from_numpy(np.asarray(rng.uniform(0.5, 2.0, shape)))


def same(a, b):
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-10, 1e-10)


def two(a, b):
    return a * b.sum(), (a**2).sum() * b


@pytest.mark.parametrize("options", [{}, {"vectorize": True},
                                     {"vectorize": True, "strategy": "forward-mode"}])  # fmt: skip
def test_jacobian(options):
    x = x64(3)
    same(F.jacobian(lambda t: t**2, x, **options), rl.diag(2 * x))
    a, b = x64(2), x64(3)
    j = F.jacobian(two, (a, b), **options)
    same(j[0][0], b.sum() * rl.eye(2, dtype=rl.float64))
    same(j[0][1], a[:, None].expand(2, 3))
    same(j[1][0], 2 * b[:, None] * a)
    same(j[1][1], (a**2).sum() * rl.eye(3, dtype=rl.float64))
    assert not j[0][0].requires_grad
    same(F.jacobian(lambda t: rl.ones(2, dtype=rl.float64), x, **options),
         rl.zeros(2, 3, dtype=rl.float64))  # fmt: skip


def test_jacobian_with_a_graph():
    x = x64(3).requires_grad_()
    j = F.jacobian(lambda t: t**3, x, create_graph=True)
    j.sum().backward()
    same(x.grad, 6 * x)


FORWARD = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, FORWARD])
def test_hessian(options):
    x = x64(3)
    same(F.hessian(lambda t: (t**3).sum(), x, **options), rl.diag(6 * x))
    a, b = x64(2), x64(2)
    h = F.hessian(lambda a, b: (a * b**2).sum(), (a, b), **options)
    same(h[0][0], rl.zeros(2, 2, dtype=rl.float64))
    same(h[0][1], rl.diag(2 * b))
    same(h[1][0], rl.diag(2 * b))
    same(h[1][1], rl.diag(2 * a))


def test_products():
    x, v = x64(3), x64(3) + 1
    out, g = F.vjp(lambda t: t**2, x, v)
    same(out, x**2)
    same(g, 2 * x * v)
    out, t = F.jvp(lambda t: t**2, x, v)
    same(t, 2 * x * v)
    f = lambda t: (t**3).sum() * t[0]  # noqa: E731
    h = F.hessian(f, x)
    same(F.vhp(f, x, v)[1], v @ h)
    same(F.hvp(f, x, v)[1], h @ v)
    _, g = F.vjp(lambda t: t.sum(), x)
    same(g, rl.ones_like(x))
    (p, q) = F.vjp(lambda a, b: (a * b).sum(), (x, v))[1]
    same(p, v)
    same(q, x)
    y = x.clone().requires_grad_()
    out, g = F.vjp(lambda t: t**3, y, v, create_graph=True)
    (second,) = rl.autograd.grad(g.sum(), y)
    same(second, 6 * x * v)


BAD = {
    "not tensors": (lambda x: F.jacobian(lambda t: t, 3.0), TypeError),
    "output": (lambda x: F.jacobian(lambda t: 3.0, x), TypeError),
    "v missing": (lambda x: F.vjp(lambda t: t, x), RuntimeError),
    "v shape": (lambda x: F.vjp(lambda t: t, x, x[0]), RuntimeError),
    "v count": (lambda x: F.jvp(lambda t: t, x, (x, x)), RuntimeError),
    "not a scalar": (lambda x: F.hessian(lambda t: t, x), RuntimeError),
    "strict output": (lambda x: F.jacobian(lambda t: rl.ones(2), x, strict=True), RuntimeError),
    "strict input": (
        lambda x: F.jacobian(lambda a, b: a * 2, (x, x), strict=True), RuntimeError,
    ),
    "strict hessian": (lambda x: F.hessian(lambda t: t.sum(), x, strict=True), RuntimeError),
    "strict and vectorize": (
        lambda x: F.jacobian(lambda t: t, x, strict=True, vectorize=True), RuntimeError,
    ),
    "forward needs vectorize": (
        lambda x: F.jacobian(lambda t: t, x, strategy="forward-mode"), NotImplementedError,
    ),
    "strategy": (lambda x: F.jacobian(lambda t: t, x, strategy="sideways"), AssertionError),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, error = BAD[case]
    with pytest.raises(error):
        f(x64(3))
