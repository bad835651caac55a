"""linear and bilinear: every rank, layout and dtype, their derivatives, and what they refuse."""

import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck

RNG = np.random.RandomState(5)
# input, weight, bias
SHAPES = [
    ((3, 4), (5, 4), (5,)),
    ((3, 4), (5, 4), None),
    ((2, 3, 4), (5, 4), (5,)),
    ((2, 3, 2, 4), (5, 4), (1,)),
    ((4,), (5, 4), (5,)),
    ((3, 4), (5, 4), (3, 5)),
    ((2, 3, 4), (4,), ()),
    ((4,), (4,), None),
]


def double(shape):
    return rl.tensor(np.asarray(RNG.randn(*shape)), requires_grad=True)


def reference(x, w, b=None):
    out = x.detach().numpy() @ w.detach().numpy().T
    return out if b is None else out + b.detach().numpy()


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_derivatives(shapes):
    inputs = [double(s) for s in shapes if s is not None]
    out = F.linear(*inputs)
    np.testing.assert_allclose(out.detach().numpy(), reference(*inputs), 1e-12)
    assert gradcheck(F.linear, inputs, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(F.linear, inputs)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_any_layout(order):
    shape = [6, 7, 8]
    x = rl.tensor(RNG.randn(*shape)).permute(order).detach().requires_grad_()
    w = double((5, x.shape[2]))
    out = F.linear(x, w, b := double((5,)))
    np.testing.assert_allclose(out.detach().numpy(), reference(x, w, b), 1e-12)
    assert out.is_contiguous()
    g = rl.tensor(RNG.randn(*out.shape))
    gx, gw, gb = rl.autograd.grad(out, [x, w, b], g)
    rows = g.numpy().reshape(-1, 5)
    np.testing.assert_allclose(gx.numpy(), g.numpy() @ w.detach().numpy(), 1e-12)
    np.testing.assert_allclose(gw.numpy(), rows.T @ x.detach().numpy().reshape(42 * 8 // x.shape[2],
                               x.shape[2]), 1e-12, 1e-12)  # fmt: skip
    np.testing.assert_allclose(gb.numpy(), rows.sum(0), 1e-12)


def test_more_layouts():
    x = rl.tensor(RNG.randn(2, 3, 4, 6)).permute(2, 0, 3, 1)
    w = rl.tensor(RNG.randn(6, 5))[:3].t()
    np.testing.assert_allclose(F.linear(x, w).numpy(), reference(x, w), 1e-12)
    once = rl.tensor(RNG.randn(1, 4)).expand(5, 3, 4)
    w = double((2, 4))
    np.testing.assert_allclose(F.linear(once, w).detach().numpy(), reference(once, w), 1e-12)
    assert F.linear(rl.ones(0, 4), rl.ones(5, 4), rl.ones(5)).shape == (0, 5)
    assert (F.linear(rl.ones(3, 0), rl.ones(5, 0), rl.ones(5)) == 1).all()
    assert F.linear(rl.ones(3, 4), rl.ones(0, 4)).shape == (3, 0)


@pytest.mark.parametrize("dims", [d for d in itertools.product((0, None), repeat=3) if 0 in d])
def test_vmap(dims):
    for shapes in SHAPES[:1] + SHAPES[2:3] + SHAPES[4:5] + SHAPES[6:7]:
        args = [
            rl.tensor(np.asarray(RNG.randn(*((6, *s) if d == 0 else s))))
            for s, d in zip(shapes, dims, strict=True)
        ]
        got = rl.vmap(F.linear, in_dims=dims)(*args)
        want = [
            F.linear(*(a[i] if d == 0 else a for a, d in zip(args, dims, strict=True)))
            for i in range(6)
        ]
        np.testing.assert_allclose(got.numpy(), rl.stack(want).numpy(), 1e-12)


def test_dtypes():
    for dtype in (rl.float16, rl.bfloat16, rl.float32, rl.int32, rl.complex64):
        x, w, b = (rl.ones(*s).to(dtype) for s in ((2, 3), (4, 3), (4,)))
        out = F.linear(x, w, b)
        assert out.dtype == dtype and (out == 4).all()
    x, w = double((3, 4)), double((5, 4))
    z, u = rl.complex(x, x.detach() * 2), rl.complex(w, w.detach() - 1)
    assert gradcheck(F.linear, (z.detach().requires_grad_(), u.detach().requires_grad_()))
    meta = F.linear(rl.empty(2, 3, 4, device="meta"), rl.empty(5, 4, device="meta"))
    assert meta.shape == (2, 3, 5) and meta.device.type == "meta"


def test_autocast_casts_a_weight_once():
    layer = nn.Linear(8, 8)
    x = rl.randn(4, 8)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        first, second = layer(x), layer(x)
        assert first.dtype == rl.bfloat16
    casts = [y.grad_fn.next_functions[1][0] for y in (first, second)]
    assert casts[0] is casts[1]
    (first + second).float().sum().backward()
    assert layer.weight.grad.dtype == rl.float32


def test_gradients_only_where_wanted():
    x, w, b = double((3, 4)), double((5, 4)), double((5,))
    for wanted in itertools.product((False, True), repeat=3):
        inputs = [t.detach().requires_grad_(on) for t, on in zip((x, w, b), wanted, strict=True)]
        out = F.linear(*inputs)
        assert out.requires_grad == any(wanted)
        if any(wanted):
            out.sum().backward()
        assert [t.grad is not None for t in inputs] == list(wanted)


@pytest.mark.parametrize(
    "error, text, shapes",
    [
        (
            RuntimeError,
            r"input of shape \[3, 4\] has 4 features .* in_features=6",
            [(3, 4), (5, 6)],
        ),
        (ValueError, r"weight of shape \[6\] takes in_features=6", [(3, 4), (6,)]),
        (RuntimeError, "at least one dim", [(), (5, 4)]),
        (RuntimeError, r"\(out_features, in_features\)", [(3, 4), (2, 5, 4)]),
        (RuntimeError, r"bias of shape \[4\] does not fit .* \[3, 5\]", [(3, 4), (5, 4), (4,)]),
        (RuntimeError, "out_features", [(3, 4), (5, 4), (2, 3, 5)]),
    ],
)
def test_errors(error, text, shapes):
    with pytest.raises(error, match=text):
        F.linear(*(rl.ones(s) for s in shapes))


def test_errors_of_dtypes_and_arguments():
    x, w = rl.ones(3, 4), rl.ones(5, 4)
    with pytest.raises(RuntimeError, match="same dtype, got float32 and float64"):
        F.linear(x, w.double())
    with pytest.raises(RuntimeError, match="bias must have the dtype"):
        F.linear(x, w, rl.ones(5).double())
    with pytest.raises(NotImplementedError, match="bool"):
        F.linear(x.bool(), w.bool())
    with pytest.raises(TypeError, match="weight"):
        F.linear(x)
    with pytest.raises(RuntimeError, match=r"(?s)in_features=4.*in module 1 \(Linear\)"):
        nn.Sequential(nn.ReLU(), nn.Linear(4, 2))(rl.ones(3, 5))


def test_bilinear():
    a, b, w, c = double((2, 3, 4)), double((2, 3, 5)), double((6, 4, 5)), double((6,))
    want = np.einsum("nsi,kij,nsj->nsk", *(t.detach().numpy() for t in (a, w, b)))
    np.testing.assert_allclose(F.bilinear(a, b, w).detach().numpy(), want, 1e-11)
    assert gradcheck(F.bilinear, (a, b, w, c), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(F.bilinear, (double((2, 4)), double((2, 5)), w, c))
    assert F.bilinear(rl.ones(4), rl.ones(5), rl.ones(6, 4, 5)).shape == (6,)
    assert F.bilinear(rl.ones(0, 4), rl.ones(0, 5), rl.ones(6, 4, 5)).shape == (0, 6)
    assert rl.bilinear is F.bilinear


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("agree in all dims but the last", [(3, 4), (2, 5), (6, 4, 5)]),
        ("in1_features=4", [(3, 3), (3, 5), (6, 4, 5)]),
        ("in2_features=5", [(3, 4), (3, 6), (6, 4, 5)]),
        (r"\(out_features, in1_features, in2_features\)", [(3, 4), (3, 5), (4, 5)]),
        (r"bias must have shape \[6\]", [(3, 4), (3, 5), (6, 4, 5), (5,)]),
    ],
)
def test_errors_of_bilinear(text, shapes):
    with pytest.raises(RuntimeError, match=text):
        F.bilinear(*(rl.ones(s) for s in shapes))
    with pytest.raises(RuntimeError, match="same dtype"):
        F.bilinear(rl.ones(3, 4), rl.ones(3, 5), rl.ones(6, 4, 5).double())
