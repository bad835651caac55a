"""Quantized tensors, observers and quantized models; values as PyTorch 2.13 gives them."""

import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.ao import quantization as aq
from rushlight.serialization._rebuild import rebuild_quantized_tensor

X = rl.tensor([[-1.0, 0.0, 1.0, 2.0], [0.5, 0.26, -3.0, 100.0]])
DATA = Path(__file__).resolve().parent / "data"
TIES = rl.arange(-41, 42).float() * 0.25


def numbers(rng, *shape):
    return rl.from_numpy(rng.standard_normal(shape).astype(np.float32))


def filled(model):
    rng = np.random.default_rng(7)
    with rl.no_grad():
        for p in model.parameters():
            p.copy_(numbers(rng, *p.shape) * np.float32(0.3))
    return model


def test_quantize_per_tensor():
    q = rl.quantize_per_tensor(X, 0.1, 10, rl.quint8)
    assert q.int_repr().tolist() == [[0, 10, 20, 30], [15, 13, 0, 255]]
    assert q.int_repr().dtype == rl.uint8 and q.dtype == rl.quint8 and q.is_quantized
    assert (q.q_scale(), q.q_zero_point(), q.qscheme()) == (0.1, 10, rl.per_tensor_affine)
    want = [[-1, 0, 1, 2], [0.5, 0.3, -1, 24.5]]
    rl.testing.assert_close(q.dequantize(), rl.tensor(want))
    assert rl.equal(rl.dequantize(q), q.dequantize()) and rl.equal(X.dequantize(), X)
    # Ties are broken with the zero point added.
    ends = rl.quantize_per_tensor(TIES, 0.5, 1, rl.qint8).int_repr()
    assert ends[:5].tolist() == [-20, -19, -18, -18, -18]
    assert ends[-8:].tolist() == [18, 18, 19, 20, 20, 20, 21, 22]
    odd = rl.tensor([float("nan"), float("inf"), -float("inf")])
    assert rl.quantize_per_tensor(odd, 0.1, 10, rl.quint8).int_repr().tolist() == [255, 255, 0]
    wide = rl.quantize_per_tensor(rl.tensor([1e12, -1e12, 1.0]), 0.1, 0, rl.qint32).int_repr()
    assert wide.tolist() == [2**31 - 1, -(2**31), 10]
    both = rl.quantize_per_tensor([X, X], rl.tensor([0.1, 0.2]), rl.tensor([3, 4]), rl.quint8)
    assert [t.q_zero_point() for t in both] == [3, 4]


def test_quantize_per_channel():
    args = (rl.tensor([0.1, 0.2]), rl.tensor([0, 5]), 0, rl.qint8)
    q = rl.quantize_per_channel(X, *args)
    assert q.int_repr().tolist() == [[-10, 0, 10, 20], [8, 6, -10, 127]]
    assert q.qscheme() == rl.per_channel_affine and q.q_per_channel_axis() == 0
    assert q.q_per_channel_zero_points().tolist() == [0, 5]
    rl.testing.assert_close(q.dequantize()[1], rl.tensor([0.6, 0.2, -3, 24.4]))
    assert "axis=0" in repr(q)
    with pytest.raises(RuntimeError, match="by channel"):
        q.q_scale()


@pytest.mark.parametrize("low, high, narrow, scale, zero", [
    (-1.0, 1.0, False, 2 / 255, 128), (-3.0, 7.0, True, 10 / 127, 38), (0.0, 0.0, False, 0.1, 0),
    (2.0, 5.0, False, 5 / 255, 0), (-9.0, -1.0, True, 9 / 127, 127),
    (-1e-9, 3e-8, True, 6.0999998822808266e-05, 4),
])  # fmt: skip
def test_quantize_per_tensor_dynamic(low, high, narrow, scale, zero):
    q = rl.quantize_per_tensor_dynamic(rl.tensor([low, high]), rl.quint8, narrow)
    assert q.q_scale() == pytest.approx(scale) and abs(q.q_zero_point() - zero) <= 1


