"""Variable lengths, score functions and nested tensors on a GPU against the CPU in float64."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
from rushlight.nn.attention.varlen import varlen_attn

TOLERANCE = {rl.float32: 1e-5, rl.float64: 1e-11, rl.bfloat16: 2e-2}


def compare(f, inputs, dtype):
    """f(device, *tensors) on both devices, with gradients."""
    found = []
    for device, kind in (("cuda", dtype), ("cpu", rl.float64)):
        own = [t.to(dtype).to(device, kind).detach().requires_grad_() for t in inputs]
        out = f(device, *own)
        g = rl.from_numpy(np.random.RandomState(1).randn(*out.shape))
        out.backward(g.to(dtype).to(device, kind))
        found.append([t.detach().double().cpu().numpy() for t in (out, *(x.grad for x in own))])
    for a, b in zip(*found, strict=True):
        scale = max(1, np.abs(b).max())
        np.testing.assert_allclose(a, b, atol=4 * TOLERANCE[dtype] * scale, rtol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (40, 0), (30, 20)])
def test_sequences_of_different_lengths(dtype, window):
    queries, keys = [70, 70, 3, 0, 300], [70, 70, 90, 5, 300]
    rl.manual_seed(0)
    inputs = [rl.randn(sum(n), h, 64) for n, h in ((queries, 4), (keys, 2), (keys, 2))]

    def f(device, q, k, v):
        ends = [rl.tensor([0, *np.cumsum(n)], device=device) for n in (queries, keys)]
        return varlen_attn(q, k, v, *ends, 300, 300, window_size=window, enable_gqa=True)

    compare(f, inputs, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_score_functions_and_block_masks(dtype):
    rl.manual_seed(0)
    inputs = [*(rl.randn(2, h, 300, 32) for h in (4, 2, 2)), rl.randn(4)]

    def f(device, q, k, v, slopes):
        mask = create_block_mask(
            lambda b, h, i, j: (i >= j) & (i - j < 150 + b), 2, None, 300, 300, device=device
        )
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s.tanh() + slopes[h] * (j - i) / 100, mask,
            enable_gqa=True,
        )  # fmt: skip

    compare(f, inputs, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_nested_tensors(dtype):
    rl.manual_seed(0)
    inputs = [rl.randn(105, 64), rl.randn(192, 64) / 8, rl.randn(64)]

    def f(device, values, weight, bias):
        ends = rl.tensor([0, 70, 70, 75, 105], device=device)
        x = rl.nested.nested_tensor_from_jagged(values, ends)
        x = F.layer_norm(x, (64,), None, bias)
        parts = F.linear(x, weight).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (2, 32)).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (x + y.transpose(1, 2).flatten(2)).sum(1)

    compare(f, inputs, dtype)
