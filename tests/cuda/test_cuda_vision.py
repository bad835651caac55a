"""Operators over boxes and moved patches, against the CPU, and torchvision's models where it is
installed."""

import importlib.util
import subprocess
import sys

import pytest

import rushlight as torch

ops = torch.ops.torchvision
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def boxes(count=40):
    """In numbers that every dtype holds; some outside, thin or reversed."""
    torch.manual_seed(1)
    corners = torch.randint(-6, 50, (count, 4)).double() / 4
    low, high = corners[:, :2].minimum(corners[:, 2:]), corners[:, :2].maximum(corners[:, 2:])
    found = torch.cat([torch.randint(0, 2, (count, 1)).double(), low, high], 1)
    found[0, 3] = found[0, 1]
    found[1] = found[1, [0, 3, 4, 1, 2]]
    found[2, 1:] += 40
    return found


def images(channels):
    torch.manual_seed(0)
    return torch.randn(2, channels, 9, 13, dtype=torch.float64)


POOLS = [
    ("roi_align", (0.5, 3, 4, 2, False), 70),
    ("roi_align", (1.0, 7, 7, 2, True), 3),
    ("roi_align", (0.5, 3, 2, -1, False), 5),
    ("roi_align", (1.0, 3, 2, 0, True), 5),
    ("ps_roi_align", (0.5, 2, 3, 2), 60),
    ("roi_pool", (1.0, 3, 4), 33),
    ("roi_pool", (0.5, 7, 7), 3),
    ("ps_roi_pool", (1.0, 2, 3), 60),
    ("ps_roi_pool", (0.5, 3, 1), 6),
]
each_pool = pytest.mark.parametrize(("name", "numbers", "channels"), POOLS)


def first(result):
    return result[0] if isinstance(result, tuple) else result


def near(got, want, dtype):
    error = (got.cpu().double() - want.double()).abs().max().item()
    return error <= TOLERANCE[dtype] * max(1.0, want.double().abs().max().item())


def both_devices(f, tensors, wanted):
    """(results, gradients) on the CPU and on the GPU; tensors of one dtype."""
    found = []
    for device in ("cpu", "cuda"):
        leaves = [t.to(device).detach().requires_grad_(i in wanted) for i, t in enumerate(tensors)]
        result = f(*leaves)
        out = first(result)
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape)
        grads = torch.autograd.grad(
            out, [leaves[i] for i in wanted], weights.to(device=device, dtype=out.dtype)
        )
        found.append((result if isinstance(result, tuple) else (result,), grads))
    return found


@each_pool
@each_dtype
def test_pooling(name, numbers, channels, dtype):
    tensors = [images(channels).to(dtype), boxes().to(dtype)]
    (want, want_grads), (got, got_grads) = both_devices(
        lambda x, r: getattr(ops, name)(x, r, *numbers), tensors, [0]
    )
    assert got[0].is_cuda and got[0].dtype == dtype and near(got[0], want[0], dtype)
    assert near(got_grads[0], want_grads[0], dtype)
    for a, b in zip(got[1:], want[1:], strict=True):  # argmax, channels
        assert a.dtype == torch.int32 and torch.equal(a.cpu(), b)


@each_pool
def test_boxes_without_an_image(name, numbers, channels):
    x, rois = images(channels).cuda(), boxes().cuda()
    rois[7, 0] = 2
    with pytest.raises(IndexError, match=name):
        getattr(ops, name)(x, rois, *numbers)
        torch.cuda.synchronize()
    rois[7, 0] = 1  # and the next call is fine
    getattr(ops, name)(x, rois, *numbers)
    torch.cuda.synchronize()


@each_pool
def test_no_boxes(name, numbers, channels):
    x = images(channels).cuda().requires_grad_()
    out = first(getattr(ops, name)(x, torch.zeros(0, 5, dtype=torch.float64).cuda(), *numbers))
    out.sum().backward()
    assert out.shape[0] == 0 and not x.grad.any()


@each_pool
def test_gradients_of_gradients(name, numbers, channels):
    x, rois = images(channels).cuda().requires_grad_(), boxes().cuda()
    out = first(getattr(ops, name)(x, rois, *numbers))
    g = torch.randn_like(out).requires_grad_()
    (gx,) = torch.autograd.grad(out, x, g, create_graph=True)
    v = torch.randn_like(x)
    (gg,) = torch.autograd.grad(gx, g, v)
    if name != "roi_pool":  # linear in the images
        assert torch.allclose(gg, first(getattr(ops, name)(v, rois, *numbers)))


