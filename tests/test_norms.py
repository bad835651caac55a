"""Fused normalisations: against the composed formulas, running statistics, layouts, half types."""

import numpy as np
import pytest

import rushlight as rl

CALLS = {
    "batch_norm": lambda x, w, b: rl.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, True),
    "batch_norm eval": lambda x, w, b: rl.batch_norm(
        x, w, b, rl.full((6,), 0.3, dtype=x.dtype), rl.full((6,), 2.0, dtype=x.dtype), False, 0.1,
        1e-5, True),
    "group_norm": lambda x, w, b: rl.group_norm(x, 3, w, b),
    "instance_norm": lambda x, w, b: rl.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, True),
    "layer_norm": lambda x, w, b: rl.layer_norm(x.transpose(1, -1), (6,), w, b),
    "rms_norm": lambda x, w, b: rl.rms_norm(x.transpose(1, -1), (6,), w) + b,
}  # fmt: skip


def inputs(dtype=rl.float64):
    rl.manual_seed(3)
    return [
        t.to(dtype).requires_grad_()
        for t in (rl.randn(4, 6, 5, 7) * 3 + 1, rl.rand(6) + 0.5, rl.randn(6))
    ]


@pytest.mark.parametrize("name", CALLS)
def test_fused_gradient_is_the_composed_one(name):
    leaves = inputs()
    y = CALLS[name](*leaves)
    g = rl.randn(y.shape, dtype=y.dtype)
    fused = rl.autograd.grad(y, leaves, g, retain_graph=True)
    composed = rl.autograd.grad(y, leaves, g, create_graph=True)
    for a, b in zip(fused, composed, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-10, 1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_second_derivative(name):
    leaves = inputs()
    y = CALLS[name](*leaves)
    g = rl.randn(y.shape, dtype=y.dtype).requires_grad_()
    first = rl.autograd.grad(y, leaves, g, create_graph=True)
    weights = [rl.randn(f.shape, dtype=f.dtype) for f in first]
    total = sum((f * w).sum() for f, w in zip(first, weights, strict=True))
    second = rl.autograd.grad(total, [*leaves, g], allow_unused=True)

    def value():
        y = CALLS[name](*leaves)
        first = rl.autograd.grad(y, leaves, g)
        return float(sum((f * w).sum() for f, w in zip(first, weights, strict=True)))

    for leaf, grad in zip([*leaves, g], second, strict=True):
        flat = leaf.detach().view(-1)
        for k in range(0, flat.numel(), max(1, flat.numel() // 5)):
            old = float(flat[k])
            flat[k] = old + 1e-5
            above = value()
            flat[k] = old - 1e-5
            below = value()
            flat[k] = old
            want = (above - below) / 2e-5
            got = 0.0 if grad is None else float(grad.reshape(-1)[k])
            assert abs(got - want) < 1e-5 * (1 + abs(want)), (name, k, got, want)


@pytest.mark.parametrize("name", ["batch_norm", "batch_norm eval", "group_norm"])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_channels_last_stays_and_agrees(name, dtype):
    x, w, b = inputs(dtype)
    last = x.detach().contiguous(memory_format=rl.channels_last).requires_grad_()
    y, z = CALLS[name](x, w, b), CALLS[name](last, w, b)
    assert z.is_contiguous(memory_format=rl.channels_last)
    tolerance = 1e-5 if dtype == rl.float32 else 1e-11
    np.testing.assert_allclose(z.detach().numpy(), y.detach().numpy(), tolerance, tolerance)
    g = rl.randn(y.shape, dtype=dtype)
    for a, c in zip(
        rl.autograd.grad(y, [x, w, b], g), rl.autograd.grad(z, [last, w, b], g), strict=True
    ):
        np.testing.assert_allclose(c.numpy(), a.numpy(), 10 * tolerance, 10 * tolerance)


# Several blocks of points per sample, and samples that threads share.
@pytest.mark.parametrize("shape", [(1, 40, 37, 31), (9, 40, 20, 20), (3, 16, 1, 1), (2, 8, 3)])
def test_groups_with_the_channels_last(shape):
    rl.manual_seed(1)
    a, g = (rl.randn(*shape, dtype=rl.float64) for _ in range(2))
    w, b = rl.rand(shape[1], dtype=rl.float64), rl.rand(shape[1], dtype=rl.float64)
    rows = a.reshape(shape[0], 4, -1)
    normal = (rows - rows.mean(2, True)) / (rows.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
    wide = (1, -1) + (1,) * (len(shape) - 2)
    want = normal.reshape(shape) * w.view(wide) + b.view(wide)
    x = a.float().movedim(1, -1).contiguous().movedim(-1, 1).requires_grad_()
    leaves = [x, w.float().requires_grad_(), b.float().requires_grad_()]
    y = rl.group_norm(x, 4, *leaves[1:])
    np.testing.assert_allclose(y.detach().numpy(), want.numpy(), 1e-4, 1e-4)
    wide_leaves = [t.detach().double().requires_grad_() for t in (a, w, b)]
    meant = rl.autograd.grad(rl.group_norm(wide_leaves[0], 4, *wide_leaves[1:]), wide_leaves, g)
    for got, want in zip(rl.autograd.grad(y, leaves, g.float()), meant, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-3, 1e-3)


@pytest.mark.threads
def test_groups_have_the_same_bits_for_any_number_of_threads():
    x = rl.randn(3, 32, 40, 40).contiguous(memory_format=rl.channels_last).requires_grad_()
    g, before = rl.randn(3, 32, 40, 40), rl.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 4):
            rl.set_num_threads(threads)
            y = rl.group_norm(x, 8)
            found.append((y.detach(), rl.autograd.grad(y, x, g)[0]))
    finally:
        rl.set_num_threads(before)
    assert all(rl.equal(a, b) for pair in found[1:] for a, b in zip(found[0], pair, strict=True))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("last", [False, True])
def test_running_statistics(dtype, last):
    x = (rl.randn(5, 3, 4, 6) * 2 + 7).to(dtype)
    x = x.contiguous(memory_format=rl.channels_last) if last else x
    mean, var = rl.zeros(3, dtype=dtype), rl.ones(3, dtype=dtype)
    rl.batch_norm(x, None, None, mean, var, True, 0.3, 1e-5, True)
    a = x.double().numpy()
    np.testing.assert_allclose(mean.numpy(), 0.3 * a.mean((0, 2, 3)), 1e-5)
    np.testing.assert_allclose(var.numpy(), 0.7 + 0.3 * a.var((0, 2, 3), ddof=1), 1e-5)
    rl.instance_norm(x, None, None, mean.zero_(), var.fill_(1), True, 0.3, 1e-5, True)
    np.testing.assert_allclose(mean.numpy(), 0.3 * a.mean((0, 2, 3)), 1e-5)
    want = 0.7 + 0.3 * a.var((2, 3), ddof=1).mean(0)
    np.testing.assert_allclose(var.numpy(), want, 1e-5)


@pytest.mark.parametrize("last", [False, True])
def test_large_means_do_not_cancel(last):
    a = np.random.RandomState(0).randn(8, 5, 31, 17).astype("float32") + 3000
    x = rl.from_numpy(a)
    x = x.contiguous(memory_format=rl.channels_last) if last else x
    y = rl.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, True)
    wide = a.astype("float64")
    want = (wide - wide.mean((0, 2, 3), keepdims=True)) / wide.std((0, 2, 3), keepdims=True)
    assert np.abs(y.numpy() - want).max() < 2e-3
    y = rl.group_norm(x, 1)
    want = (wide - wide.mean((1, 2, 3), keepdims=True)) / wide.std((1, 2, 3), keepdims=True)
    assert np.abs(y.numpy() - want).max() < 2e-3
    rows = rl.layer_norm(rl.from_numpy(a), (31, 17)).numpy()
    want = (wide - wide.mean((2, 3), keepdims=True)) / wide.std((2, 3), keepdims=True)
    assert np.abs(rows - want).max() < 2e-3


def test_nan_stays_in_its_channel():
    for last in (False, True):
        x = rl.randn(2, 3, 4, 4)
        x[0, 1, 2, 3] = float("nan")
        x = x.contiguous(memory_format=rl.channels_last) if last else x
        y = rl.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, True)
        found = y.isnan().numpy().all((0, 2, 3)).tolist()
        assert found == [False, True, False] and not y[:, 0].isnan().any()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types(name, dtype):
    leaves = inputs(dtype)
    wide = [t.detach().double().requires_grad_() for t in leaves]
    y, z = CALLS[name](*leaves), CALLS[name](*wide)
    assert y.dtype == dtype
    tolerance = 0.05 if dtype == rl.bfloat16 else 0.01
    np.testing.assert_allclose(y.double().detach().numpy(), z.detach().numpy(), tolerance,
                               tolerance)  # fmt: skip
    y.sum().backward()
    assert [t.grad.dtype for t in leaves] == [dtype] * 3


@pytest.mark.parametrize("scale", [1e-35, 1e-30, 1e-20, 1e20, 1e30, 1e35])
@pytest.mark.parametrize("dim", [None, 0, 1], ids=str)
def test_spread_of_numbers_whose_squares_leave_float32(scale, dim):
    a = (np.random.RandomState(0).randn(300, 70) * scale).astype("float32")
    a[:, 3] = 1.5 * np.float32(scale)  # a column of one value among the others
    wide = a.astype("float64")
    x = rl.from_numpy(a)
    want = wide.std(dim, ddof=1)
    for got in (rl.std(x, dim), rl.std_mean(x, dim)[0]):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, atol=scale * 1e-6)
    np.testing.assert_allclose(rl.std_mean(x, dim)[1].numpy(), wide.mean(dim), 1e-5, scale * 1e-6)
    with np.errstate(over="ignore", under="ignore"):
        variance = wide.var(dim, ddof=1).astype("float32")
    np.testing.assert_allclose(rl.var(x, dim).numpy(), variance, rtol=4e-6, atol=1e-44)
