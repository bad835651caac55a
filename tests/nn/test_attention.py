"""scaled_dot_product_attention: values, gradients, masks, dropout, memory and errors."""

import itertools

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.autograd import forward_ad, gradcheck, gradgradcheck
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.nn.attention.bias import causal_lower_right, causal_upper_left

RNG = np.random.RandomState(7)
sdpa = F.scaled_dot_product_attention


def reference(q, k, v, mask=None, causal=False, scale=None):
    """The textbook's formula in float64; a query that sees nothing gets zeros."""
    q, k, v = (np.asarray(x, "f8") for x in (q, k, v))
    groups = q.shape[-3] // k.shape[-3] if q.ndim > 2 and q.shape[-3] != k.shape[-3] else 1
    if groups > 1 and k.shape[-3] > 1:
        k, v = (np.repeat(x, groups, -3) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        mask = np.asarray(mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def arrays(lead, queries, keys, width, value_width=None, key_lead=None):
    key_lead = lead if key_lead is None else key_lead
    return (
        RNG.randn(*lead, queries, width),
        RNG.randn(*key_lead, keys, width),
        RNG.randn(*key_lead, keys, width if value_width is None else value_width),
    )


def tensors(xs, dtype=rl.float64, grad=False):
    return [rl.tensor(x, dtype=dtype, requires_grad=grad) for x in xs]


def assert_near(got, want, tolerance=1e-12):
    got = got.detach().double().numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, tolerance, tolerance)


def composed_grads(out, inputs, g):
    """By the formulas over ops, which a recorded backward pass takes."""
    return rl.autograd.grad(out, inputs, g, create_graph=True)


# Sizes around those of tiles and blocks (4 to 48 queries, 8 to 192 keys), of every kind of row.
QUERIES = [1, 4, 5, 12, 13, 47, 48, 49, 101]
KEYS = [1, 7, 31, 32, 33, 191, 192, 193, 400]
WIDTHS = [1, 8, 17, 40, 64, 80]


@pytest.mark.parametrize("queries", QUERIES)
def test_sizes_around_blocks(queries):
    for i, keys in enumerate(KEYS):
        width, value_width = WIDTHS[i % 6], WIDTHS[(i + queries) % 6]
        causal = (i + queries) % 2 == 0
        xs = arrays((2,), queries, keys, width, value_width)
        for dtype, tolerance in ((rl.float64, 1e-12), (rl.float32, 2e-5)):
            inputs = tensors(xs, dtype, grad=True)
            out = sdpa(*inputs, is_causal=causal)
            assert_near(out, reference(*xs, causal=causal), tolerance)
            g = rl.tensor(RNG.randn(*out.shape), dtype=dtype)
            own = rl.autograd.grad(out, inputs, g, retain_graph=True)
            for a, b in zip(own, composed_grads(out, inputs, g), strict=True):
                assert_near(a, b.detach().double().numpy(), tolerance * 20)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types_add_up_in_float32(dtype):
    tolerance = 4e-3 if dtype == rl.float16 else 3e-2
    xs = [np.asarray(rl.tensor(x, dtype=dtype).double()) for x in arrays((2, 3), 70, 230, 64)]
    inputs = tensors(xs, dtype, grad=True)
    wide = tensors(xs, rl.float64, grad=True)
    out, exact = sdpa(*inputs), sdpa(*wide)
    assert out.dtype == dtype
    assert_near(out, exact.detach().numpy(), tolerance)
    g = RNG.randn(*out.shape)
    out.backward(rl.tensor(g, dtype=dtype))
    exact.backward(rl.tensor(g))
    for a, b in zip(inputs, wide, strict=True):
        assert a.grad.dtype == dtype
        assert_near(a.grad, b.grad.numpy(), tolerance * 2)


def masks_for(lead, queries, keys):
    shapes = [(queries, keys), (1, keys), (queries, 1), (*lead, queries, keys),
              (lead[0], 1, 1, keys), (1, lead[1], queries, keys)]  # fmt: skip
    for shape in shapes:
        yield RNG.rand(*shape) < 0.7
        yield RNG.randn(*shape)
    some = RNG.randn(queries, keys)
    some[RNG.rand(queries, keys) < 0.4] = -np.inf
    yield some


def test_masks_of_every_shape():
    for mask in masks_for((2, 3), 14, 50):
        for causal in (False, True):
            xs = arrays((2, 3), 14, 50, 8)
            inputs = tensors(xs, grad=True)
            m = rl.tensor(mask)
            out = sdpa(*inputs, m, is_causal=causal)
            assert_near(out, reference(*xs, mask, causal))
            g = rl.tensor(RNG.randn(*out.shape))
            own = rl.autograd.grad(out, inputs, g, retain_graph=True)
            for a, b in zip(own, composed_grads(out, inputs, g), strict=True):
                assert_near(a, b.detach().numpy(), 1e-11)


def test_strided_mask_and_inputs():
    q, k, v = arrays((2, 3), 20, 30, 8)
    mask = RNG.rand(30, 20) < 0.6
    want = reference(q, k, v, mask.T)
    assert_near(sdpa(*tensors((q, k, v)), rl.tensor(mask).t()), want)
    turned = [rl.tensor(np.swapaxes(x, -1, -2).copy()).transpose(-1, -2) for x in (q, k, v)]
    assert_near(sdpa(*turned, rl.tensor(mask).t()), want)
    every_second = [rl.tensor(np.repeat(x, 2, -1))[..., ::2] for x in (q, k, v)]
    assert_near(sdpa(*every_second, rl.tensor(mask).t()), want)


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = tensors(arrays((1, 2), 30, 40, 8), grad=True)
    mask = rl.ones(30, 40, dtype=rl.bool)
    mask[3] = mask[29] = False
    for m in (mask, rl.zeros(30, 40, dtype=rl.float64).masked_fill(~mask, float("-inf"))):
        out = sdpa(q, k, v, m)
        assert (out[:, :, [3, 29]] == 0).all() and not out.isnan().any()
        grads = rl.autograd.grad(out.sum(), [q, k, v], retain_graph=True)
        assert (grads[0][:, :, [3, 29]] == 0).all()
        assert not any(g.isnan().any() for g in grads)
        for a, b in zip(grads, composed_grads(out.sum(), [q, k, v], None), strict=True):
            assert_near(a, b.detach().numpy())


def test_nan_is_not_swallowed():
    q, k, v = tensors(arrays((1,), 20, 30, 8))
    k[0, 5] = float("nan")
    assert sdpa(q, k, v).isnan().all()
    k[:] = float("nan")
    assert sdpa(q, k, v).isnan().all()
    assert sdpa(q[:, :2], k, v).isnan().all()


def test_large_scores_do_not_overflow():
    q, k, v = arrays((1,), 20, 300, 16)
    assert_near(sdpa(*tensors((q * 300, k * 300, v))), reference(q * 300, k * 300, v), 1e-9)


@pytest.mark.parametrize(
    "lead, key_lead",
    [((2, 8), (2, 2)), ((6,), (3,)), ((2, 3, 8), (2, 3, 4)), ((2, 4), (1, 4)), ((2, 4), (2, 1)),
     ((), ()), ((5,), (5,)), ((2, 4), (4,))],
)  # fmt: skip
def test_leading_dims(lead, key_lead):
    xs = arrays(lead, 21, 33, 8, 9, key_lead)
    gqa = len(lead) == len(key_lead) and lead[-1:] != key_lead[-1:] and key_lead[-1] > 1
    inputs = tensors(xs, grad=True)
    out = sdpa(*inputs, enable_gqa=gqa)
    want = reference(*xs)
    assert_near(out, want)
    g = rl.tensor(RNG.randn(*out.shape))
    own = rl.autograd.grad(out, inputs, g, retain_graph=True)
    for x, a, b in zip(inputs, own, composed_grads(out, inputs, g), strict=True):
        assert a.shape == x.shape
        assert_near(a, b.detach().numpy(), 1e-11)


def test_keys_and_values_with_different_numbers_of_heads():
    q, k, v = RNG.randn(2, 8, 5, 4), RNG.randn(2, 4, 6, 4), RNG.randn(2, 2, 6, 4)
    want = reference(q, np.repeat(k, 2, 1), np.repeat(v, 4, 1))
    assert_near(sdpa(*tensors((q, k, v)), enable_gqa=True), want)


def test_empty():
    assert sdpa(rl.ones(2, 0, 4), rl.ones(2, 5, 4), rl.ones(2, 5, 4)).shape == (2, 0, 4)
    assert sdpa(rl.ones(0, 3, 4), rl.ones(0, 5, 4), rl.ones(0, 5, 4)).shape == (0, 3, 4)
    assert (sdpa(rl.ones(2, 3, 4), rl.ones(2, 0, 4), rl.ones(2, 0, 6)) == rl.zeros(2, 3, 6)).all()
    v = rl.tensor(RNG.randn(2, 5, 4))
    mean = sdpa(rl.ones(2, 3, 0).double(), rl.ones(2, 5, 0).double(), v)
    assert_near(mean, np.repeat(v.numpy().mean(1, keepdims=True), 3, 1))
    q, k, v = (rl.ones(2, n, 4, requires_grad=True) for n in (3, 0, 0))
    sdpa(q, k, v).sum().backward()
    assert (q.grad == 0).all() and k.grad.shape == (2, 0, 4)


def test_scale():
    xs = arrays((2,), 5, 6, 4)
    assert_near(sdpa(*tensors(xs), scale=0.3), reference(*xs, scale=0.3))
    assert_near(sdpa(*tensors(xs), scale=-1.5), reference(*xs, scale=-1.5))


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("causal, gqa, masked", list(itertools.product((False, True), repeat=3)))
def test_derivatives_by_differences(causal, gqa, masked):
    xs = arrays((2, 4), 3, 5, 2, 3, (2, 2) if gqa else None)
    mask = rl.tensor(RNG.rand(3, 5) < 0.8) if masked else None

    def f(q, k, v):
        return sdpa(q, k, v, mask, is_causal=causal, enable_gqa=gqa)

    inputs = tensors(xs, grad=True)
    assert gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True)
    if not masked:
        assert gradgradcheck(f, inputs)