@each_pool
def test_autocast(name, numbers, channels):
    x, rois = images(channels).half().cuda(), boxes().float().cuda()
    with torch.autocast("cuda"):
        got = first(getattr(ops, name)(x, rois, *numbers))
    want = first(getattr(ops, name)(x.float(), rois, *numbers))
    assert got.dtype == torch.float16 and torch.equal(got, want.half())


@each_dtype
@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000, 5000])
def test_nms(count, dtype):
    torch.manual_seed(0)
    corner, size = torch.randint(0, 100, (count, 2)), torch.randint(1, 28, (count, 2))
    found = torch.cat([corner, corner + size], 1).to(dtype)
    scores = (torch.randint(0, 128, (count,)) / 128).to(dtype)  # with equal ones
    for threshold in (0.0, 0.3, 0.5, 0.7):
        got = ops.nms(found.cuda(), scores.cuda(), threshold)
        assert got.is_cuda and torch.equal(got.cpu(), ops.nms(found, scores, threshold))


# stride, padding, dilation, kernel, groups, groups of offsets, with a mask
CONVOLUTIONS = [
    ((1, 1), (1, 1), (1, 1), (3, 3), 1, 1, True),
    ((2, 1), (0, 2), (1, 2), (2, 3), 2, 3, True),
    ((1, 2), (2, 0), (2, 1), (3, 2), 3, 2, False),
]


@each_dtype
@pytest.mark.parametrize("shape", CONVOLUTIONS)
def test_deform_conv2d(shape, dtype):
    stride, padding, dilation, kernel, groups, moved_by, masked = shape
    x, height, width = images(12), 9, 13
    out = [
        (n + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d, n in enumerate((height, width))
    ]
    points = moved_by * kernel[0] * kernel[1]
    weight = torch.randn(6, 12 // groups, *kernel, dtype=torch.float64) / 6
    # (In steps of 1/8, away from whole places where the gradient jumps.)
    offset = (torch.randint(-16, 16, (2, 2 * points, *out)).double() * 2 + 1) / 8
    mask = (
        torch.rand(2, points, *out, dtype=torch.float64) if masked else torch.zeros(2, 1).double()
    )
    tensors = [x, weight, offset, mask, torch.randn(6, dtype=torch.float64)]
    numbers = (*stride, *padding, *dilation, groups, moved_by, masked)
    wanted = [0, 1, 2, 3, 4] if masked else [0, 1, 2, 4]
    # The wide result is the reference: products of half types round on either device.
    (want, want_grads), _ = both_devices(
        lambda *t: ops.deform_conv2d(*t, *numbers), [t.to(dtype).double() for t in tensors], wanted
    )
    _, (got, got_grads) = both_devices(
        lambda *t: ops.deform_conv2d(*t, *numbers), [t.to(dtype) for t in tensors], wanted
    )
    assert got[0].dtype == dtype and near(got[0], want[0], dtype)
    for a, b in zip(got_grads, want_grads, strict=True):
        assert near(a, b, dtype)


TRAINING = """
import torch, torchvision
torch.manual_seed(0)
models = torchvision.models.detection
def target():
    box = torch.tensor([[8.0, 8, 80, 90], [30, 20, 100, 70]])
    found = {"boxes": box, "labels": torch.tensor([1, 2])}
    found["masks"] = torch.zeros(2, 128, 128, dtype=torch.uint8)
    found["masks"][:, 30:60, 30:60] = 1
    found["keypoints"] = torch.tensor([[[40.0, 40, 1]] * 17] * 2)
    return {k: v.cuda() for k, v in found.items()}
for name in ("fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn",
             "ssdlite320_mobilenet_v3_large", "keypointrcnn_resnet50_fpn"):
    classes = 2 if name.startswith("key") else 3
    model = getattr(models, name)(weights=None, weights_backbone=None, num_classes=classes).cuda()
    t = target()
    if classes == 2:
        t["labels"] = torch.ones(2, dtype=torch.int64).cuda()
    image = torch.rand(3, 128, 128).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        losses = model([image, image], [t, t])
    total = sum(losses.values())
    total.backward()
    assert torch.isfinite(total).item(), name
    found = model.eval()([image])[0]
    assert found["boxes"].is_cuda and found["boxes"].shape[1] == 4, name
print("ok")
"""


def test_torchvisions_detectors():
    if importlib.util.find_spec("torchvision") is None:  # (imported here, it would bring PyTorch)
        pytest.skip("not installed: torchvision")
    command = [sys.executable, "-W", "ignore", "-m", "rushlight.as_torch", "-c", TRAINING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr
