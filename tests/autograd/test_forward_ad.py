"""Forward mode: levels, tangents through views and writes, and derivatives of derivatives."""

import gc

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import forward_ad as fw


def x64(*shape):
    rng = np.random.RandomState(sum(shape) + 1)
    return rl.from_numpy(rng.uniform(0.5, 2.0, shape))


def tangent(t):
    return fw.unpack_dual(t).tangent


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-12)


def test_a_dual_tensor_carries_its_tangent():
    x, v = x64(3), x64(3) + 1
    with fw.dual_level():
        d = fw.make_dual(x, v)
        primal, t = fw.unpack_dual(d)
        same(primal, x)
        same(t, v)
        same(tangent(d.sin()), v * x.cos())
        assert tangent(x) is None
        assert isinstance(fw.unpack_dual(d), fw.UnpackedDualTensor)


def test_tangents_disappear_with_their_level():
    x = x64(3)
    with fw.dual_level():
        d = fw.make_dual(x, x)
        y = d * 2
    assert fw.unpack_dual(d).tangent is None
    with fw.dual_level():
        assert tangent(d) is None and tangent(y) is None
        same(tangent(fw.make_dual(y, x) * 3), 3 * x)


def test_memory_of_tangents_is_given_back():

    with fw.dual_level():
        d = fw.make_dual(x64(4), x64(4))
        for _ in range(1000):  # cells of dead tensors must not pile up
            d = d * 1.0
        same(tangent(d), x64(4))
    gc.collect()
    assert fw.unpack_dual(d).tangent is None


BAD = {
    "no level": (lambda x: fw.make_dual(x, x), RuntimeError),
    "exit without a level": (lambda x: fw.exit_dual_level(), RuntimeError),
    "integer": (lambda x: level(lambda: fw.make_dual(x.long(), x)), ValueError),
    "integer tangent": (lambda x: level(lambda: fw.make_dual(x, x.long())), ValueError),
    "shape": (lambda x: level(lambda: fw.make_dual(x, x[0])), RuntimeError),
    "nested": (lambda x: level(fw.enter_dual_level), RuntimeError),
    "dual of a dual": (
        lambda x: level(lambda: fw.make_dual(fw.make_dual(x, x), x)), RuntimeError,
    ),
    "tangent is a dual": (
        lambda x: level(lambda: fw.make_dual(x, fw.make_dual(x, x))), RuntimeError,
    ),
    "wrong level": (lambda x: level(lambda: fw.unpack_dual(x, level=3)), RuntimeError),
    "not a tensor": (lambda x: level(lambda: fw.make_dual(2.0, x)), (TypeError, AttributeError)),
    "out=": (
        lambda x: level(lambda: rl.mul(fw.make_dual(x, x), 2, out=x.clone())), NotImplementedError,
    ),
}  # fmt: skip


def level(f):
    with fw.dual_level():
        return f()


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, error = BAD[case]
    with pytest.raises(error):
        f(x64(2, 2))
    with fw.dual_level():  # nothing is left behind
        pass


def test_enter_and_exit():
    number = fw.enter_dual_level()
    assert number == 0
    with pytest.raises(RuntimeError):
        fw.exit_dual_level(level=5)
    fw.exit_dual_level(level=0)


VIEWS = {
    "select": lambda t: t[1],
    "slice": lambda t: t[:, 1:3],
    "transpose": lambda t: t.t(),
    "permute": lambda t: t.permute(1, 0),
    "reshape": lambda t: t.reshape(2, 6),
    "diagonal": lambda t: t.diagonal(),
    "expand": lambda t: t.unsqueeze(0).expand(2, 3, 4),
    "unfold": lambda t: t.unfold(1, 2, 1),
    "chain": lambda t: t.t()[1:3].unsqueeze(1)[:, :, ::2],
    "steps": lambda t: t[::2, ::3],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_the_view_of_the_tangent(name):
    f, x, v = VIEWS[name], x64(3, 4), x64(3, 4) + 3
    with fw.dual_level():
        d = fw.make_dual(x, v)
        same(tangent(f(d)), f(v))
        same(tangent(f(d) * 2), 2 * f(v))
        with rl.no_grad():
            same(tangent(f(d)), f(v))


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in ("expand", "unfold")])
def test_writes_through_a_view_reach_the_base(name):
    f, x = VIEWS[name], x64(3, 4)
    for make_view_first in (True, False):
        base, shadow = x.clone(), rl.zeros(3, 4, dtype=rl.float64)
        with fw.dual_level():
            if make_view_first:
                view = f(base)
            d = fw.make_dual(x, x + 5)
            if not make_view_first:
                view = f(base)
            view.mul_(f(d))
            f(shadow).copy_(f(x) * f(x + 5))
            same(tangent(base), shadow)
            same(tangent(view), f(shadow))