def test_gradient_of_an_additive_mask():
    q, k, v = tensors(arrays((2, 2), 3, 4, 2), grad=True)
    mask = rl.tensor(RNG.randn(1, 2, 3, 4), requires_grad=True)
    assert gradcheck(lambda *a: sdpa(*a), (q, k, v, mask))
    assert gradgradcheck(lambda *a: sdpa(*a), (q, k, v, mask))


def test_forward_mode():
    xs, ts = arrays((2,), 4, 5, 3), arrays((2,), 4, 5, 3)
    inputs, tangents = tensors(xs), tensors(ts)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True)]
        out, tangent = forward_ad.unpack_dual(sdpa(*duals, is_causal=True))
    step = 1e-6
    up, down = (
        reference(*[x + s * t for x, t in zip(xs, ts, strict=True)], causal=True)
        for s in (step, -step)
    )
    assert_near(tangent, (up - down) / (2 * step), 1e-7)
    assert_near(out, reference(*xs, causal=True))


def test_vmap():
    q, k, v = tensors(arrays((5, 2), 4, 6, 3))
    want = rl.stack([sdpa(q[i], k[i], v[0]) for i in range(5)])
    got = rl.vmap(lambda a, b: sdpa(a, b, v[0]))(q, k)
    assert_near(got, want.numpy())


