"""grad, vjp, jvp, Jacobians, Hessians and their nestings, against formulas and loops."""

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight import func
from rushlight.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def x64(*shape):
    rng = np.random.RandomState(3 + sum(shape))
    return rl.from_numpy(np.asarray(rng.uniform(0.5, 2.0, shape)))


def same(a, b, tolerance=1e-10):
    a, b = (t.detach() if isinstance(t, rl.Tensor) else rl.tensor(t) for t in (a, b))
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.numpy(), b.numpy(), tolerance, tolerance)


def test_grad():
    x = x64(3)
    same(grad(lambda t: (t**3).sum())(x), 3 * x**2)
    g, value = grad_and_value(lambda t: (t**3).sum())(x)
    same(g, 3 * x**2)
    same(value, (x**3).sum())
    assert not g.requires_grad and not value.requires_grad


def test_grad_argnums_and_aux():
    x, y = x64(3), x64(3) + 1
    f = lambda a, b, scale=1.0: (a * b * scale).sum()  # noqa: E731
    same(grad(f, argnums=1)(x, y), x)
    same(grad(f, argnums=-1)(x, y, scale=2.0), 2 * x)
    a, b = grad(f, argnums=(0, 1))(x, y)
    same(a, y)
    same(b, x)
    g, aux = grad(lambda t: ((t * t).sum(), {"twice": 2 * t}), has_aux=True)(x)
    same(g, 2 * x)
    same(aux["twice"], 2 * x)
    g, (_, aux) = grad_and_value(lambda t: ((t * t).sum(), t + 1), has_aux=True)(x)
    same(aux, x + 1)
    assert not aux.requires_grad


def test_grad_of_a_tree():
    p = {"w": x64(2, 3), "b": [x64(3)]}
    g = grad(lambda p, x: ((x @ p["w"] + p["b"][0]) ** 2).sum())(p, x64(4, 2))
    assert set(g) == {"w", "b"} and isinstance(g["b"], list)
    out = x64(4, 2) @ p["w"] + p["b"][0]
    same(g["b"][0], 2 * out.sum(0))
    same(g["w"], 2 * x64(4, 2).t() @ out)


def test_unused_inputs_have_zero_gradients():
    _, b = grad(lambda x, y: (x * 2).sum(), argnums=(0, 1))(x64(2), x64(3))
    same(b, rl.zeros(3, dtype=rl.float64))
    same(grad(lambda x: rl.ones((), dtype=rl.float64))(x64(2)), rl.zeros(2, dtype=rl.float64))


def test_gradients_reach_outer_variables():
    w = x64(3).requires_grad_()
    g = grad(lambda t: (w * t**2).sum())(x64(3))
    assert g.requires_grad
    g.sum().backward()
    same(w.grad, 2 * x64(3))
    x = x64(3).requires_grad_()
    grad(lambda t: (t**3).sum())(x).sum().backward()
    same(x.grad, 6 * x64(3))
    with rl.no_grad():
        assert not grad(lambda t: (w * t**2).sum())(x64(3)).requires_grad
    same(grad(lambda t: t**2)(rl.tensor(3.0)), 6.0)


def test_no_perturbation_confusion():
    one = rl.tensor(1.0, dtype=rl.float64)
    same(grad(lambda x: x * grad(lambda y: x + y)(one))(one), one)
    push = lambda f, x: jvp(f, (x,), (rl.ones_like(x),))[1]  # noqa: E731
    same(push(lambda x: x * push(lambda y: x + y, one), one), one)
    same(push(lambda x: x * grad(lambda y: x * y)(one), one), 2 * one)
    same(grad(lambda x: x * push(lambda y: x * y, one))(one), 2 * one)


def test_vjp():
    x, y = x64(3), x64(3)
    out, pull = vjp(lambda a, b: (a * b, {"s": a.sum()}), x, y)
    same(out[0], x * y)
    assert not out[0].requires_grad
    for _ in range(2):  # may be called again
        a, b = pull((rl.ones(3, dtype=rl.float64), {"s": rl.tensor(2.0, dtype=rl.float64)}))
        same(a, y + 2)
        same(b, x)
    out, pull, aux = vjp(lambda a: (a.sin(), a + 1), x, has_aux=True)
    (single,) = pull(x)  # a tuple, also of one
    same(single, x * x.cos())
    same(aux, x + 1)


def test_jvp():
    x, v = x64(3), x64(3) + 1
    out, t = jvp(rl.sin, (x,), (v,))
    same(out, x.sin())
    same(t, v * x.cos())
    out, t, aux = jvp(lambda a: ({"y": a * a}, a), (x,), (v,), has_aux=True)
    same(t["y"], 2 * x * v)
    same(aux, x)
    assert jvp(lambda a: rl.ones(2), (x,), (v,))[1].sum() == 0
    with pytest.raises(RuntimeError, match="strict"):
        jvp(lambda a: rl.ones(2), (x,), (v,), strict=True)
    out, push = linearize(lambda a: a**2, x)
    same(push(v), 2 * x * v)


