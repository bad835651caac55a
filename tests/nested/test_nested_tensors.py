"""Nested tensors: every op is judged by what it does to the parts, one by one."""

import copy
import io
import pickle

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.autograd import gradcheck

RNG = np.random.RandomState(5)
LENGTHS = [2, 5, 0, 3]


def double(*shape):
    return rl.tensor(RNG.randn(*shape))


PARTS = [double(n, 4) for n in LENGTHS]
NT = rl.nested.nested_tensor(PARTS, layout=rl.jagged)
OTHER = rl.nested.nested_tensor_from_jagged(double(10, 4), NT.offsets())
WEIGHT, BIAS = double(3, 4), double(3)
HOLES = rl.nested.nested_tensor_from_jagged(
    double(10, 4), rl.tensor([0, 3, 5, 10]), rl.tensor([2, 1, 4])
)


def same(found, want):
    """Are the parts of a nested tensor these?"""
    assert found.is_nested and len(found) == len(want)
    for a, b in zip(found.unbind(), want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-12, 1e-12)


def dense(name, *args, **kwargs):
    return [getattr(p, name)(*args, **kwargs) for p in PARTS]


# A function of one part, which also is one of the nested tensor; dims are counted from the end.
BY_PART = {
    "unary": lambda x: x.exp(),
    "functional": F.gelu,
    "several": lambda x: (x * 2 + 1).clamp(-1, 1) / 3 - 2**x,
    "reflected": lambda x: 1 / (2 - x),
    "compare": lambda x: x > 0.3,
    "where": lambda x: rl.where(x > 0, x, 0.0),
    "vector": lambda x: x * WEIGHT[0] + WEIGHT[1],
    "layer_norm": lambda x: F.layer_norm(x, (4,), WEIGHT[0], WEIGHT[1]),
    "rms_norm": lambda x: F.rms_norm(x, (4,), WEIGHT[0]),
    "linear": lambda x: F.linear(x, WEIGHT, BIAS),
    "matmul": lambda x: x @ WEIGHT.t(),
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(-1),
    "keepdim": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(-1),
    "transpose": lambda x: x.transpose(-2, -1),
    "unflatten": lambda x: x.unflatten(-1, (2, 2)).transpose(-3, -2),
    "joined again": lambda x: x.unflatten(-1, (2, 2)).transpose(-3, -2).transpose(-3, -2).flatten(
        -2
    ),
    "slice": lambda x: x[..., 1:3],
    "index": lambda x: x[..., 2],
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split": lambda x: x.split([1, 3], -1)[1],
    "narrow": lambda x: x.narrow(-1, 1, 2),
    "cat": lambda x: rl.cat([x, x * 2], -1),
    "stack": lambda x: rl.stack([x, x], -1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "float": lambda x: x.float(),
    "to": lambda x: x.to(rl.float16),
    "logical": lambda x: (x > 0) & ~(x > 1),
    "norm": lambda x: x.norm(dim=-1),
    "cumsum": lambda x: x.cumsum(-1),
    "zeros_like": rl.zeros_like,
}  # fmt: skip


@pytest.mark.parametrize("name", BY_PART)
def test_what_is_done_to_each_part(name):
    f = BY_PART[name]
    same(f(NT), [f(p) for p in PARTS])
    same(f(HOLES), [f(p) for p in HOLES.unbind()])
    inner = rl.nested.nested_tensor(PARTS)  # the layout strided
    same(f(inner), [f(p) for p in PARTS])


# The same with the ragged dim in the middle: parts are (2, length, 2).
BEFORE_THE_RAGGED = {
    "sum": lambda x: x.sum(-3),
    "keepdim": lambda x: x.mean((-3, -1), keepdim=True),
    "both sides": lambda x: x.mean((-3, -1)),
    "max": lambda x: x.max(-3).values,
    "places": lambda x: x.max(-3, keepdim=True).indices,
    "argmin": lambda x: x.argmin(-3),
    "cumsum": lambda x: (x * 4).cumsum(-3, dtype=rl.float32),
    "softmax": lambda x: x.softmax(-3),
    "select": lambda x: x.select(-3, 1),
    "index": lambda x: x[..., 1, :, :],
    "slice": lambda x: x[..., 1:, :, :],
    "narrow": lambda x: x.narrow(-3, 1, 1),
    "chunk": lambda x: x.chunk(2, -3)[1],
    "cat": lambda x: rl.cat([x, 2 * x], -3),
    "stack": lambda x: rl.stack([x, 2 * x], -4),
    "unsqueeze": lambda x: x.unsqueeze(-4),
    "squeeze": lambda x: x[..., :1, :, :].squeeze(-3),
    "unflatten": lambda x: x.unflatten(-3, (2, 1)),
    "flatten": lambda x: x.unflatten(-3, (1, 2)).flatten(-4, -3),
    "transpose": lambda x: x.transpose(-3, -1),
    "expand": lambda x: x[..., :1, :, :].expand(*x.shape[:-3], 3, *x.shape[-2:]),
    "expand_as": lambda x: x.sum(-3, keepdim=True).expand_as(x),
}


@pytest.mark.parametrize("name", BEFORE_THE_RAGGED)
def test_dims_before_the_ragged_one(name):
    f = BEFORE_THE_RAGGED[name]
    for x in (NT, HOLES):
        same(f(heads(x)), [f(heads(p)) for p in x.unbind()])


def test_along_the_ragged_dim():
    whole = [p for p in PARTS if len(p)]
    x = rl.nested.nested_tensor(whole, layout=rl.jagged)
    for f in (
        lambda t, d: t.sum(d), lambda t, d: t.mean(d), lambda t, d: t.amax(d),
        lambda t, d: t.amin(d), lambda t, d: t.prod(d), lambda t, d: t.var(d),
        lambda t, d: t.std(d, keepdim=True), lambda t, d: t.sum(d, keepdim=True),
        lambda t, d: t.max(d).values, lambda t, d: t.max(d).indices, lambda t, d: (t > 0).any(d),
        lambda t, d: t.logsumexp(d), lambda t, d: t.norm(dim=d),
    ):  # fmt: skip
        want = rl.stack([f(p, 0) for p in whole])
        np.testing.assert_allclose(f(x, 1).numpy(), want.numpy(), 1e-12)
        turned = rl.stack([f(p.t(), 1) for p in whole])
        np.testing.assert_allclose(f(x.transpose(1, 2), 2).numpy(), turned.numpy(), 1e-12)
    same(x.softmax(1), [p.softmax(0) for p in whole])
    same(x.cumsum(1), [p.cumsum(0) for p in whole])
    assert (x > -1).all(1).tolist() == [(p > -1).all(0).tolist() for p in whole]
    signs = x.clamp(min=0)
    assert signs.count_nonzero(1).tolist() == [p.clamp(min=0).count_nonzero(0).tolist()
                                               for p in whole]  # fmt: skip
    assert rl.allclose(x.sum((0, 1)), rl.cat(whole).sum(0))
    assert rl.allclose(x.mean((1, 2)), rl.stack([p.mean() for p in whole]))
    assert rl.allclose(NT.sum(), rl.cat(PARTS).sum())
    assert rl.allclose(HOLES.sum(), rl.cat(HOLES.unbind()).sum())  # PyTorch adds the holes
    assert NT.sum(1)[2].tolist() == [0] * 4
    turning = x * (1 + 2j)
    np.testing.assert_allclose(turning.var(1).numpy(), 5 * x.var(1).numpy(), 1e-12)
    with pytest.raises(RuntimeError, match="batch"):
        NT.sum(0)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_sums_of_half_types_are_those_of_floats(dtype):
    parts = [(rl.arange(n) % 7 / 4).to(dtype)[:, None] for n in (3000, 5)]
    x = rl.nested.nested_tensor(parts, layout=rl.jagged)
    for f in (rl.sum, rl.mean, rl.var, rl.std):
        found, want = f(x, 1), rl.stack([f(p.float(), 0) for p in parts])
        assert found.dtype == dtype and rl.equal(found, want.to(dtype))


def test_tensors_of_one_size_broadcast():
    one, row, full = double(4, 1, 4), double(1, 4), double(4, 5, 4)
    same(NT + one, [p + one[i] for i, p in enumerate(PARTS)])
    same(NT * row, [p * row for p in PARTS])
    same(full - NT, [full[i, : len(p)] - p for i, p in enumerate(PARTS)])
    turned = NT.transpose(1, 2)
    same(turned + one.transpose(1, 2), [(p + one[i]).t() for i, p in enumerate(PARTS)])
    with pytest.raises(RuntimeError, match="broadcast"):
        NT + double(4, 3, 4)
    with pytest.raises(RuntimeError, match="holes"):
        HOLES.clone().add_(one[:3])
    for lengths in ([3] * 4, LENGTHS[::-1]):  # the latter with as many rows in all
        other = rl.nested.nested_tensor([double(n, 4) for n in lengths], layout=rl.jagged)
        assert other.size(1) != NT.size(1)
        with pytest.raises(RuntimeError, match="sequences of sizes"):
            NT + other
    moved = rl.nested.nested_tensor_from_jagged(
        double(10, 4), rl.tensor([1, 4, 6, 10]), rl.tensor([2, 1, 4])
    )
    same(HOLES + moved, [a + b for a, b in zip(HOLES.unbind(), moved.unbind(), strict=True)])
    with pytest.raises(RuntimeError, match="sequences of sizes"):
        HOLES.clone().add_(moved)


def test_sizes():
    assert (NT.size(0), NT.size(2), NT.dim(), NT.numel(), len(NT)) == (4, 4, 3, 40, 4)
    assert NT.size(1) == OTHER.size(1) and NT.shape == OTHER.shape
    equal = rl.nested.nested_tensor(PARTS, layout=rl.jagged)
    assert equal.size(1) == NT.size(1)  # the same lengths, though another tensor
    assert NT.size(1) != rl.nested.nested_tensor(PARTS[:2], layout=rl.jagged).size(1)
    assert NT.view(4, NT.size(1), 2, 2).shape == NT.reshape(4, -1, 2, 2).shape
    assert NT.is_nested and not rl.ones(2).is_nested and NT.layout is rl.jagged
    assert HOLES.lengths().tolist() == [2, 1, 4] and NT.lengths() is None
    assert not HOLES.is_contiguous() and HOLES.contiguous().is_contiguous()
    assert HOLES.numel() == 28
    assert HOLES.size(1) == HOLES.contiguous().size(1)
    for bad in ((5, 4), (4, 5, 4), (4, -1, 3)):
        with pytest.raises(RuntimeError, match="view"):
            NT.view(*bad)
    with pytest.raises(TypeError, match="ragged"):
        int(NT.size(1))
    with pytest.raises(IndexError, match="out of range"):
        NT.size(3)


def test_the_ragged_dim_stays():
    """Also where the parts at hand have one length."""
    turned = NT.transpose(1, 2)
    some = turned.chunk(4)[1]
    assert [some.size(0), some.size(1)] == [1, 4]
    same(some.transpose(1, 2), [PARTS[1]])
    assert rl.cat([some, some]).sum(2).shape == (2, 4)
    with pytest.raises(RuntimeError, match="different dims"):
        rl.cat([some, some.transpose(1, 2)])


def test_arguments_by_name():
    same(rl.matmul(NT, other=WEIGHT.t()), dense("matmul", WEIGHT.t()))
    same(rl.permute(NT, dims=(0, 2, 1)), dense("t"))
    same(rl.reshape(NT, shape=(4, -1, 2, 2)), [p.reshape(-1, 2, 2) for p in PARTS])
    same(NT[()], PARTS)


def test_products_from_the_left():
    same(WEIGHT @ NT.transpose(1, 2), [WEIGHT @ p.t() for p in PARTS])
    same(WEIGHT[0] @ NT.transpose(1, 2), [WEIGHT[0] @ p.t() for p in PARTS])
    lines = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    for left in (rl.ones(2, 2), rl.ones(2)):
        with pytest.raises(NotImplementedError, match="ragged"):
            left @ lines


def test_a_matrix_for_each_part():
    right, left = double(4, 4, 3), double(4, 3, 4)
    same(NT @ right, [p @ right[i] for i, p in enumerate(PARTS)])
    same(rl.bmm(NT, right), [p @ right[i] for i, p in enumerate(PARTS)])
    same(left @ NT.transpose(1, 2), [left[i] @ p.t() for i, p in enumerate(PARTS)])
    over = NT.transpose(1, 2) @ OTHER
    want = rl.stack([p.t() @ q for p, q in zip(PARTS, OTHER.unbind(), strict=True)])
    assert rl.allclose(over, want, 1e-12, 1e-12)


def test_no_sequences():
    x = rl.nested.nested_tensor_from_jagged(rl.ones(4), rl.tensor([0]))
    assert (len(x), x.numel(), x.sum().item()) == (0, 0, 0)


def test_padding():
    want = np.full((4, 6, 4), -1.0)
    for i, p in enumerate(PARTS):
        want[i, : len(p)] = p.numpy()
    assert (NT.to_padded_tensor(-1.0).numpy() == want[:, :5]).all()
    assert (rl.nested.to_padded_tensor(NT, -1.0, (4, 6, 4)).numpy() == want).all()
    turned = NT.transpose(1, 2).to_padded_tensor(-1.0)
    assert (turned.numpy() == want[:, :5].transpose(0, 2, 1)).all()
    with pytest.raises(RuntimeError, match="no room"):
        NT.to_padded_tensor(0.0, (4, 3, 4))
    with pytest.raises(NotImplementedError, match="expected a nested tensor"):
        rl.ones(3).to_padded_tensor(0.0)


def test_ways_to_make_them():
    x = double(2, 4, 3)
    same(rl.nested.as_nested_tensor(x, layout=rl.jagged), list(x))
    found = rl.nested.narrow(x, 1, rl.tensor([0, 1]), rl.tensor([2, 3]), layout=rl.jagged)
    same(found, [x[0, :2], x[1, 1:4]])
    cut = rl.nested.narrow(x, 1, 1, 2)
    same(cut, [x[0, 1:3], x[1, 1:3]])
    assert cut.layout is rl.strided and cut.is_contiguous()
    mask = rl.tensor([[True, False, True], [False, False, False]])
    y = double(2, 3)
    same(rl.nested.masked_select(y, mask), [y[0, [0, 2]], y[1, []]])
    same(rl.nested.nested_tensor_from_jagged(y, lengths=rl.tensor([1, 2]), jagged_dim=2),
         [y[:, :1], y[:, 1:]])  # fmt: skip
    other = rl.nested.nested_tensor([double(3, 2), double(3, 5)], layout=rl.jagged)
    assert other.size(1) == 3 and other.to_padded_tensor(0.0).shape == (2, 3, 5)
    assert rl.nested.nested_tensor([[1, 2], [3]], dtype=rl.float64).dtype == rl.float64


@pytest.mark.parametrize(("make", "text"), [
    (lambda: rl.nested.nested_tensor([double(2, 3), double(3, 5)]), "one dim only"),
    (lambda: rl.nested.nested_tensor([double(2, 3), double(3)]), "number of dims"),
    (lambda: rl.nested.nested_tensor([]), "at least one"),
    (lambda: rl.nested.nested_tensor([rl.ones(2), rl.ones(3).int()]), "dtypes"),
    (lambda: rl.nested.nested_tensor([rl.ones(2)], layout=rl.sparse_coo), "layout"),
    (lambda: rl.nested.nested_tensor_from_jagged(rl.ones(4), rl.tensor([0, 5])), "lie in"),
    (lambda: rl.nested.nested_tensor_from_jagged(rl.ones(4), rl.tensor([0, 3, 2])), "lie in"),
    (lambda: rl.nested.nested_tensor_from_jagged(rl.ones(4)), "offsets or lengths"),
    (lambda: rl.nested.nested_tensor_from_jagged(
        rl.ones(4), rl.tensor([0, 2, 4]), rl.tensor([4, 2])), "into the next"),
    (lambda: rl.nested.nested_tensor([NT, NT]), "must be dense"),
    (lambda: rl.nested.narrow(NT, 1, 0, 1), "one size"),
    (lambda: rl.nested.narrow(rl.ones(2, 3), 1, [0, 1], 1), "start must be an int"),
    (lambda: rl.nested.nested_tensor_from_jagged(rl.ones(4), rl.tensor([0.0, 4.0])), "int32"),
    (lambda: rl.nested.narrow(rl.ones(2, 3), 1, 2, 2, layout=rl.jagged), "inside"),
    (lambda: rl.nested.as_nested_tensor(rl.ones(3)), "2 dims"),
])  # fmt: skip
def test_what_cannot_be_nested(make, text):
    with pytest.raises(RuntimeError, match=text):
        make()


def heads(x):
    return x.unflatten(-1, (2, 2)).transpose(-3, -2)


def test_attention():
    for causal in (False, True):
        out = F.scaled_dot_product_attention(heads(NT), heads(OTHER), heads(NT), is_causal=causal)
        want = [
            F.scaled_dot_product_attention(heads(a), heads(b), heads(a), is_causal=causal)
            for a, b in zip(PARTS, OTHER.unbind(), strict=True)
        ]
        same(out, want)
    out = F.scaled_dot_product_attention(*[heads(HOLES)] * 3)
    same(out, [F.scaled_dot_product_attention(*[heads(p)] * 3) for p in HOLES.unbind()])
    with pytest.raises(NotImplementedError, match="attn_mask"):
        F.scaled_dot_product_attention(*[heads(NT)] * 3, attn_mask=rl.ones(5, 5, dtype=rl.bool))
    with pytest.raises(NotImplementedError, match="ragged, size"):
        F.scaled_dot_product_attention(NT, NT, NT)
    few = rl.nested.nested_tensor([double(n, 4) for n in (1, 3, 2, 2)], layout=rl.jagged)
    for q, k, options in (
        (heads(NT), heads(few), {"is_causal": True}),
        (heads(NT), heads(NT), {"scale": 0.3}),
        (heads(NT), heads(NT)[:, :1], {"enable_gqa": True}),
    ):
        want = [
            F.scaled_dot_product_attention(a, b, 2 * b, **options)
            for a, b in zip(q.unbind(), k.unbind(), strict=True)
        ]
        same(F.scaled_dot_product_attention(q, k, 2 * k, **options), want)
    with pytest.raises(RuntimeError, match="enable_gqa"):
        F.scaled_dot_product_attention(heads(NT), *[heads(NT)[:, :1]] * 2)
    dropped = F.scaled_dot_product_attention(*[heads(NT)] * 3, dropout_p=1 - 1e-9)
    assert dropped.shape == heads(NT).shape and (dropped.values() == 0).all()


class Block(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(11, width)
        self.norm, self.attention = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.project, self.up = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, ids):
        x = self.table(ids)
        parts = self.attention(self.norm(x)).chunk(3, -1)
        q, k, v = (u.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for u in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(-3, -2).flatten(-2))
        return x + self.down(F.gelu(self.up(F.dropout(x, 0.3, self.training))))


def test_a_transformer_gives_what_its_parts_give():
    rl.manual_seed(0)
    model = Block().double().eval()
    ids = [rl.tensor(RNG.randint(0, 11, n)) for n in (3, 1, 6)]
    nested = rl.nested.nested_tensor(ids, layout=rl.jagged)
    out = model(nested)
    same(out, [model(x[None])[0] for x in ids])
    out.values().pow(2).sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    sum(model(x[None]).pow(2).sum() for x in ids).backward()
    for a, b in zip(found, (p.grad for p in model.parameters()), strict=True):
        assert rl.allclose(a, b, 1e-9, 1e-11)
    assert model.train()(nested).shape == out.shape


def test_gradients():
    x = rl.nested.nested_tensor(PARTS, layout=rl.jagged, requires_grad=True)
    assert x.is_leaf and x.requires_grad
    for f in (
        lambda x: F.layer_norm(x, (4,)) * 2, lambda x: x.sum(1), lambda x: x.softmax(1),
        lambda x: x.to_padded_tensor(0.0), lambda x: x * double_of(x), lambda x: x.transpose(1, 2),
        lambda x: F.scaled_dot_product_attention(*[heads(x)] * 3), lambda x: x[1],
        lambda x: x.mean((1, 2))[:2], lambda x: x + full_of(x), lambda x: x.contiguous().var(-1),
    ):  # fmt: skip
        assert gradcheck(f, (x,))
    (x * x).sum().backward()
    same(x.grad, [2 * p for p in PARTS])
    (found,) = rl.autograd.grad((x * 3).sum(), x)
    same(found, [rl.full_like(p, 3.0) for p in PARTS])
    y = x * 2
    y.backward(rl.ones_like(y))
    same(x.grad, [2 * p + 2 for p in PARTS])
    a, b = double(2, 3).requires_grad_(), double(1, 3).requires_grad_()
    rl.nested.as_nested_tensor([a, b], layout=rl.jagged).pow(2).sum().backward()
    assert rl.allclose(b.grad, 2 * b)
    with pytest.raises(RuntimeError, match="gradient"):
        (x * 2).backward()


FULL, ROW = double(4, 5, 4), double(4)


def full_of(x):
    return FULL


def double_of(x):
    return ROW


def test_writing_in_place():
    x = NT.clone()
    x.mul_(2).add_(OTHER).sub_(WEIGHT[0])
    same(x, [2 * p + q - WEIGHT[0] for p, q in zip(PARTS, OTHER.unbind(), strict=True)])
    x[1].zero_()  # a part is a view
    assert x[1].abs().sum() == 0 and x[0].abs().sum() > 0
    x.copy_(OTHER)
    assert rl.equal(x, OTHER) and not rl.equal(x, NT)
    cache = double(3, 4, 2)
    view = rl.nested.narrow(cache, 1, rl.tensor([0, 1, 2]), rl.tensor([2, 3, 1]), layout=rl.jagged)
    want, parts = cache.clone(), [double(n, 2) for n in (2, 3, 1)]
    view.copy_(rl.nested.nested_tensor(parts, layout=rl.jagged))
    want[0, :2], want[1, 1:], want[2, 2:3] = parts
    assert rl.equal(cache, want)  # the holes are as they were
    with pytest.raises(RuntimeError, match="one size"):
        rl.ones(4, 5, 4).add_(NT)


def test_copies_and_files():
    for x in (NT, HOLES, NT.transpose(1, 2), rl.nested.nested_tensor(PARTS)):
        for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            same(other, x.unbind())
            assert other.layout is x.layout
        file = io.BytesIO()
        rl.save({"x": x}, file)
        file.seek(0)
        found = rl.load(file)["x"]
        same(found, x.unbind())
        assert found.layout is x.layout


def test_text():
    x = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    assert repr(x).startswith("NestedTensor(size=(2, j")
    assert repr(x).endswith("offsets=tensor([0, 2, 3]), contiguous=True)")
    assert "requires_grad=True" in repr(x.requires_grad_())
    assert repr(rl.nested.nested_tensor([[1.0, 2.0], [3.0]])) == (
        "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    )
    assert "Size([2, j" in str(x.shape)


@pytest.mark.parametrize("call", [
    lambda: rl.sort(NT), lambda: NT.flip(0), lambda: rl.fft.fft(NT), lambda: NT.cholesky(),
    lambda: F.cross_entropy(NT, NT), lambda: NT @ NT.transpose(1, 2),
    lambda: rl.einsum("bij->b", NT),
    lambda: NT.numpy(), lambda: NT[rl.tensor([0])], lambda: NT[:, 0], lambda: NT.view(rl.int32),
    lambda: rl.ones(3)[NT], lambda: rl.add(NT, 1, out=rl.ones(3)), lambda: NT.unfold(1, 2, 1),
    lambda: NT.item(), lambda: bool(NT), lambda: rl.conv1d(NT, rl.ones(1, 1, 1)),
])  # fmt: skip
def test_what_is_not_there_says_so(call):
    with pytest.raises((RuntimeError, TypeError, IndexError)):
        call()


def test_one_element():
    x = rl.nested.nested_tensor([[2.5]], layout=rl.jagged)
    assert (x.item(), float(x), int(x), complex(x), bool(x)) == (2.5, 2.5, 2, 2.5, True)
    assert not x.is_pinned()
    with pytest.raises(RuntimeError, match="neither true nor false"):
        bool(NT)
    with pytest.raises(NotImplementedError, match="nested tensor has no memory"):
        NT.__dlpack__()


@pytest.mark.parametrize("call", [
    lambda: rl.ones(3).fill_(NT), lambda: rl.full_like(rl.ones(3), NT), lambda: NT @ 3,
    lambda: rl.nested.nested_tensor_from_jagged([1.0], rl.tensor([0, 1])),
    lambda: rl.nested.narrow(rl.ones(2, 3), 1, rl.tensor([0.5, 0.0]), 1),
])  # fmt: skip
def test_arguments_of_wrong_types(call):
    with pytest.raises(TypeError, match="tensor|int32"):
        call()


def test_what_is_not_there_names_what_is():
    with pytest.raises(RuntimeError, match="reaches the ragged dim"):
        F.layer_norm(rl.nested.nested_tensor([double(3, 4)] * 2, layout=rl.jagged), (3, 4))
    with pytest.raises(RuntimeError, match="layout must be"):
        rl.zeros_like(NT, layout=rl.strided)
    with pytest.raises(rl.DTypeError, match="softmax"):
        NT.long().softmax(1)
    with pytest.raises(NotImplementedError, match=r"sort.*to_padded_tensor"):
        rl.sort(NT)
