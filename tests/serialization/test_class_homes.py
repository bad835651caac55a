"""Pickled modules name their classes by PyTorch's modules, and keep what PyTorch reads."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn, optim

HOMES = {
    "nn.modules.batchnorm": "BatchNorm1d LazyBatchNorm2d SyncBatchNorm",
    "nn.modules.channelshuffle": "ChannelShuffle",
    "nn.modules.container": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "nn.modules.conv": "Conv2d ConvTranspose3d LazyConv1d LazyConvTranspose2d",
    "nn.modules.fold": "Fold Unfold",
    "nn.modules.instancenorm": "InstanceNorm1d LazyInstanceNorm3d",
    "nn.modules.linear": "Bilinear Identity LazyLinear Linear",
    "nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
    "nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "nn.parameter": "UninitializedBuffer UninitializedParameter",
}


@pytest.mark.parametrize("home", HOMES)
def test_a_class_lives_where_pytorch_has_it(home):
    for name in HOMES[home].split():
        cls = getattr(nn, name) if hasattr(nn, name) else getattr(nn.parameter, name)
        assert cls.__module__ == f"rushlight.{home}"
        assert pickle.loads(pickle.dumps(cls)) is cls


def test_schedulers_too():
    for name in ("StepLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR"):
        cls = getattr(optim.lr_scheduler, name)
        assert cls.__module__ == "rushlight.optim.lr_scheduler"
        assert pickle.loads(pickle.dumps(cls)) is cls


def test_widths_of_convolutions():
    """Subclasses written for PyTorch pad by them; PyTorch's order is from the last dim on."""
    conv = nn.Conv2d(1, 1, (3, 4), padding=(1, 2))
    assert conv._reversed_padding_repeated_twice == [2, 2, 1, 1]
    assert conv.__getstate__()["_reversed_padding_repeated_twice"] == [2, 2, 1, 1]
    assert nn.Conv1d(1, 1, 4, padding="same")._reversed_padding_repeated_twice == [1, 2]
    again = pickle.loads(pickle.dumps(conv))
    assert "_reversed_padding_repeated_twice" not in again.__dict__
    x = rl.randn(1, 1, 5, 5)
    assert rl.equal(again(x), conv(x))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_weights_of_recurrent_layers(kind):
    net = getattr(nn, kind)(2, 3, num_layers=2)
    state = net.__getstate__()
    assert all(a is b for a, b in zip(state["_flat_weights"], net.parameters(), strict=True))
    x = rl.randn(4, 1, 2)
    for again in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert rl.equal(again(x)[0], net(x)[0])
        assert [n for n, _ in again.named_parameters()] == [n for n, _ in net.named_parameters()]
