"""flex_attention: scores through functions, block masks; against the formulas written out."""

import numpy as np
import pytest
from peak import peak_of

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck
from rushlight.nn.attention import _strips
from rushlight.nn.attention._mods import over_places
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

RNG = np.random.RandomState(2)


def double(*shape):
    return rl.tensor(RNG.randn(*shape))


Q, K, V = double(2, 4, 9, 6), double(2, 4, 12, 6), double(2, 4, 12, 6)


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def near(b, h, q_idx, kv_idx):
    return (q_idx - kv_idx).abs() <= 2


def weights(scores):
    scores = scores - scores.max(-1, keepdims=True)
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def test_without_a_function_it_is_attention():
    want = F.scaled_dot_product_attention(Q, K, V)
    assert rl.allclose(flex_attention(Q, K, V), want)
    want = F.scaled_dot_product_attention(Q, K[:, :2], V[:, :2], enable_gqa=True, scale=0.7)
    assert rl.allclose(flex_attention(Q, K[:, :2], V[:, :2], enable_gqa=True, scale=0.7), want)


def test_score_functions():
    slopes, table = double(4), double(4, 30)
    scores = (Q @ K.transpose(-1, -2)).numpy() / 6**0.5
    distance = np.arange(9)[:, None] - np.arange(12)
    cases = [
        (lambda s, b, h, q, k: s + slopes[h] * (q - k),
         scores + slopes.numpy()[:, None, None] * distance),
        (lambda s, b, h, q, k: s + table[h][q - k + 12], scores + table.numpy()[:, distance + 12]),
        (lambda s, b, h, q, k: rl.tanh(s / 2) * 2, np.tanh(scores / 2) * 2),
        (lambda s, b, h, q, k: s * (b + 1), scores * np.arange(1, 3)[:, None, None, None]),
    ]  # fmt: skip
    for function, want in cases:
        out = flex_attention(Q, K, V, score_mod=function)
        np.testing.assert_allclose(out.numpy(), weights(want) @ V.numpy(), 1e-9, 1e-10)


def test_gradients_reach_the_tensors_that_functions_use():
    bias = double(2, 3, 4).requires_grad_()
    q, k, v = (double(1, 2, n, 2).requires_grad_() for n in (3, 4, 4))

    def f(q, k, v, bias):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j])

    assert gradcheck(f, (q, k, v, bias))


def test_block_masks():
    for function in (causal, near, and_masks(causal, near), or_masks(causal, near), noop_mask):
        mask = create_mask(function, None, None, 9, 12)
        assert mask.shape == (1, 1, 9, 12) and mask.dtype == rl.bool
        block_mask = create_block_mask(function, None, None, 9, 12, BLOCK_SIZE=4)
        assert block_mask.shape == (1, 1, 9, 12)
        want = F.scaled_dot_product_attention(Q, K, V, mask)
        assert rl.allclose(flex_attention(Q, K, V, block_mask=block_mask), want)
        padded = np.zeros((12, 12), bool)
        padded[:9] = mask[0, 0].numpy()
        blocks = padded.reshape(3, 4, 3, 4)
        assert (block_mask.to_dense()[0, 0].numpy() == blocks.any((1, 3))).all()
        assert (block_mask.full_kv_num_blocks[0, 0].numpy() == blocks.all((1, 3)).sum(1)).all()
        part = blocks.any((1, 3)) & ~blocks.all((1, 3))
        assert (block_mask.kv_num_blocks[0, 0].numpy() == part.sum(1)).all()
        assert (block_mask.q_num_blocks[0, 0].numpy() == part.sum(0)).all()


def test_masks_by_sample():
    documents = rl.tensor(RNG.randint(0, 3, (2, 12)))

    def same(b, h, q_idx, kv_idx):
        return documents[b, q_idx] == documents[b, kv_idx]

    block_mask = create_block_mask(same, 2, None, 9, 12)
    want = documents[:, None, :9, None] == documents[:, None, None, :]
    out = flex_attention(Q, K, V, block_mask=block_mask)
    assert rl.allclose(out, F.scaled_dot_product_attention(Q, K, V, want))
    assert "BlockMask" in repr(block_mask)


def test_sums_and_largest_scores():
    scores = Q @ K.transpose(-1, -2) / 6**0.5
    _, lse = flex_attention(Q, K, V, return_lse=True)
    assert rl.allclose(lse, scores.logsumexp(-1))
    _, aux = flex_attention(Q, K, V, return_aux=AuxRequest(max_scores=True))
    assert aux.lse is None and rl.allclose(aux.max_scores, scores.amax(-1))


