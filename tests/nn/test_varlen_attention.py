"""varlen_attn against attention of each sequence by itself, written in NumPy."""

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

RNG = np.random.RandomState(3)
LENGTHS = [  # of queries and of keys
    ([3, 5, 0, 7], [3, 5, 0, 7]),
    ([4, 4, 4], [6, 6, 6]),
    ([300, 17, 1], [300, 17, 1]),  # more than a block of the kernels
    ([2, 9], [400, 3]),
    ([5, 3], [0, 3]),  # queries that see nothing
]
WINDOWS = [(-1, -1), (-1, 0), (2, 0), (2, 3), (100, 0), (0, -1)]


def ends(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def reference(q, k, v, q_ends, k_ends, scale, window):
    """Output (tokens, heads, size) and logarithms of sums (heads, tokens)."""
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    outs, sums = [], []
    for a, b, c, d in zip(q_ends, q_ends[1:], k_ends, k_ends[1:], strict=False):
        scores = np.einsum("qhe,khe->hqk", q[a:b], k[c:d]) * scale
        away = np.arange(d - c) - (np.arange(b - a)[:, None] + (d - c) - (b - a))
        seen = np.ones(away.shape, bool)
        if window[0] >= 0:
            seen &= away >= -window[0]
        if window[1] >= 0:
            seen &= away <= window[1]
        weights = np.where(seen, np.exp(scores), 0)
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        outs.append(np.einsum("hqk,khe->qhe", weights, v[c:d]))
        with np.errstate(divide="ignore"):
            sums.append(np.log(total[..., 0]))
    return np.concatenate(outs), np.concatenate(sums, 1)


def packed(lengths, heads, size):
    return rl.tensor(RNG.randn(sum(lengths), heads, size) / 2)


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
def test_values_and_gradients(queries, keys):
    q_ends, k_ends = ends(queries), ends(keys)
    for window, key_heads in itertools.product(WINDOWS, (4, 2)):
        q, k, v = packed(queries, 4, 8), packed(keys, key_heads, 8), packed(keys, key_heads, 6)
        for t in (q, k, v):
            t.requires_grad_()
        bounds = rl.tensor(q_ends, dtype=rl.int32), rl.tensor(k_ends)
        options = {"scale": 0.4, "window_size": window, "enable_gqa": key_heads < 4}
        out, lse = varlen_attn(
            q, k, v, *bounds, max(queries), max(keys), return_aux=AuxRequest(lse=True), **options
        )
        arrays = [t.detach().numpy() for t in (q, k, v)]
        want, sums = reference(*arrays, q_ends, k_ends, 0.4, window)
        np.testing.assert_allclose(out.detach().numpy(), want, 1e-10, 1e-12)
        np.testing.assert_allclose(lse.numpy(), sums, 1e-10, 1e-12)
        # The kernels' gradients are those of the formulas over ops, which create_graph takes.
        g = rl.tensor(RNG.randn(*want.shape))
        fast = rl.autograd.grad(out, (q, k, v), g, retain_graph=True)
        slow = rl.autograd.grad(out, (q, k, v), g, create_graph=True)
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-9, 1e-11)


def test_derivatives():
    q, k, v = (packed([2, 4], 2, 3).requires_grad_() for _ in range(3))
    bounds = rl.tensor([0, 2, 6])

    def f(q, k, v):
        return varlen_attn(q, k, v, bounds, bounds, 4, 4, window_size=(1, 0))

    assert gradcheck(f, (q, k, v), check_forward_ad=True)
    assert gradgradcheck(f, (q, k, v))


@pytest.mark.parametrize(("dtype", "tolerance"), [(rl.float32, 1e-5), (rl.bfloat16, 2e-2),
                                                  (rl.float16, 2e-3)])  # fmt: skip
def test_dtypes(dtype, tolerance):
    lengths = [7, 70]
    q, k, v = (packed(lengths, 2, 16).to(dtype) for _ in range(3))
    bounds = rl.tensor(ends(lengths))
    out, lse = varlen_attn(q, k, v, bounds, bounds, 70, 70, return_aux=AuxRequest(True))
    assert out.dtype == dtype and lse.dtype == rl.float32 and lse.shape == (2, 77)
    arrays = [t.double().numpy() for t in (q, k, v)]
    want, sums = reference(*arrays, ends(lengths), ends(lengths), 0.25, (-1, -1))
    np.testing.assert_allclose(out.double().numpy(), want, tolerance, tolerance)
    np.testing.assert_allclose(lse.double().numpy(), sums, tolerance, tolerance)