def matrix(x):
    return rl.stack([x.prod(), (x * x).sum(), x[0].exp() * x[1]])


@pytest.mark.parametrize("make", [jacrev, jacfwd])
@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_jacobians(make, chunk):
    x = x64(3)
    a, b, c = x
    want = rl.stack([
        rl.stack([b * c, a * c, a * b]), 2 * x,
        rl.stack([a.exp() * b, a.exp(), rl.zeros((), dtype=rl.float64)]),
    ])  # fmt: skip
    same(make(matrix, chunk_size=chunk)(x), want)
    two = make(lambda p, q: (p * q.sum(), q), argnums=(0, 1), chunk_size=chunk)(x64(2), x64(2, 2))
    assert tuple(two[0][1].shape) == (2, 2, 2) and tuple(two[1][1].shape) == (2, 2, 2, 2)
    same(two[1][0], rl.zeros(2, 2, 2, dtype=rl.float64))
    j, aux = make(lambda t: (t * 2, t + 1), has_aux=True)(x)
    same(j, 2 * rl.eye(3, dtype=rl.float64))
    same(aux, x + 1)
    tree = make(lambda p: {"y": p["a"] * p["b"]})({"a": x, "b": x})
    same(tree["y"]["a"], rl.diag(x))


def test_second_derivatives_in_every_order():
    x = x64(3)
    f = lambda t: (t**3).sum() * t[0] + t.prod().sin()  # noqa: E731
    want = hessian(f)(x)
    for outer, inner in itertools.product([jacrev, jacfwd], repeat=2):
        same(outer(inner(f))(x), want)
    same(jacfwd(grad(f))(x), want)
    same(jacrev(grad(f))(x), want)
    v = x64(3) + 2
    same(jvp(grad(f), (x,), (v,))[1], want @ v)
    same(grad(lambda t: (grad(f)(t) * v).sum())(x), want @ v)
    same(grad(lambda t: jvp(f, (t,), (v,))[1])(x), want @ v)
    same(vjp(grad(f), x)[1](v)[0], want @ v)


def test_third_derivatives():
    x = rl.tensor(1.3, dtype=rl.float64)
    same(grad(grad(grad(rl.sin)))(x), -x.cos())
    d = lambda f: lambda t: jvp(f, (t,), (rl.ones_like(t),))[1]  # noqa: E731
    same(d(d(d(rl.sin)))(x), -x.cos())
    same(d(grad(d(rl.sin)))(x), -x.cos())
    same(grad(d(grad(rl.sin)))(x), -x.cos())
    same(jacfwd(jacrev(jacfwd(rl.sin)))(x), -x.cos())


def test_per_sample_gradients():
    w, x, y = x64(4, 2), x64(5, 4), x64(5, 2)
    loss = lambda w, x, y: ((x @ w).tanh() - y).pow(2).sum()  # noqa: E731
    got = vmap(grad(loss), in_dims=(None, 0, 0))(w, x, y)
    want = rl.stack([grad(loss)(w, a, b) for a, b in zip(x, y, strict=True)])
    same(got, want)
    got = vmap(jacrev(lambda w, x: x @ w), in_dims=(None, 0))(w, x)
    same(got, rl.stack([jacrev(lambda w, x: x @ w)(w, a) for a in x]))
    got = vmap(jacfwd(lambda w, x: (x @ w).sin()), in_dims=(None, 0))(w, x)
    same(got, rl.stack([jacfwd(lambda w, x: (x @ w).sin())(w, a) for a in x]))
    got = vmap(hessian(lambda a: (a @ w).tanh().sum()))(x)
    same(got, rl.stack([hessian(lambda a: (a @ w).tanh().sum())(a) for a in x]))


def test_grad_of_vmap():
    w, x = x64(4), x64(5, 4)
    f = lambda w: vmap(lambda a: (a * w).sum().sin())(x).sum()  # noqa: E731
    same(grad(f)(w), ((x * w).sum(1).cos()[:, None] * x).sum(0))
    same(jvp(f, (w,), (w,))[1], (((x * w).sum(1).cos()[:, None] * x).sum(0) * w).sum())
    same(jacrev(vmap(rl.sin))(w), rl.diag(w.cos()))
    same(jacfwd(vmap(rl.sin))(w), rl.diag(w.cos()))
    same(hessian(f)(w), jacrev(jacrev(f))(w))


