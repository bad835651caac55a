"""Recurrent layers and cells on a GPU: values and gradients are those of the CPU."""

import copy

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TOLERANCE = {rl.float32: 2e-5, rl.float64: 1e-11, rl.float16: 1e-2, rl.bfloat16: 6e-2}
LAYERS = {
    "lstm": lambda **o: nn.LSTM(5, 7, **o),
    "gru": lambda **o: nn.GRU(5, 7, **o),
    "rnn tanh": lambda **o: nn.RNN(5, 7, **o),
    "rnn relu": lambda **o: nn.RNN(5, 7, nonlinearity="relu", **o),
    "lstm projected": lambda **o: nn.LSTM(5, 7, proj_size=3, **o),
}
OPTIONS = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "both ways": {"bidirectional": True},
    "both ways, three layers": {"bidirectional": True, "num_layers": 3},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
}


def tensors(value):
    if isinstance(value, rl.Tensor):
        return [value]
    if isinstance(value, nn.utils.rnn.PackedSequence):
        return [value.data]
    return [t for v in value for t in tensors(v)]


def run(model, inputs, seed=5):
    """Outputs, and gradients of everything, as float64 arrays."""
    for t in [*inputs, *model.parameters()]:
        t.requires_grad_()
        t.grad = None
    outs = tensors(model(*inputs))
    random = np.random.RandomState(seed)
    loss = sum((o.float() * rl.from_numpy(random.randn(*o.shape)).to(o)).sum() for o in outs)
    loss.backward()
    found = [*outs, *(t.grad for t in [*inputs, *model.parameters()])]
    return [t.detach().double().cpu().numpy() for t in found]


def check(model, inputs, dtype, wrap=lambda x: x):
    """The GPU in dtype against the CPU in float64, from the same rounded numbers."""
    model = model.to(dtype)
    inputs = [t.to(dtype) for t in inputs]
    there = copy.deepcopy(model).cuda()
    got = run(wrap(there), [t.detach().cuda() for t in inputs])
    want = run(wrap(model.double()), [t.detach().double() for t in inputs])
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE[dtype] * max(1, abs(b).max()), rtol=0)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_layers(layer, options, dtype):
    rl.manual_seed(0)
    check(LAYERS[layer](**OPTIONS[options]), [rl.randn(4, 6, 5)], dtype)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types(layer, dtype):
    rl.manual_seed(0)
    check(LAYERS[layer](bidirectional=True), [rl.randn(4, 6, 5)], dtype)


class WithStates(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):
        return self.layer(x, states if len(states) == 2 else states[0])


class Packed(nn.Module):
    def __init__(self, layer, lengths, order):
        super().__init__()
        self.layer, self.lengths, self.order = layer, lengths, order

    def forward(self, x, *states):
        packed = pack_padded_sequence(x, self.lengths, enforce_sorted=self.order)
        out, last = self.layer(packed, *states)
        return pad_packed_sequence(out)[0], last


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("layers", [1, 2])
def test_initial_states(layer, layers):
    rl.manual_seed(1)
    width = 3 if "projected" in layer else 7
    states = [rl.randn(2 * layers, 6, width)]
    if layer.startswith("lstm"):
        states.append(rl.randn(2 * layers, 6, 7))
    model = LAYERS[layer](bidirectional=True, num_layers=layers)
    check(model, [rl.randn(4, 6, 5), *states], rl.float64, WithStates)


@pytest.mark.parametrize("order", [True, False])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("layer", LAYERS)
def test_packed_sequences(layer, both, order):
    rl.manual_seed(2)
    lengths = [6, 6, 4, 3, 1] if order else [3, 6, 1, 6, 4]
    model = LAYERS[layer](bidirectional=both, num_layers=2)
    check(model, [rl.randn(6, 5, 5)], rl.float32, lambda m: Packed(m, lengths, order))


def test_lengths_that_change_from_call_to_call():
    rl.manual_seed(3)
    layer = nn.LSTM(5, 7)
    there = copy.deepcopy(layer).cuda()
    for steps, batch in ((4, 3), (2, 8), (4, 3), (1, 1), (7, 3)):
        x = rl.randn(steps, batch, 5)
        with rl.no_grad():
            np.testing.assert_allclose(
                there(x.cuda())[0].cpu().numpy(), layer(x)[0].numpy(), atol=2e-6
            )


