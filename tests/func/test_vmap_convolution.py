"""Convolutions inside vmap: any of their tensors with samples, one level or two, equal a loop.

Each becomes one convolution; `_vmap_sample_loops` tells when something ran sample by sample.
"""

import itertools

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.func import jvp, vjp, vmap

F = rl.nn.functional
SAMPLES, OUTER = 3, 2

# dims, transposed, groups, and the numbers of the window
VARIANTS = [
    (1, False, 1, {}),
    (1, False, 2, {"stride": 2, "padding": 1}),
    (1, True, 1, {"stride": 2, "output_padding": 1}),
    (2, False, 1, {}),
    (2, False, 1, {"stride": 2, "padding": 1, "dilation": 2}),
    (2, False, 2, {"padding": (1, 0)}),
    (2, False, 4, {"stride": (1, 2)}),
    (2, True, 1, {"stride": 2, "padding": 1}),
    (2, True, 2, {"stride": 2, "output_padding": 1, "dilation": 2}),
    (3, False, 1, {"padding": 1}),
    (3, False, 2, {"stride": 2}),
    (3, True, 2, {"dilation": 2}),
]
IDS = [f"{'transpose' if t else 'conv'}{d}d-g{g}-{w}" for d, t, g, w in VARIANTS]


def subsets(count):
    """Every choice of some of so many tensors."""
    return [s for n in range(1, count + 1) for s in itertools.combinations(range(count), n)]


