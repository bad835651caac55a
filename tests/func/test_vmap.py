"""vmap: dimensions, nesting, trees, randomness, in-place, refusals. Ops: tests/ops/test_vmap.py."""

from collections import namedtuple

import numpy as np
import pytest

import rushlight as rl
from rushlight import vmap
from rushlight.func import grad


def x64(*shape):
    rng = np.random.RandomState(3 + sum(shape))
    return rl.from_numpy(np.asarray(rng.uniform(0.5, 2.0, shape)))


def same(a, b):
    assert tuple(a.shape) == tuple(b.shape) and a.dtype == b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-12)


def test_dimensions():
    x, y = x64(3, 4), x64(4, 3)
    same(vmap(rl.dot)(x, x), (x * x).sum(1))
    same(vmap(rl.dot, in_dims=(0, 1))(x, y), (x * y.t()).sum(1))
    same(vmap(rl.dot, in_dims=(0, -1))(x, y), (x * y.t()).sum(1))
    same(vmap(rl.mul, in_dims=(0, None))(x, y[:, 0]), x * y[:, 0])
    same(vmap(lambda t: t * 2, in_dims=1, out_dims=1)(x), x * 2)
    same(vmap(lambda t: t * 2, out_dims=-1)(x), 2 * x.t())
    a, b = vmap(lambda t: (t, t.sum()), out_dims=(1, 0))(x)
    same(a, x.t())
    same(b, x.sum(1))
    same(vmap(lambda t, n: t * n, in_dims=(0, None))(x, 3), 3 * x)


def test_inside_the_function():
    seen = []

    def f(t):
        seen.append((tuple(t.shape), t.dim(), t.numel(), t.dtype, len(t), t.stride()))
        assert "BatchedTensor" in repr(t)
        return sum(row.sum() for row in t)  # iteration

    same(vmap(f)(x64(2, 3, 4)), x64(2, 3, 4).sum((1, 2)))
    assert seen == [((3, 4), 2, 12, rl.float64, 3, (4, 1))]


