"""Convolution, pooling and upsampling layers: names, reprs, orders of differentiation, layouts."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

REPRS = {
    "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))": lambda: nn.Conv2d(3, 4, 3),
    "Conv1d(4, 4, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), groups=2, "
    "bias=False, padding_mode=reflect)": lambda: nn.Conv1d(4, 4, 3, 2, 1, 2, 2, False, "reflect"),
    "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)": lambda: nn.Conv2d(
        3, 4, 3, padding="same"
    ),
    "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), "
    "output_padding=(1, 1))": lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1),
    "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)": lambda: (
        nn.MaxPool2d(2)
    ),
    "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))": lambda: nn.AvgPool1d(3),
    "AdaptiveAvgPool2d(output_size=(None, 3))": lambda: nn.AdaptiveAvgPool2d((None, 3)),
    "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))": lambda: nn.MaxUnpool2d(2),
    "Upsample(scale_factor=2.0, mode='nearest')": lambda: nn.Upsample(scale_factor=2),
    "Fold(output_size=(4, 4), kernel_size=2, dilation=1, padding=0, stride=1)": lambda: nn.Fold(
        (4, 4), 2
    ),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    assert repr(REPRS[text]()) == text


def test_parameters():
    conv = nn.Conv2d(6, 4, (3, 5), groups=2)
    shapes = {k: tuple(v.shape) for k, v in conv.state_dict().items()}
    assert shapes == {"weight": (4, 3, 3, 5), "bias": (4,)}
    bound = 1 / np.sqrt(3 * 15)
    assert float(conv.weight.abs().max()) <= bound and float(conv.bias.abs().max()) <= bound
    assert tuple(nn.ConvTranspose2d(6, 4, 3, groups=2).weight.shape) == (6, 2, 3, 3)


def test_lazy_layers_learn_their_channels():
    with pytest.warns(UserWarning):
        lazy = nn.LazyConv2d(4, 3, padding=1)
    assert tuple(lazy(rl.randn(2, 5, 6, 6)).shape) == (2, 4, 6, 6)
    assert type(lazy) is nn.Conv2d and lazy.in_channels == 5


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode):
    x, conv = rl.randn(2, 3, 6, 7), nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode=mode)
    padded = F.pad(x, (2, 2, 1, 1), mode=mode)
    np.testing.assert_array_equal(
        conv(x).detach().numpy(), F.conv2d(padded, conv.weight, conv.bias).detach().numpy()
    )


def test_transposed_convolution_reaches_an_output_size():
    layer = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1)
    x = rl.randn(1, 3, 5, 5)
    assert tuple(layer(x, output_size=(10, 9)).shape) == (1, 4, 10, 9)
    with pytest.raises(ValueError):
        layer(x, output_size=(12, 9))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("last", [False, True])
def test_float32_equals_float64(groups, last):
    """One goes through oneDNN where it is there, the other through our own products."""
    rl.manual_seed(groups)
    x, w, b = rl.randn(2, 8, 9, 10), rl.randn(12, 8 // groups, 3, 2), rl.randn(12)
    x = x.contiguous(memory_format=rl.channels_last) if last else x
    results = []
    for dtype in (rl.float32, rl.float64):
        leaves = [t.detach().clone().to(dtype).requires_grad_() for t in (x, w, b)]
        y = F.conv2d(*leaves, (2, 1), (1, 2), (1, 3), groups)
        assert y.is_contiguous(memory_format=rl.channels_last) is last
        y.backward(rl.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape))
        results.append([y.detach(), *[t.grad for t in leaves]])
    for a, c in zip(*results, strict=True):
        np.testing.assert_allclose(a.double().numpy(), c.numpy(), 1e-4, 1e-4)


@pytest.mark.parametrize("args", [(2, 1, 0, 2, 1), (1, 0, 1, 2, 2), (1, 1, 0, 1, 1)])
def test_second_derivatives(args):
    stride, padding, extra, groups, dilation = args
    x = rl.randn(2, 4, 5, 5, dtype=rl.float64, requires_grad=True)
    w = rl.randn(4, 4 // groups, 2, 3, dtype=rl.float64, requires_grad=True)

    def first(function, *rest):
        y = function(x, w, None, *rest)
        gx, gw = rl.autograd.grad((y * y).sum(), (x, w), create_graph=True)
        return (gx * gx).sum() + (gw * gw * gw).sum()

    for function, rest in [
        (F.conv2d, (stride, padding, dilation, groups)),
        (F.conv_transpose2d, (stride, padding, extra, groups, dilation)),
    ]:
        grads = rl.autograd.grad(first(function, *rest), (x, w))
        for leaf, grad in zip((x, w), grads, strict=True):
            flat = leaf.detach().view(-1)
            for k in range(0, flat.numel(), 11):
                old = float(flat[k])
                flat[k] = old + 1e-6
                above = float(first(function, *rest))
                flat[k] = old - 1e-6
                below = float(first(function, *rest))
                flat[k] = old
                want = (above - below) / 2e-6
                assert abs(float(grad.view(-1)[k]) - want) < 1e-4 * (1 + abs(want))


def test_pool_and_unpool():
    x = rl.randperm(2 * 3 * 6 * 6).float().view(2, 3, 6, 6)
    y, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(y, places, 2)
    assert tuple(back.shape) == (2, 3, 6, 6) and float(back.sum()) == float(y.sum())
    with pytest.raises((RuntimeError, IndexError)):
        F.max_unpool2d(y, places + 1000, 2)


def test_max_pool_keeps_nan():
    x = rl.randn(1, 2, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    for image in (x, x.contiguous(memory_format=rl.channels_last)):
        y = F.max_pool2d(image, 2)
        assert bool(y[0, 0, 0, 0].isnan()) and int(y.isnan().sum()) == 1


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(dims):
    shape = (2, 4, *(6, 5, 4)[:dims])
    x = rl.randn(shape, dtype=rl.float64, requires_grad=True)
    w = rl.randn((6, 2, *[2] * dims), dtype=rl.float64, requires_grad=True)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    out = getattr(F, f"conv{dims}d")(x, w, **options)
    g = rl.randn_like(out)
    want = rl.autograd.grad(out, (x, w), g)
    got_x = getattr(nn.grad, f"conv{dims}d_input")(x.shape, w.detach(), g, **options)
    got_w = getattr(nn.grad, f"conv{dims}d_weight")(x.detach(), w.shape, g, **options)
    assert rl.allclose(got_x, want[0]) and rl.allclose(got_w, want[1])
    assert not got_x.requires_grad
    again = getattr(nn.grad, f"conv{dims}d_input")(x.shape, w, g, **options)
    assert rl.autograd.grad(again.sum(), w)[0].shape == w.shape


def test_conv_tbc():
    x, w, b = rl.randn(7, 2, 3), rl.randn(3, 3, 4), rl.randn(4)
    got = F.conv_tbc(x, w, b, 1)
    want = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1).permute(2, 0, 1)
    assert got.shape == (7, 2, 4) and rl.allclose(got, want)
    with pytest.raises(RuntimeError, match="conv_tbc"):
        F.conv_tbc(x[0], w, b)