def make(variant, dtype=rl.float64):
    """The function of (x, w, bias), and the sizes of these three."""
    dims, transposed, groups, window = variant
    call = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    ins, outs = 4, 8
    weight = (ins, outs // groups) if transposed else (outs, ins // groups)
    sizes = [(2, ins, *[6, 5, 4][:dims]), (*weight, *[3, 2, 2][:dims]), (outs,)]
    return lambda x, w, b: call(x, w, b, groups=groups, **window), sizes


def tensors(sizes, batched, *lead):
    """One tensor for each size, those that are batched with the leading sizes."""
    rl.manual_seed(1)
    return [
        rl.randn(*(lead if i in batched else ()), *s, dtype=rl.float64) for i, s in enumerate(sizes)
    ]


def looped(f, args, batched, size):
    rows = [f(*(a[n] if i in batched else a for i, a in enumerate(args))) for n in range(size)]
    return tuple(rl.stack(column) for column in zip(*rows, strict=True))


def in_dims(batched, count):
    return tuple(0 if i in batched else None for i in range(count))


def check(f, args, batched, size):
    expected = looped(f, args, batched, size)
    _C._vmap_sample_loops()
    got = vmap(f, in_dims(batched, len(args)))(*args)
    assert _C._vmap_sample_loops() == {}
    for a, b in zip(got, expected, strict=True):
        rl.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_forward(variant):
    conv, sizes = make(variant)
    for batched in subsets(3):
        check(lambda *a: (conv(*a),), tensors(sizes, batched, SAMPLES), batched, SAMPLES)


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_gradients(variant):
    conv, sizes = make(variant)
    out = tuple(conv(*(rl.zeros(s) for s in sizes)).shape)

    def gradients(x, w, b, g):
        return vjp(conv, x, w, b)[1](g)

    for batched in subsets(4):
        check(gradients, tensors([*sizes, out], batched, SAMPLES), batched, SAMPLES)


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_tangents(variant):
    """Forward mode, of the convolution and of its gradients."""
    conv, sizes = make(variant)
    out = tuple(conv(*(rl.zeros(s) for s in sizes)).shape)

    def tangent(*a):
        return (jvp(conv, tuple(a[:3]), tuple(a[3:]))[1],)

    def tangents_of_gradients(x, w, g, dx, dw):
        b = rl.zeros(sizes[2], dtype=rl.float64)

        def gradients(x, w):
            return vjp(lambda x, w: conv(x, w, b), x, w)[1](g)

        return jvp(gradients, (x, w), (dx, dw))[1]

    for batched in [(0,), (1,), (3,), (4,), (5,), (3, 4, 5), (0, 4), (1, 3), tuple(range(6))]:
        check(tangent, tensors(sizes * 2, batched, SAMPLES), batched, SAMPLES)
    args = [sizes[0], sizes[1], out, sizes[0], sizes[1]]
    for batched in [(0,), (1,), (2,), (3,), (4,), (3, 4), (0, 2), tuple(range(5))]:
        check(tangents_of_gradients, tensors(args, batched, SAMPLES), batched, SAMPLES)


@pytest.mark.parametrize("variant", VARIANTS[2:9:3], ids=IDS[2:9:3])
def test_nested(variant):
    """Two levels; each tensor has samples of none, one or both of them."""
    conv, sizes = make(variant)
    out = tuple(conv(*(rl.zeros(s) for s in sizes)).shape)

    def gradients(x, w, b, g):
        y, pull = vjp(conv, x, w, b)
        return (y, *pull(g))

    rl.manual_seed(2)
    choices = [(a, b) for a in subsets(4) for b in subsets(4)][::11]
    for inner, outer in choices:
        args = []
        for i, s in enumerate([*sizes, out]):
            lead = (OUTER,) * (i in outer) + (SAMPLES,) * (i in inner)
            args.append(rl.randn(*lead, *s, dtype=rl.float64))

        def middle(*a, inner=inner):
            return looped(gradients, a, inner, SAMPLES)

        expected = looped(middle, args, outer, OUTER)
        _C._vmap_sample_loops()
        got = vmap(vmap(gradients, in_dims(inner, 4)), in_dims(outer, 4))(*args)
        assert _C._vmap_sample_loops() == {}
        for a, b in zip(got, expected, strict=True):
            rl.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("variant", VARIANTS[3:9], ids=IDS[3:9])
def test_float32(variant):
    """The same through the layouts that float32 has of its own."""
    conv, sizes = make(variant)
    for batched in subsets(2):
        args = [t.float() for t in tensors(sizes, batched, SAMPLES)]

        def gradients(x, w, b):
            y, pull = vjp(conv, x, w, b)
            return (y, *pull(rl.ones_like(y)))

        expected = looped(gradients, args, batched, SAMPLES)
        for a, b in zip(vmap(gradients, in_dims(batched, 3))(*args), expected, strict=True):
            rl.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


def test_complex():
    rl.manual_seed(3)
    x, w = rl.randn(3, 2, 2, 5, dtype=rl.complex128), rl.randn(3, 4, 2, 2, dtype=rl.complex128)
    g = rl.randn(3, 2, 4, 4, dtype=rl.complex128)

    def gradients(x, w, g):
        return vjp(F.conv1d, x, w)[1](g)

    for batched in subsets(3):
        args = [t if i in batched else t[0] for i, t in enumerate((x, w, g))]
        check(gradients, args, batched, SAMPLES)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_by_name(padding):
    x, w = rl.randn(3, 2, 2, 6, 6, dtype=rl.float64), rl.randn(3, 4, 2, 2, 3, dtype=rl.float64)
    check(lambda x, w: (F.conv2d(x, w, padding=padding),), (x, w), (0, 1), 3)


def test_no_samples():
    with pytest.raises(RuntimeError, match="no samples"):
        vmap(F.conv1d)(rl.zeros(0, 1, 2, 5), rl.zeros(0, 4, 2, 2))


# What stands between convolutions in a model: (name, function of (x, w, b), sizes of these).
LAYERS = {
    "max_pool2d": (lambda x, w, b: F.max_pool2d(x, 2, padding=1), []),
    "max_pool3d": (lambda x, w, b: F.max_pool3d(x.unsqueeze(2), (1, 2, 2)), []),
    "avg_pool2d": (lambda x, w, b: F.avg_pool2d(x, 2, 1), []),
    "adaptive_avg_pool2d": (lambda x, w, b: F.adaptive_avg_pool2d(x, (2, 3)), []),
    "adaptive_max_pool2d": (lambda x, w, b: F.adaptive_max_pool2d(x, 2), []),
    "lp_pool2d": (lambda x, w, b: F.lp_pool2d(x, 2, 2), []),
    "interpolate": (lambda x, w, b: F.interpolate(x, scale_factor=2, mode="bilinear"), []),
    "unfold": (lambda x, w, b: F.unfold(x, 2), []),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(4,), (4,)]),
    "batch_norm_eval": (
        lambda x, w, b: F.batch_norm(x, rl.ones(4).double(), rl.ones(4).double() * 2, w, b, False),
        [(4,), (4,)],
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(4,), (4,)]),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), [(4,), (4,)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5, 5), w, b), [(5, 5), (5, 5)]),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (5,), w) + b, [(5,), (5,)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(3, 5), (3,)]),
    "matmul": (lambda x, w, b: (w @ x) + b, [(2, 5), (5,)]),
    "mv": (lambda x, w, b: w @ x[0, 0, 0] + b, [(3, 5), (3,)]),
    "bmm": (lambda x, w, b: rl.bmm(x[0], w) + b, [(4, 5, 3), (3,)]),
    "addmm": (lambda x, w, b: rl.addmm(b, x[0, 0], w, alpha=2), [(5, 3), (3,)]),
    "einsum": (lambda x, w, b: rl.einsum("ncij,jk->nik", x, w) + b, [(5, 3), (3,)]),
    "relu": (lambda x, w, b: F.relu(x * w + b), [(5,), (5,)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_between(name):
    """Values, gradients and their tangents, with any of the tensors batched, in no loop."""
    f, parameters = LAYERS[name]
    sizes = [(2, 4, 5, 5), *(parameters or [(1,), (1,)])]
    used = 3 if parameters else 1
    g = tuple(f(*(rl.ones(*s, dtype=rl.float64) for s in sizes)).shape)

    def gradients(x, w, b, g):
        y, pull = vjp(lambda *a: f(*a, *(w, b)[len(a) - 1 :]), *(x, w, b)[:used])
        return (y, *pull(g))

    for batched in [s for s in subsets(4) if parameters or not {1, 2} & set(s)]:
        check(gradients, tensors([*sizes, g], batched, SAMPLES), batched, SAMPLES)