def test_nesting():
    x, y = x64(3), x64(4)
    outer = vmap(vmap(rl.mul, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    same(outer, x[:, None] * y)
    z = x64(2, 3, 4)
    same(vmap(vmap(vmap(lambda t: t.exp() + 1)))(z), z.exp() + 1)
    same(vmap(lambda row: vmap(lambda t: t * row.sum())(row))(z[0]), z[0] * z[0].sum(1)[:, None])
    w = x64(4, 5)
    same(vmap(vmap(lambda t: t @ w))(z), z @ w)
    rows = vmap(vmap(lambda a, b: a @ b, (0, None)), (None, 0))(z[0], z.transpose(1, 2))
    same(rows, rl.stack([z[0] @ m for m in z.transpose(1, 2)]))


Pair = namedtuple("Pair", "left right")


def test_trees():
    x, y = x64(3, 2), x64(3)
    f = lambda tree: {"out": tree["a"] * tree["b"][0].left, "n": [tree["b"][0].right]}  # noqa: E731
    tree = {"a": x, "b": [Pair(y, x)]}
    got = vmap(f)(tree)
    same(got["out"], x * y[:, None])
    same(got["n"][0], x)
    got = vmap(f, in_dims=({"a": 1, "b": [Pair(None, 1)]},), out_dims={"out": 1, "n": 0})(
        {"a": x, "b": [Pair(y[:2].sum(), x)]}
    )
    same(got["out"], x * y[:2].sum())
    pair = vmap(lambda p: Pair(p.left + 1, p.right))(Pair(x, y))
    assert isinstance(pair, Pair)
    same(pair.left, x + 1)
    # Keyword arguments pass as they are.
    same(vmap(lambda a, *, scale: a.sum() * scale)(x, scale=y), x.sum(1)[:, None] * y)
    values, indices = vmap(lambda t: t.max(0))(x)
    same(values, x.max(1).values)
    assert indices.dtype == rl.int64


def test_chunks():
    x = x64(7, 3)
    sizes = []

    def f(t):
        sizes.append(rl._C._batch_value(t).shape[0])
        return t.sum(), t * 2

    a, b = vmap(f, chunk_size=3, out_dims=(0, 1))(x)
    same(a, x.sum(1))
    same(b, 2 * x.t())
    assert sizes == [3, 3, 1]


def test_types_are_those_of_one_sample():
    x, s = rl.ones(3, 2), rl.ones(3, dtype=rl.float64)
    assert vmap(rl.mul)(x, s).dtype == rl.float32  # a number is weak, for each sample too
    assert vmap(rl.mul)(x.long(), s).dtype == rl.float64
    assert vmap(rl.add)(x.long(), s.bool()).dtype == rl.int64
    assert vmap(lambda a, b: rl.where(a > 0, a, b))(x, s).dtype == rl.float32


def test_in_place():
    x = x64(3, 4)

    def f(t):
        y = t.clone()
        y[0] = t[1]
        y[1:].mul_(2)
        y.add_(t.sum())
        y.t_() if y.dim() == 2 else None
        return y

    same(vmap(f)(x), rl.stack([f(row) for row in x]))
    z = x.clone()
    vmap(lambda t: t.zero_() + 1)(z)
    assert float(z.sum()) == 0
    same(vmap(lambda t: rl.zeros_like(t).copy_(t))(x), x)
    same(vmap(lambda t: t.new_zeros(2).add_(t[:2]))(x), x[:, :2])
    same(vmap(lambda t: t.clone().masked_fill_(t > 1, 0.0))(x), x.masked_fill(x > 1, 0.0))
    m = x64(2, 3, 4)
    same(vmap(lambda t: t.clone().t_())(m), m.transpose(1, 2))
    same(vmap(lambda t: t.clone().unsqueeze_(1))(x), x.unsqueeze(2))


def test_indexing():
    x, i = x64(3, 5), rl.tensor([[0, 1], [4, 2], [3, 3]])
    same(vmap(lambda t, k: t[k])(x, i), x.gather(1, i))
    same(vmap(lambda k: x[0][k])(i), x[0][i])
    same(vmap(lambda t: t[i[0]])(x), x[:, i[0]])
    same(vmap(lambda t: t[..., None, 1:3])(x), x[:, None, 1:3])
    y = x64(3, 4, 5, 6)
    functions = [
        lambda t, k: t[k],
        lambda t, k: t[:, k],
        lambda t, k: t[:, :, k],
        lambda t, k: t[k, k],
        lambda t, k: t[k, :, k],
        lambda t, k: t[:, k, k],
        lambda t, k: t[k, 1],
        lambda t, k: t[:, k[:, None], k],
        lambda t, k: t.index_select(1, k),
    ]
    for f in functions:
        same(vmap(f)(y, i % 4), rl.stack([f(a, b) for a, b in zip(y, i % 4, strict=True)]))
        same(vmap(f, (0, None))(y, i[0] % 4), rl.stack([f(a, i[0] % 4) for a in y]))
        same(vmap(f, (None, 0))(y[0], i % 4), rl.stack([f(y[0], b) for b in i % 4]))

    def write(t, k):
        out = t.clone()
        out[k] = 7.0
        out[0] = t[1]
        return out

    same(vmap(write)(x, i), rl.stack([write(a, b) for a, b in zip(x, i, strict=True)]))


def test_randomness():
    x = x64(4, 3)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda t: t + rl.rand(3))(x)
    for f in (lambda t: rl.rand(5), lambda t: rl.rand_like(t), lambda t: t.clone().uniform_(),
              lambda t: rl.bernoulli(t * 0 + 0.5), lambda t: rl.randperm(50),
              lambda t: rl.randint(0, 1000, (3,))):  # fmt: skip
        same_rows = vmap(f, randomness="same")(x)
        assert all(bool((row == same_rows[0]).all()) for row in same_rows)
        different = vmap(f, randomness="different")(x)
        assert any(bool((row != different[0]).any()) for row in different[1:])
        assert different.shape == same_rows.shape
    with pytest.raises(RuntimeError):
        vmap(lambda t: rl.zeros(3).uniform_(), randomness="different")(x)
    rows = vmap(vmap(lambda t: rl.rand(()), randomness="different"), randomness="same")(x)
    assert bool((rows == rows[0]).all()) and len(set(rows[0].tolist())) == 3
    rl.manual_seed(5)
    one = vmap(lambda t: rl.rand(2), randomness="same")(x)[0]
    rl.manual_seed(5)
    same(rl.rand(2), one)


def test_autograd_through_vmap():
    x, w = x64(3, 4).requires_grad_(), x64(4).requires_grad_()
    y = vmap(lambda t: (t * w).sin().sum())(x)
    gx, gw = rl.autograd.grad(y.sum(), (x, w))
    same(gx, (x * w).cos() * w)
    same(gw, ((x * w).cos() * x).sum(0))

    def inner(t):
        t = t.detach().requires_grad_()
        (g,) = rl.autograd.grad((t**3).sum(), t)
        return g

    same(vmap(inner)(x), 3 * x.detach() ** 2)


def test_no_samples():
    assert tuple(vmap(lambda t: t.exp().sum())(rl.zeros(0, 3)).shape) == (0,)
    assert tuple(vmap(grad(lambda t: t.exp().sum()))(rl.zeros(0, 3)).shape) == (0, 3)


def shared(x, w):
    return vmap(lambda t: rl.autograd.grad((t * w).sum(), w))(x)


BAD = {
    "dim out of range": (lambda x: vmap(lambda t: t, in_dims=5)(x), ValueError),
    "list of dims": (lambda x: vmap(lambda t: t, in_dims=[0])(x), ValueError),
    "too many dims": (lambda x: vmap(lambda t: t, in_dims=(0, 0))(x), ValueError),
    "None": (lambda x: vmap(lambda t: t, in_dims=None)(x), ValueError),
    "nothing mapped": (lambda x: vmap(lambda t: t, in_dims=(None,))(x), ValueError),
    "sizes differ": (lambda x: vmap(lambda a, b: a)(x, x[:2]), ValueError),
    "a number": (lambda x: vmap(lambda a, b: a)(x, 3), ValueError),
    "a string": (lambda x: vmap(lambda a: a, in_dims=("a",))(x), ValueError),
    "no inputs": (lambda x: vmap(lambda: x)(), ValueError),
    "0-d": (lambda x: vmap(lambda t: t)(x.sum()), ValueError),
    "returns a number": (lambda x: vmap(lambda t: 3)(x), ValueError),
    "out dim": (lambda x: vmap(lambda t: t, out_dims=5)(x), IndexError),
    "out dims": (lambda x: vmap(lambda t: t, out_dims=(0, 0))(x), ValueError),
    "out None": (lambda x: vmap(lambda t: t, out_dims=None)(x), ValueError),
    "item": (lambda x: vmap(lambda t: t.sum().item())(x), RuntimeError),
    "float": (lambda x: vmap(lambda t: t * float(t.sum()))(x), RuntimeError),
    "branch": (lambda x: vmap(lambda t: t if t.sum() > 0 else -t)(x), RuntimeError),
    "nonzero": (lambda x: vmap(lambda t: t.nonzero())(x), RuntimeError),
    "unique": (lambda x: vmap(lambda t: rl.unique(t))(x), RuntimeError),
    "mask": (lambda x: vmap(lambda t: t[t > 1])(x), RuntimeError),
    "masked_select": (lambda x: vmap(lambda t: t.masked_select(t > 1))(x), RuntimeError),
    "numpy": (lambda x: vmap(lambda t: t.numpy())(x), RuntimeError),
    "tolist": (lambda x: vmap(lambda t: t.tolist())(x), RuntimeError),
    "equal": (lambda x: vmap(lambda t: rl.equal(t, t))(x), RuntimeError),
    "in place": (lambda x: vmap(lambda t: rl.zeros(2).add_(t))(x), RuntimeError),
    "setitem": (lambda x: vmap(lambda t: rl.zeros(3).__setitem__(0, t[0]))(x), RuntimeError),
    "backward": (lambda x: vmap(lambda t: t.sum().backward())(x.requires_grad_()), RuntimeError),
    "out=": (lambda x: vmap(lambda t: rl.mul(t, 2, out=rl.zeros(2)))(x), RuntimeError),
    "randomness": (lambda x: vmap(lambda t: t, randomness="foo")(x), RuntimeError),
    "chunk": (lambda x: vmap(lambda t: t, chunk_size=0)(x), ValueError),
    "shared input": (lambda x: shared(x, x.sum(0).requires_grad_()), RuntimeError),
    "resize_": (lambda x: vmap(lambda t: t.resize_(1))(x), RuntimeError),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, error = BAD[case]
    with pytest.raises(error):
        f(x64(3, 2))
    assert rl._C._vmap_level() == 0
    same(rl.ones(2) + 1, rl.full((2,), 2.0))


def test_a_tensor_that_escapes_is_empty():
    kept = []
    vmap(lambda t: (kept.append(t), t)[1])(x64(3, 2))
    assert kept[0].device.type == "meta"
    with pytest.raises(RuntimeError):
        kept[0].sum().item()


def test_is_grads_batched():
    x = x64(3).requires_grad_()
    y = x**2
    eye = rl.eye(3, dtype=rl.float64)
    (j,) = rl.autograd.grad(y, x, eye, is_grads_batched=True, retain_graph=True)
    same(j, rl.diag(2 * x))
    with pytest.raises(RuntimeError):
        rl.autograd.grad(y, x, eye[0], is_grads_batched=True, retain_graph=True)
    with pytest.raises(RuntimeError):
        rl.autograd.grad(y, x, is_grads_batched=True)