@pytest.mark.parametrize("layer", ["lstm", "gru"])
def test_dropout_draws_the_numbers_of_the_cpu(layer):
    rl.manual_seed(4)
    here = LAYERS[layer](num_layers=3, dropout=0.4).double()
    there = copy.deepcopy(here).cuda()
    x = rl.randn(4, 6, 5, dtype=rl.float64)
    rl.manual_seed(9)
    want = here(x)[0]
    rl.manual_seed(9)
    got = there(x.cuda())[0]
    np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), atol=1e-10)


def test_a_graph_that_is_kept_can_be_walked_again():
    rl.manual_seed(5)
    layer = nn.LSTM(5, 7, 2).cuda()
    y, _ = layer(rl.randn(4, 6, 5, device="cuda"))
    loss = (y * y).sum()
    first = rl.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
    again = rl.autograd.grad(loss, list(layer.parameters()))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), atol=1e-5)


@pytest.mark.parametrize("layer", ["lstm", "gru"])
def test_second_derivatives(layer):
    def penalty(device):
        rl.manual_seed(6)
        model = LAYERS[layer](num_layers=2).double().to(device)
        x = rl.randn(3, 2, 5, dtype=rl.float64).to(device).requires_grad_()
        (g,) = rl.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return [p.grad.cpu().numpy() for p in model.parameters()]

    for a, b in zip(penalty("cuda"), penalty("cpu"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_forward_mode_and_vmap():
    rl.manual_seed(7)
    layer = nn.GRU(5, 7).double()
    there = copy.deepcopy(layer).cuda()
    x = rl.randn(3, 4, 2, 5, dtype=rl.float64)
    tangent = rl.randn(4, 2, 5, dtype=rl.float64)

    def both(model, x, tangent):
        many = rl.func.vmap(lambda s: model(s)[0])(x)
        along = rl.func.jvp(lambda s: model(s)[0], (x[0],), (tangent,))[1]
        return many.detach().cpu().numpy(), along.detach().cpu().numpy()

    for a, b in zip(both(there, x.cuda(), tangent.cuda()), both(layer, x, tangent), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind, bias, dtype):
    rl.manual_seed(8)
    cell = getattr(nn, kind)(5, 7, bias=bias)
    inputs = [rl.randn(6, 5), rl.randn(6, 7)] + [rl.randn(6, 7)] * (kind == "LSTMCell")
    check(cell, inputs, dtype, WithStates)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_second_derivatives_of_cells(kind):
    def penalty(device):
        rl.manual_seed(6)
        cell = getattr(nn, kind)(5, 7).double().to(device)
        x = rl.randn(3, 5, dtype=rl.float64).to(device).requires_grad_()
        (g,) = rl.autograd.grad(tensors(cell(x))[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return [p.grad.cpu().numpy() for p in cell.parameters() if p.grad is not None]

    for a, b in zip(penalty("cuda"), penalty("cpu"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_nothing_waits_for_the_gpu():
    layer = nn.LSTM(5, 7, 2, bidirectional=True).cuda()
    x = rl.randn(4, 6, 5, device="cuda")
    layer(x)[0].sum().backward()
    rl.cuda.set_sync_debug_mode("error")
    try:
        layer(x)[0].sum().backward()
        packed = pack_padded_sequence(x, [4, 4, 3, 2, 2, 1])
        pad_packed_sequence(layer(packed)[0])[0].sum().backward()
    finally:
        rl.cuda.set_sync_debug_mode("default")


def test_tf32_follows_the_setting():
    """A long sum whose bits show whether factors were rounded to 10 bits."""
    rl.manual_seed(9)
    layer = nn.LSTM(256, 64)
    x = rl.randn(2, 32, 256)
    want = layer.double()(x.double())[0]
    there = layer.float().cuda()

    def error():
        with rl.no_grad():
            return (there(x.cuda())[0].cpu().double() - want).abs().max().item()

    exact = error()
    rl.backends.cudnn.allow_tf32 = True
    assert exact < 5e-6 < error()


@pytest.mark.parametrize("enabled", [True, False])
def test_without_cudnn_it_is_composed(enabled):
    rl.manual_seed(10)
    layer = nn.LSTM(5, 7, bidirectional=True)
    x = rl.randn(4, 6, 5)
    want = layer(x)[0]
    with rl.backends.cudnn.flags(enabled=enabled, allow_tf32=False):
        got = layer.cuda()(x.cuda())[0]
    np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), atol=5e-6)
