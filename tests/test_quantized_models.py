"""Quantized models with sums, pools and layers of their own; numbers as PyTorch 2.13 gives them."""

import copy
import io

import numpy as np
import pytest
from test_quantization import filled, numbers

import rushlight as rl
from rushlight import nn
from rushlight.ao import quantization as aq
from rushlight.ao.nn import quantized as nnq

# What PyTorch 2.13 gives for the models below, on its backend x86.
FIRST = [-0.1163132, -0.6270797, -0.0809135, -0.0758564, -0.0050571]
SECOND = [-0.0303426, -0.5916800, -0.0809135, -0.1213703, -0.0505709]
LOSSES = [0.169903, 0.144799, 0.163895, 0.118389, 0.096838]
SCALARS = {
    (0.5, 2.0): [-0.992126, 0.472441, 1.984252, 3.496063, 5.007874],
    (-3.0, -1.5): [5.988189, 4.889763, 3.755905, 2.622047, 1.488189],
    (9.0, 0.5): [4.016860, 4.374525, 4.759704, 5.117369, 5.502547],
    (-9.0, 2.0): [-19.984253, -18.495230, -17.006207, -15.517184, -13.949792],
    (0.0, 0.0): [0, 0, 0, 0, 0],
}


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.c1, self.b1, self.r1 = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(True)
        self.c2, self.b2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.sum, self.relu = nnq.FloatFunctional(), nn.ReLU(inplace=True)
        self.pool, self.small = nn.AdaptiveAvgPool2d((1, 1)), nn.AvgPool2d(2)
        self.drop, self.fc = nn.Dropout(), nn.Linear(8, 5)

    def forward(self, x):
        x = self.r1(self.b1(self.c1(self.quant(x))))
        x = self.relu(self.sum.add(self.b2(self.c2(x)), x))
        x = rl.flatten(self.pool(self.small(x)), 1)
        return self.dequant(self.fc(self.drop(x)))


def converted_residual(rng, factor=1.0):
    model = filled(Residual()).eval()
    model.qconfig = aq.get_default_qconfig("x86")
    seen = aq.prepare(aq.fuse_modules(model, [["c1", "b1", "r1"], ["c2", "b2"]]))
    for _ in range(3):
        seen(numbers(rng, 4, 3, 16, 16) * factor)
    return aq.convert(seen)


def test_a_network_with_residuals_and_pools():
    rng = np.random.default_rng(3)
    made = converted_residual(rng)
    x = numbers(rng, 2, 3, 16, 16)
    got = made(x)
    assert got[0].tolist() == pytest.approx(FIRST, abs=1e-5)
    assert got[1].tolist() == pytest.approx(SECOND, abs=1e-5)
    file = io.BytesIO()
    rl.save(made.state_dict(), file)
    file.seek(0)
    other = converted_residual(rng, 5.0)
    assert not rl.equal(other(x), got)
    other.load_state_dict(rl.load(file))  # quantized weights are among what may be loaded
    assert rl.equal(other(x), got) and rl.equal(copy.deepcopy(made)(x), got)