@pytest.mark.parametrize("name", VIEWS)
def test_writes_to_the_base_reach_views(name):
    f, x = VIEWS[name], x64(3, 4)
    with fw.dual_level():
        base = x.clone()
        view = f(base)
        base.add_(fw.make_dual(x, x + 5))
        same(tangent(view), f(x + 5))
        base.zero_()
        same(tangent(view), 0 * f(x))
        base.copy_(fw.make_dual(x, x + 5))
        base[1].fill_(3.0)
        want = x + 5
        want[1] = 0
        same(tangent(view), f(want))


def test_a_dual_of_an_expanded_tensor():
    x, v = x64(4).expand(3, 4), x64(3, 4)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        same(tangent(d[1]), v[1])
        same(tangent(d.t()[2]), v[:, 2])
        same(tangent(d.sum(0)), v.sum(0))


def test_assignment_by_index():
    x = x64(4)
    with fw.dual_level():
        y = rl.zeros(4, dtype=rl.float64)
        d = fw.make_dual(x, x + 1)
        y[1:3] = d[:2] * 2
        y[rl.tensor([0])] = d[3:]
        y[3] += d[0]
        want = rl.stack([x[3] + 1, 2 * (x[0] + 1), 2 * (x[1] + 1), x[0] + 1])
        same(tangent(y), want)


def test_what_cuts_a_tangent_off():
    x = x64(3)
    with fw.dual_level():
        d = fw.make_dual(x, x)
        assert tangent(d.detach()) is None
        assert tangent(d.data) is None
        assert tangent(d.long()) is None
        assert tangent(d > 1) is None
        assert tangent(d.argmax()) is None
        values, indices = d.max(0)
        same(tangent(values), x.max())
        assert tangent(indices) is None


def test_forward_mode_does_not_ask_for_grad_mode():
    x = x64(3)
    with fw.dual_level():
        d = fw.make_dual(x, x)
        with rl.no_grad():
            same(tangent(d * d), 2 * x * x)
        with fw.set_fwd_grad_enabled(False):
            assert tangent(d * d) is None
        with rl.inference_mode():
            assert tangent(d * 2) is None
        same(tangent(d * d), 2 * x * x)


def test_complex_views():
    z = rl.complex(x64(3), x64(3) + 1)
    w = rl.complex(x64(3) + 2, x64(3) + 3)
    with fw.dual_level():
        d = fw.make_dual(z, w)
        same(tangent(d.real), w.real)
        same(tangent(rl.view_as_real(d)), rl.view_as_real(w))
        e = d.clone()
        e.imag.mul_(2)
        same(tangent(e), rl.complex(w.real, 2 * w.imag))


def test_reverse_over_forward():
    x, v = x64(4).requires_grad_(), x64(4).requires_grad_()
    for f in (rl.sin, rl.exp, rl.tanh, lambda t: t**3, lambda t: t.cumsum(0) * t, rl.sqrt,
              lambda t: t.softmax(0), lambda t: t.prod().expand(1)):  # fmt: skip

        def jvp(x, v, f=f):
            with fw.dual_level():
                return tangent(f(fw.make_dual(x, v)))

        assert rl.autograd.gradcheck(jvp, (x, v))
        assert rl.autograd.gradgradcheck(jvp, (x, v))


def test_forward_over_reverse():
    x, v = x64(4), x64(4) + 1
    with fw.dual_level():
        d = fw.make_dual(x.clone().requires_grad_(), v)
        (g,) = rl.autograd.grad((d.exp() * d).sum(), d, create_graph=True)
        same(tangent(g), v * (2 * x.exp() + x * x.exp()))
        y = (d * 2).exp()  # saved as an output, and not a leaf
        (g,) = rl.autograd.grad(y.sum(), d)
        same(tangent(g), 4 * v * (2 * x).exp())


def test_a_long_chain_is_not_walked_again_for_every_op():
    """Derived tangents stay local: the graph behind the arguments is not visited."""
    x = x64(2).requires_grad_()
    with fw.dual_level():
        y = fw.make_dual(x, rl.ones_like(x))
        for _ in range(3000):
            y = y.cumsum(0) * 0.5
        assert tangent(y) is not None


def test_repr_shows_the_tangent():
    with fw.dual_level():
        assert "tangent=tensor([2., 2.])" in repr(fw.make_dual(rl.ones(2), rl.full((2,), 2.0)))


def test_decorators():
    @fw.dual_level()
    def f(x):
        return tangent(fw.make_dual(x, x) * 2)

    same(f(x64(2)), 2 * x64(2))
    same(f(x64(2)), 2 * x64(2))


def test_custom_functions():
    class Cube(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x**3

        @staticmethod
        def jvp(ctx, t):
            return 3 * ctx.x**2 * t

    x, v = x64(3), x64(3) + 1
    with fw.dual_level():
        same(tangent(Cube.apply(fw.make_dual(x, v))), 3 * x**2 * v)
    push = lambda f, x: rl.func.jvp(f, (x,), (rl.ones_like(x),))[1]  # noqa: E731
    same(push(lambda t: push(Cube.apply, t), x), 6 * x)
    same(rl.vmap(Cube.apply)(x), x**3)
    with pytest.raises(NotImplementedError):
        rl.vmap(rl.func.grad(Cube.apply))(x)
