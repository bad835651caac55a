"""Convolutions over tiles (config.winograd): values, gradients, what is not finite, bits."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import rushlight as torch
from rushlight import config
from rushlight.nn import functional as F

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(
        config.vectorization == "baseline" or not torch.backends.mkldnn.is_available(),
        reason="images do not lie with their channels last here, or vectors are short",
    ),
]

# images, height, width, channels in and out, padding
SHAPES = [
    (4, 32, 32, 32, 32, 1),
    (3, 33, 31, 48, 80, 1),
    (20, 13, 14, 64, 32, 0),
    (6, 16, 12, 32, 96, 2),
    (2, 20, 31, 112, 48, (0, 2)),
    (40, 7, 7, 64, 64, 1),
    (1, 40, 40, 80, 144, (1, 0)),
]


def numbers(*sizes, seed=0, whole=False):
    random = np.random.default_rng(seed)
    values = random.integers(-8, 9, sizes) if whole else random.standard_normal(sizes)
    return torch.tensor(values, dtype=torch.float32)


def case(shape, whole=False):
    """An image whose channels lie last, kernels, a bias and the result's gradient."""
    n, h, w, channels, out, padding = shape
    py, px = (padding, padding) if isinstance(padding, int) else padding
    x = numbers(n, channels, h, w, whole=whole).to(memory_format=torch.channels_last)
    weight = numbers(out, channels, 3, 3, seed=1, whole=whole) * (4 if whole else 1)
    bias = numbers(out, seed=2, whole=whole)
    grad = numbers(n, out, h + 2 * py - 2, w + 2 * px - 2, seed=3, whole=whole)
    return x, weight, bias, grad.to(memory_format=torch.channels_last), (py, px)


def all_three(x, weight, bias, grad, padding, winograd=True):
    with config.patch(winograd=winograd):
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        y = F.conv2d(x, weight, bias, padding=padding)
        return [y.detach(), *torch.autograd.grad(y, (x, weight), grad)]


def correlate(x, w, padding):
    x = np.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2])
    return np.einsum("nchwij,kcij->nkhw", sliding_window_view(x, (3, 3), (2, 3)), w, optimize=True)


def judge(x, weight, bias, grad, padding):
    """The same by NumPy, in float64."""
    x, w, b, g = (t.double().numpy() for t in (x, weight, bias, grad))
    y = correlate(x, w, padding) + b[:, None, None]
    turned = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    of_x = correlate(g, turned, [2 - p for p in padding])
    padded = np.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2])
    windows = sliding_window_view(padded, (3, 3), (2, 3))
    return [y, of_x, np.einsum("nchwij,nkhw->kcij", windows, g, optimize=True)]


def same_bits(a, b):
    return all(
        np.array_equal(p.numpy(), q.numpy(), equal_nan=True) for p, q in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_as_good_as_direct_sums(shape, level):
    if level == "avx512" and config.vectorization != "avx512":
        pytest.skip("this processor has no AVX-512")
    given = case(shape)
    with config.patch(vectorization=level):
        tiles = all_three(*given)
    direct = all_three(*given, winograd=False)
    for exact, ours, other in zip(judge(*given), tiles, direct, strict=True):
        assert not np.array_equal(ours.numpy(), other.numpy())  # it was computed over tiles
        error = np.abs(ours.double().numpy() - exact)
        allowed = 3 * np.abs(other.double().numpy() - exact).max() + np.finfo("f").eps
        assert error.max() <= allowed


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_whole_numbers_are_exact(shape):
    """Kernels are multiplied by quarters at most, so nothing is rounded."""
    given = case(shape, whole=True)
    for exact, ours in zip(judge(*given), all_three(*given), strict=True):
        np.testing.assert_array_equal(ours.numpy(), exact)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan"), 3e38])
@pytest.mark.parametrize(
    "where", [(0, (1, 3, 5, 6)), (1, (4, 3, 1, 2)), (2, (4,)), (3, (0, 3, 9, 8))]
)
def test_what_is_not_finite_is_as_without(bad, where):
    given = list(case(SHAPES[0]))
    operand, place = where
    given[operand] = given[operand].clone()
    given[operand][place] = bad
    ours, direct = all_three(*given), all_three(*given, winograd=False)
    for a, b in zip(ours, direct, strict=True):
        a, b = a.numpy(), b.numpy()
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite], b[~finite])
        atol = 2e-5 * np.median(np.abs(b[finite]))  # sums of thousands, some of which are near 0
        np.testing.assert_allclose(a[finite], b[finite], rtol=1e-4, atol=atol)