def test_errors():
    with pytest.raises(ValueError, match="heads, length, size"):
        flex_attention(Q[0], K[0], V[0])
    with pytest.raises(ValueError, match="enable_gqa"):
        flex_attention(Q, K[:, :2], V[:, :2])
    with pytest.raises(ValueError, match="must divide"):
        flex_attention(Q, K[:, :3], V[:, :3], enable_gqa=True)
    with pytest.raises(ValueError, match="Q_LEN=4"):
        flex_attention(Q, K, V, block_mask=create_block_mask(causal, None, None, 4, 12))
    with pytest.raises(ValueError, match="3 heads"):
        flex_attention(Q, K, V, block_mask=create_block_mask(causal, None, 3, 9, 12))
    with pytest.raises(RuntimeError, match="functions"):
        and_masks(causal, 3)


def test_a_number_of_each_sample_indexes():
    x = double(5, 3)
    at = rl.tensor([4, 0, 2])
    assert (rl.vmap(lambda i: x[i])(at) == x[at]).all()
    assert (rl.vmap(lambda i, j: x[i, j])(at, rl.arange(3)) == x[at, rl.arange(3)]).all()
    assert (rl.vmap(lambda row, j: row[j])(x[:3], rl.arange(3)) == x[:3].diagonal()).all()


def grads_of(f, inputs):
    """The output and its gradients: by strips, and by the formulas over ops on whole scores."""
    inputs = [t.detach().requires_grad_() for t in inputs]
    out = f(*inputs)
    g = rl.tensor(np.random.RandomState(1).randn(*out.shape))
    fast = rl.autograd.grad(out, inputs, g, retain_graph=True)
    slow = rl.autograd.grad(out, inputs, g, create_graph=True)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-9, 1e-11)
    return out


