"""Network layers on a GPU: what the op rows do not show: sizes, layouts, bits, no waiting."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


def both(f, *tensors, g=None):
    """f's result and gradients on the CPU and on the GPU, as NumPy arrays."""
    found = []
    for device in ("cpu", "cuda"):
        inputs = []
        for t in tensors:
            u = t.detach().clone().to(device)
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
WIDTHS = (1, 7, 128, 129, 512, 1000, 1001, 4096, 4099, 8192, 50257)


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


@pytest.mark.parametrize(
    ("dtype", "width"),
    [(rl.float32, 768), (rl.float32, 700), (rl.float32, 513), (rl.bfloat16, 4096),
     (rl.bfloat16, 3000), (rl.float16, 2561)],
)  # fmt: skip
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms_of_many_rows(norm, dtype, width):
    """Whose gradients are found by teams of some warps; compiled, with the sum of a residual."""
    rl.manual_seed(1)
    rows = 2501
    x, g = (rl.randn(rows, width, dtype=dtype, device="cuda") for _ in range(2))
    params = [rl.randn(width, dtype=dtype, device="cuda") for _ in range(1 + (norm[0] == "l"))]

    def grads(to, compiled=False):
        inputs = [t.to(to).detach().requires_grad_() for t in (x, *params)]

        def run(x, *params):
            return getattr(F, norm)(x, (width,), *params) + x

        y = (rl.compile(run, options={"wait_for_code": True}) if compiled else run)(*inputs)
        return rl.autograd.grad(y, inputs, g.to(to))

    found, exact = grads(dtype), grads(rl.float64)
    for ours, want in zip(found, exact, strict=True):
        tolerance = {rl.float32: 1e-5}.get(dtype, 2e-2) * float(want.abs().max())
        assert float((ours.double() - want).abs().max()) <= tolerance
    for ours, fused in zip(found, grads(dtype, compiled=True), strict=True):
        assert rl.equal(ours, fused)