def test_what_quantized_tensors_do():
    q = rl.quantize_per_tensor(X, 0.1, 10, rl.quint8)
    for moved in (q.view(-1), q[0], q.t(), q.reshape(4, 2), q.clone(), q.flatten()):
        assert moved.is_quantized and moved.q_scale() == 0.1
    assert q[0, 1].item() == 0 and rl.equal(q, q) and bool((q == q).all())
    assert rl.cat([q, q]).shape == (4, 4) and rl.stack([q, q]).int_repr().shape == (2, 2, 4)
    assert rl.relu(q).int_repr().min() == 10
    assert nn.functional.max_pool2d(q.view(1, 1, 2, 4), 2).int_repr().tolist() == [[[[15, 255]]]]
    assert q.mean().int_repr().item() == 43
    assert q.clone().copy_(X * 2).int_repr()[0].tolist() == [0, 10, 30, 50]
    for refused in (lambda: q + q, lambda: q.sum(), lambda: nn.functional.linear(q, q)):
        with pytest.raises(NotImplementedError, match="dequantize"):
            refused()
    assert "quantization_scheme=rushlight.per_tensor_affine" in repr(q)
    for again in (copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
        assert rl.equal(again.int_repr(), q.int_repr()) and again.q_zero_point() == 10


def test_pools_and_sizes_of_images():
    q = rl.quantize_per_tensor(rl.arange(32).float().view(1, 2, 4, 4) / 10, 0.05, 3, rl.quint8)
    F = nn.functional
    assert F.avg_pool2d(q, 2).int_repr().flatten().tolist() == [8, 12, 24, 28, 40, 44, 56, 60]
    assert F.adaptive_avg_pool2d(q, 1).int_repr().flatten().tolist() == [18, 50]
    assert F.adaptive_avg_pool3d(q[None], 1).int_repr().flatten().tolist() == [34]
    assert q.mean([2, 3]).int_repr().tolist() == [[18, 50]]
    larger = F.interpolate(q, scale_factor=2).int_repr()
    assert larger.shape == (1, 2, 8, 8) and larger[0, 0, 2, :4].tolist() == [11, 11, 13, 13]
    between = F.interpolate(q, size=(3, 3), mode="bilinear", align_corners=True)
    assert between.int_repr()[0, 0].tolist() == [[3, 6, 9], [15, 18, 21], [27, 30, 33]]


@pytest.mark.parametrize("call, want", [
    (lambda q: q.relu_(), [[10, 10, 20, 30], [15, 13, 10, 255]]),
    (lambda q: nn.ReLU(inplace=True)(q), [[10, 10, 20, 30], [15, 13, 10, 255]]),
    (lambda q: nn.functional.relu6(q, True), [[10, 10, 20, 30], [15, 13, 10, 70]]),
    (lambda q: nn.functional.hardtanh_(q, -0.5, 1.0), [[5, 10, 20, 20], [15, 13, 5, 20]]),
    (lambda q: q.copy_(rl.quantize_per_tensor(X, 0.2, 3, rl.quint8)),
     [[0, 3, 8, 13], [6, 4, 0, 255]]),
    (lambda q: q.fill_(0.77), [[18] * 4] * 2),
])  # fmt: skip
def test_writing_in_place(call, want):
    q = rl.quantize_per_tensor(X, 0.1, 10, rl.quint8)
    again = call(q)
    assert again is q and q.int_repr().tolist() == want


def test_numbers_and_integers_are_not_confused():
    q, other = (rl.quantize_per_tensor(X, s, z, rl.quint8) for s, z in ((0.1, 10), (0.2, 3)))
    assert (q < other).tolist() == [[True, False, False, False], [True, False, True, True]]
    assert (q > 0.5).tolist() == [[False, False, True, True], [False, False, False, True]]
    one = rl.quantize_per_tensor(rl.tensor(1.0), 0.1, 0, rl.quint8)
    assert (float(one), int(one), one.item()) == (1, 1, 1)
    assert q.view_as(other).q_scale() == 0.1 and q.data.is_quantized
    assert q.type() == "rushlight.quantized.QUInt8Tensor" and q.type_as(other) is q
    for refused in (q.tolist, lambda: q.max(other), lambda: X.type_as(q), q.float, X.qscheme):
        with pytest.raises(NotImplementedError):
            refused()
    with pytest.raises(TypeError, match="int_repr"):
        q.numpy()
    with pytest.raises(RuntimeError, match="one dtype"):
        rl.cat([q, rl.quantize_per_tensor(X, 0.1, 1, rl.qint8)])


def test_files_hold_quantized_tensors():
    q = rl.quantize_per_tensor(X, 0.1, 10, rl.quint8)
    rows = rl.quantize_per_channel(X, rl.tensor([0.1, 0.2]), rl.tensor([0, 5]), 0, rl.qint8)
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        file = io.BytesIO()
        rl.save({"q": q, "part": q[1:], "rows": rows, "how": rl.per_channel_symmetric}, file,
                **options)  # fmt: skip
        file.seek(0)
        got = rl.load(file)
        assert got["how"] is rl.per_channel_symmetric and got["rows"].q_per_channel_axis() == 0
        assert rl.equal(got["rows"].dequantize(), rows.dequantize())
        assert (got["q"].dtype, got["q"].q_scale(), got["q"].q_zero_point()) == (rl.quint8, 0.1, 10)
        got["q"].fill_(0)
        assert got["part"].int_repr().tolist() == [[10] * 4]  # they share their memory
    theirs = rl.load(DATA / "quantized.pt")
    assert [theirs[k].dequantize().tolist() for k in ("tensor", "channels", "floats")] == [
        *([[0, 1, 2], [3, 4, 5]],) * 2,
        [[0.25, 1.25, 2.25], [3, 4, 5]],
    ]
    assert theirs["floats"].qscheme() == rl.per_channel_affine_float_qparams
    assert theirs["dtype"] == rl.qint32


@pytest.mark.parametrize("quantizer", [
    *((), (rl.per_tensor_affine, 0.1), (rl.per_tensor_affine, 0.1, 300), ("a", 0.1, 3)),
    *((rl.per_tensor_affine, "x", 3), (rl.per_channel_affine, 0.1, 3, 0)),
    (rl.per_channel_affine, rl.ones(7), rl.zeros(8), 0),
    (rl.per_channel_affine, rl.ones(8), rl.zeros(8), 1),
    (rl.per_channel_symmetric, rl.ones(8), rl.zeros(8), 0),
])  # fmt: skip
def test_files_that_do_harm_are_refused(quantizer):
    storage = rl.arange(8).to(rl.uint8).storage()
    with pytest.raises(pickle.UnpicklingError, match="quantized"):
        rebuild_quantized_tensor(None, storage, 0, (8,), (1,), quantizer, False, {})


@pytest.mark.parametrize("call, text", [
    (lambda: rl.quantize_per_tensor(X, 0.1, 300, rl.quint8), "zero_point"),
    (lambda: rl.quantize_per_tensor(X, 0.1, 0, rl.float32), "quint8, qint8 or qint32"),
    (lambda: rl.quantize_per_tensor(X.half(), 0.1, 0, rl.quint8), "float32"),
    (lambda: rl.quantize_per_channel(X, rl.ones(3), rl.zeros(3), 0, rl.qint8), "2 scales"),
    (lambda: rl.quantize_per_channel(X, rl.ones(2), rl.zeros(2), 3, rl.qint8), "axis"),
    (lambda: rl.fake_quantize_per_tensor_affine(X, 0.1, 300, 0, 255), "zero_point"),
    (lambda: rl.fake_quantize_per_tensor_affine(X, 0.1, 3, 255, 0), "quant_min"),
    (lambda: X.q_scale(), "not quantized"),
    (lambda: rl.quantize_per_tensor(X, 0.1, 2.5, rl.quint8), "integer"),
    (lambda: rl.quantize_per_tensor([X], [0.1, 0.2], [1, 2], rl.quint8), "1 tensors, 2 scales"),
    (lambda: rl.quantize_per_channel(X, rl.ones(2), rl.tensor([0, 500]), 0, rl.qint8), "-128 to"),
    (lambda: rl.quantize_per_channel(X, rl.tensor([1, 2]), rl.zeros(2), 0, rl.qint8), "floating"),
    (lambda: rl.quantize_per_channel(X, [0.1, 0.2], [0, 5], 0, rl.qint8), "must be tensors"),
    (lambda: rl.quantize_per_tensor_dynamic(X, rl.qint32, False), "quint8 or qint8"),
    (lambda: rl.fake_quantize_per_tensor_affine(X.long(), 0.1, 3, 0, 255), "floating"),
    (lambda: rl.fake_quantize_per_tensor_affine(X, 0.1, 3.5, 0, 255), "integer"),
    (lambda: rl.fake_quantize_per_channel_affine(X, rl.ones(2), rl.tensor([0, 500]).int(), 0, 0,
                                                 255), "zero points"),
    (lambda: rl.fake_quantize_per_channel_affine(X, rl.ones(2).double(), rl.zeros(2).int(), 0, 0,
                                                 255), "float32 or bfloat16"),
    (lambda: X.qscheme(), "not quantized"),
])  # fmt: skip
def test_bad_arguments(call, text):
    with pytest.raises((RuntimeError, TypeError), match=text):
        call()


def test_fake_quantization_and_its_gradient():
    assert rl.fake_quantize_per_tensor_affine(TIES, 0.5, 1, -128, 127)[-4:].tolist() == [
        *(9.5, 10, 10, 10)
    ]  # with a whole zero point, ties are broken before it is added
    rows = TIES.reshape(1, -1).repeat(2, 1)
    halves = rl.fake_quantize_per_channel_affine(
        rows, rl.tensor([0.5, 0.5]), rl.tensor([0.5, 1.5]), 0, -128, 127
    )
    assert halves[0, -4:].tolist() == [9.75, 9.75, 9.75, 10.25]
    assert halves[1, -4:].tolist() == [9.25, 9.75, 10.25, 10.25]
    x = rl.tensor([-100.0, -1.2, 0.3, 50, 500], requires_grad=True)
    y = rl.fake_quantize_per_tensor_affine(x, 0.5, 3, -128, 127)
    assert y.tolist() == [-65.5, -1, 0.5, 50, 62]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]
    x.grad = None
    scale, zero = rl.tensor([0.5]), rl.tensor([3], dtype=rl.int32)
    by_row = rl.fake_quantize_per_channel_affine(x.view(1, 5), scale, zero, 0, -128, 127)
    by_row.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("make, first, last", [
    (aq.MinMaxObserver, (0.024122, 117), (0.046843, 109)),
    (aq.MinMaxObserver.with_args(dtype=rl.qint8, qscheme=rl.per_tensor_symmetric),
     (0.026063, 0), (0.053555, 0)),
    (aq.MinMaxObserver.with_args(reduce_range=True), (0.048434, 58), (0.094055, 54)),
    (aq.MovingAverageMinMaxObserver, (0.024122, 117), (0.024222, 117)),
    (aq.MinMaxObserver.with_args(qscheme=rl.per_tensor_symmetric), (0.026063, 128),
     (0.053555, 128)),
    (aq.PerChannelMinMaxObserver.with_args(ch_axis=1, dtype=rl.qint8,
                                           qscheme=rl.per_channel_symmetric),
     (0.022182, 0), (0.043618, 0)),
    (aq.HistogramObserver, (0.02411, 117), (0.04682, 109)),
    (aq.HistogramObserver.with_args(reduce_range=True), (0.048411, 58), (0.094009, 54)),
])  # fmt: skip
def test_observers(make, first, last):
    observer, rng = make(), np.random.default_rng(3)
    observer(numbers(rng, 50, 4))
    for want in (first, last):
        scale, zero = observer.calculate_qparams()
        assert (round(scale[0].item(), 6), zero[0].item()) == want
        observer(numbers(rng, 50, 4) * 2 + 1)
        observer(numbers(rng, 50, 4) * 0.5)