@pytest.mark.parametrize("room", [64, 1 << 19])  # strips of some rows, or whole
def test_strips_give_what_whole_scores_give(monkeypatch, room):
    monkeypatch.setitem(_strips._ROOM, "cpu", room)
    q, k, v = double(2, 4, 70, 6), double(2, 2, 50, 6), double(2, 2, 50, 5)
    slopes, table = double(4), double(4, 130)

    def scattered(b, h, i, j):
        return ((i // 16 + j // 16) % 2 == b) & (i - j < 40 + (h if heads else 0))

    for heads in (None, 4):
        mask = create_block_mask(scattered, 2, heads, 70, 50, BLOCK_SIZE=(32, 16))
        dense = create_mask(scattered, 2, 4, 70, 50)
        for mod in (
            None,
            lambda s, b, h, i, j: s + slopes[h] * (i - j),
            lambda s, b, h, i, j: s.tanh() + table[h][i - j + 50],  # no look-up of one number
            lambda s, b, h, i, j: rl.where(i > 3, s, -float("inf")),  # rows that see nothing
        ):
            out = grads_of(
                lambda q, k, v, mod=mod, mask=mask: flex_attention(
                    q, k, v, mod, mask, enable_gqa=True
                ),
                (q, k, v),
            )
            scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 6**0.5
            if mod is not None:
                places = [rl.arange(n) for n in (2, 4, 70, 50)]
                scores = over_places(mod, tuple(places), scores)
            want = F.scaled_dot_product_attention(
                q * 0, k * 0, v, scores.masked_fill(~dense, -float("inf")), enable_gqa=True
            )
            np.testing.assert_allclose(out.detach().numpy(), want.numpy(), 1e-9, 1e-11)


def test_gradients_of_captured_tensors_and_sums():
    bias, weight = double(2, 9).requires_grad_(), double(3).requires_grad_()
    q, k, v = (double(1, 2, 5, 3).requires_grad_() for _ in range(3))
    mask = create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=2)

    def f(q, k, v, bias, weight):
        scale = F.softplus(weight)  # made inside of the function, but no leaf of it

        def mod(s, b, h, i, j):
            return s * scale[0] + bias[h, i - j + 4] * weight[2]

        out, lse = flex_attention(q, k, v, mod, mask, return_lse=True)
        return out, lse

    assert gradcheck(f, (q, k, v, bias, weight))
    with pytest.raises(RuntimeError, match="truth|bool|vmap|value"):
        flex_attention(q, k, v, lambda s, b, h, i, j: s if i > j else s * 2)


def test_memory_does_not_grow_with_the_product(monkeypatch):
    monkeypatch.setitem(_strips._ROOM, "cpu", 1 << 15)
    length = 1024
    q = rl.randn(1, 2, length, 16, requires_grad=True)
    mask = create_block_mask(causal, None, None, length, length, BLOCK_SIZE=64)

    def step():
        flex_attention(q, q, q, lambda s, b, h, i, j: s - (i - j) / 100, mask).sum().backward()

    whole = 2 * length * length * 4
    assert peak_of(step) < whole / 2


def test_slices_and_other_lengths_of_block_masks():
    mask = create_block_mask(causal, 2, 3, 64, 48, BLOCK_SIZE=16)
    assert mask[0].kv_num_blocks.shape == (1, 3, 4) and mask[:, 1, 2:].shape == (2, 1, 64, 48)
    with pytest.raises(RuntimeError, match="slice"):
        flex_attention(Q, K, V, block_mask=mask[0])
    cut = mask._adjust(20, 30)
    want = create_block_mask(causal, 2, 3, 20, 30, BLOCK_SIZE=16)
    assert (cut.to_dense() == want.to_dense()).all() and cut.shape == (2, 3, 20, 30)
    assert mask.sparsity() == pytest.approx(100 * (1 - 9 / 12))
    picture = create_block_mask(causal, None, None, 32, 32, BLOCK_SIZE=16).to_string()
    assert picture == "(0, 0)\n██  \n████\n"
    assert mask.to("cpu").as_tuple()[:2] == (64, 48)
    listed = BlockMask.from_kv_blocks(
        rl.tensor([[[1, 2]]], dtype=rl.int32), rl.tensor([[[[1, 0], [0, 1]]]], dtype=rl.int32),
        BLOCK_SIZE=2,
    )  # fmt: skip
    q = double(1, 1, 4, 3)
    seen = rl.tensor([[0, 0, 1, 1]] * 2 + [[1, 1, 1, 1]] * 2).bool()
    out = flex_attention(q, q, q, block_mask=listed)
    assert rl.allclose(out, F.scaled_dot_product_attention(q, q, q, seen))


def test_samples_and_tangents():
    q = double(3, 1, 2, 4, 3)
    out = rl.vmap(lambda q: flex_attention(q, q, q, lambda s, b, h, i, j: s * 2))(q)
    want = rl.stack([flex_attention(x, x, x, lambda s, b, h, i, j: s * 2) for x in q])
    assert rl.allclose(out, want)
    x = q[0].requires_grad_()
    assert gradcheck(
        lambda x: flex_attention(x, x, x, lambda s, b, h, i, j: s.tanh()), (x,),
        check_forward_ad=True,
    )  # fmt: skip


def test_nan_of_inputs_stays():
    """Only queries that may look nowhere give zeros."""
    q = double(1, 1, 4, 3)
    broken = q.clone()
    broken[0, 0, 1, 0] = float("nan")

    def mod(s, b, h, i, j):
        return rl.where(i == 3, -float("inf"), s)

    for aux in (False, True):
        out = flex_attention(broken, q, q, mod, return_lse=aux)
        out = out[0] if aux else out
        assert out[0, 0, 1].isnan().all() and (out[0, 0, 3] == 0).all()
        assert rl.allclose(out[0, 0, ::2], flex_attention(q, q, q, mod)[0, 0, ::2])
    x = broken.requires_grad_()
    flex_attention(x, q, q, mod).sum().backward()
    assert x.grad[0, 0, 1].isnan().all() and not x.grad[0, 0, ::2].isnan().any()


def test_captured_tensors_are_not_written_before_backward():
    bias = double(4).requires_grad_()
    q = Q.detach().clone().requires_grad_()
    out = flex_attention(q, K, V, lambda s, b, h, i, j: s * bias[h])
    with rl.no_grad():
        bias.add_(1)
    with pytest.raises(RuntimeError, match="backward"):
        out.sum().backward()


def test_functions_that_only_look_pointwise():
    """What is a number for one score would be a sum over all of them."""
    plain = flex_attention(Q, K, V, lambda s, b, h, i, j: s * 2 - (j > 3) * 1.0)
    for mod in (
        lambda s, b, h, i, j: s.sum() * 2 - (j > 3) * 1.0,
        lambda s, b, h, i, j: s * 2 - (j > 3).any() * 1.0,
    ):
        assert rl.allclose(flex_attention(Q, K, V, mod), plain)


def test_empty_block_masks():
    for queries, keys in ((0, 5), (5, 0), (0, 0)):
        mask = create_block_mask(causal, 2, None, queries, keys, BLOCK_SIZE=2)
        assert mask.shape == (2, 1, queries, keys)
        assert mask.kv_num_blocks.shape == (2, 1, (queries + 1) // 2)
        q, k = double(2, 1, queries, 3), double(2, 1, keys, 3)
        out = flex_attention(q, k, k, block_mask=mask)
        assert out.shape == q.shape and (out == 0).all()


@pytest.mark.parametrize(("error", "call"), [
    (AssertionError, lambda: create_block_mask(lambda b, h, i, j: i - j, None, None, 4, 4)),
    (rl.DTypeError, lambda: flex_attention(*[rl.ones(1, 1, 2, 2).long()] * 3, lambda s, *_: s)),
    (rl.DTypeError, lambda: flex_attention(*[rl.ones(1, 1, 2, 2) * 1j] * 3, lambda s, *_: s)),
    (ValueError, lambda: flex_attention(Q, K.to("meta"), V)),
    (ValueError, lambda: flex_attention(*(t.to("meta") for t in (Q, K, V)), lambda s, *_: s)),
    (NotImplementedError, lambda: flex_attention(rl.nested.as_nested_tensor(Q), K, V)),
])  # fmt: skip
def test_tensors_that_are_refused(error, call):
    with pytest.raises(error, match=r"flex_attention|create_block_mask"):
        call()
