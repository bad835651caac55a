"""Attention on a GPU: values and gradients of the fused kernels against float64 on the CPU."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel

TOLERANCE = {rl.float32: 1e-5, rl.float64: 1e-11, rl.float16: 3e-3, rl.bfloat16: 2e-2}


def run(f, inputs, seed=3):
    inputs = [t.detach().requires_grad_() for t in inputs]
    out = f(*inputs)
    g = rl.from_numpy(np.random.RandomState(seed).randn(*out.shape))
    out.backward(g.to(out))
    return [t.detach().double().cpu().numpy() for t in (out, *(t.grad for t in inputs))]


def check(f, shapes, dtype, seed=0):
    """f takes tensors on any device; the GPU in dtype against the CPU in float64."""
    rl.manual_seed(seed)
    inputs = [rl.randn(*s).to(dtype) for s in shapes]
    got = run(f, [t.cuda() for t in inputs])
    want = run(f, [t.double() for t in inputs])
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        scale = max(1, np.abs(b).max())
        np.testing.assert_allclose(a, b, atol=3 * TOLERANCE[dtype] * scale, rtol=0)


def qkv(queries, keys, width, value_width=None, lead=(2, 3), key_lead=None):
    key_lead = key_lead or lead
    return [
        (*lead, queries, width),
        (*key_lead, keys, width),
        (*key_lead, keys, value_width or width),
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [8, 32, 40, 64, 96, 128, 160, 256, 264])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_widths(dtype, width, causal):
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        qkv(70, 83, width),
        dtype,
    )


@pytest.mark.parametrize("sizes", [(1, 1), (1, 300), (300, 1), (64, 64), (65, 129), (200, 31)])
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_lengths(dtype, sizes):
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), qkv(*sizes, 64), dtype)


@pytest.mark.parametrize("keys", [64, 65, 300, 2048])
@pytest.mark.parametrize("queries", [1, 5, 16])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_few_queries_and_many_keys(dtype, queries, keys):
    """As a model writes its text: the keys are split among blocks."""
    check(F.scaled_dot_product_attention, qkv(queries, keys, 64), dtype)
    # Heads that share keys are the rows of one block.
    shared = qkv(queries, keys, 128, 80, lead=(2, 8), key_lead=(2, 2))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), shared, dtype)


@pytest.mark.parametrize("kind", ["bool", "added"])
@pytest.mark.parametrize("queries", [1, 7])
def test_few_queries_with_a_mask(queries, kind):
    seen = rl.rand(2, 1, queries, 500) > 0.3
    seen[1, 0, -1] = False  # sees nothing
    mask = seen if kind == "bool" else rl.randn(2, 1, queries, 500)

    def attend(q, k, v):
        there = mask.to(q.device) if kind == "bool" else mask.to(q)
        return F.scaled_dot_product_attention(q, k, v, there, enable_gqa=True)

    check(attend, qkv(queries, 500, 64, lead=(2, 6), key_lead=(2, 3)), rl.float16)


def test_a_cache_is_read_in_place():
    """Keys and values are slices of a longer cache, as generation keeps them."""
    cache = rl.randn(2, 1, 4, 1024, 64, device="cuda", dtype=rl.bfloat16)
    q = rl.randn(1, 4, 1, 64, device="cuda", dtype=rl.bfloat16)
    k, v = cache[:, :, :, :700]
    before = rl.cuda.memory_allocated()
    out = F.scaled_dot_product_attention(q, k, v)
    assert rl.cuda.memory_allocated() - before < k.numel() * 2
    want = F.scaled_dot_product_attention(q.double().cpu(), k.double().cpu(), v.double().cpu())
    np.testing.assert_allclose(out.double().cpu().numpy(), want.numpy(), atol=2e-2)
    again = F.scaled_dot_product_attention(q, k, v)
    assert rl.equal(out, again)  # blocks are joined in their order


@pytest.mark.parametrize(
    "lead", [(), (5,), (2, 1), (2, 2, 3), (1, 2, 1, 3)], ids=lambda lead: f"{len(lead)} dims"
)
def test_leading_dims(lead):
    check(F.scaled_dot_product_attention, qkv(20, 30, 32, lead=lead), rl.float32)


def test_values_of_another_width_and_unaligned_rows():
    check(F.scaled_dot_product_attention, qkv(20, 30, 32, 48), rl.float16)
    check(F.scaled_dot_product_attention, qkv(20, 30, 33, 17), rl.float32)


def test_broadcast_keys():
    check(F.scaled_dot_product_attention, qkv(20, 30, 32, key_lead=(1, 3)), rl.float32)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16])
def test_shared_keys(dtype):
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True),
        qkv(70, 70, 64, lead=(2, 6), key_lead=(2, 2)),
        dtype,
    )


@pytest.mark.parametrize("scale", [0.0, 1.0, -0.3])
def test_scale(scale):
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale),
        qkv(20, 30, 32),
        rl.float32,
    )


@pytest.mark.parametrize(
    "shape", [(70, 83), (1, 83), (2, 1, 70, 83), (2, 3, 70, 83), (1, 3, 1, 83)]
)
@pytest.mark.parametrize("kind", ["bool", "added"])
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_masks(dtype, kind, shape):
    numbers = rl.from_numpy(np.random.RandomState(1).randn(*shape))
    mask = numbers > -0.8 if kind == "bool" else numbers.to(dtype)

    def f(q, k, v):
        own = mask.to(q.device) if kind == "bool" else mask.to(q.device, q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=own)

    check(f, qkv(70, 83, 64), dtype)


def test_queries_that_see_nothing():
    mask = rl.ones(40, 50, dtype=rl.bool)
    mask[3] = False
    mask[39] = False
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.device)),
        qkv(40, 50, 32),
        rl.float32,
    )


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16])
def test_dropout_draws_the_numbers_of_the_cpu(dtype):
    def f(q, k, v):
        rl.manual_seed(11)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)

    check(f, qkv(70, 83, 32), dtype)


# Several tiles of 64, ragged; heads that share keys; a padding mask, which has one row for all.
@pytest.mark.parametrize("extras", ["plain", "dropout", "padding", "added", "padding dropout"])
@pytest.mark.parametrize("width", [64, 128, 80, 32])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_precision_with_masks_and_dropout(dtype, width, extras):
    queries, keys = 200, 333
    seen = rl.arange(keys)[None] < rl.tensor([[keys], [77]])
    added = rl.randn(2, 1, queries, keys)

    def f(q, k, v):
        rl.manual_seed(11)
        mask = None
        if "padding" in extras:
            mask = seen[:, None, None].to(q.device)
        if extras == "added":
            mask = added.to(dtype).to(q)
        p = 0.3 if "dropout" in extras else 0.0
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            return F.scaled_dot_product_attention(q, k, v, mask, p, enable_gqa=True)

    check(f, qkv(queries, keys, width, lead=(2, 4), key_lead=(2, 2)), dtype)
    if extras in ("plain", "dropout"):
        causal = lambda q, k, v: F.scaled_dot_product_attention(  # noqa: E731
            q, k, v, None, 0.0 if extras == "plain" else 0.3, is_causal=True
        )
        rl.manual_seed(11)
        check(seeded(causal), qkv(queries, keys, width), dtype)


# From 2^22 scores on; lengths that are no multiples of a tile, and more queries than keys.
@pytest.mark.parametrize("extras", ["plain", "causal", "dropout", "padding", "added"])
@pytest.mark.parametrize("sizes", [(700, 1021), (1100, 530)])
@pytest.mark.parametrize("width", [64, 128, 61])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_gradients_that_are_added_up_in_memory(dtype, width, sizes, extras):
    queries, keys = sizes
    rl.manual_seed(5)
    shapes = qkv(queries, keys, width, lead=(2, 6), key_lead=(2, 3))
    inputs = [rl.randn(*s, device="cuda", dtype=dtype) for s in shapes]
    mask = None
    if extras == "padding":
        ends = rl.tensor([[keys], [77]], device="cuda")
        mask = (rl.arange(keys, device="cuda")[None] < ends)[:, None, None]
    if extras == "added":
        mask = rl.randn(2, 1, queries, keys, device="cuda", dtype=dtype)

    def f(q, k, v):
        rl.manual_seed(11)
        p = 0.3 if extras == "dropout" else 0.0
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            return F.scaled_dot_product_attention(
                q, k, v, mask, p, is_causal=extras == "causal", enable_gqa=True
            )

    got = run(f, inputs)
    rl.use_deterministic_algorithms(True)
    try:
        want, again = run(f, inputs), run(f, inputs)
    finally:
        rl.use_deterministic_algorithms(False)
    for a, b, c in zip(got, want, again, strict=True):
        assert np.array_equal(b, c)
        tolerance = TOLERANCE[dtype] * max(1, np.abs(b).max())
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=0)


def seeded(f):
    def run_seeded(*inputs):
        rl.manual_seed(11)
        return f(*inputs)

    return run_seeded


def test_layouts_of_split_heads():
    def f(x):
        q, k, v = (t.unflatten(2, (4, 32)).transpose(1, 2) for t in x.split(128, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)

    check(f, [(2, 70, 384)], rl.float32)


def test_nothing_as_large_as_queries_times_keys_is_kept():
    q, k, v = (rl.randn(1, 2, 4096, 64, device="cuda", requires_grad=True) for _ in range(3))
    rl.cuda.reset_peak_memory_stats()
    before = rl.cuda.memory_allocated()
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    assert rl.cuda.max_memory_allocated() - before < 10 * q.nbytes < 2 * 4096 * 4096 * 4


def test_the_same_bits_every_time():
    q, k, v = (rl.randn(2, 3, 300, 64, device="cuda", requires_grad=True) for _ in range(3))
    found = []
    for _ in range(3):
        F.scaled_dot_product_attention(q, k, v).square().sum().backward()
        found.append([t.grad.cpu() for t in (q, k, v)])
        q.grad = k.grad = v.grad = None
    for other in found[1:]:
        assert all(rl.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_second_derivatives_and_gradients_of_masks():
    def penalty(device):
        rl.manual_seed(5)
        q, k, v = (rl.randn(2, 10, 16).to(device).requires_grad_() for _ in range(3))
        mask = rl.randn(10, 10).to(device).requires_grad_()
        y = F.scaled_dot_product_attention(q, k, v)
        (g,) = rl.autograd.grad(y.square().sum(), q, create_graph=True)
        masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        (g.square().sum() + masked.square().sum()).backward()
        return [t.grad.cpu().numpy() for t in (q, k, v, mask)]

    for a, b in zip(penalty("cuda"), penalty("cpu"), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


def test_second_derivatives_under_dropout():
    def penalty(device):
        q, k, v = (t.to(device).requires_grad_() for t in base)
        rl.manual_seed(6)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
        (g,) = rl.autograd.grad(y.square().sum(), q, create_graph=True)
        g.square().sum().backward()
        return [t.grad.cpu().numpy() for t in (q, k, v)]

    rl.manual_seed(5)
    base = [rl.randn(2, 10, 16) for _ in range(3)]
    for a, b in zip(penalty("cuda"), penalty("cpu"), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_vmap_and_forward_mode():
    q, k, v = (rl.randn(3, 2, 10, 16) for _ in range(3))

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    a, b, c = (t.cuda() for t in (q, k, v))
    many = rl.func.vmap(f)(a, b, c)
    np.testing.assert_allclose(many.cpu().numpy(), f(q, k, v).numpy(), atol=1e-5)
    along = rl.func.jvp(lambda x: f(x, b, c), (a,), (rl.ones_like(a),))[1]
    want = rl.func.jvp(lambda x: f(x, k, v), (q,), (rl.ones_like(q),))[1]
    np.testing.assert_allclose(along.cpu().numpy(), want.numpy(), atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer_layers(batch_first, training):
    import copy

    rl.manual_seed(7)
    here = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(64, 4, 96, dropout=0.0, batch_first=batch_first), 2,
        enable_nested_tensor=False,
    ).train(training)  # fmt: skip
    there = copy.deepcopy(here).cuda()
    x = rl.randn(5, 9, 64)
    batch, length = (5, 9) if batch_first else (9, 5)
    padding = rl.arange(length)[None] >= rl.arange(2, 2 + batch).clamp(max=length)[:, None]
    want = here(x, src_key_padding_mask=padding)
    got = there(x.cuda(), src_key_padding_mask=padding.cuda())
    np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), atol=2e-5)


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention(weights):
    def f(x):
        rl.manual_seed(8)
        layer = nn.MultiheadAttention(48, 3, batch_first=True).to(x)
        return layer(x, x, x, need_weights=weights)[0]

    check(f, [(2, 30, 48)], rl.float32)


def test_nothing_waits_for_the_gpu():
    q, k, v = (rl.randn(2, 3, 70, 64, device="cuda", requires_grad=True) for _ in range(3))
    mask = rl.ones(70, 70, dtype=rl.bool, device="cuda")
    rl.cuda.set_sync_debug_mode("error")
    try:
        F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1).sum().backward()
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
    finally:
        rl.cuda.set_sync_debug_mode("default")


def test_float32_where_tf32_is_allowed():
    """Fewer bits then, but more than TF32 has."""
    rl.manual_seed(9)
    q, k, v = (rl.randn(1, 1, 64, 128) for _ in range(3))
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double())

    def error():
        got = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda())
        return (got.cpu().double() - want).abs().max().item()

    exact = error()
    rl.backends.cuda.matmul.allow_tf32 = True
    try:
        assert exact < 3e-6 < error() < 3e-4
    finally:
        rl.backends.cuda.matmul.allow_tf32 = False


# ---- by cuDNN: half precision, plain, large enough ----

# Queries, keys, width, heads, heads of keys.
BY_CUDNN = {
    "as long": (512, 512, 64, 8, 8),
    "ragged lengths": (700, 513, 64, 8, 8),
    "shared keys": (512, 640, 128, 8, 2),
    "narrow": (1024, 1024, 32, 3, 3),
    "odd width": (1024, 777, 96, 3, 3),
    "wide": (512, 1024, 256, 4, 4),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("case", BY_CUDNN)
def test_by_cudnn(case, dtype, causal):
    queries, keys, width, heads, key_heads = BY_CUDNN[case]

    def attend(q, k, v):
        # Heads as a fused projection leaves them: cut out of longer rows.
        heads_first = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(
            *heads_first, is_causal=causal, enable_gqa=heads != key_heads
        )

    shapes = [(2, queries, heads, width), *[(2, keys, key_heads, width)] * 2]
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]):
        check(attend, shapes, dtype)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gradients_that_were_expanded(dim):
    """A sum hands one gradient to many: elements that share their memory."""
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).sum(dim),
        [(2, 4, 1024, 64)] * 3,
        rl.bfloat16,
    )


def test_by_cudnn_repeats_itself_when_asked():
    q, k, v, g = (rl.randn(2, 8, 1024, 64, device="cuda", dtype=rl.bfloat16) for _ in range(4))

    def grads():
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        F.scaled_dot_product_attention(*inputs, is_causal=True).backward(g)
        return [t.grad for t in inputs]

    rl.use_deterministic_algorithms(True)
    try:
        first = grads()
        for _ in range(5):
            assert all(rl.equal(a, b) for a, b in zip(grads(), first, strict=True))
    finally:
        rl.use_deterministic_algorithms(False)


def test_kernels_agree_and_can_be_chosen():
    q, k, v = (rl.randn(2, 8, 1024, 64, device="cuda", dtype=rl.bfloat16) for _ in range(3))
    results = []
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            results.append(F.scaled_dot_product_attention(q, k, v, is_causal=True))
    for other in results[1:]:
        rl.testing.assert_close(other, results[0], rtol=0, atol=3e-2)
    assert not rl.equal(results[0], results[1])  # two kernels, not one twice
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="no available"):
        F.scaled_dot_product_attention(q.float(), k.float(), v.float())


def test_what_cudnn_does_not_take_runs_all_the_same():
    odd = [rl.randn(2, 8, 1024, 60, device="cuda", dtype=rl.bfloat16) for _ in range(3)]
    assert F.scaled_dot_product_attention(*odd).isfinite().all()
    one = rl.randn(2, 1, 1024, 64, device="cuda", dtype=rl.bfloat16).expand(2, 8, 1024, 64)
    q = rl.randn(2, 8, 1024, 64, device="cuda", dtype=rl.bfloat16)
    got = F.scaled_dot_product_attention(q, one, one)
    want = F.scaled_dot_product_attention(q, one.contiguous(), one.contiguous())
    rl.testing.assert_close(got, want, rtol=0, atol=3e-2)


def test_which_kernel_can_be_used():
    from rushlight.backends import cuda as switches

    def params(dtype=rl.bfloat16, width=64, device="cuda", mask=None, dropout=0.0, **more):
        q, k, v = (rl.zeros(1, 2, 8, width, device=device, dtype=dtype) for _ in range(3))
        return switches.SDPAParams(q, k, v, mask, dropout, False, **more)

    assert switches.is_flash_attention_available()
    assert switches.can_use_flash_attention(params())
    assert switches.can_use_efficient_attention(params(rl.float32))
    assert switches.can_use_cudnn_attention(params())
    assert not switches.can_use_cudnn_attention(params(dropout=0.1))
    assert not switches.can_use_flash_attention(params(rl.float64))
    assert not switches.can_use_flash_attention(params(width=512))
    with sdpa_kernel(SDPBackend.MATH):
        assert not switches.can_use_flash_attention(params())
    wanted = rl.zeros(8, 8, device="cuda", requires_grad=True)
    with pytest.warns(UserWarning, match="the mask wants a gradient"):
        assert not switches.can_use_flash_attention(params(mask=wanted), debug=True)