def test_an_observer_that_has_seen_nothing_warns():
    with pytest.warns(UserWarning, match="seen nothing"):
        assert aq.MinMaxObserver().calculate_qparams()[0].item() == 1


def test_quantize_dynamic():
    rng = np.random.default_rng(1)
    x = numbers(rng, 5, 16)
    model = filled(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)))
    made = aq.quantize_dynamic(model, {nn.Linear})
    assert "DynamicQuantizedLinear" in repr(made) and type(model[0]) is nn.Linear
    want = model(x)
    assert ((made(x) - want).norm() / want.norm()).item() < 0.02
    file = io.BytesIO()
    rl.save(made.state_dict(), file)
    file.seek(0)
    again = aq.quantize_dynamic(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)))
    again.load_state_dict(rl.load(file))
    assert rl.equal(again(x), made(x))
    lstm = filled(nn.Sequential(nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)))
    z = numbers(rng, 3, 7, 8)
    out, (h, c) = aq.quantize_dynamic(lstm)(z)
    want, (wanted_h, wanted_c) = lstm(z)
    for got, exact in ((out, want), (h, wanted_h), (c, wanted_c)):
        assert got.shape == exact.shape and (got - exact).abs().max() < 0.05


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = aq.QuantStub()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16, 3)
        self.dequant = aq.DeQuantStub()

    def forward(self, x):
        x = self.pool(self.relu(self.bn(self.conv(self.quant(x)))))
        return self.dequant(self.fc(x.flatten(1)))


