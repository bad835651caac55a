"""The layout that is the library's business, on a GPU; tests/test_layout.py has the promises."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

arranged = rl._C._arranged_strides


@pytest.fixture(autouse=True)
def _switched_on():
    with rl.config.patch(automatic_layout=True):
        yield


def image(*sizes, seed=0):
    values = np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)
    return rl.from_numpy(values).cuda()


def convolved(sizes=(2, 3, 6, 5), **options):
    x, w = image(*sizes), image(4, sizes[1], *[3] * (len(sizes) - 2), seed=1)
    conv = F.conv2d if len(sizes) == 4 else F.conv3d
    with rl.config.patch(automatic_layout=False):
        expected = conv(x, w, padding=1).cpu().numpy().copy()
    y = conv(x, w, padding=1)
    assert arranged(y) is not None
    return y, expected


SIGHTS = {
    "cpu": lambda y: y,
    "view": lambda y: y.view(2, -1),
    "flatten": lambda y: y.flatten(1),
    "permute": lambda y: y.permute(0, 2, 3, 1),
    "index": lambda y: y[:, 1:3, ::2],
    "detach": lambda y: y.detach(),
    "as_strided": lambda y: y.as_strided((5, 3), (30, 2), 4),
    "clone": lambda y: y.clone(),
    "to": lambda y: y.to(memory_format=rl.channels_last),
    "deepcopy": copy.deepcopy,
    "pickle": lambda y: pickle.loads(pickle.dumps(y)),
    "double": lambda y: y.double(),
    "softmax": lambda y: y.softmax(1),
    "argmax": lambda y: y.argmax(1),
    "sort": lambda y: y.sort(1)[0],
    "cumsum": lambda y: y.cumsum(1),
    "gather": lambda y: y.gather(1, rl.ones(2, 1, 6, 5, dtype=rl.int64, device="cuda")),
    "group norm": lambda y: F.group_norm(y, 2),
    "interpolate": lambda y: F.interpolate(y, scale_factor=2),
    "pad": lambda y: F.pad(y, (1, 2, 0, 1)),
    "sum": lambda y: y.sum((0, 2, 3)),
}


@pytest.mark.parametrize("name", SIGHTS)
def test_programs_see_a_contiguous_tensor(name):
    y, expected = convolved()
    plain = y.clone().cpu().cuda()
    assert arranged(plain) is None
    np.testing.assert_allclose(plain.cpu().numpy(), expected, rtol=1e-4, atol=1e-4)
    seen, meant = SIGHTS[name](y), SIGHTS[name](plain)
    assert seen.stride() == meant.stride() and seen.shape == meant.shape
    np.testing.assert_allclose(seen.cpu().numpy(), meant.cpu().numpy(), rtol=1e-5, atol=1e-5)


FLOW = {
    "relu": F.relu,
    "relu_": lambda y: y.relu_(),
    "add": lambda y: y + y,
    "add contiguous": lambda y: image(2, 4, 6, 5) + y,
    "scale": lambda y: y * image(1, 4, 1, 1),
    "cast": lambda y: y.half().float(),
    "batch norm": lambda y: F.batch_norm(y, None, None, training=True),
    "batch norm eval": lambda y: F.batch_norm(y, rl.zeros(4).cuda(), rl.ones(4).cuda()),
    "group norm": lambda y: F.group_norm(y, 2, rl.ones(4).cuda(), rl.zeros(4).cuda()),
    "instance norm": lambda y: F.instance_norm(y),
    "nearest": lambda y: F.interpolate(y, scale_factor=2.0),
    "bilinear": lambda y: F.interpolate(y, scale_factor=1.5, mode="bilinear"),
    "max pool": lambda y: F.max_pool2d(y, 2),
    "average pool": lambda y: F.avg_pool2d(y, 2),
    "adaptive average pool": lambda y: F.adaptive_avg_pool2d(y, 2),
    "cat": lambda y: rl.cat([y, y * 2], 1),
    "conv": lambda y: F.conv2d(y, image(4, 4, 3, 3)),
    "conv transpose": lambda y: F.conv_transpose2d(y, image(4, 4, 3, 3)),
}


@pytest.mark.parametrize("name", FLOW)
def test_the_layout_flows(name):
    y, _ = convolved()
    plain = y.clone().cpu().cuda()
    with rl.config.patch(automatic_layout=False):
        meant = FLOW[name](plain)
    z = FLOW[name](y)
    assert arranged(z) is not None and z.stride() == meant.stride()
    np.testing.assert_allclose(z.cpu().numpy(), meant.cpu().numpy(), rtol=1e-3, atol=1e-4)


def test_three_spatial_dims():
    y, expected = convolved((2, 3, 4, 6, 5))
    z = F.relu(F.max_pool3d(y, 2))
    assert arranged(z) is not None
    np.testing.assert_allclose(y.cpu().numpy(), expected, rtol=1e-4, atol=1e-4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.wide, self.short = nn.Conv2d(8, 16, 1, stride=2), nn.Conv2d(8, 16, 3, 2, 1)
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)
        self.head = nn.Linear(8 * 9, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.deep(x) + x
        x *= rl.sigmoid(F.adaptive_avg_pool2d(x, 1))
        a, b = self.wide(x), F.leaky_relu(self.short(x))
        a += b
        x = F.avg_pool2d(F.silu(self.up(rl.cat([a, b], 1))), 3, 1)
        x = x[:, :, ::2, ::2] * 2
        return self.head(F.adaptive_avg_pool2d(x, 3).flatten(1))


@pytest.mark.parametrize("half", [False, True])
def test_gradients_are_the_same_with_and_without(half):
    def trained(on):
        with rl.config.patch(automatic_layout=on):
            rl.manual_seed(3)
            model = Block().cuda()
            x = image(4, 3, 16, 16).requires_grad_()
            with rl.autocast("cuda", rl.float16, enabled=half):
                y = model(x)
            y.float().square().mean().backward()
            return [x.grad, *(p.grad for p in model.parameters()), *model.buffers()]

    tolerance = 0.05 if half else 2e-3
    for ours, plain in zip(trained(True), trained(False), strict=True):
        assert ours.stride() == plain.stride()
        a, b = ours.cpu().numpy(), plain.cpu().numpy()
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max() + 1e-6)


def test_writes_to_saved_tensors_are_found():
    y, _ = convolved()
    y.requires_grad_()
    z = (y * 1).exp()
    loss = (z * z).sum()
    z.detach().view(-1)[3] = 0
    with pytest.raises(RuntimeError, match="overwritten by"):
        loss.backward()


def test_settling_does_not_wait():
    y, expected = convolved()
    rl.cuda.synchronize()
    rl.cuda.set_sync_debug_mode("error")
    try:
        flat = y.view(-1)
    finally:
        rl.cuda.set_sync_debug_mode("default")
    np.testing.assert_allclose(flat.cpu().numpy(), expected.ravel(), rtol=1e-4, atol=1e-4)


def test_results_of_a_captured_graph_follow_its_replays():
    x, w = image(2, 3, 6, 6), image(4, 3, 3, 3, seed=1)
    conv = lambda: F.relu(F.conv2d(x, w))  # noqa: E731
    conv()
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        y = conv()
    for seed in range(3):
        x.copy_(image(2, 3, 6, 6, seed=seed))
        graph.replay()
        with rl.config.patch(automatic_layout=False):
            meant = conv().cpu().numpy()
        np.testing.assert_allclose(y.cpu().numpy(), meant, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose((y + 1).cpu().numpy(), meant + 1, rtol=1e-4, atol=1e-4)


def test_streams():
    """Settled on another stream than it was made on, while the first goes on allocating."""
    side = rl.cuda.Stream()
    for seed in range(5):
        x, w = image(8, 16, 64, 64, seed=seed), image(16, 16, 3, 3, seed=1)
        y = F.conv2d(x, w, padding=1)
        with rl.config.patch(automatic_layout=False):
            meant = F.conv2d(x, w, padding=1)
        side.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(side):
            flat = y.view(-1)
        for _ in range(4):
            rl.zeros(8, 16, 64, 64, device="cuda").fill_(float("nan"))
        rl.cuda.synchronize()
        np.testing.assert_allclose(
            flat.cpu().numpy(), meant.cpu().numpy().ravel(), rtol=1e-3, atol=1e-3
        )
