"""Quantized modules beyond Linear and Conv, PyTorch's state dicts of them, and training with batch
norms; numbers as PyTorch 2.13 gives them (on its engine fbgemm: x86 computes transposed
convolutions with kernels of even sizes wrongly)."""

import copy
import io

import numpy as np
import pytest
from test_quantization import DATA, filled, numbers

import rushlight as rl
from rushlight import nn
from rushlight.ao import quantization as aq
from rushlight.ao.nn import intrinsic
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.intrinsic import qat as joined_qat

STEP = 0.007236435543745756
RESULT = [0.3256396, 0.0144729, 0.4269497, -0.3690582, 0.4052404, -0.1013101, 0.4703683, -0.2677481]
BAG = [0.0395466, -0.1469887, -0.8061340, 0.7169356, -0.1479360, 0.4960965]
LOSSES = [1.396643, 0.942298, 1.523978, 0.951147, 1.140090, 1.267415]
TRAINED = [0.099801, 0.316036, 0.199601, -0.316036, -0.199601]


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.conv, self.up = nn.Conv2d(2, 4, 3), nn.ConvTranspose2d(4, 3, 2, 2, 1, bias=False)
        self.elu, self.swish, self.leaky = nn.ELU(), nn.Hardswish(), nn.LeakyReLU(0.1)
        self.group, self.norm, self.layer = nn.GroupNorm(2, 4), nn.BatchNorm2d(3), nn.LayerNorm(6)
        self.fc, self.sum = nn.Linear(6, 2), nnq.FloatFunctional()
        self.table = nn.EmbeddingBag(9, 6, mode="sum")

    def forward(self, x, indices):
        x = self.group(self.elu(self.conv(self.quant(x))))
        x = self.norm(self.leaky(self.up(x)))
        x = self.layer(self.swish(self.sum.add(x, x)))
        return self.dequant(self.fc(rl.tanh(x))), self.table(indices)


INDICES = rl.tensor([[1, 8, 3], [0, 0, 5]])


def converted():
    model = filled(Mixed()).eval()
    model.qconfig = aq.get_default_qconfig("x86")
    model.up.qconfig = aq.QConfig(model.qconfig.activation, aq.default_weight_observer)
    model.table.qconfig = aq.float_qparams_weight_only_qconfig
    x = numbers(np.random.default_rng(3), 2, 2, 6, 6)
    seen = aq.prepare(model)
    seen(x, INDICES)
    return aq.convert(seen), x


def close(got, want):
    # One step of the result: sums are exact, but float32 scales may tip a tie.
    assert got == pytest.approx(want, abs=STEP * 1.01)
    return sum(abs(a - b) > 1e-5 for a, b in zip(got, want, strict=True))


def test_layers_norms_and_activations_are_those_of_pytorch():
    made, x = converted()
    out, bags = made(x, INDICES)
    assert close(out.flatten()[:8].tolist(), RESULT) <= 1
    assert bags[1].tolist() == pytest.approx(BAG, abs=1e-6)


def test_state_dicts_of_pytorch_load():
    made, x = converted()
    for layer in (made.conv, made.up, made.fc):  # the state dict brings all of these back
        layer.scale, layer.zero_point = 3.0, 1
        ones = rl.quantize_per_tensor(rl.ones(layer.weight().shape), 1.0, 0, rl.qint8)
        layer.set_weight_bias(ones, layer.bias())
    assert made(x, INDICES)[0].flatten()[:8].tolist() != pytest.approx(RESULT, abs=STEP)
    made.load_state_dict(rl.load(DATA / "quantized_modules.pt"))
    out, bags = made(x, INDICES)
    assert close(out.flatten()[:8].tolist(), RESULT) <= 1
    assert bags[1].tolist() == pytest.approx(BAG, abs=1e-6)
    # What is written again has PyTorch's keys, values and versions.
    state, file = rl.load(DATA / "quantized_modules.pt"), io.BytesIO()
    rl.save(made.state_dict(), file)
    file.seek(0)
    again = rl.load(file)
    assert list(again) == list(state) and again._metadata == state._metadata
    assert again["fc._packed_params.dtype"] == rl.qint8
    weight, bias = again["fc._packed_params._packed_params"]
    other, other_bias = state["fc._packed_params._packed_params"]
    assert rl.equal(weight.int_repr(), other.int_repr()) and rl.equal(bias, other_bias)
    assert again["norm.scale"].shape == state["norm.scale"].shape == (1,)
    assert again["conv.zero_point"].dtype == rl.int64
    assert rl.equal(copy.deepcopy(made)(x, INDICES)[0], out)