def test_keys_that_are_used_in_part_and_keys_in_pages():
    q, k, v = packed([1, 1], 2, 4), packed([4, 6], 2, 4), packed([4, 6], 2, 4)
    used = rl.tensor([3, 5])
    out = varlen_attn(q, k, v, rl.tensor([0, 1, 2]), rl.tensor([0, 4, 10]), 1, 6, seqused_k=used)
    cut = [rl.cat([t[:3], t[4:9]]) for t in (k, v)]
    want = varlen_attn(q, *cut, rl.tensor([0, 1, 2]), rl.tensor([0, 3, 8]), 1, 5)
    assert rl.equal(out, want)
    # Two tokens per page, pages in any order.
    pages = [rl.zeros(7, 2, 2, 4, dtype=rl.float64) for _ in range(2)]
    table = rl.tensor([[5, 1, 0], [2, 6, 3]], dtype=rl.int32)
    for to, x in zip(pages, cut, strict=True):
        for i, (first, n) in enumerate([(0, 3), (3, 5)]):
            for j in range(n):
                to[table[i, j // 2], j % 2] = x[first + j]
    out = varlen_attn(
        q, *pages, rl.tensor([0, 1, 2]), None, 1, 5, seqused_k=used, block_table=table
    )
    assert rl.equal(out, want)


def test_out():
    q = packed([2, 3], 1, 4)
    bounds = rl.tensor([0, 2, 5])
    out = rl.empty(5, 1, 4, dtype=rl.float64)
    found, lse = varlen_attn_out(out, q, q, q, bounds, bounds, 3, 3, return_aux=AuxRequest(True))
    assert found is out and rl.equal(out, varlen_attn(q, q, q, bounds, bounds, 3, 3))
    assert lse.shape == (1, 5)
    with pytest.raises(rl.ShapeError, match="out must be"):
        varlen_attn_out(out[:2], q, q, q, bounds, bounds, 3, 3)


def test_bounds_that_change_are_seen():
    q = packed([2, 3], 1, 4)
    bounds = rl.tensor([0, 2, 5])
    before = varlen_attn(q, q, q, bounds, bounds, 3, 3)
    bounds[1] = 3
    after = varlen_attn(q, q, q, bounds, bounds, 3, 3)
    assert not rl.equal(before, after)
    assert rl.equal(after, varlen_attn(q, q, q, rl.tensor([0, 3, 5]), rl.tensor([0, 3, 5]), 3, 3))


def test_windows_without_an_end():
    q = packed([2, 3], 2, 4)
    bounds = rl.tensor([0, 2, 5])
    want = varlen_attn(q, q, q, bounds, bounds, 3, 3)
    for far in (2**40, 2**62, 2**63 - 1):
        found = varlen_attn(q, q, q, bounds, bounds, 3, 3, window_size=(far, far))
        assert rl.equal(found, want)


def test_errors():
    q = packed([2, 3], 2, 4)
    bounds = rl.tensor([0, 2, 5])

    def run(*given, **options):
        return varlen_attn(*given, **options)

    with pytest.raises(ValueError, match="enable_gqa"):
        run(q, q[:, :1], q[:, :1], bounds, bounds, 3, 3)
    with pytest.raises(ValueError, match="max_q is 2"):
        run(q, q, q, bounds, bounds, 2, 3)
    with pytest.raises(ValueError, match="number of queries, 5"):
        run(q, q, q, rl.tensor([0, 2, 4]), bounds, 3, 3)
    with pytest.raises(ValueError, match="number of keys, 5"):
        run(q, q, q, bounds, rl.tensor([0, 2, 4]), 3, 3)
    with pytest.raises(ValueError, match="must not fall"):
        run(q, q, q, rl.tensor([0, 4, 3, 5]), rl.tensor([0, 1, 2, 5]), 5, 5)
    with pytest.raises(ValueError, match="2 and 1"):
        run(q, q, q, bounds, rl.tensor([0, 5]), 5, 5)
    with pytest.raises(TypeError, match="int32 or int64"):
        run(q, q, q, bounds.float(), bounds, 3, 3)
    with pytest.raises(ValueError, match="window_size"):
        run(q, q, q, bounds, bounds, 3, 3, window_size=(-2, 0))
    with pytest.raises(rl.ShapeError, match="tokens, heads, size"):
        run(q[0], q, q, bounds, bounds, 3, 3)
    with pytest.raises(RuntimeError, match="dtype"):
        run(q.float(), q, q, bounds, bounds, 3, 3)
    with pytest.raises(RuntimeError, match="inference"):
        run(q.requires_grad_(), q, q, bounds, bounds, 3, 3, seqused_k=rl.tensor([1, 1]))
    with pytest.raises(ValueError, match="needs seqused_k"):
        run(q, q[None], q[None], bounds, None, 3, 3, block_table=rl.tensor([[0], [0]]))


def test_bounds_of_others_are_read_anew():
    q = packed([2, 3], 1, 4)
    array = np.array([0, 2, 5])
    bounds = rl.from_numpy(array)
    want = varlen_attn(q, q, q, rl.tensor([0, 4, 5]), rl.tensor([0, 4, 5]), 4, 4)
    varlen_attn(q, q, q, bounds, bounds, 4, 4)
    array[1] = 4
    assert rl.equal(varlen_attn(q, q, q, bounds, bounds, 4, 4), want)
    with rl.inference_mode():
        own = rl.tensor([0, 4, 5])
        assert rl.equal(varlen_attn(q, q, q, own, own, 4, 4), want)


def test_pages_that_are_refused():
    q, bounds, used = packed([2, 3], 2, 4), rl.tensor([0, 2, 5]), rl.tensor([0, 0])
    pages = rl.zeros(1, 0, 2, 4, dtype=rl.float64)
    with pytest.raises(ValueError, match="pages of no tokens"):
        varlen_attn(q, pages, pages, bounds, None, 3, 3, seqused_k=used,
                    block_table=rl.tensor([[0], [0]]))  # fmt: skip
    with pytest.raises(TypeError, match="block_table must be a tensor"):
        varlen_attn(q, q[None], q[None], bounds, None, 3, 3, seqused_k=used,
                    block_table=[[0], [0]])  # fmt: skip