def test_second_derivative_with_dropout_sees_the_same_mask():
    q, k, v = tensors(arrays((1, 2), 6, 9, 4), grad=True)
    rl.manual_seed(3)
    out = sdpa(q, k, v, dropout_p=0.4)
    g = rl.tensor(RNG.randn(*out.shape))
    own = rl.autograd.grad(out, [q, k, v], g, retain_graph=True)
    for a, b in zip(own, composed_grads(out, [q, k, v], g), strict=True):
        assert_near(a, b.detach().numpy())


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_by_differences():
    def f(q, k, v):
        rl.manual_seed(11)
        return sdpa(q, k, v, dropout_p=0.3)

    assert gradcheck(f, tensors(arrays((2,), 4, 7, 3), grad=True))


def test_dropout_keeps_the_right_share():
    q = rl.zeros(4, 100, 8)
    k, v = rl.zeros(4, 500, 8), rl.eye(500).expand(4, 500, 500)
    rl.manual_seed(0)
    weights = sdpa(q, k, v, dropout_p=0.25) * 500  # 0, or 1 / 0.75
    kept = weights > 0
    np.testing.assert_allclose(weights[kept].numpy(), 1 / 0.75, 1e-5)
    share = float(kept.float().mean())
    assert abs(share - 0.75) < 0.005  # five standard deviations of 200,000 draws
    assert abs(float(kept.float().mean(1).std()) - (0.75 * 0.25 / 100) ** 0.5) < 0.005
    assert not (kept[0] == kept[1]).all() and not (kept[0, 0] == kept[0, 1]).all()