@pytest.mark.parametrize("key, value, text", [
    ("conv.weight", rl.zeros(4, 2, 3, 3), "qint8"),
    ("conv.weight", rl.quantize_per_tensor(rl.zeros(4, 2, 1, 1), 1.0, 0, rl.qint8), "mismatch"),
    ("conv.bias", None, "mismatch"),
    ("fc._packed_params._packed_params", (rl.zeros(2, 6), None), "qint8"),
    ("fc._packed_params._packed_params", 3, "unpack"),
    ("fc.scale", "x", "fc"),
    ("table._packed_params._packed_weight", rl.zeros(9, 6), "by rows"),
])  # fmt: skip
def test_state_dicts_that_do_not_fit_are_refused(key, value, text):
    made, _ = converted()
    state = rl.load(DATA / "quantized_modules.pt")
    state[key] = value
    with pytest.raises(RuntimeError, match=text):
        made.load_state_dict(state)
    del state[key]
    with pytest.raises(RuntimeError, match=key.replace(".", r"\.")):
        made.load_state_dict(state)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.c, self.b, self.r = nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()
        self.c2, self.b2 = nn.Conv2d(4, 4, 2), nn.BatchNorm2d(4)
        self.l, self.lb = nn.Linear(36, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        x = self.b2(self.c2(self.r(self.b(self.c(self.quant(x))))))
        return self.dequant(self.lb(self.l(x.flatten(1))))


def test_training_with_batch_norms():
    model = filled(Normed()).train()
    model.qconfig = aq.get_default_qat_qconfig("x86")
    joined = aq.fuse_modules_qat(model, [["c", "b", "r"], ["c2", "b2"], ["l", "lb"]])
    assert [type(joined.c), type(joined.l)] == [intrinsic.ConvBnReLU2d, intrinsic.LinearBn1d]
    made = aq.prepare_qat(joined)
    optimizer, rng = rl.optim.SGD(made.parameters(), lr=0.05), np.random.default_rng(3)
    losses = []
    for i in range(6):
        if i == 4:
            made.apply(joined_qat.freeze_bn_stats)
        optimizer.zero_grad()
        loss = (made(numbers(rng, 4, 2, 6, 6)) - numbers(rng, 4, 5)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(LOSSES, abs=2e-5)
    assert not made.c.bn.training and made.l.bn.training
    made.train()
    assert not made.c.bn.training  # frozen is frozen
    small = aq.convert(made.eval())
    assert type(small.c) is nnq.ConvReLU2d and type(small.l) is nnq.Linear
    got = small(numbers(rng, 1, 2, 6, 6)).flatten().tolist()
    assert got == pytest.approx(TRAINED, abs=small.l.scale * 1.01)


def test_joining_says_what_it_needs():
    model = Normed().eval()
    with pytest.raises(AssertionError, match="train"):
        aq.fuse_modules_qat(model, [["c", "b"]])
    with pytest.raises(NotImplementedError, match="fuse_modules_qat"):
        aq.fuse_modules(model.train(), [["c", "b"]])
    with pytest.raises(AssertionError, match="Conv2d, BatchNorm2d"):
        intrinsic.ConvBn2d(nn.Conv2d(1, 1, 1), nn.ReLU())
    for options in ({"affine": False}, {"track_running_stats": False}):
        pair = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, **options))
        with pytest.raises(AssertionError, match="affine=True"):
            aq.fuse_modules_qat(pair, [["0", "1"]])
    up = nn.Sequential(nn.ConvTranspose2d(2, 2, 2))
    up.qconfig = aq.get_default_qconfig("x86")
    with pytest.raises(AssertionError, match="as a whole"):
        aq.prepare(up)


def test_embeddings():
    model = nn.Sequential(nn.Embedding(12, 8))
    small = aq.quantize_dynamic(model, dtype=rl.quint8)
    indices = rl.tensor([[1, 11], [0, 5]])
    assert type(small[0]) is nnq.Embedding and small[0].weight().dtype == rl.quint8
    rl.testing.assert_close(small(indices), model(indices), rtol=0, atol=0.02)
    with pytest.raises(IndexError):
        small(rl.tensor([12]))
    assert type(aq.quantize_dynamic(model)[0]) is nn.Embedding
    bag = nn.EmbeddingBag(12, 8, mode="sum", include_last_offset=True)
    bag.qconfig = aq.float_qparams_weight_only_qconfig
    made = nnq.EmbeddingBag.from_float(bag)
    flat, offsets, weights = rl.tensor([1, 2, 3, 4]), rl.tensor([0, 3, 3, 4]), rl.rand(4)
    want = bag(flat, offsets, weights)
    rl.testing.assert_close(made(flat, offsets, weights), want, rtol=0, atol=0.05)
    bag.qconfig = aq.default_qconfig
    with pytest.raises(AssertionError, match="float_qparams"):
        nnq.EmbeddingBag.from_float(bag)
    with pytest.raises(NotImplementedError, match="mean"):
        nnq.EmbeddingBag(3, 4, mode="mean")


def test_bags_do_not_forget_their_padding():
    bag = nn.EmbeddingBag(4, 3, mode="sum", padding_idx=1)
    bag.qconfig = aq.float_qparams_weight_only_qconfig
    made = nnq.EmbeddingBag.from_float(bag)  # the row is zeros
    assert made(rl.tensor([[1, 1]])).tolist() == [[0.0] * 3]
    with rl.no_grad():
        bag.weight[1] = 1.0
    with pytest.raises(NotImplementedError, match="padding_idx"):
        nnq.EmbeddingBag.from_float(bag)


