"""Max pools without gradients work out no indices, and give what those with indices give."""

import itertools

import pytest

import rushlight as torch
from rushlight.nn import functional as F

SHAPES = [(2, 3, 37), (3, 37), (2, 3, 9, 11), (3, 9, 11), (2, 3, 5, 6, 7), (1, 40, 12, 12)]
WINDOWS = [(2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 1, 1, 1, True), (2, 3, 0, 2, True)]


def pool_of(shape):
    return {2: F.max_pool1d, 3: F.max_pool1d if shape[0] == 2 else F.max_pool2d, 4: F.max_pool2d,
            5: F.max_pool3d}[len(shape)]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_alone(shape, dtype):
    torch.manual_seed(0)
    x = (torch.randn(*shape) * 10).to(dtype)
    if dtype.is_floating_point:
        x.view(-1)[7] = float("nan")
        x.view(-1)[9] = -float("inf")
    images = [x]
    if len(shape) == 4:
        images.append(x.contiguous(memory_format=torch.channels_last))
    for image, window in itertools.product(images, WINDOWS):
        alone = pool_of(shape)(image, *window)
        paired, _ = pool_of(shape)(image, *window, return_indices=True)
        torch.testing.assert_close(alone, paired, rtol=0, atol=0, equal_nan=True)
        assert alone.stride() == paired.stride()


def test_derivatives_still_have_their_indices():
    x = torch.randn(2, 3, 8, 8)
    leaf = x.clone().requires_grad_()
    F.max_pool2d(leaf, 2).sum().backward()
    assert leaf.grad.sum() == 2 * 3 * 16
    _, tangent = torch.func.jvp(lambda t: F.max_pool2d(t, 2), (x,), (torch.full_like(x, 3),))
    assert (tangent == 3).all()
    batched = torch.func.vmap(lambda t: F.max_pool2d(t, 2))(x)
    torch.testing.assert_close(batched, F.max_pool2d(x, 2), rtol=0, atol=0)
