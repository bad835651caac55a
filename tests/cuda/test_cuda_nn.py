"""Network layers on a GPU: what the op rows do not show: sizes, layouts, bits, no waiting."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


@pytest.fixture
def no_waiting():
    rl.cuda.synchronize()
    rl.cuda.set_sync_debug_mode("error")
    yield
    rl.cuda.set_sync_debug_mode("default")


def both(f, *tensors, g=None):
    """f's result and gradients on the CPU and on the GPU, as NumPy arrays."""
    found = []
    for device in ("cpu", "cuda"):
        inputs = []
        for t in tensors:
            u = t.to(device)
            inputs.append(u.requires_grad_() if u.is_floating_point() else u)
        rl.manual_seed(3)
        y = f(*inputs)
        leaves = [t for t in inputs if t.requires_grad]
        grads = rl.autograd.grad(y, leaves, rl.ones_like(y) if g is None else g.to(device))
        found.append([t.detach().cpu().double().numpy() for t in (y, *grads)])
    return found


def assert_same(f, *tensors, g=None, tolerance=1e-5):
    cpu, gpu = both(f, *tensors, g=g)
    for want, got in zip(cpu, gpu, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# Rows that are held in registers by 8, 32 and 256 threads, with and without packs, and longer ones.
WIDTHS = (1, 7, 128, 129, 512, 1000, 1001, 4096, 4099, 50257)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_rows(width, log):
    f = F.log_softmax if log else F.softmax
    x, g = rl.randn(9, width), rl.randn(9, width)
    assert_same(lambda x: f(x, 1), x, g=g)
    assert_same(
        lambda x: f(x[:, 1:], 1) if width > 1 else f(x, 1), x, g=g[:, 1:] if width > 1 else g
    )


@pytest.mark.parametrize("shape", [(3, 21, 33, 5), (2, 1000, 3), (70, 5, 4000)])
def test_softmax_of_columns(shape):
    x, g = rl.randn(*shape), rl.randn(*shape)
    assert_same(lambda x: F.softmax(x, 1), x, g=g)
    assert_same(lambda x: F.log_softmax(x, 0), x, g=g)


def test_softmax_keeps_channels_last():
    x = rl.randn(2, 8, 5, 6).to(memory_format=rl.channels_last)
    g = rl.randn(2, 8, 5, 6)
    for dim in range(4):
        assert_same(lambda x, dim=dim: F.softmax(x, dim), x, g=g)
    assert F.softmax(x.cuda(), 1).is_contiguous(memory_format=rl.channels_last)


@pytest.mark.parametrize("classes", WIDTHS[1:])
def test_cross_entropy_of_many_classes(classes):
    x, target = rl.randn(37, classes), rl.randint(0, classes, (37,))
    target[5] = -100
    weight = rl.rand(classes) + 0.1
    for reduction in ("none", "mean", "sum"):
        assert_same(
            lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r), x, target, tolerance=1e-4
        )
    for smoothing in (0.0, 0.2):
        gpu = F.cross_entropy(
            x.cuda(), target.cuda(), weight.cuda(), label_smoothing=smoothing
        ).item()
        cpu = F.cross_entropy(x, target, weight, label_smoothing=smoothing).item()
        assert gpu == pytest.approx(cpu, rel=1e-4)


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_cross_entropy_of_images(last):
    x, target = rl.randn(3, 21, 40, 50), rl.randint(0, 21, (3, 40, 50))
    if last:
        x = x.to(memory_format=rl.channels_last)
    for kwargs in ({}, {"label_smoothing": 0.1}, {"reduction": "none"}):
        assert_same(lambda x, t, k=kwargs: F.cross_entropy(x, t, **k), x, target, tolerance=1e-4)
    assert_same(lambda x, t: F.nll_loss(x, t), x, target)


def test_cross_entropy_of_nothing():
    x, target = rl.randn(4, 3, device="cuda"), rl.full((4,), -100, device="cuda")
    x.requires_grad_()
    loss = F.cross_entropy(x, target)
    loss.backward()
    assert np.isnan(loss.item()) and (x.grad == 0).all().item()
    assert np.isnan(F.cross_entropy(x[:0], target[:0]).item())
    assert F.cross_entropy(x[:0], target[:0], reduction="sum").item() == 0


def test_a_class_out_of_range_is_raised_when_the_program_waits(no_waiting):
    x = rl.randn(6, 5, device="cuda", requires_grad=True)
    target = rl.zeros(6, dtype=rl.int64, device="cuda")
    target[4] = 5
    loss = F.cross_entropy(x, target)
    loss.backward()
    rl.cuda.set_sync_debug_mode("default")
    with pytest.raises(IndexError, match="index 5 is out of range"):
        loss.item()
    assert F.cross_entropy(x, rl.zeros_like(target)).item() > 0  # and the process goes on


