"""Kernels over images, against the CPU: both layouts, odd sizes, half types, gradients."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def images(shape, dtype, layout, seed=0):
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64).to(dtype).contiguous(memory_format=layout)


def assert_near(ours, reference, dtype):
    tolerance = TOLERANCE[dtype]
    error = (ours.cpu().double() - reference.double()).abs().max().item()
    scale = max(1.0, reference.double().abs().max().item())
    assert error <= tolerance * scale, (error, scale)


def with_gradients(f, tensors, device, dtype):
    """The result of f on the device and the gradients of its weighted sum."""
    leaves = [t.detach().clone().to(device=device, dtype=dtype).detach() for t in tensors]
    for leaf in leaves:
        leaf.requires_grad_()
    out = f(*leaves)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape)
    (out * weights.to(device=device, dtype=out.dtype)).sum().backward()
    return [out.detach(), *(t.grad for t in leaves)]


def compare(f, tensors, dtype):
    wide = torch.float64
    expected = with_gradients(f, tensors, "cpu", wide)
    for ours, theirs in zip(with_gradients(f, tensors, "cuda", dtype), expected, strict=True):
        assert_near(ours, theirs, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 32, 70, 512])
def test_batch_norm(channels, dtype, layout):
    x = images((6, channels, 7, 9), dtype, LAYOUTS[layout])
    weight, bias = images((2, channels), dtype, torch.contiguous_format, seed=1)
    compare(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [x, weight, bias], dtype
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(64, 16, 56, 56), (4, 2050, 3, 3), (2, 5, 1, 2)])
def test_running_moments(shape, layout):
    x = images(shape, torch.float32, LAYOUTS[layout]) * 0.5 + 100
    norms = [torch.nn.BatchNorm2d(shape[1], momentum=0.3, device=d) for d in ("cpu", "cuda")]
    for norm in norms:
        for _ in range(3):
            norm(x.to(norm.weight.device))
    for (name, ours), theirs in zip(norms[1].named_buffers(), norms[0].buffers(), strict=True):
        assert torch.allclose(ours.cpu(), theirs, rtol=1e-4), name
    assert norms[1].num_batches_tracked.item() == 3
    assert norms[1].running_mean._version >= 3


def test_half_images_with_float_parameters():
    x = images((4, 8, 6, 6), torch.float16, torch.channels_last)
    norm = torch.nn.BatchNorm2d(8)
    expected = norm(x.float())
    ours = torch.nn.BatchNorm2d(8).cuda()(x.cuda().requires_grad_())
    assert ours.dtype == torch.float16
    assert_near(ours.detach(), expected.detach(), torch.float16)
    ours.sum().backward()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [
        (3, 1, 1, 1),
        (3, 2, 1, 1),
        (3, 1, (0, 2), 1),
        (3, 2, 0, 1),
        (3, (1, 2), 1, 1),
        (5, 2, 2, 1),
        (7, 1, 3, 1),
        ((1, 3), 1, (0, 2), 2),
        (2, 3, 0, 1),
    ],
)
@pytest.mark.parametrize("channels", [3, 32, 72])
def test_depthwise(channels, kernel, stride, padding, dilation, dtype):
    size = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    x = images((3, channels, 13, 17), dtype, torch.channels_last)
    weight = images((channels, 1, *size), dtype, torch.contiguous_format, seed=1)
    bias = images((channels,), dtype, torch.contiguous_format, seed=2)
    compare(
        lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, channels), [x, weight, bias],
        dtype,
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("channels", [3, 64])
def test_convolution_with_bias(channels, dtype, layout):
    x = images((4, channels, 14, 15), dtype, LAYOUTS[layout])
    weight = images((24, channels, 3, 3), dtype, LAYOUTS[layout], seed=1) / 10
    bias = images((24,), dtype, torch.contiguous_format, seed=2)
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        compare(lambda x, w, b: F.conv2d(x, w, b, padding=1), [x, weight, bias], dtype)
    finally:
        torch.backends.cudnn.allow_tf32 = allowed


POOLS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max apart": lambda x: F.max_pool2d(x, 2, 3, ceil_mode=True),
    "max of many windows": lambda x: F.max_pool2d(x, 5, 1, 2),
    "max dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "average": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "adaptive to one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool, channels, dtype, layout):
    compare(POOLS[pool], [images((2, channels, 11, 13), dtype, LAYOUTS[layout])], dtype)


def test_benchmarked_engines_compute_the_same():
    x = images((4, 16, 14, 15), torch.float32, torch.channels_last)
    weight = images((24, 16, 3, 3), torch.float32, torch.contiguous_format, seed=1) / 10
    torch.backends.cudnn.benchmark = True
    try:
        compare(lambda x, w: F.conv2d(x, w, padding=1), [x, weight], torch.float32)
    finally:
        torch.backends.cudnn.benchmark = False


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shape", [(8, 64, 28, 28), (2, 2048, 7, 7), (3, 12, 5, 5), (4, 6, 9, 3), (64, 256, 1, 1)]
)
def test_batch_norm_in_one_launch(shape, dtype):
    torch.manual_seed(3)
    x = (torch.randn(shape) * 2 + 5).to(dtype)
    g = torch.randn(shape).to(dtype)
    results = []
    for device in ("cpu", "cuda", "cuda"):
        norm = torch.nn.BatchNorm2d(shape[1], device=device)
        if dtype == torch.float64:
            norm.double()
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 1.5, shape[1]))
        last = {"memory_format": torch.channels_last}
        y = x.to(device, copy=True).contiguous(**last).requires_grad_()
        out = norm(y)
        out.backward(g.to(device).contiguous(**last))
        named = (out, y.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)
        results.append([t.detach().cpu() for t in named])
    want, got, again = results
    for w, a, b in zip(want, got, again, strict=True):
        assert torch.equal(a, b)  # no sum depends on which block came first
        assert_near(a, w, dtype)


def test_batch_norms_that_wait_share_the_gpu():
    # Blocks that wait for each other, from two streams: all of a kernel run, or none.
    x = torch.randn(8, 64, 56, 56, device="cuda").contiguous(memory_format=torch.channels_last)
    norm = torch.nn.BatchNorm2d(64, device="cuda")
    want = norm(x)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    results = []
    for _ in range(30):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(F.batch_norm(x, None, None, training=True))
    torch.cuda.synchronize()
    assert all(torch.equal(r, want) for r in results)
