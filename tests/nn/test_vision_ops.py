"""torchvision's operators, which `ops.torchvision` has: values, gradients, dtypes, autocast."""

import numpy as np
import pytest
import vision_references as reference
from gradcheck import gradcheck

import rushlight as rl

ops = rl.ops.torchvision
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
FLOATS = list(TOLERANCE)


def images(channels, seed=0, size=(9, 13)):
    return np.random.RandomState(seed).randn(2, channels, *size)


def boxes(seed=0, count=8):
    """Inside and outside, thin and reversed ones, and some on halves."""
    rng = np.random.RandomState(seed)
    c = rng.uniform(-3, 16, (count, 4))
    c = np.concatenate([np.minimum(c[:, :2], c[:, 2:]), np.maximum(c[:, :2], c[:, 2:])], 1)
    c[0] = np.round(2 * c[0]) / 2
    c[1, 2:] = c[1, :2] + [3, 0]
    c[2] = c[2, [2, 3, 0, 1]]
    c[3] += 40
    c[4, 2] = c[4, 0] + 30
    return np.concatenate([rng.randint(0, 2, (count, 1)), np.round(c * 8) / 8], 1)


def tensor(array, dtype="float64"):
    return rl.tensor(np.asarray(array)).to(getattr(rl, dtype))


def agree(got, want, dtype="float64"):
    assert got.dtype == getattr(rl, dtype)
    np.testing.assert_allclose(
        got.detach().double().numpy(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


# Names, numbers after the tensors, channels of the images.
POOLS = [
    ("roi_align", (0.7, 3, 4, 2, False), 3),
    ("roi_align", (1.0, 2, 3, 3, True), 3),
    ("roi_align", (0.5, 3, 2, -1, False), 2),
    ("roi_align", (0.5, 3, 2, 0, True), 2),
    ("ps_roi_align", (0.5, 2, 3, 2), 12),
    ("roi_pool", (1.0, 3, 4), 3),
    ("roi_pool", (0.5, 2, 2), 3),
    ("ps_roi_pool", (1.0, 2, 3), 12),
    ("ps_roi_pool", (0.5, 3, 1), 6),
]
each_pool = pytest.mark.parametrize(("name", "numbers", "channels"), POOLS)


def first(result):
    return result[0] if isinstance(result, tuple) else result


@each_pool
@pytest.mark.parametrize("dtype", FLOATS)
def test_values(name, numbers, channels, dtype):
    x, rois = tensor(images(channels), dtype), tensor(boxes(), dtype)
    got = getattr(ops, name)(x, rois, *numbers)
    want = getattr(reference, name)(x.double().numpy(), rois.double().numpy(), *numbers)
    agree(first(got), first(want), dtype)
    if name == "roi_pool":
        assert got[1].dtype == rl.int32 and got[1].tolist() == want[1].tolist()
    elif name.startswith("ps_"):
        h, w = numbers[1:3]
        mapping = np.arange(channels).reshape(1, -1, h, w)
        assert got[1].dtype == rl.int32
        assert (got[1].numpy() == np.broadcast_to(mapping, got[1].shape)).all()


def test_adaptive_bins_by_position():
    """Bins without places have no mean there, as in torchvision."""
    x, rois = images(4), boxes(3, 6)
    rois[2, 1:] = [4, 4, 3, 5]
    got = ops.ps_roi_align(tensor(x), tensor(rois), 1.0, 2, 2, -1)[0]
    with np.errstate(invalid="ignore"):
        want = reference.ps_roi_align(x, rois, 1.0, 2, 2, -1)
    assert np.isnan(want).any() and np.allclose(got.numpy(), want, equal_nan=True)


@each_pool
def test_gradients(name, numbers, channels):
    x = tensor(images(channels, size=(5, 6))).requires_grad_()
    rois = tensor(boxes(1, 7) * [1, 0.4, 0.4, 0.4, 0.4])
    gradcheck(lambda: [first(getattr(ops, name)(x, rois, *numbers))], [x])


@each_pool
def test_gradients_of_gradients(name, numbers, channels):
    """Pooling is linear where the largest elements stay: the gradient's gradient is pooling."""
    x = tensor(images(channels)).requires_grad_()
    rois = tensor(boxes(2))
    out = first(getattr(ops, name)(x, rois, *numbers))
    g = rl.randn_like(out).requires_grad_()
    (gx,) = rl.autograd.grad(out, x, g, create_graph=True)
    v = rl.randn_like(x)
    (gg,) = rl.autograd.grad(gx, g, v)
    if name == "roi_pool":
        places = getattr(ops, name)(x, rois, *numbers)[1].long()
        planes = v[rois[:, 0].long()].flatten(2).gather(2, places.flatten(2).clamp(min=0))
        want = planes.reshape(out.shape) * (places >= 0)
    else:
        want = first(getattr(ops, name)(v, rois, *numbers))
    assert rl.allclose(gg, want)


@each_pool
def test_backward_operators(name, numbers, channels):
    x, rois = tensor(images(channels)).requires_grad_(), tensor(boxes())
    result = getattr(ops, name)(x, rois, *numbers)
    out = first(result)
    g = rl.randn_like(out)
    (want,) = rl.autograd.grad(out, x, g)
    extra = result[1:] if isinstance(result, tuple) else ()
    scale_and_bins, rest = numbers[:3], numbers[3:]
    sizes = tuple(x.shape)
    tail = (*rest, *sizes) if name == "ps_roi_align" else (*sizes, *rest)
    got = getattr(ops, f"_{name}_backward")(g, rois, *extra, *scale_and_bins, *tail)
    assert rl.equal(got, want)


@each_pool
def test_no_boxes_and_no_images(name, numbers, channels):
    x, none = tensor(images(channels)).requires_grad_(), rl.zeros(0, 5, dtype=rl.float64)
    out = first(getattr(ops, name)(x, none, *numbers))
    assert out.shape[0] == 0 and out.shape[2:] == numbers[1:3]
    out.sum().backward()
    assert x.grad.shape == x.shape and not x.grad.any()
    flat = rl.zeros(1, channels, 0, 4, dtype=rl.float64)
    out = first(getattr(ops, name)(flat, tensor([[0, 0, 0, 2, 2]]), *numbers))
    assert not out.nan_to_num().any()


@each_pool
def test_boxes_name_images_that_are_there(name, numbers, channels):
    for image in (-1, 2, float("nan"), 1e30):
        with pytest.raises(IndexError, match=f"{name}: box 1 names image .*, input has 2"):
            rois = tensor([[0, 0, 0, 2, 2], [image, 0, 0, 2, 2]])
            getattr(ops, name)(tensor(images(channels)), rois, *numbers)


@each_pool
def test_boxes_far_away_and_not_numbers(name, numbers, channels):
    far = [[0, 1e30, 1e30, 2e30, 2e30], [0, float("nan"), 0, 2, 2], [0, -1e9, 0, -1e8, 3]]
    x = tensor(images(channels)).requires_grad_()
    if numbers[3:] and numbers[3] <= 0:
        far = far[1:2]  # about one place per element would be far too many
    out = first(getattr(ops, name)(x, tensor(far), *numbers))
    assert not out.nan_to_num().any()
    out.sum().backward()
    assert not x.grad.any()


@each_pool
def test_layouts(name, numbers, channels):
    x, rois = tensor(images(channels)), tensor(boxes())
    want = first(getattr(ops, name)(x, rois, *numbers))
    last = x.to(memory_format=rl.channels_last)
    turned = rois.t().contiguous().t()
    assert rl.equal(first(getattr(ops, name)(last, turned, *numbers)), want)
    out = first(getattr(ops, name)(x.to("meta"), rois.to("meta"), *numbers))
    assert out.is_meta and out.shape == want.shape


@each_pool
def test_wrong_arguments(name, numbers, channels):
    op, x, rois = getattr(ops, name), tensor(images(channels)), tensor(boxes())
    for bad in (
        lambda: op(x[0], rois, *numbers),
        lambda: op(x, rois[:, :4], *numbers),
        lambda: op(x, rois.float(), *numbers),
        lambda: op(x.long(), rois.long(), *numbers),
        lambda: op(x, rois, numbers[0], 0, *numbers[2:]),
    ):
        with pytest.raises(RuntimeError, match=f"^{name}: "):
            bad()
    if name.startswith("ps_"):
        with pytest.raises(RuntimeError, match="multiple of pooled_height"):
            op(x[:, 1:], rois, *numbers)


@each_pool
def test_autocast_computes_in_float32_and_gives_the_type_of_input(name, numbers, channels):
    x, rois = tensor(images(channels), "bfloat16"), tensor(boxes(), "float32")
    with rl.autocast("cpu"):
        got = first(getattr(ops, name)(x, rois, *numbers))
    want = first(getattr(ops, name)(x.float(), rois, *numbers))
    assert got.dtype == rl.bfloat16 and rl.equal(got, want.bfloat16())


# ---- which boxes to keep ----


@pytest.mark.parametrize("dtype", FLOATS)
def test_nms(dtype):
    rng = np.random.RandomState(0)
    corner, size = rng.randint(0, 40, (150, 2)), rng.randint(1, 20, (150, 2))
    b = tensor(np.concatenate([corner, corner + size], 1), dtype)
    scores = tensor(rng.randint(0, 60, 150) / 64, dtype)  # with equal ones
    for threshold in (0.0, 0.125, 0.375, 0.75, 1.0):
        got = ops.nms(b, scores, threshold)
        want = reference.nms(b.double().numpy(), scores.double().numpy(), threshold)
        assert got.dtype == rl.int64 and got.tolist() == want


def test_nms_of_few_and_wrong_boxes():
    assert ops.nms(rl.zeros(0, 4), rl.zeros(0), 0.5).shape == (0,)
    same = rl.tensor([[0.0, 0, 2, 2]] * 4)
    scores = rl.tensor([1.0, 3, 3, 2], requires_grad=True)
    assert ops.nms(same, scores, 0.99).tolist() == [1]
    assert ops.nms(same, scores, 1.0).tolist() == [1, 2, 3, 0]
    empty = rl.tensor([[1.0, 1, 1, 1]] * 2)  # without area no overlap can be told
    assert ops.nms(empty, rl.ones(2), 0.0).tolist() == [0, 1]
    # 0.6 is no float32: an overlap of exactly its nearest one is above 0.6, as in torchvision.
    a = rl.tensor([[0.0, 0, 10, 10], [0, 0, 10, 6]])
    assert ops.nms(a, rl.tensor([2.0, 1]), 0.6).tolist() == [0]
    assert ops.nms(a.double(), rl.tensor([2.0, 1]).double(), 0.6).tolist() == [0, 1]
    for bad in (
        (same[0], scores),
        (same, scores[:3]),
        (same, scores.double()),
        (same.long(), scores),
    ):
        with pytest.raises(RuntimeError, match="^nms: "):
            ops.nms(*bad, 0.5)
    with rl.autocast("cpu"):
        assert ops.nms(same.bfloat16(), scores.detach(), 0.5).tolist() == [1]


# ---- convolutions over moved patches ----

# stride, padding, dilation, kernel, groups, groups of offsets, with a mask
CONVOLUTIONS = [
    ((1, 1), (1, 1), (1, 1), (3, 3), 1, 1, True),
    ((2, 1), (0, 2), (1, 2), (2, 3), 2, 3, True),
    ((1, 2), (2, 0), (2, 1), (3, 2), 3, 2, False),
]
each_convolution = pytest.mark.parametrize("shape", CONVOLUTIONS)


def convolution(shape, size=(5, 6), seed=0):
    stride, padding, dilation, kernel, groups, moved_by, masked = shape
    rng = np.random.RandomState(seed)
    x, weight, bias = images(6, seed, size), rng.randn(6, 6 // groups, *kernel), rng.randn(6)
    out = [
        (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d in (0, 1)
    ]
    points = moved_by * kernel[0] * kernel[1]
    # (Not near whole places, where the gradient of the offsets jumps.)
    offset = rng.randint(-3, 3, (2, 2 * points, *out)) + rng.uniform(
        0.1, 0.9, (2, 2 * points, *out)
    )
    mask = rng.rand(2, points, *out) if masked else np.zeros((2, 1))
    return (x, weight, offset, mask, bias), (*stride, *padding, *dilation, groups, moved_by, masked)


@each_convolution
@pytest.mark.parametrize("dtype", FLOATS)
def test_deform_conv2d(shape, dtype):
    arrays, numbers = convolution(shape)
    tensors = [tensor(a, dtype) for a in arrays]
    x, weight, offset, mask, bias = (t.double().numpy() for t in tensors)
    want = reference.deform_conv2d(
        x, weight, offset, mask if shape[6] else None, bias, *shape[:3], *shape[4:6]
    )
    got = ops.deform_conv2d(*tensors, *numbers)
    assert got.dtype == getattr(rl, dtype)
    scale = np.abs(want).max()
    assert np.abs(got.double().numpy() - want).max() < 2 * TOLERANCE[dtype] * scale


@each_convolution
def test_gradients_of_deform_conv2d(shape):
    arrays, numbers = convolution(shape, (3, 4))
    tensors = [tensor(a[:1] if a.ndim == 4 and len(a) == 2 else a) for a in arrays]
    leaves = [t.requires_grad_() for i, t in enumerate(tensors) if shape[6] or i != 3]
    gradcheck(lambda: [ops.deform_conv2d(*tensors, *numbers)], leaves)


@each_convolution
def test_backward_operator_of_deform_conv2d(shape):
    arrays, numbers = convolution(shape)
    tensors = [tensor(a).requires_grad_() for a in arrays]
    out = ops.deform_conv2d(*tensors, *numbers)
    g = rl.randn_like(out)
    want = rl.autograd.grad(out, tensors, g, allow_unused=True)
    got = ops._deform_conv2d_backward(g, *tensors, *numbers)
    for a, b in zip(got, want, strict=True):
        assert not a.any() if b is None else rl.equal(a, b)


def test_parts_of_the_gradient_alone():
    arrays, numbers = convolution(CONVOLUTIONS[1])
    all_of_them = [tensor(a).requires_grad_() for a in arrays]
    out = ops.deform_conv2d(*all_of_them, *numbers)
    g = rl.randn_like(out)
    whole = rl.autograd.grad(out, all_of_them, g)
    for i in range(5):
        tensors = [tensor(a) for a in arrays]
        tensors[i].requires_grad_()
        (part,) = rl.autograd.grad(ops.deform_conv2d(*tensors, *numbers), tensors[i], g)
        assert rl.allclose(part, whole[i])


def test_without_offsets_it_is_a_convolution():
    x, weight, bias = rl.randn(2, 4, 8, 9), rl.randn(6, 4, 3, 3), rl.randn(6)
    offset = rl.zeros(2, 18, 8, 9)
    numbers = (1, 1, 1, 1, 1, 1, 1, 1, False)
    got = ops.deform_conv2d(x, weight, offset, rl.zeros(2, 1), bias, *numbers)
    assert rl.allclose(got, rl.nn.functional.conv2d(x, weight, bias, padding=1), atol=1e-4)
    halved = ops.deform_conv2d(
        x, weight, offset, rl.full((2, 9, 8, 9), 0.5), bias, *numbers[:-1], True
    )
    want = rl.nn.functional.conv2d(x, weight / 2, bias, padding=1)
    assert rl.allclose(halved, want, atol=1e-4)
    far = ops.deform_conv2d(x, weight, offset + 1e30, rl.zeros(2, 1), bias, *numbers)
    assert rl.equal(far, bias.reshape(1, -1, 1, 1).expand(far.shape))
    assert ops.deform_conv2d(
        *(t.to("meta") for t in (x, weight, offset, rl.zeros(2, 1), bias)), *numbers
    ).shape == (2, 6, 8, 9)
    none = ops.deform_conv2d(x[:0], weight, offset[:0], rl.zeros(0, 1), bias, *numbers)
    assert none.shape == (0, 6, 8, 9)


def test_wrong_arguments_of_deform_conv2d():
    arrays, numbers = convolution(CONVOLUTIONS[0])
    good = [tensor(a) for a in arrays]
    op = ops.deform_conv2d
    for i in range(5):
        for bad in (good[i][..., :-1], good[i].float(), good[i].unsqueeze(0)):
            with pytest.raises(RuntimeError, match="^deform_conv2d: "):
                op(*good[:i], bad, *good[i + 1 :], *numbers)
    for at, value in ((0, 0), (2, -1), (4, 0), (6, 0), (6, 4), (7, 0), (7, 4)):
        with pytest.raises(RuntimeError, match="^deform_conv2d: "):
            op(*good, *numbers[:at], value, *numbers[at + 1 :])
    with pytest.raises(RuntimeError, match="deform_conv2d_backward"):  # as in torchvision
        x = good[0].requires_grad_()
        (gx,) = rl.autograd.grad(op(*good, *numbers).square().sum(), x, create_graph=True)
        gx.sum().backward()


def test_autocast_of_deform_conv2d():
    arrays, numbers = convolution(CONVOLUTIONS[0])
    tensors = [tensor(a, "float32") for a in arrays]
    tensors[0] = tensors[0].bfloat16()
    with rl.autocast("cpu"):
        got = ops.deform_conv2d(*tensors, *numbers)
    want = ops.deform_conv2d(tensors[0].float(), *tensors[1:], *numbers)
    assert got.dtype == rl.bfloat16 and rl.equal(got, want.bfloat16())
