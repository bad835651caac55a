"""compile on a GPU: batch norm's backward computes what it does not read of the activation behind
it (csrc/device/origin.h), with eager's bits, whatever the numbers are and whoever writes."""

import time

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C, nn
from rushlight.profiler import ProfilerActivity, profile

F = nn.functional
WAIT = {"wait_for_code": True}


@pytest.fixture(autouse=True)
def repeatable(monkeypatch):
    monkeypatch.setattr(rl.backends.cudnn, "deterministic", True)


def bits(t):
    t = t.detach().cpu().contiguous()
    return (t.view(rl.int16) if t.dtype == rl.bfloat16 else t).numpy().tobytes()


class Layer(nn.Module):
    """A norm of images that a program can name, an activation, and a convolution behind it."""

    def __init__(self, activation, width=24, **norm):
        super().__init__()
        self.norm, self.activation = nn.BatchNorm2d(width, **norm), activation
        self.last = nn.Conv2d(width, 8, 1, bias=False)

    def forward(self, x):
        self.x = x * 1
        self.y = self.activation(self.norm(self.x))
        return self.last(self.y)


def odd_image(dtype, sizes):
    """Numbers of all sizes, and those that are not numbers: in some channels only, since one NaN
    makes the statistics of a channel NaN."""
    draw = np.random.default_rng(5)
    x = draw.standard_normal(sizes)
    x[:, 0] = 0.0  # no variance
    x[:, 1] = -0.0
    x[0, 2, 0, 0] = np.nan
    x[1, 3, 1, 1] = np.inf
    x[0, 4, 2, 2] = -np.inf
    x[:, 5] *= 1e-30
    x[:, 6] += 1000
    return rl.tensor(x).to(dtype).cuda()


def odd_parameters(norm):
    with rl.no_grad():
        for p in norm.parameters():
            p.copy_(rl.randn(p.shape))
            p[7:9] = rl.tensor([0.0, -0.0])  # results are the bias, or zeros
        if norm.affine:
            norm.bias[8:10] = rl.tensor([0.0, -0.0])
            norm.bias[10] = float("nan")
            norm.weight[11] = float("inf")
            norm.bias[12] = 6.0
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)


def gradients(layer, image, compiled, between=lambda layer: None):
    """Of three steps, and how many passes of the last computed what they did not read: the second
    is the first that adds to gradients, and so has code of its own."""
    run = rl.compile(layer, options=WAIT) if compiled else layer
    image = image.detach().requires_grad_()
    passes = 0
    for _ in range(3):
        out = run(image)
        between(layer)
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            out.float().square().sum().backward()
        names = [e.name for e in seen.events() if e.activity == "kernel"]
        passes = sum("fused_channel" in n and "Normalize" in n for n in names)
        while _C._frozen_awaits_code():  # kernels are compiled beside the program
            time.sleep(0.01)
    return [image.grad, *(p.grad for p in layer.parameters()), *layer.norm.buffers()], passes


def compare(make, image, between=lambda layer: None):
    """Eager's bits; returns how many passes of a backward computed what they did not read."""
    found = []
    for compiled in (False, True):
        rl.manual_seed(3)
        found.append(gradients(make(), image, compiled, between))
    (want, none), (got, passes) = found
    assert none == 0
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a.stride() == b.stride() and bits(a) == bits(b))
    return passes


ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "in place": F.relu_,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.75),
}


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS.keys())
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.bfloat16])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_odd_numbers_give_eagers_bits(activation, dtype, affine, training):
    def make():
        layer = Layer(activation, affine=affine)
        odd_parameters(layer.norm)
        return layer.to("cuda", dtype).train(training)

    image = odd_image(dtype, (6, 24, 9, 11)).to(memory_format=rl.channels_last)
    passes = compare(make, image)
    if training:
        assert passes == 2
    # Contiguous images do not wait.
    assert compare(make, image.contiguous()) == 0


@pytest.mark.parametrize("size", [3, 40, 97])
@pytest.mark.parametrize("width", [24, 10, 17, 128])
def test_sizes(size, width):
    """Packs of all widths, one segment and many, ends of rows."""

    def make():
        return Layer(F.relu, width).cuda()

    x = rl.randn(5, width, size, size + 1, device="cuda")
    assert compare(make, x.to(memory_format=rl.channels_last)) == 2


WRITES = {
    "result": lambda layer: layer.y.data.neg_(),
    "image": lambda layer: layer.x.data.neg_(),
    "weight": lambda layer: layer.norm.weight.data.neg_(),
    "bias": lambda layer: layer.norm.bias.data.sub_(0.5),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_what_is_written_to_before_backward(write):
    """`.data` changes what backward reads, as in eager."""

    def make():
        layer = Layer(F.relu)
        odd_parameters(layer.norm)
        return layer.cuda()

    x = rl.randn(6, 24, 9, 11, device="cuda").to(memory_format=rl.channels_last)
    assert compare(make, x, write) == 0


@pytest.mark.parametrize("training", [True, False])
def test_statistics_that_move_before_backward(training):
    """In training those of the batch count; else the running ones do."""
    x = rl.randn(6, 24, 9, 11, device="cuda").to(memory_format=rl.channels_last)

    def move(layer):
        layer.norm.running_mean.data.add_(0.5)
        layer.norm.running_var.data.mul_(3)

    passes = compare(lambda: Layer(F.relu).cuda().train(training), x, move)
    assert passes == (2 if training else 0)


def test_gradients_that_are_held():
    """The gradient behind the activation is written where somebody holds it."""

    class Held(Layer):
        def forward(self, x):
            self.kept = self.norm(x * 1)
            self.kept.retain_grad()
            return self.last(self.activation(self.kept))

    x = rl.randn(6, 24, 9, 11, device="cuda").to(memory_format=rl.channels_last)
    held = []
    for compiled in (False, True):
        rl.manual_seed(3)
        layer = Held(F.relu).cuda()
        grads, _ = gradients(layer, x, compiled)
        held.append([layer.kept.grad, *grads])
    assert all(bits(a) == bits(b) for a, b in zip(*held, strict=True))


def test_graphs_are_kept_for_a_second_backward():
    x = rl.randn(6, 24, 9, 11, device="cuda").to(memory_format=rl.channels_last)
    found = []
    for compiled in (False, True):
        rl.manual_seed(3)
        layer = Layer(F.relu6).cuda()
        run = rl.compile(layer, options=WAIT) if compiled else layer
        loss = run(x).square().sum()
        loss.backward(retain_graph=True)
        with rl.no_grad():
            layer.norm.running_mean.mul_(2)  # which training does not read
        loss.backward()
        found.append([bits(p.grad) for p in layer.norm.parameters()])
    assert found[0] == found[1]