@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
def test_static_quantization(backend):
    rng = np.random.default_rng(5)
    model = filled(Model()).eval()
    model.qconfig = aq.get_default_qconfig(backend)
    fused = aq.fuse_modules(model, [["conv", "bn", "relu"]])
    seen = aq.prepare(fused)
    for _ in range(3):
        seen(numbers(rng, 6, 2, 4, 4))
    made = aq.convert(seen)
    kinds = [type(m).__name__ for m in made.children()]
    assert kinds[:2] == ["Quantize", "ConvReLU2d"] and kinds[-2:] == ["Linear", "DeQuantize"]
    x = numbers(rng, 6, 2, 4, 4)
    want = model(x)
    assert ((made(x) - want).norm() / want.norm()).item() < 0.05
    assert made.conv.weight().dtype == rl.qint8 and made.fc.bias().dtype == rl.float32
    with pytest.raises(RuntimeError, match="QuantStub"):
        made.fc(rl.ones(1, 16))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.a, self.r, self.b = nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, x):
        return self.dequant(self.b(self.r(self.a(self.quant(x)))))


def test_training_with_quantization_goes_as_in_pytorch():
    model = filled(Small()).train()
    model.qconfig = aq.get_default_qat_qconfig("x86")
    made = aq.prepare_qat(aq.fuse_modules_qat(model, [["a", "r"]]))
    optimizer, rng = rl.optim.SGD(made.parameters(), lr=0.1), np.random.default_rng(8)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = made(numbers(rng, 9, 6)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx([0.26557, 0.16645, 0.09987, 0.28482, 0.15369], abs=2e-5)
    out = aq.convert(made.eval())(numbers(rng, 4, 6)).flatten()[:6].tolist()
    assert out == pytest.approx([-0.0887, -0.1242, 0.0355, 0.0, -0.2838, -0.1596], abs=1e-4)


def test_sums_of_quantized_tensors_are_modules():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
            self.sum = rl.ao.nn.quantized.FloatFunctional()

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.sum.add_relu(x, x))

    model = Joined().eval()
    model.qconfig = aq.default_qconfig
    seen = aq.prepare(model)
    x = rl.linspace(-1, 1, 20)
    want = seen(x)
    made = aq.convert(seen)
    assert type(made.sum).__name__ == "QFunctional"
    assert (made(x) - want).abs().max() < 0.02
    with pytest.raises(ValueError, match="qconfig"):
        aq.prepare(Joined())


