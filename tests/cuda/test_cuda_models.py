"""Models on a GPU: the same losses as on the CPU from the same weights, step by step."""

import copy

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)))


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Residual(16),
        nn.Conv2d(16, 32, 3, groups=4),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(288, 64),
        nn.LayerNorm(64),
        nn.GELU(),
        nn.Linear(64, 10),
    )


def losses(model, x, y, make_optimizer, steps=8):
    optimizer = make_optimizer(model.parameters())
    out = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


OPTIMIZERS = {
    "sgd": lambda p: rl.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adamw": lambda p: rl.optim.AdamW(p, lr=1e-3),
    "rmsprop": lambda p: rl.optim.RMSprop(p, lr=1e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
def test_training_agrees_with_the_cpu(name, layout):
    rl.manual_seed(0)
    model = conv_net()
    x, y = rl.randn(16, 3, 32, 32), rl.randint(0, 10, (16,))
    twin = copy.deepcopy(model).to("cuda", memory_format=getattr(rl, layout))
    want = losses(model, x, y, OPTIMIZERS[name])
    there = x.to("cuda", memory_format=getattr(rl, layout))
    got = losses(twin, there, y.cuda(), OPTIMIZERS[name])
    np.testing.assert_allclose(got, want, rtol=2e-3)
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.cpu().numpy(), a.numpy(), rtol=0.05, atol=2e-2)


def test_half_precision_by_autocast():
    rl.manual_seed(0)
    model, x, y = conv_net().cuda(), rl.randn(16, 3, 32, 32, device="cuda"), None
    y = rl.randint(0, 10, (16,), device="cuda")
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = rl.amp.GradScaler("cuda")
    found = []
    for _ in range(10):
        optimizer.zero_grad()
        with rl.autocast("cuda", dtype=rl.float16):
            out = model(x)
            loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    assert out.dtype == rl.float16
    assert found[-1] < found[0]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_driver_allocations_after_the_first_step(name):
    model = conv_net().cuda()
    x, y = rl.randn(16, 3, 32, 32, device="cuda"), rl.randint(0, 10, (16,), device="cuda")
    optimizer = OPTIMIZERS[name](model.parameters())

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()
    before = rl.cuda.memory_stats()["num_device_alloc"]
    for _ in range(20):
        step()
    assert rl.cuda.memory_stats()["num_device_alloc"] == before


def test_embeddings_and_bad_indices():
    table = nn.Embedding(10, 6).cuda()
    index = rl.tensor([[1, 2], [9, 1]], device="cuda")
    out = table(index)
    out.sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0, 12, 6, 0, 0, 0, 0, 0, 0, 6]
    bad = table(rl.tensor([3, 12], device="cuda"))
    with pytest.raises(IndexError, match="12"):
        rl.cuda.synchronize()
    assert bad.shape == (2, 6)
    # The process goes on.
    assert table(index).shape == (2, 2, 6)
    rl.cuda.synchronize()
