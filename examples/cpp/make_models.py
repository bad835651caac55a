"""Traces two small networks for the C++ program beside this file: mlp.rush and convnet.rush.

Each file has two methods: forward, and the loss that train.cpp makes small.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor, nn


class Classifier(nn.Module):
    """A network with its loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(self(x), target)


class ConvNet(nn.Module):
    """Two convolutions with batch norm, for images of 12 by 12."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(2)
        self.classify = nn.Linear(16 * 3 * 3, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.norm1(self.conv1(x)).relu())
        x = self.pool(self.norm2(self.conv2(x)).relu())
        return self.classify(x.view(x.size(0), -1))


def mlp() -> nn.Module:
    """Three layers, for 20 features."""
    return nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
                         nn.Linear(64, 10))  # fmt: skip


def traced(net: nn.Module, x: Tensor) -> nn.Module:
    """The network and its loss as programs. The batch may have another size later."""
    target = rl.zeros(x.size(0), dtype=rl.long)
    return rl.jit.trace_module(Classifier(net), {"forward": x, "loss": (x, target)})


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rl.manual_seed(1)
    rl.jit.save(traced(mlp(), rl.randn(4, 20)), folder / "mlp.rush")
    rl.jit.save(traced(ConvNet(), rl.randn(4, 3, 12, 12)), folder / "convnet.rush")


if __name__ == "__main__":
    main()