SCALES, ZEROS = rl.tensor([0.5, 0.25, 0.125], dtype=rl.float64), rl.tensor([0, 3, -5])
CHANNELS = rl.quantize_per_channel(
    rl.linspace(-3, 3, 24).reshape(2, 3, 4), SCALES, ZEROS, 1, rl.qint8
)


@pytest.mark.parametrize("move", [
    lambda x: x.view(2, 3, 2, 2), lambda x: x.reshape(1, 2, 3, 4), lambda x: x.flatten(2),
    lambda x: x.permute(2, 1, 0), lambda x: x.transpose(0, 1), lambda x: x.mT,
    lambda x: x.unsqueeze(0), lambda x: x[:, 1:], lambda x: x[..., 2], lambda x: x[0],
    lambda x: x[:, 1], lambda x: x[:, 2:], lambda x: x[:, rl.tensor([2, 0])], lambda x: x.flip(1),
    lambda x: x.expand(2, 3, 4), lambda x: x.narrow(1, 0, 2), lambda x: x.index_select(2, FIRST),
    lambda x: x.repeat(1, 2, 1), lambda x: x.movedim(1, 0), lambda x: x[1, 2, 3], lambda x: x[None],
    lambda x: x.roll(1, 1), lambda x: x.unflatten(2, (2, 2)), lambda x: x[1, :, 2].view_as(SCALES),
])  # fmt: skip
def test_moving_what_is_quantized_by_channel(move):
    moved = move(CHANNELS)
    assert moved.is_quantized
    assert rl.equal(moved.dequantize(), move(CHANNELS.dequantize()))
    assert rl.equal(moved.int_repr(), move(CHANNELS.int_repr()))