def test_threads_do_not_show():
    given = case((6, 30, 28, 64, 96, 1))
    results = []
    for threads in (1, 2, 3, 7):
        with config.patch(threads=threads):
            results.append(all_three(*given))
    assert all(same_bits(results[0], other) for other in results[1:])


def test_other_images_do_not_show():
    x, weight, bias, grad, padding = case((6, 30, 28, 64, 96, 1))
    whole = all_three(x, weight, bias, grad, padding)
    part = all_three(x[2:5], weight, bias, grad[2:5], padding)
    assert same_bits([whole[0][2:5], whole[1][2:5]], part[:2])


def test_kernels_lie_anyhow():
    x, weight, bias, grad, padding = case((4, 32, 32, 48, 32, 1))
    expected = all_three(x, weight, bias, grad, padding)
    last = weight.to(memory_format=torch.channels_last)
    strange = weight.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    for other in (last, strange):
        assert same_bits(expected, all_three(x, other, bias, grad, padding))


def test_parts_of_images():
    x, weight, bias, grad, padding = case((4, 32, 32, 64, 32, 1))
    wide = torch.randn(4, 36, 40, 96)
    view = wide[:, 2:34, 5:37, 16:80].permute(0, 3, 1, 2)
    view.copy_(x)
    assert same_bits(
        all_three(x, weight, bias, grad, padding)[:1],
        all_three(view, weight, bias, grad, padding)[:1],
    )


def test_transposed_convolutions_are_computed_so_too():
    _, weight, _, grad, _ = case((4, 32, 32, 32, 64, 1))
    both = []
    for on in (True, False):
        with config.patch(winograd=on):
            both.append(F.conv_transpose2d(grad, weight, padding=1))
    assert not torch.equal(*both)
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)


def test_kept_kernels_are_those_of_the_weight():
    x, weight, bias, _, padding = case(SHAPES[0])
    with torch.no_grad():
        first = F.conv2d(x, weight, bias, padding=padding)
        before = config.weight_layout_stats()["hits"]
        assert torch.equal(first, F.conv2d(x, weight, bias, padding=padding))
        assert config.weight_layout_stats()["hits"] == before + 1
        weight.mul_(2)
        twice = F.conv2d(x, weight, torch.zeros(32), padding=padding)
    torch.testing.assert_close(twice, 2 * (first - bias.view(-1, 1, 1)), rtol=1e-4, atol=1e-4)


def test_others_are_left_alone():
    """Strides, dilation, groups, other kernels, few channels: the setting makes no difference."""
    x = numbers(4, 32, 40, 40).to(memory_format=torch.channels_last)
    cases = [
        (numbers(32, 32, 3, 3), {"stride": 2, "padding": 1}),
        (numbers(32, 32, 3, 3), {"dilation": 2}),
        (numbers(32, 16, 3, 3), {"groups": 2}),
        (numbers(32, 32, 5, 5), {}),
        (numbers(32, 32, 1, 3), {}),
        (numbers(8, 32, 3, 3), {}),
        (numbers(36, 32, 3, 3), {}),
        (numbers(32, 32, 3, 3), {"padding": 3}),
    ]
    for weight, options in cases:
        both = []
        for on in (True, False):
            with config.patch(winograd=on):
                both.append(F.conv2d(x, weight, **options))
        assert torch.equal(*both), options