def test_weights_are_dropped_independently():
    """Neighbours share random words: none of them tells anything about another."""
    q, k = rl.zeros(3, 200, 8), rl.zeros(3, 256, 8)
    v = rl.eye(256).expand(3, 256, 256)
    rl.manual_seed(1)
    one, two = ((sdpa(q, k, v, dropout_p=0.3) > 0).double().numpy() - 0.7 for _ in range(2))
    others = {f"{n} keys on": (one[..., :-n], one[..., n:]) for n in (1, 2, 4, 7, 8, 64)}
    others |= {f"{n} queries on": (one[:, :-n], one[:, n:]) for n in (1, 8)}
    others |= {"the next head": (one[:-1], one[1:]), "the next call": (one, two)}
    for name, (a, b) in others.items():
        correlation = (a * b).mean() / 0.21
        assert abs(correlation) < 5 / a.size**0.5, name


def test_dropout_is_repeatable_and_goes_on():
    q, k, v = tensors(arrays((2,), 60, 70, 8))
    rl.manual_seed(5)
    first, second = sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5)
    rl.manual_seed(5)
    assert (sdpa(q, k, v, dropout_p=0.5) == first).all()
    assert not (first == second).all()
    assert (sdpa(q, k, v, dropout_p=1.0) == 0).all()
    assert (sdpa(q, k, v, dropout_p=0.0) == sdpa(q, k, v)).all()


# --- memory, threads, layout ----------------------------------------------------------------------


@pytest.mark.threads
def test_results_do_not_depend_on_the_number_of_threads():
    threads = rl.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            rl.set_num_threads(n)
            rl.manual_seed(1)
            rng = np.random.RandomState(0)
            inputs = [
                rl.tensor(rng.randn(1, 3, s, 16), dtype=rl.float32, requires_grad=True)
                for s in (300, 700, 700)
            ]
            out = sdpa(*inputs, dropout_p=0.1)
            out.sum().backward()
            results.append([out.detach(), *(x.grad for x in inputs)])
    finally:
        rl.set_num_threads(threads)
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))


def test_memory_grows_with_the_length_and_not_with_its_square():
    def peak(length):
        inputs = [rl.randn(1, 2, length, 16, requires_grad=True) for _ in range(3)]
        rl.reset_peak_memory_stats()
        before = rl.memory_stats()["allocated"]
        sdpa(*inputs, is_causal=True).sum().backward()
        return rl.memory_stats()["peak"] - before

    peak(256)
    short, long = peak(1024), peak(4096)
    assert long < 5 * short
    assert long < 4096 * 4096  # bytes: a quarter of one head's scores


def test_nothing_leaks():
    q, k, v = tensors(arrays((2, 2), 50, 60, 8), grad=True)
    mask = rl.ones(50, 60, dtype=rl.bool)

    def step():
        out = sdpa(q, k, v, mask, dropout_p=0.1)
        rl.autograd.grad(out.sum(), [q, k, v])
        rl.autograd.grad(sdpa(q, k, v).square().sum(), [q], create_graph=True)

    step()
    before = rl.memory_stats()["allocated"]
    for _ in range(5):
        step()
    assert rl.memory_stats()["allocated"] == before


def test_the_result_lies_as_the_query_does():
    x = rl.randn(2, 5, 3, 8)
    out = sdpa(*(x.transpose(1, 2) for _ in range(3)))
    assert out.stride() == x.transpose(1, 2).stride()
    assert sdpa(x, x, x).is_contiguous()


def test_autocast_and_meta():
    q = rl.randn(2, 3, 8)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert sdpa(q, q, q).dtype == rl.bfloat16
    meta = rl.empty(2, 4, 5, 8, device="meta")
    assert sdpa(meta, meta, meta).shape == (2, 4, 5, 8)
    assert sdpa(meta, meta, meta).device.type == "meta"


def test_inputs_may_not_change_before_backward():
    q, k, v = (rl.randn(2, 5, 4, requires_grad=True) for _ in range(3))
    out = sdpa(q, k, v)
    with rl.no_grad():
        k.add_(1)
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention"):
        out.sum().backward()


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, text, args, options",
    [
        (RuntimeError, "at least 2 dims", [(8,), (6, 8), (6, 8)], {}),
        (RuntimeError, "same size in their last dim", [(2, 5, 8), (2, 6, 7), (2, 6, 7)], {}),
        (RuntimeError, "same length", [(2, 5, 8), (2, 6, 8), (2, 7, 8)], {}),
        (RuntimeError, "do not broadcast", [(3, 2, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)], {}),
        (RuntimeError, "enable_gqa=True", [(2, 8, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)], {}),
        (RuntimeError, "must divide", [(7, 5, 8), (4, 6, 8), (4, 6, 8)], {"enable_gqa": True}),
        (IndexError, "dim of heads", [(5, 8), (6, 8), (6, 8)], {"enable_gqa": True}),
        (RuntimeError, "between 0 and 1", [(2, 5, 8)] * 3, {"dropout_p": 1.5}),
        (RuntimeError, "between 0 and 1", [(2, 5, 8)] * 3, {"dropout_p": -0.1}),
        (TypeError, "dropout_p", [(2, 5, 8)] * 3, {"dropout_p": "x"}),
        (RuntimeError, "does not broadcast", [(2, 5, 8)] * 3, {"attn_mask": rl.ones(5, 6)}),
        (RuntimeError, "does not broadcast", [(5, 8)] * 3, {"attn_mask": rl.ones(2, 5, 5)}),
        (IndexError, "at least 2 dims", [(2, 5, 8)] * 3, {"attn_mask": rl.ones(5)}),
        (RuntimeError, "bool", [(2, 5, 8)] * 3, {"attn_mask": rl.ones(5, 5).int()}),
        (RuntimeError, "bool", [(2, 5, 8)] * 3, {"attn_mask": rl.ones(5, 5).double()}),
    ],
)
def test_errors(error, text, args, options):
    with pytest.raises(error, match=text):
        sdpa(*(rl.ones(*shape) for shape in args), **options)