FIRST = rl.tensor([0, 3])


def test_where_channels_lie_afterwards():
    x = CHANNELS.transpose(0, 1)[:2].contiguous()
    assert x.qscheme() == rl.per_channel_affine
    assert x.q_per_channel_axis() == 0
    assert x.q_per_channel_scales().tolist() == [0.5, 0.25]
    assert x.q_per_channel_zero_points().tolist() == [0, 3]
    one = CHANNELS.select(1, 2)  # of one channel
    assert one.qscheme() == rl.per_tensor_affine
    assert (one.q_scale(), one.q_zero_point()) == (0.125, -5)
    parts = CHANNELS.split(2, 1)
    assert parts[0].q_per_channel_scales().tolist() == [0.5, 0.25]
    assert [p.q_scale() for p in CHANNELS.unbind(1)] == SCALES.tolist()
    view = CHANNELS.view(2, 3, 4)
    assert view.data_ptr() == CHANNELS.data_ptr()
    lonely = rl.quantize_per_channel(rl.ones(1, 2), SCALES[:1], ZEROS[:1], 0, rl.qint8)
    assert lonely.view(1, 2).q_per_channel_axis() == 0
    assert lonely[0].q_scale() == 0.5
    with pytest.raises(NotImplementedError, match=r"dims \[0, 1\]"):
        CHANNELS.view(4, 6)
    with pytest.raises(NotImplementedError, match="nothing is left"):
        CHANNELS[:0]