def test_half_losses_add_up_in_float():
    x = rl.full((1 << 20,), 0.25, dtype=rl.float16, device="cuda")
    assert F.mse_loss(x, rl.zeros_like(x)).item() == pytest.approx(0.0625, rel=1e-3)
    assert F.l1_loss(x, rl.zeros_like(x)).item() == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize("n", [1, 3, 1000, 4097, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_dropout_has_the_bits_of_the_cpu(n, dtype):
    x = rl.randn(n).to(getattr(rl, dtype))
    for f in (lambda x: F.dropout(x, 0.3), lambda x: F.alpha_dropout(x, 0.3, training=True)):
        cpu, gpu = both(f, x)
        for want, got in zip(cpu, gpu, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "bfloat16" else 1e-6)


def test_dropout_of_channels_and_layouts():
    x = rl.randn(5, 6, 7, 8)
    assert_same(lambda x: F.dropout2d(x, 0.4), x, tolerance=1e-6)
    assert_same(lambda x: F.feature_alpha_dropout(x, 0.4, training=True), x, tolerance=1e-6)
    assert_same(lambda x: F.dropout(x.transpose(1, 2), 0.4), x, tolerance=1e-6)
    assert_same(lambda x: F.dropout(x[:, 1:, ::2], 0.4), x, tolerance=1e-6)


def test_dropout_is_one_launch_forward_and_the_mask_is_kept_as_bytes():
    x = rl.randn(1 << 20, device="cuda", requires_grad=True)
    before = rl.cuda.memory_allocated()
    y = F.dropout(x)
    assert rl.cuda.memory_allocated() - before <= 5 * (1 << 20) + 1024
    y.sum().backward()
    kept = (y != 0).float() * 2
    assert (x.grad == kept).all().item()


@pytest.mark.parametrize("width", WIDTHS)
def test_norms_of_rows(width):
    x, g = rl.randn(33, width), rl.randn(33, width)
    w, b = rl.randn(width), rl.randn(width)
    assert_same(lambda x, w, b: F.layer_norm(x, (width,), w, b), x, w, b, g=g, tolerance=2e-4)
    assert_same(lambda x, w: F.rms_norm(x, (width,), w), x, w, g=g, tolerance=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_in_half(dtype):
    x, g = (rl.randn(17, 6, 40).to(getattr(rl, dtype)) for _ in range(2))
    tolerance = 2e-2 if dtype == "float16" else 1e-1
    for t in (getattr(rl, dtype), rl.float32):
        w, b = rl.randn(40).to(t), rl.randn(40).to(t)
        assert_same(lambda x, w, b: F.layer_norm(x, (40,), w, b), x, w, b, g=g, tolerance=tolerance)
        w, b = rl.randn(6).to(t), rl.randn(6).to(t)
        assert_same(lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b, g=g, tolerance=tolerance)


@pytest.mark.parametrize(
    "shape, groups", [((3, 8, 5, 7), 4), ((2, 32, 64, 64), 8), ((1, 4, 300, 300), 2), ((50, 6), 3)]
)
def test_norms_of_groups(shape, groups):
    x, g = rl.randn(*shape), rl.randn(*shape)
    w, b = rl.randn(shape[1]), rl.randn(shape[1])
    assert_same(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b, g=g, tolerance=2e-3)
    if len(shape) > 2:
        assert_same(lambda x: F.instance_norm(x), x, g=g, tolerance=1e-3)


def test_results_are_the_same_every_time():
    x, target = rl.randn(4096, 1000, device="cuda"), rl.randint(0, 1000, (4096,), device="cuda")
    x.requires_grad_()
    w = rl.randn(1000, device="cuda", requires_grad=True)
    losses, grads = set(), []
    for _ in range(5):
        loss = F.cross_entropy(F.layer_norm(x, (1000,), w), target)
        grads.append(rl.autograd.grad(loss, (x, w)))
        losses.add(loss.item())
    assert len(losses) == 1
    for gx, gw in grads[1:]:
        assert (gx == grads[0][0]).all().item() and (gw == grads[0][1]).all().item()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16, padding_idx=0)
        self.conv = nn.Conv1d(16, 24, 3, padding=1)
        self.groups = nn.GroupNorm(4, 24)
        self.rows = nn.LayerNorm(24)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(24, 7)

    def forward(self, words):
        x = self.conv(self.table(words).transpose(1, 2))
        x = F.relu(self.groups(x)).mean(2)
        return self.out(self.drop(self.rows(x)))


def test_a_training_step_does_not_wait(no_waiting):
    model = Network().cuda()
    optimizer = rl.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    words = rl.randint(0, 50, (8, 12), device="cuda")
    labels = rl.randint(0, 7, (8,), device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(words), labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    rl.cuda.set_sync_debug_mode("default")
    assert losses[-1].item() < losses[0].item() / 2