def test_dynamic_layers_say_what_does_not_fit():
    lstm, linear = nn.LSTM(4, 5, 2), nn.Linear(4, 3)
    lstm, linear = aq.quantize_dynamic(nn.ModuleList([lstm, linear]))
    x, h = rl.zeros(3, 2, 4), rl.zeros(2, 2, 5)
    for wrong in (h[:1], rl.zeros(4, 2, 5), h[0]):
        with pytest.raises(RuntimeError, match=r"\[2, 2, 5\]"):
            lstm(x, (wrong, wrong))
    with pytest.raises(RuntimeError, match="3 dimensions"):
        lstm(x[None])
    with pytest.raises(RuntimeError, match="one device"):
        lstm(x, (h, h.to("meta")))
    with pytest.raises((TypeError, RuntimeError), match="float32, got int64"):
        linear(rl.ones(2, 4, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="last dim"):
        linear(rl.ones(2, 5))
    key = "_all_weight_values.0.param"
    weights, biases = lstm.state_dict()[key][:2], lstm.state_dict()[key][2:]
    for entry in ((*weights, None, None), (*weights, rl.zeros(3), rl.zeros(3)), (3, 4, 5, 6),
                  (*weights[::-1], *biases), 3):  # fmt: skip
        with pytest.raises(RuntimeError, match="state dict"):
            lstm.load_state_dict({**lstm.state_dict(), key: entry})


def test_weights_have_their_scales_along_the_outputs():
    weight = rl.quantize_per_channel(rl.randn(3, 3), rl.rand(3), rl.zeros(3).long(), 1, rl.qint8)
    with pytest.raises(RuntimeError, match="along dim 1"):
        nnq.Linear(3, 3).set_weight_bias(weight, None)
    steps = rl.rand(2), rl.zeros(2).long()
    weight = rl.quantize_per_channel(rl.randn(2, 2, 1), *steps, 0, rl.qint8)
    with pytest.raises(RuntimeError, match="one for all"):
        nnq.ConvTranspose1d(2, 2, 1).set_weight_bias(weight, None)


def test_results_have_the_dtype_of_what_was_given():
    f, a = nnq.QFunctional(), rl.quantize_per_tensor(rl.tensor([[-1.0, 2.0]]), 0.1, 0, rl.qint8)
    f.scale = 0.1
    for made in (f.cat([a, a]), f.matmul(a, a.t()), f.add(a, a), nnq.LeakyReLU(0.1, 0, 0.5)(a)):
        assert made.dtype == rl.qint8
    assert f.cat([a, a]).dequantize().flatten().tolist() == pytest.approx([-1.0, 2.0] * 2)


X = rl.linspace(-3, 3, 41)
Q = rl.quantize_per_tensor(X, 0.05, 60, rl.quint8)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "hardsigmoid", "leaky_relu", "gelu"])
def test_activations_of_quantized_tensors(name):
    function = getattr(nn.functional, name)
    made = function(Q)
    fixed = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (2 / 256, 128)}
    steps = fixed.get(name, (0.05, 60))
    assert (made.q_scale(), made.q_zero_point()) == steps
    want = rl.quantize_per_tensor(function(Q.dequantize()), *steps, rl.quint8)
    assert rl.equal(made.int_repr(), want.int_repr())


def test_modules_with_steps_of_their_own():
    for module, function in (
        (nnq.Sigmoid(1 / 256, 0), rl.sigmoid),
        (nnq.Softmax(0, 1 / 256, 0), lambda x: x.softmax(0)),
        (nnq.ELU(0.03, 40, 0.5), lambda x: nn.functional.elu(x, 0.5)),
    ):
        made = module(Q)
        assert (
            made.dequantize() - function(Q.dequantize())
        ).abs().max() <= made.q_scale() / 2 + 1e-6
    layer = nn.PReLU(init=0.25)
    layer.qconfig = aq.default_qconfig
    layer.activation_post_process = aq.default_observer()
    layer.activation_post_process(X)
    made = nnq.PReLU.from_float(layer)(Q)
    want = layer(Q.dequantize())
    assert (made.dequantize() - want).abs().max() <= made.q_scale() / 2 + 1e-2
    with pytest.raises(RuntimeError, match="QuantStub"):
        nnq.ELU(0.1, 0)(X)
    joined = aq.fuse_modules(nn.Sequential(nn.BatchNorm2d(2), nn.ReLU()).eval(), ["0", "1"])
    joined.qconfig = aq.default_qconfig
    seen = aq.prepare(joined)
    images = rl.randn(2, 2, 3, 3)
    want = seen(images)
    small = aq.convert(seen)
    assert type(small[0]) is nnq.BNReLU2d
    got = small(rl.quantize_per_tensor(images, 0.05, 64, rl.quint8))
    assert (got.dequantize() - want).abs().max() <= got.q_scale() / 2 + 0.05