def test_functions_that_write_in_place():
    def f(x):
        y = rl.zeros_like(x)
        y[0] = x[1] * 2
        y[1:].copy_(x[1:] ** 2)
        y.mul_(x)
        return y.sum()

    def plain(x):
        return x[1] * 2 * x[0] + (x[1:] ** 3).sum()

    x = x64(4)
    for d in (grad, jacfwd, jacrev, hessian, lambda g: vmap(g), lambda g: vmap(grad(g))):
        at = rl.stack([x, x + 1])
        if d in (grad, jacfwd, jacrev, hessian):
            at = x
        same(d(f)(at), d(plain)(at))


BAD = {
    "not a scalar": (lambda x: grad(lambda t: t)(x), RuntimeError),
    "argnums": (lambda x: grad(lambda t: t.sum(), argnums=3)(x), RuntimeError),
    "argnums twice": (lambda x: grad(lambda t: t.sum(), argnums=(0, 0))(x), RuntimeError),
    "no tensor": (lambda x: grad(lambda t: 3.0)(x), RuntimeError),
    "aux": (lambda x: grad(lambda t: t.sum(), has_aux=True)(x), RuntimeError),
    "integer": (lambda x: grad(lambda t: t.sum())(x.long()), RuntimeError),
    "primals": (lambda x: jvp(lambda t: t, x, x), RuntimeError),
    "tangents": (lambda x: jvp(lambda t: t, (x,), (x, x)), RuntimeError),
    "tangent shape": (lambda x: jvp(lambda t: t, (x,), (x[0],)), RuntimeError),
    "cotangent shape": (lambda x: vjp(lambda t: t, x)[1](x[0]), RuntimeError),
    "cotangent tree": (lambda x: vjp(lambda t: (t, t), x)[1](x), RuntimeError),
    "no inputs": (lambda x: vjp(lambda: x), RuntimeError),
    "functionalize": (lambda x: func.functionalize(lambda t: t), NotImplementedError),
    "randomness": (lambda x: jacfwd(lambda t: t, randomness="x"), RuntimeError),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, error = BAD[case]
    with pytest.raises(error):
        f(x64(3))
    assert rl._C._dual_level() == 0 and rl._C._vmap_level() == 0
    same(vmap(lambda t: t + 1)(x64(2)), x64(2) + 1)


class Linear:
    """What functional_call asks of a module, and no more."""

    def __init__(self):
        self.weight, self.bias = x64(3, 2), x64(2)
        self.calls = rl.zeros(())
        self.training = True

    def named_parameters(self):
        return iter([("weight", self.weight), ("bias", self.bias)])

    def named_buffers(self):
        return iter([("calls", self.calls)])

    def __call__(self, x, scale=1.0):
        self.calls = self.calls + 1
        return (x @ self.weight + self.bias) * scale


def test_functional_call():
    m, x = Linear(), x64(4, 3)
    before = m.weight
    params = {"weight": m.weight * 2, "bias": m.bias * 0}
    same(func.functional_call(m, params, (x,)), x @ before * 2)
    same(func.functional_call(m, params, x, {"scale": 2.0}), x @ before * 4)
    assert m.weight is before
    same(func.functional_call(m, ({"weight": m.weight}, {"bias": m.bias * 0}), (x,)), x @ before)
    g = grad(lambda p: func.functional_call(m, p, (x,)).sum())(params)
    same(g["bias"], rl.full((2,), 4.0, dtype=rl.float64))
    buffers = {"calls": rl.tensor(5.0)}
    func.functional_call(m, buffers, (x,))
    same(buffers["calls"], 6.0)
    same(func.functional_call(m, {"nothing": x}, (x,)), m(x))  # as in PyTorch
    with pytest.raises(RuntimeError, match="nothing"):
        func.functional_call(m, {"nothing": x}, (x,), strict=True)
    with pytest.raises(RuntimeError, match="strict"):
        func.functional_call(m, params, (x,), strict=True)
    with pytest.raises(ValueError):
        func.functional_call(m, [params, params], (x,))
    with pytest.raises(ZeroDivisionError):
        func.functional_call(m, params, (x,), {"scale": _Boom()})
    assert m.weight is before


class _Boom:
    def __rmul__(self, other):
        raise ZeroDivisionError

    def __float__(self):
        raise ZeroDivisionError


def test_an_ensemble():
    models = [Linear() for _ in range(3)]
    for i, m in enumerate(models):
        m.weight = m.weight + i
    params, buffers = func.stack_module_state(models)
    assert tuple(params["weight"].shape) == (3, 3, 2) and "calls" in buffers
    x = x64(4, 3)
    call = lambda p, x: func.functional_call(models[0], p, (x,))  # noqa: E731
    same(vmap(call, in_dims=(0, None))(params, x), rl.stack([m(x) for m in models]))