def test_softmax_of_channels_last():
    """Its result lies contiguous, as PyTorch's does."""
    x = rl.randn(2, 8, 5, 6).to(memory_format=rl.channels_last)
    g = rl.randn(2, 8, 5, 6)
    for dim in range(4):
        assert_same(lambda x, dim=dim: F.softmax(x, dim), x, g=g)
    assert F.softmax(x.cuda(), 1).is_contiguous()


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
            tolerance = 1e-2 if dtype == "bfloat16" else 1e-6
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


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
    "shape, groups",
    [
        ((3, 8, 5, 7), 4),
        ((2, 32, 64, 64), 8),
        ((1, 4, 300, 300), 2),
        ((50, 6), 3),
        ((40, 32, 48, 48), 8),  # rows that a block keeps
        ((20, 64, 32, 32), 8),
        ((70, 8, 31, 33), 4),  # packs of one element
        ((3, 24, 100, 100), 3),
        ((9, 512, 6, 8), 2),  # rows that several blocks share: with many channels,
        ((7, 10, 41, 40), 2),  # not evenly,
        ((30, 8, 128, 128), 2),  # and as many as there can be
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_norms_of_groups(shape, groups, last):
    if last and len(shape) != 4:
        pytest.skip("images only")
    x, g = rl.randn(*shape), rl.randn(*shape)
    x = x.contiguous(memory_format=rl.channels_last) if last else x
    w, b = rl.randn(shape[1]), rl.randn(shape[1])
    assert_same(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b, g=g, tolerance=2e-3)
    if len(shape) > 2:
        assert_same(lambda x: F.instance_norm(x), x, g=g, tolerance=1e-3)


@pytest.mark.parametrize("shape", [(128, 128, 64, 64), (30, 64, 128, 128)])
def test_group_norms_one_after_the_other(shape):
    """Blocks of a cluster end at once when others have read from them, and never before."""
    x, w = rl.rand(*shape).cuda().requires_grad_(), rl.rand(shape[1]).cuda().requires_grad_()
    y = F.group_norm(x, 32, w, w)
    g = rl.rand_like(y)
    first = rl.autograd.grad(y, [x, w], g, retain_graph=True)
    for _ in range(100):
        again = rl.autograd.grad(y, [x, w], g, retain_graph=True)
        forward = F.group_norm(x, 32, w, w)
    assert rl.equal(forward, y)
    assert all(rl.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "shape", [(40, 32, 64, 64), (300, 32, 16, 16), (2, 30, 7, 9), (9, 10, 72, 72)]
)
def test_norms_of_groups_in_bfloat16(shape, last):
    x, g = rl.randn(*shape).bfloat16(), rl.randn(*shape).bfloat16()
    x = x.contiguous(memory_format=rl.channels_last) if last else x
    for t in (rl.bfloat16, rl.float32):
        w, b = rl.randn(shape[1]).to(t), rl.randn(shape[1]).to(t)
        assert_same(lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b, g=g, tolerance=3e-2)


# Rows that blocks take one after the other, with the next one under way; and parameters that lie
# beside a multiple of 16 bytes.
@pytest.mark.parametrize(
    "rows, width", [(1500, 4096), (5001, 768), (4000, 161), (700, 1030), (2, 4096)]
)
@pytest.mark.parametrize("t", [rl.float32, rl.bfloat16])
def test_gradients_of_many_rows(rows, width, t):
    x, g = rl.randn(rows, width).to(t), rl.randn(rows, width).to(t)
    w, b = rl.randn(width).to(t), rl.randn(width).to(t)
    tolerance = 5e-2 if t == rl.bfloat16 else 2e-3
    assert_same(lambda x, w, b: F.layer_norm(x, (width,), w, b), x, w, b, g=g, tolerance=tolerance)
    assert_same(lambda x, w: F.rms_norm(x, (width,), w), x, w, g=g, tolerance=tolerance)
    odd = rl.randn(width + 1).to(t)
    assert_same(lambda x, w: F.layer_norm(x, (width,), w[1:]), x, odd, g=g, tolerance=tolerance)


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


# ---- embeddings ----


@pytest.mark.parametrize("rows, width", [(7, 1), (50, 16), (50, 13), (70_000, 64), (300, 300)])
@pytest.mark.parametrize("n", [1, 9, 700, 5000])
def test_the_gradient_of_a_table(rows, width, n):
    table, index = rl.randn(rows, width), rl.randint(0, rows, (n,))
    index[: n // 2] = index[0]  # one row gets many
    g = rl.randn(n, width)
    for kwargs in ({}, {"padding_idx": int(index[0])}, {"scale_grad_by_freq": True}):
        assert_same(
            lambda t, i, k=kwargs: F.embedding(i, t, **k), table, index, g=g, tolerance=1e-3
        )
    assert_same(lambda t, i: F.embedding(i.int(), t), table, index, g=g, tolerance=1e-3)


def test_the_gradient_of_a_table_is_the_same_every_time():
    table = rl.randn(1000, 128, device="cuda", requires_grad=True)
    index = rl.randint(0, 10, (100_000,), device="cuda")
    g = rl.randn(100_000, 128, device="cuda")
    found = [rl.autograd.grad(F.embedding(index, table), table, g)[0] for _ in range(3)]
    assert (found[0] == found[1]).all().item() and (found[0] == found[2]).all().item()
    want = rl.zeros(1000, 128, dtype=rl.float64).index_add_(0, index.cpu(), g.cpu().double())
    np.testing.assert_allclose(found[0].cpu().numpy(), want.numpy(), atol=2e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tables_of_half_add_up_in_float(dtype):
    table = rl.zeros(3, 8, dtype=getattr(rl, dtype), device="cuda", requires_grad=True)
    index = rl.zeros(6000, dtype=rl.int64, device="cuda")
    F.embedding(index, table).sum().backward()
    assert table.grad[0].tolist() == [6000.0 if dtype == "float16" else 6016.0] * 8


def test_a_row_out_of_range_is_raised_when_the_program_waits(no_waiting):
    table = rl.randn(5, 4, device="cuda", requires_grad=True)
    index = rl.arange(7, device="cuda") - 1
    F.embedding(index, table).sum().backward()
    rl.cuda.set_sync_debug_mode("default")
    with pytest.raises(IndexError, match="index -1 is out of range"):
        rl.cuda.synchronize()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    table, index = rl.randn(40, 24), rl.randint(0, 40, (300,))
    offsets = rl.tensor([0, 5, 5, 100, 299])
    g = rl.randn(5, 24)
    for kwargs in ({}, {"padding_idx": int(index[2])}):
        assert_same(
            lambda t, i, o, k=kwargs: F.embedding_bag(i, t, o, mode=mode, **k),
            table, index, offsets, g=g, tolerance=1e-4,
        )  # fmt: skip
    ends = rl.tensor([0, 5, 5, 100, 250])
    assert_same(
        lambda t, i, o: F.embedding_bag(i, t, o, mode=mode, include_last_offset=True),
        table, index, ends, g=g[:4], tolerance=1e-4,
    )  # fmt: skip
    if mode == "sum":
        weights = rl.randn(300)
        assert_same(
            lambda t, i, o, w: F.embedding_bag(i, t, o, mode=mode, per_sample_weights=w),
            table, index, offsets, weights, g=g, tolerance=1e-4,
        )  # fmt: skip


def test_long_rows_are_shortened_without_waiting(no_waiting):
    table = (rl.randn(30, 8) * 3).cuda()
    index = rl.tensor([1, 4, 4, 7]).cuda()
    y = F.embedding(index, table, max_norm=1.0)
    rl.cuda.set_sync_debug_mode("default")
    np.testing.assert_allclose(y.norm(dim=1).cpu().numpy(), 1, rtol=1e-4)
    assert (table[2].norm() > 1.5).item()


# ---- images ----


@pytest.mark.parametrize(
    "shape, size, mode",
    [((2, 3, 10), 23, m) for m in ("nearest", "nearest-exact", "linear")]
    + [((2, 3, 9, 11), (20, 7), m) for m in ("nearest", "nearest-exact", "bilinear", "bicubic")]
    + [((1, 2, 4, 5, 6), (9, 3, 6), m) for m in ("nearest", "trilinear")],
)
def test_interpolation(shape, size, mode):
    x = rl.randn(*shape)
    y = F.interpolate(x, size, mode=mode)
    g = rl.randn(*y.shape)
    assert_same(lambda x: F.interpolate(x, size, mode=mode), x, g=g)
    if "linear" in mode or "cubic" in mode:
        assert_same(lambda x: F.interpolate(x, size, mode=mode, align_corners=True), x, g=g)
    if mode in ("bilinear", "bicubic"):
        assert_same(lambda x: F.interpolate(x, size, mode=mode, antialias=True), x, g=g)
        last = x.to(memory_format=rl.channels_last)
        assert_same(lambda x: F.interpolate(x, size, mode=mode), last, g=g)
        half = F.interpolate(x.cuda().half(), size, mode=mode).float().cpu()
        np.testing.assert_allclose(half.numpy(), y.numpy(), atol=2e-2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    x, grid = rl.randn(3, 4, 9, 8), rl.randn(3, 5, 7, 2)
    g = rl.randn(3, 4, 5, 7)
    for align in (False, True):
        assert_same(
            lambda x, y, a=align: F.grid_sample(x, y, mode, padding, align_corners=a),
            x, grid, g=g, tolerance=1e-4,
        )  # fmt: skip
    if mode != "bicubic":
        x, grid = rl.randn(2, 3, 5, 6, 7), rl.randn(2, 4, 3, 2, 3)
        assert_same(
            lambda x, y: F.grid_sample(x, y, mode, padding, align_corners=False),
            x, grid, g=rl.randn(2, 3, 4, 3, 2), tolerance=1e-4,
        )  # fmt: skip


def test_patches():
    x = rl.randn(2, 3, 9, 10)
    how = {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (1, 2), "stride": (2, 3)}
    columns = F.unfold(x, **how)
    assert_same(lambda x: F.unfold(x, **how), x, g=rl.randn(*columns.shape))
    assert_same(lambda c: F.fold(c, (9, 10), **how), columns, g=rl.randn(2, 3, 9, 10))


# ---- sequences ----


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc(reduction, no_waiting):
    rl.cuda.set_sync_debug_mode("default")
    steps, batch, classes = 60, 7, 30
    x = rl.randn(steps, batch, classes).double()
    targets = rl.randint(1, classes, (batch, 20))
    targets[2, 5:15] = 4  # repeated
    inputs, lengths = [60, 50, 60, 1, 3, 0, 44], [20, 1, 20, 0, 10, 0, 7]
    for zero in (False, True):
        found = []
        for device in ("cpu", "cuda"):
            at = x.detach().clone().to(device).requires_grad_()
            goal = targets.to(device)
            if device == "cuda":
                rl.cuda.set_sync_debug_mode("error")
            y = F.ctc_loss(
                at.log_softmax(2), goal, inputs, lengths, reduction=reduction, zero_infinity=zero
            )
            y.sum().backward()
            rl.cuda.set_sync_debug_mode("default")
            found.append((y.detach().cpu().numpy(), at.grad.cpu().numpy()))
        for cpu, gpu in zip(*found, strict=True):
            np.testing.assert_allclose(gpu, cpu, rtol=1e-9, atol=1e-9)


# ---- sizes ----


def test_more_elements_than_32_bits_count():
    rows, width = (1 << 16) + 3, 1 << 15
    x = rl.empty(rows, width, dtype=rl.float16, device="cuda")
    x.normal_()
    part = x[-2:].clone()
    y = F.log_softmax(x, 1)
    np.testing.assert_allclose(
        y[-2:].float().cpu().numpy(), F.log_softmax(part.float(), 1).cpu().numpy(), atol=2e-2
    )
    del y
    labels = rl.full((rows,), width - 1, device="cuda")
    losses = F.cross_entropy(x, labels, reduction="none")
    np.testing.assert_allclose(
        losses[-2:].float().cpu().numpy(),
        F.cross_entropy(part.float(), labels[-2:], reduction="none").cpu().numpy(),
        atol=2e-2,
    )
    del losses
    y = F.dropout(x, 0.25)
    kept = (y[-1] != 0).float().mean().item()
    assert 0.7 < kept < 0.8
    assert (y[-1][y[-1] != 0] / part[1][y[-1] != 0]).float().mean().item() == pytest.approx(4 / 3)
    del y
    assert F.mse_loss(x, x).item() == 0


# ---- probabilities ----


def test_binary_cross_entropy_does_not_wait_and_raises_late(no_waiting):
    x = rl.rand(100, device="cuda").requires_grad_()
    target = (rl.rand(100, device="cuda") > 0.5).float()
    loss = F.binary_cross_entropy(x, target)
    loss.backward()
    rl.cuda.set_sync_debug_mode("default")
    want = F.binary_cross_entropy(x.detach().cpu(), target.cpu()).item()
    assert loss.item() == pytest.approx(want, rel=1e-5)
    bad = x.detach().clone()
    bad[7] = 1.5
    loss = F.binary_cross_entropy(bad, target)
    with pytest.raises(RuntimeError, match=r"between 0 and 1, but element number 7 is 1.5"):
        loss.item()
    assert F.binary_cross_entropy(x.detach(), target).item() > 0


@pytest.mark.parametrize("classes", [10, 64, 1000, 5000])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_cross_entropy_of_half_precision_scores_under_autocast(dtype, classes):
    scores, labels = rl.randn(37, classes).to(dtype), rl.randint(0, classes, (37,))
    labels[5] = -100
    x, wide = scores.cuda().requires_grad_(), scores.double().requires_grad_()
    with rl.autocast("cuda", dtype=dtype):
        loss = rl.nn.functional.cross_entropy(x, labels.cuda())
    assert loss.dtype == rl.float32 and loss.grad_fn._saved_self.dtype == dtype
    want = rl.nn.functional.cross_entropy(wide, labels)
    loss.backward()
    want.backward()
    assert x.grad.dtype == dtype
    rl.testing.assert_close(loss.cpu().double(), want, rtol=1e-5, atol=1e-6)
    rl.testing.assert_close(x.grad.cpu().double(), wide.grad, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [4, 300])
def test_linear_with_relu_in_one_launch(rows, dtype):
    x, w, b = (rl.randn(*s).to(dtype).cuda() for s in ((rows, 2, 192), (256, 192), (256,)))
    found, expected = rl._C._linear_relu(x, w, b), rl.relu(nn.functional.linear(x, w, b))
    assert found.shape == expected.shape and found.dtype == dtype and (found == 0).any()
    rl.testing.assert_close(found, expected)
    assert rl.equal(rl._C._linear_relu(x, w), rl.relu(nn.functional.linear(x, w)))
    w.requires_grad_()
    assert "Relu" in rl._C._linear_relu(x, w, b).grad_fn.name()


def test_layers_of_transformers_use_it_where_nothing_is_recorded():
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True).cuda().eval()
    x = rl.randn(8, 50, 64, device="cuda")
    expected = layer(x).detach()
    with rl.no_grad():
        rl.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)
        seen = []
        handle = layer.linear1.register_forward_hook(lambda *args: seen.append(1))
        rl.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)
        handle.remove()
    assert seen == [1]
    x[0, 3, 5] = float("nan")
    with rl.no_grad():
        assert layer(x)[0, 3].isnan().all()
