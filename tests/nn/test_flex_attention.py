"""flex_attention: scores through functions, block masks; against the formulas written out."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
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