class Wrapped(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.quant, self.m, self.dequant = aq.QuantStub(), nn.Sequential(*layers), aq.DeQuantStub()

    def forward(self, x):
        return self.dequant(self.m(self.quant(x)))


def test_convolutions_trained_with_quantization():
    # The last channel of the second weight has numbers of one sign: its steps are not mirrored.
    model = filled(Wrapped(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 1))).train()
    model.qconfig = aq.get_default_qat_qconfig("x86")
    made = aq.prepare_qat(aq.fuse_modules_qat(model, [["m.0", "m.1"]]))
    optimizer, rng = rl.optim.SGD(made.parameters(), lr=0.05), np.random.default_rng(3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = made(numbers(rng, 4, 2, 6, 6)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(LOSSES, abs=2e-5)


class Scalars(nn.Module):
    def __init__(self, plus, times):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.a, self.b, self.plus, self.times = (
            *(nnq.FloatFunctional(), nnq.FloatFunctional()),
            *(plus, times),
        )

    def forward(self, x):
        x = self.a.add_scalar(self.quant(x), self.plus)
        return self.dequant(self.b.mul_scalar(x, self.times))


@pytest.mark.parametrize("plus, times", SCALARS)
def test_numbers_are_added_and_multiplied_by(plus, times):
    model = Scalars(plus, times).eval()
    model.qconfig = aq.default_qconfig
    seen = aq.prepare(model)
    x = rl.linspace(-1, 2, 5)
    seen(x)
    assert aq.convert(seen)(x).tolist() == pytest.approx(SCALARS[plus, times], abs=1e-5)


def test_quantized_convolutions_are_made_like_plain_ones():
    layer = nnq.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    assert (layer.in_channels, layer.out_channels, layer.kernel_size) == (4, 6, (3, 3))
    assert (layer.stride, layer.padding, layer.groups) == ((2, 2), (1, 1), 2)
    x = rl.quantize_per_tensor(rl.randn(4, 5, 5), 0.1, 10, rl.quint8)
    assert layer(x).shape == (6, 3, 3)  # without a batch
    with pytest.raises(ValueError, match="divisible"):
        nnq.Conv2d(3, 4, 3, groups=2)


def test_hooks_stay_when_modules_are_exchanged():
    model, seen = Wrapped(nn.Linear(6, 8)).eval(), []
    model.m[0].register_forward_hook(lambda *_: seen.append("after"))
    model.m[0].register_forward_pre_hook(lambda *_: seen.append("before"))
    model.qconfig = aq.default_qconfig
    prepared = aq.prepare(model)
    prepared(rl.randn(3, 6))
    aq.convert(prepared)(rl.randn(3, 6))
    assert seen == ["before", "after"] * 2


def test_dynamic_layers_say_what_does_not_fit():
    made = aq.quantize_dynamic(nn.Sequential(nn.Linear(8, 6)))
    with pytest.raises(RuntimeError, match="as many elements as the weight has columns"):
        made(rl.ones(4, 4))
    with pytest.raises(NotImplementedError, match=r"half\(\)"):
        aq.quantize_dynamic(nn.Sequential(nn.Linear(8, 6)), dtype=rl.float16)
    lstm = aq.quantize_dynamic(nn.Sequential(nn.LSTM(3, 4, 2, dropout=0.5)))
    assert repr(lstm[0]) == "DynamicQuantizedLSTM(3, 4)"


@pytest.mark.parametrize("arguments, error, text", [
    ({"quant_min": 1, "quant_max": 10}, ValueError, "0 must be among"),
    ({"qscheme": rl.per_channel_affine}, NotImplementedError, "PerChannelMinMaxObserver"),
    ({"quant_min": 10, "quant_max": 1}, ValueError, "larger"),
])  # fmt: skip
def test_observers_refuse(arguments, error, text):
    with pytest.raises(error, match=text):
        aq.MinMaxObserver(**arguments)


def test_zero_points_between_integers():
    observer = aq.PerChannelMinMaxObserver(
        ch_axis=0, qscheme=rl.per_channel_affine_float_qparams, dtype=rl.quint8
    )
    x = rl.tensor([[-1.0, 0.5, 2.0], [3.0, 4.0, 8.0]])
    observer(x)
    scale, zero = observer.calculate_qparams()
    assert scale.tolist() == pytest.approx([3 / 255, 5 / 255])
    assert zero.tolist() == pytest.approx([85, -153]) and zero.dtype == rl.float32
    q = rl.quantize_per_channel(x, scale, zero, 0, rl.quint8)
    assert q.qscheme() == rl.per_channel_affine_float_qparams
    assert q.int_repr().tolist() == [[0, 128, 255], [0, 51, 255]]
    rl.testing.assert_close(q.dequantize(), x, rtol=0, atol=0.01)