def test_errors_of_dtypes():
    x = rl.ones(2, 3)
    with pytest.raises(RuntimeError, match="same dtype, got float32, float64"):
        sdpa(x, x.double(), x)
    with pytest.raises(RuntimeError, match="int32"):
        sdpa(x.int(), x.int(), x.int())
    with pytest.raises(TypeError):
        sdpa(x, x, x, None, 0.0, False, 0.5)  # scale is named


# --- nn.attention ---------------------------------------------------------------------------------


def test_causal_biases():
    q, k, v = arrays((2,), 4, 6, 8)
    want = reference(q, k, v, np.tri(4, 6, 2, dtype=bool))
    assert_near(sdpa(*tensors((q, k, v)), causal_lower_right(4, 6)), want)
    want = reference(q, k, v, causal=True)
    assert_near(sdpa(*tensors((q, k, v)), attn_mask=causal_upper_left(4, 6)), want)
    assert isinstance(causal_upper_left(2, 3), rl.Tensor)
    assert causal_lower_right(2, 3)._materialize().tolist() == [[True, True, False], [True] * 3]
    with pytest.raises(ValueError, match="is_causal"):
        sdpa(*tensors((q, k, v)), causal_upper_left(4, 6), is_causal=True)
    with pytest.raises(RuntimeError, match="made for 5 queries"):
        sdpa(*tensors((q, k, v)), causal_upper_left(5, 6))
    with pytest.warns(UserWarning, match="no key"):
        causal_lower_right(6, 4)


def test_sdpa_kernel():
    q = rl.randn(2, 3, 4)
    want = sdpa(q, q, q)
    with sdpa_kernel(SDPBackend.MATH):
        rl.testing.assert_close(sdpa(q, q, q), want)
        assert not rl.backends.cuda.flash_sdp_enabled()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="no available"):
        sdpa(q, q, q)
    with rl.backends.cuda.sdp_kernel(enable_math=False), sdpa_kernel(SDPBackend.MATH):
        rl.testing.assert_close(sdpa(q, q, q), want)
    assert rl.backends.cuda.math_sdp_enabled()
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        assert (sdpa(q, q, q) == want).all()
    with pytest.raises(AssertionError), sdpa_kernel("flash"):
        pass


def test_kernels_of_gpus_do_not_take_host_tensors():
    from rushlight.backends import cuda as switches

    params = switches.SDPAParams(*(rl.zeros(1, 2, 8, 64) for _ in range(3)), None, 0.0, False)
    for can_use in (
        switches.can_use_flash_attention,
        switches.can_use_efficient_attention,
        switches.can_use_cudnn_attention,
    ):
        assert not can_use(params)
        with pytest.warns(UserWarning, match="must be on a GPU"):
            assert not can_use(params, debug=True)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_scores_of_half_types_are_not_rounded(dtype):
    """Also where the mask's gradient is wanted, and ops take the kernel's place."""
    rng = np.random.RandomState(0)
    q, k, v = (rl.tensor(rng.uniform(-8, 8, (2, 3, 8))).to(dtype) for _ in range(3))
    mask = rl.tensor(rng.uniform(-8, 8, (3, 3))).to(dtype).requires_grad_()
    got, want = sdpa(q, k, v, mask), sdpa(*(t.double() for t in (q, k, v, mask)))
    assert got.dtype == dtype
    off = (got.double() - want).abs().max().item()
    assert off <= 4 * rl.finfo(dtype).eps * want.abs().max().item()