@pytest.mark.parametrize("dtype", [rl.quint8, rl.qint8, rl.qint32])
@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_functions_of_a_known_range(dtype, name):
    """All integers share the range, whose ends are the first and the last of them."""
    zero = 128 if dtype == rl.quint8 else 0
    x = rl.quantize_per_tensor(rl.linspace(-6, 6, 121), 0.1, zero, dtype)
    y = getattr(rl, name)(x)
    low, high = bounds(dtype)
    assert y.dtype == dtype
    assert y.q_scale() == (1 if name == "sigmoid" else 2) / (high - low + 1)
    assert y.q_zero_point() == (low if name == "sigmoid" else (low + high + 1) // 2)
    want = getattr(rl, name)(x.dequantize())
    assert (y.dequantize() - want).abs().max() <= max(y.q_scale(), 2e-7)


def bounds(dtype):
    info = rl.iinfo({rl.quint8: rl.uint8, rl.qint8: rl.int8, rl.qint32: rl.int32}[dtype])
    return info.min, info.max


class TestMovingAverages:
    X = rl.tensor([[-1.0, 0.5, 2.0, 3.0], [0.1, 0.2, 0.3, 4.0], [-5.0, -1.0, -2.0, -3.0]])

    def run(self, observes, rounds, buffers, low=0, high=255, axis=0, by_row=False, even=False):
        on = [rl.tensor([int(flag)]) for flag in (observes, rounds)]
        x = self.X.clone().requires_grad_()
        y = rl.fused_moving_avg_obs_fake_quant(
            x, *on, *buffers, 0.01, low, high, axis, by_row, even
        )
        y.sum().backward()
        return y.detach(), x.grad

    def buffers(self, low, high, n=1):
        steps = rl.full((n,), 0.1), rl.zeros(n, dtype=rl.int32)
        return rl.full((n,), low), rl.full((n,), high), *steps

    def test_nothing_is_on(self):
        buffers = self.buffers(-0.5, 0.75)
        y, grad = self.run(False, False, buffers)
        assert rl.equal(y, self.X) and (grad == 1).all()
        assert buffers[0] == -0.5 and buffers[2] == rl.tensor(0.1)

    def test_infinite_ranges_begin_with_what_is_seen(self):
        buffers = self.buffers(rl.inf, -rl.inf)
        y, grad = self.run(True, True, buffers)
        assert [b.item() for b in buffers[:2]] == [-5, 4]
        assert buffers[2].item() == pytest.approx(9 / 255) and buffers[3].item() == 142
        assert (grad == 1).all()
        assert (y - self.X).abs().max() < 9 / 255

    def test_others_move(self):
        buffers = self.buffers(-0.5, 0.75)
        y, grad = self.run(True, True, buffers)
        assert buffers[0].item() == pytest.approx(-0.545)
        assert buffers[1].item() == pytest.approx(0.7825)
        assert buffers[3].item() == 105
        assert grad[0].tolist() == [0, 1, 0, 0]  # cut off where it is zero
        assert y.max().item() == pytest.approx(0.78088, abs=1e-5)

    def test_steps_follow_ranges_that_do_not_move(self):
        buffers = self.buffers(-0.5, 0.75)
        self.run(False, True, buffers, -128, 127)
        assert buffers[2].item() == pytest.approx(1.25 / 255) and buffers[3].item() == -26

    def test_rows(self):
        buffers = rl.empty(0), rl.empty(0), rl.empty(0), rl.empty(0, dtype=rl.int32)
        y, _ = self.run(True, True, buffers, by_row=True)
        assert buffers[0].tolist() == self.X.amin(1).tolist()
        assert buffers[1].tolist() == self.X.amax(1).tolist()
        assert buffers[3].tolist() == [64, 0, 255]
        assert y[1, 3] == 4 and y[2, 0] == -5

    def test_symmetric_ranges(self):
        buffers = self.buffers(-1.0, 0.5)
        self.run(False, True, buffers, -128, 127, even=True)
        assert buffers[3].item() == 0

    def test_refusals(self):
        buffers = self.buffers(0.0, 1.0, 4)
        for kind, why in (({"axis": 1, "by_row": True}, "dim 0 only"), ({"axis": 7}, "ch_axis"),
                          ({"low": 3, "high": 3}, "quant_min")):  # fmt: skip
            with pytest.raises(RuntimeError, match=why):
                self.run(True, True, buffers, **kind)
        with pytest.raises(RuntimeError, match=r"shape \(4,\)"):
            self.run(True, True, buffers, by_row=True)
