"""Recurrent layers and cells against loops in NumPy, and against themselves in other forms."""

import copy
import itertools
import pickle
import random

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import rnn as packing

pytestmark = pytest.mark.native

KINDS = ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"]
F64 = rl.float64


def layer(kind, *args, **kwargs):
    """A float64 layer by its mode."""
    kwargs.setdefault("dtype", F64)
    if kind.startswith("RNN"):
        return nn.RNN(*args, nonlinearity=kind[4:].lower(), **kwargs)
    return getattr(nn, kind)(*args, **kwargs)


# --- a plain reference ----------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(kind, x, h, c, w_ih, w_hh, b_ih, b_hh):
    a, b = w_ih @ x + b_ih, w_hh @ h + b_hh
    if kind == "LSTM":
        i, f, g, o = np.split(a + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if kind == "GRU":
        (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
        z, n = sigmoid(az + bz), np.tanh(an + sigmoid(ar + br) * bn)
        return (1 - z) * n + z * h, c
    return (np.tanh(a + b) if kind == "RNN_TANH" else np.maximum(a + b, 0)), c


def reference(m, sequences, h0, c0):
    """One sequence at a time, one step at a time: outputs, and the last states of every layer."""
    weights = {k: v.detach().numpy() for k, v in m.named_parameters()}
    directions = ["", "_reverse"] if m.bidirectional else [""]
    outputs = []
    last_h = np.zeros(
        (m.num_layers * len(directions), len(sequences), m.proj_size or m.hidden_size)
    )
    last_c = np.zeros((len(last_h), len(sequences), m.hidden_size))
    for k, sequence in enumerate(sequences):
        for depth in range(m.num_layers):
            sides = []
            for d, suffix in enumerate(directions):
                at = depth * len(directions) + d
                name = f"_l{depth}{suffix}"
                zero = np.zeros(len(weights["weight_ih" + name]))
                args = [weights["weight_ih" + name], weights["weight_hh" + name],
                        weights.get("bias_ih" + name, zero),
                        weights.get("bias_hh" + name, zero)]  # fmt: skip
                h, c, out = h0[at, k], c0[at, k], []
                for x in sequence[:: -1 if d else 1]:
                    h, c = cell(m.mode, x, h, c, *args)
                    if m.proj_size:
                        h = weights["weight_hr" + name] @ h
                    out.append(h)
                last_h[at, k], last_c[at, k] = h, c
                sides.append(np.array(out[:: -1 if d else 1]))
            sequence = np.concatenate(sides, 1)
        outputs.append(sequence)
    return outputs, last_h, last_c


def initial_states(m, batch, given):
    count = m.num_layers * (2 if m.bidirectional else 1)
    shapes = [(count, batch, m.proj_size or m.hidden_size), (count, batch, m.hidden_size)]
    states = [rl.randn(s, dtype=F64) if given else rl.zeros(s, dtype=F64) for s in shapes]
    hx = tuple(states) if m.mode == "LSTM" else states[0]
    return [s.numpy() for s in states], hx if given else None


CONFIGS = [
    dict(zip(("kind", "layers", "bidirectional", "bias", "batch", "given"), values, strict=True))
    for values in itertools.product(
        KINDS, (1, 2), (False, True), (True, False), (1, 5), (False, True)
    )
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 6, 11])
def test_against_numpy(kind, steps):
    for config in CONFIGS:
        if config["kind"] != kind:
            continue
        m = layer(kind, 3, 5, config["layers"], bias=config["bias"],
                  bidirectional=config["bidirectional"])  # fmt: skip
        x = rl.randn(steps, config["batch"], 3, dtype=F64)
        (h0, c0), hx = initial_states(m, config["batch"], config["given"])
        out, state = m(x, hx)
        want, last_h, last_c = reference(m, x.numpy().swapaxes(0, 1), h0, c0)
        np.testing.assert_allclose(out.detach().numpy().swapaxes(0, 1), want, atol=1e-13)
        if kind == "LSTM":
            np.testing.assert_allclose(state[1].detach().numpy(), last_c, atol=1e-13)
            state = state[0]
        np.testing.assert_allclose(state.detach().numpy(), last_h, atol=1e-13)


@pytest.mark.parametrize("kind", [*KINDS, "projected"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("sorts", [False, True])
def test_packed_against_numpy(kind, bidirectional, sorts):
    sizes = {"proj_size": 3} if kind == "projected" else {}
    m = layer("LSTM" if sizes else kind, 4, 5, 2, bidirectional=bidirectional, **sizes)
    lengths = [3, 7, 1, 7, 4] if sorts else [7, 7, 4, 3, 1]
    sequences = [rl.randn(n, 4, dtype=F64) for n in lengths]
    (h0, c0), hx = initial_states(m, 5, True)
    packed, state = m(packing.pack_sequence(sequences, enforce_sorted=not sorts), hx)
    assert isinstance(packed, packing.PackedSequence)
    want, last_h, last_c = reference(m, [s.numpy() for s in sequences], h0, c0)
    for out, expected in zip(packing.unpack_sequence(packed), want, strict=True):
        np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-13)
    if m.mode == "LSTM":
        np.testing.assert_allclose(state[1].detach().numpy(), last_c, atol=1e-13)
        state = state[0]
    np.testing.assert_allclose(state.detach().numpy(), last_h, atol=1e-13)


def gradients(m, run):
    """Of a weighted sum of everything that run() returns, for its inputs and the weights."""
    inputs, results = run()
    loss = sum((r * rl.arange(r.numel(), dtype=r.dtype).view(r.shape).sin()).sum() for r in results)
    return rl.autograd.grad(loss, [*inputs, *m.parameters()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(3, 40, 30), (2, 1, 70), (1, 100, 33), (4, 9, 16)])
def test_packed_gradients_are_those_of_single_sequences(kind, sizes):
    inputs, batch, hidden = sizes
    m = layer(kind, inputs, hidden, bidirectional=True)
    rng = random.Random(batch)
    lengths = sorted([6] + [rng.randint(1, 6) for _ in range(batch - 1)], reverse=True)
    x = [rl.randn(n, inputs, dtype=F64, requires_grad=True) for n in lengths]

    def together():
        packed, state = m(packing.pack_sequence(x))
        return x, [*packing.unpack_sequence(packed), *(state if kind == "LSTM" else [state])]

    def one_by_one():
        found = [m(s) for s in x]
        states = [f[1] if kind == "LSTM" else [f[1]] for f in found]
        return x, [*[f[0] for f in found], *[rl.stack(s, 1) for s in zip(*states, strict=True)]]

    for a, b in zip(gradients(m, together), gradients(m, one_by_one), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-11)


# --- derivatives ----------------------------------------------------------------------------------

SMALL = [
    ("LSTM", {}),
    ("LSTM", {"proj_size": 1, "bidirectional": True}),
    ("LSTM", {"bias": False, "num_layers": 2}),
    ("GRU", {}),
    ("GRU", {"bidirectional": True, "num_layers": 2}),
    ("RNN_TANH", {"bidirectional": True}),
    ("RNN_RELU", {}),
]


def as_function(m, steps, batch, packed=False):
    """The layer as a function of its input, initial states and weights."""
    names = [name for name, _ in m.named_parameters()]
    _, hx = initial_states(m, batch, True)
    states = list(hx) if isinstance(hx, tuple) else [hx]
    inputs = [rl.randn(steps, batch, m.input_size, dtype=F64), *states,
              *[p.detach() for p in m.parameters()]]  # fmt: skip
    for t in inputs:
        t.requires_grad_()
    lengths = sorted((1 + k % steps for k in range(batch)), reverse=True)

    def f(x, *rest):
        states, weights = rest[: -len(names)], rest[-len(names) :]
        if packed:
            x = packing.pack_padded_sequence(x, lengths)
        hx = tuple(states) if m.mode == "LSTM" else states[0]
        out, state = rl.func.functional_call(m, dict(zip(names, weights, strict=True)), (x, hx))
        return (out.data if packed else out, *(state if m.mode == "LSTM" else [state]))

    return f, inputs


@pytest.mark.parametrize("kind, options", SMALL, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_gradcheck(kind, options, packed):
    f, inputs = as_function(layer(kind, 2, 2, **options), 3, 2, packed)
    assert rl.autograd.gradcheck(f, inputs, check_forward_ad=True)


@pytest.mark.parametrize("kind, options", SMALL, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_gradgradcheck(kind, options, packed):
    f, inputs = as_function(layer(kind, 2, 2, **options), 2, 2, packed)
    assert rl.autograd.gradgradcheck(f, inputs, fast_mode=True)


@pytest.mark.parametrize("kind, options", SMALL, ids=str)
@pytest.mark.parametrize("steps, batch", [(1, 3), (4, 1), (12, 1), (5, 40)])
def test_fused_gradients_are_the_composed_ones(kind, options, steps, batch):
    f, inputs = as_function(layer(kind, 6, 35, **options), steps, batch, packed=batch == 40)
    grads = {}
    for create_graph in (False, True):
        outs = f(*inputs)
        seeds = [rl.arange(o.numel(), dtype=F64).view(o.shape).cos() for o in outs]
        grads[create_graph] = rl.autograd.grad(outs, inputs, seeds, create_graph=create_graph)
    for fused, composed in zip(grads[False], grads[True], strict=True):
        assert composed.requires_grad and not fused.requires_grad
        np.testing.assert_allclose(fused.numpy(), composed.detach().numpy(), atol=1e-11)


def test_second_derivatives_keep_arguments_apart():
    # The input is computed from a weight: its own derivative must not count twice.
    m = layer("GRU", 2, 2)
    x = m.weight_ih_l0[:3].reshape(3, 1, 2) * 1.5
    out, _ = m(x)
    plain = rl.autograd.grad(out.sum(), m.weight_ih_l0, retain_graph=True)[0]
    graph = rl.autograd.grad(out.sum(), m.weight_ih_l0, create_graph=True)[0]
    np.testing.assert_allclose(plain.numpy(), graph.detach().numpy(), atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_tangents_of_the_incoming_gradient_are_kept(kind):
    # Forward over reverse where only what follows the layer has a tangent.
    m, x = layer(kind, 3, 4), rl.randn(5, 2, 3, dtype=F64, requires_grad=True)
    scale, tangent = rl.tensor(0.7, dtype=F64), rl.tensor(1.0, dtype=F64)
    with rl.autograd.forward_ad.dual_level():
        dual = rl.autograd.forward_ad.make_dual(scale, tangent)
        grad = rl.autograd.grad((m(x)[0] * dual).sum(), x)[0]
        along = rl.autograd.forward_ad.unpack_dual(grad).tangent
    plain = rl.autograd.grad(m(x)[0].sum(), x)[0]
    np.testing.assert_allclose(along.numpy(), plain.numpy(), atol=1e-14)


@pytest.mark.parametrize("kind, options", SMALL, ids=str)
def test_vmap(kind, options):
    m = layer(kind, 3, 4, **options)
    x = rl.randn(5, 6, 2, 3, dtype=F64)
    for got, want in zip(rl.vmap(lambda s: m(s)[0])(x), x, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), m(want)[0].detach().numpy(), atol=1e-13)
    # Gradients of single samples.
    weights = {k: v.detach() for k, v in m.named_parameters()}

    def loss(weights, sample):
        return rl.func.functional_call(m, weights, (sample,))[0].pow(2).sum()

    each = rl.vmap(rl.func.grad(loss), (None, 0))(weights, x)
    for k, sample in enumerate(x):
        for name, g in rl.func.grad(loss)(weights, sample).items():
            np.testing.assert_allclose(each[name][k].numpy(), g.numpy(), atol=1e-12)


def test_jacobian_by_batched_gradients():
    m, x = layer("LSTM", 2, 3), rl.randn(3, 1, 2, dtype=F64)
    whole = rl.autograd.functional.jacobian(lambda t: m(t)[0], x, vectorize=True)
    plain = rl.autograd.functional.jacobian(lambda t: m(t)[0], x)
    np.testing.assert_allclose(whole.numpy(), plain.numpy(), atol=1e-14)


def test_some_gradients_only():
    m, x = layer("LSTM", 3, 4), rl.randn(5, 2, 3, dtype=F64, requires_grad=True)
    full = rl.autograd.grad(m(x)[0].sum(), [x, *m.parameters()])
    for k, p in enumerate([x, *m.parameters()]):
        alone = rl.autograd.grad(m(x)[0].sum(), p)[0]
        np.testing.assert_allclose(alone.numpy(), full[k].numpy(), atol=1e-14)
    _, (_, c) = m(x)
    only_c = rl.autograd.grad(c.sum(), x)[0]
    assert float(only_c.abs().sum()) > 0
    for p in m.parameters():
        p.requires_grad_(False)
    m(x)[0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), full[0].numpy(), atol=1e-14)


# --- types, threads, memory -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dtype, close", [(rl.float32, 2e-6), (rl.bfloat16, 5e-2), (rl.float16, 4e-3)]
)
def test_narrow_types(kind, dtype, close):
    m = layer(kind, 6, 37, 2, bidirectional=True)
    x = rl.randn(5, 3, 6, dtype=F64)
    narrow = copy.deepcopy(m).to(dtype)
    exact = copy.deepcopy(narrow).to(F64)  # the same rounded weights
    given = x.to(dtype).requires_grad_()
    out, state = narrow(given)
    want, _ = exact(given.detach().to(F64))
    assert out.dtype == dtype and all(
        s.dtype == dtype for s in (state if kind == "LSTM" else [state])
    )
    np.testing.assert_allclose(out.detach().double().numpy(), want.detach().numpy(), atol=close)
    out.float().sum().backward()
    assert given.grad.dtype == dtype and narrow.weight_hh_l1.grad.dtype == dtype
    assert bool(given.grad.isfinite().all())


@pytest.mark.parametrize("steps", [1, 4])
def test_float32_tanh(steps):
    m = nn.RNN(1, 1, bias=False)
    with rl.no_grad():
        m.weight_ih_l0.fill_(1.0)
        m.weight_hh_l0.fill_(0.0)
    x = np.concatenate([np.linspace(-12, 12, 20001), np.geomspace(1e-30, 1e30, 999)])
    x = np.concatenate([x, -x, [0.0, np.inf, -np.inf]]).astype(np.float32)
    y = m(rl.tensor(x).view(1, -1, 1).repeat(steps, 1, 1))[0][0, :, 0].detach().double().numpy()
    np.testing.assert_allclose(y, np.tanh(x.astype(np.float64)), rtol=4e-7)
    assert np.abs(y).max() == 1
    assert bool(m(rl.full((steps, 1, 1), float("nan")))[0].isnan().all())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_saturated_gates(kind):
    m = layer(kind, 1, 40, dtype=rl.float32)
    x = (rl.tensor([1e5, -1e5, 3e38]).view(3, 1, 1)).requires_grad_()
    out, _ = m(x)
    out.sum().backward()
    assert bool(out.isfinite().all()) and bool(x.grad.isfinite().all())


def test_autocast():
    x = rl.randn(4, 2, 3)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert nn.LSTM(3, 4)(x)[0].dtype == rl.bfloat16
        assert nn.RNN(3, 4)(x)[0].dtype == rl.bfloat16
        assert nn.RNNCell(3, 4)(x[0]).dtype == rl.bfloat16
        assert nn.GRU(3, 4)(x)[0].dtype == rl.float32
        assert nn.LSTMCell(3, 4)(x[0])[0].dtype == rl.float32
        # What an earlier layer gave in bfloat16 is welcome.
        assert nn.GRU(3, 4)(x.bfloat16())[0].dtype == rl.float32
    m = nn.LSTM(3, 4)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        m(x)[0].float().sum().backward()
    assert m.weight_hh_l0.grad.dtype == rl.float32


@pytest.mark.threads
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [(40, 1, 3, 80), (9, 64, 3, 70), (7, 5, 3, 200), (3, 130, 20, 33)]
)
def test_threads_do_not_change_a_bit(kind, shape):
    steps, batch, inputs, hidden = shape
    m = layer(kind, inputs, hidden, bidirectional=True, dtype=rl.float32)
    x = rl.randn(steps, batch, inputs)
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            with rl.no_grad():
                found.append(m(x)[0].numpy())
    finally:
        rl.set_num_threads(before)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.threads
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_with_threads(kind):
    m = layer(kind, 20, 70, bidirectional=True)
    lengths = sorted((1 + k * 7 % 9 for k in range(50)), reverse=True)
    x = rl.randn(9, 50, 20, dtype=F64, requires_grad=True)
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 3):
            rl.set_num_threads(threads)
            out, _ = m(packing.pack_padded_sequence(x, lengths))
            found.append(rl.autograd.grad((out.data * out.data).sum(), [x, *m.parameters()]))
    finally:
        rl.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-11)


def test_nothing_is_kept_without_gradients():
    m, x = nn.LSTM(64, 64), rl.randn(100, 16, 64)

    def kept():
        before = rl.memory_stats()["allocated"]
        result = m(x)
        return rl.memory_stats()["allocated"] - before, result

    m(x)
    results = 100 * 16 * 64 * 4 + 2 * 16 * 64 * 4
    with rl.no_grad():
        assert kept()[0] <= 1.1 * results + 4096
    with rl.inference_mode():
        assert kept()[0] <= 1.1 * results + 4096
    assert kept()[0] > 5 * results  # gates and cells


@pytest.mark.parametrize("kind", KINDS)
def test_no_leaks(kind):
    m, x = layer(kind, 5, 6, 2, bidirectional=True), rl.randn(7, 3, 5, dtype=F64)
    x.requires_grad_()

    def step():
        out, _ = m(x)
        (g,) = rl.autograd.grad(out.sum(), x, create_graph=True)
        g.pow(2).sum().backward()
        m(x)[0].sum().backward()
        with rl.no_grad():
            m(x)

    step()
    before = rl.memory_stats()["allocated"]
    for _ in range(3):
        step()
    assert rl.memory_stats()["allocated"] == before


def test_long_sequences():
    m, x = nn.RNN(1, 2), rl.randn(20000, 1, 1)
    m(x)[0].sum().backward()
    assert bool(m.weight_hh_l0.grad.isfinite().all())


# --- the layer's forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_and_missing_batch(kind):
    m = layer(kind, 3, 4, 2, bidirectional=True)
    other = layer(kind, 3, 4, 2, bidirectional=True, batch_first=True)
    other.load_state_dict(m.state_dict())
    x = rl.randn(6, 2, 3, dtype=F64)
    out, state = m(x)
    first, state_first = other(x.transpose(0, 1))
    assert first.shape == (2, 6, 8)
    np.testing.assert_array_equal(first.transpose(0, 1).detach().numpy(), out.detach().numpy())
    h, h_first = (s[0] if kind == "LSTM" else s for s in (state, state_first))
    np.testing.assert_array_equal(h.detach().numpy(), h_first.detach().numpy())
    for model in (m, other):
        alone, single = model(x[:, 1])
        np.testing.assert_allclose(alone.detach().numpy(), out[:, 1].detach().numpy(), atol=1e-14)
        single = single[0] if kind == "LSTM" else single
        np.testing.assert_allclose(single.detach().numpy(), h[:, 1].detach().numpy(), atol=1e-14)
        again, _ = model(x[:, 1], tuple(s[:, 1] for s in state) if kind == "LSTM" else state[:, 1])
        want, _ = m(x, state)
        np.testing.assert_allclose(again.detach().numpy(), want[:, 1].detach().numpy(), atol=1e-14)


def test_states_carry_a_sequence_on():
    for kind in KINDS:
        m, x = layer(kind, 3, 4, 2), rl.randn(9, 2, 3, dtype=F64)
        whole, last = m(x)
        first, state = m(x[:4])
        second, end = m(x[4:], state)
        np.testing.assert_allclose(rl.cat([first, second]).detach(), whole.detach(), atol=1e-14)
        a, b = (end[1], last[1]) if kind == "LSTM" else (end, last)
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-14)


def test_empty_batch():
    for kind in KINDS:
        m, x = layer(kind, 3, 4), rl.randn(5, 0, 3, dtype=F64, requires_grad=True)
        out, state = m(x)
        assert out.shape == (5, 0, 4) and (state[0] if kind == "LSTM" else state).shape == (1, 0, 4)
        out.sum().backward()
        assert x.grad.shape == x.shape and float(m.weight_hh_l0.grad.abs().sum()) == 0


CELLS = [("LSTM", nn.LSTMCell), ("GRU", nn.GRUCell)]
CELLS += [("RNN_TANH", nn.RNNCell), ("RNN_RELU", nn.RNNCell)]


@pytest.mark.parametrize("kind, one", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells_are_layers_of_one_step(kind, one, bias):
    m = layer(kind, 3, 4, bias=bias)
    more = {"nonlinearity": kind[4:].lower()} if kind.startswith("RNN") else {}
    c = one(3, 4, bias=bias, dtype=F64, **more)
    c.load_state_dict({k.removesuffix("_l0"): v for k, v in m.state_dict().items()})
    x = rl.randn(5, 2, 3, dtype=F64)
    state = None
    for k, step in enumerate(x):
        state = c(step, state)
        h = state[0] if kind == "LSTM" else state
        np.testing.assert_allclose(h.detach(), m(x)[0][k].detach(), atol=1e-14)
    state = None
    for step in x[:, 1]:
        state = c(step, state)
    alone = state[0] if kind == "LSTM" else state
    assert alone.shape == (4,)
    np.testing.assert_allclose(alone.detach(), h[1].detach(), atol=1e-14)


def test_dropout_between_layers():
    m = nn.LSTM(4, 4, 2, dropout=0.25)
    with rl.no_grad():
        for name, p in m.named_parameters():
            p.zero_() if name != "bias_ih_l0" else p.fill_(10.0)
        # Layer 1 gives its input's sum to every unit, so its gates show what was dropped.
        m.weight_ih_l1[8:12] = rl.eye(4) * 0.1
    x = rl.zeros(200, 50, 4)
    first = nn.LSTM(4, 4)
    first.load_state_dict({k: v for k, v in m.state_dict().items() if k.endswith("_l0")})
    level = float(first(x)[0][-1, 0, 0])
    # With zero weights on the states, step t of layer 1 is a running mean of what it was given.
    m.train()
    out = m(x)[0]
    m.eval()
    still = m(x)[0]
    assert level > 0.9 and float((out - still).abs().max()) > 1e-3
    assert abs(float(out[10:].mean() / still[10:].mean()) - 1) < 0.02
    assert rl.equal(m(x)[0], still)
    m.train()
    rl.manual_seed(3)
    again = m(x)[0]
    rl.manual_seed(3)
    assert rl.equal(m(x)[0], again)


def test_dropout_of_everything():
    m = nn.GRU(3, 4, 2, dropout=1.0)
    x = rl.randn(5, 2, 3)
    assert rl.equal(m(x)[0], m(x * 2)[0])  # nothing of the input arrives
    with pytest.warns(UserWarning, match="between layers"):
        nn.GRU(3, 4, dropout=0.5)


# --- parameters, state, texts ---------------------------------------------------------------------


def test_parameter_names_and_shapes():
    m = nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2)
    shapes = {k: tuple(v.shape) for k, v in m.state_dict().items()}
    kinds = {"weight_ih": (20, None), "weight_hh": (20, 2), "bias_ih": (20,), "bias_hh": (20,),
             "weight_hr": (2, 5)}  # fmt: skip
    want = {}
    for depth, direction in itertools.product((0, 1), ("", "_reverse")):
        for kind, shape in kinds.items():
            inputs = 3 if depth == 0 else 4
            want[f"{kind}_l{depth}{direction}"] = (20, inputs) if shape[-1] is None else shape
    assert shapes == want and list(shapes) == list(want)
    assert [w.shape for w in m._flat_weights] == [p.shape for p in m.parameters()]
    assert len(m.all_weights) == 4 and m.all_weights[1][0] is m.weight_ih_l0_reverse
    assert all(float(p.abs().max()) <= 5**-0.5 for p in m.parameters())
    assert m.flatten_parameters() is None
    m.weight_hh_l1 = nn.Parameter(rl.zeros(20, 2))
    assert m._flat_weights[11] is m.weight_hh_l1
    m._flat_weights = m._flat_weights
    assert list(nn.GRUCell(3, 4, bias=False).state_dict()) == ["weight_ih", "weight_hh"]
    assert nn.GRUCell(3, 4, bias=False).bias_ih is None


def test_copies_pickles_and_state():
    m = nn.LSTM(3, 4, 2, bidirectional=True)
    x = rl.randn(5, 2, 3)
    want = m(x)[0]
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert rl.equal(twin(x)[0], want)
        assert twin._flat_weights[0] is twin.weight_ih_l0 is not m.weight_ih_l0
        twin.weight_ih_l0.data.zero_()
        assert rl.equal(m(x)[0], want)
    other = nn.LSTM(3, 4, 2, bidirectional=True)
    other.load_state_dict(m.state_dict())
    assert rl.equal(other(x)[0], want)
    assert m.double()(x.double())[0].dtype == F64


REPRS = {
    "LSTM(3, 4)": lambda: nn.LSTM(3, 4),
    "LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True)": lambda: nn.LSTM(
        3, 4, 2, bidirectional=True, proj_size=2
    ),
    "RNN(3, 4, num_layers=3, bias=False, batch_first=True, dropout=0.2)": lambda: nn.RNN(
        3, 4, 3, "relu", False, True, 0.2
    ),
    "RNNCell(3, 4, bias=False, nonlinearity=relu)": lambda: nn.RNNCell(3, 4, False, "relu"),
    "LSTMCell(3, 4)": lambda: nn.LSTMCell(3, 4),
    "RNNBase(3, 4)": lambda: nn.RNNBase("GRU", 3, 4),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    assert repr(REPRS[text]()) == text


X = rl.randn(5, 3, 4)
ERRORS = [
    # what is built, the error, a word of its text
    (lambda: nn.LSTM(4, 6, proj_size=6), ValueError, "smaller than hidden_size"),
    (lambda: nn.LSTM(4, 6, proj_size=-1), ValueError, "proj_size"),
    (lambda: nn.GRU(4, 6, proj_size=2), ValueError, "LSTM only"),
    (lambda: nn.RNN(4, 6, proj_size=2), ValueError, "LSTM only"),
    (lambda: nn.RNN(4, 6, nonlinearity="sin"), ValueError, "'tanh' or 'relu'"),
    (lambda: nn.RNNBase("LST", 4, 6), ValueError, "mode"),
    (lambda: nn.LSTM(4, 6, dropout=1.5), ValueError, "between 0 and 1"),
    (lambda: nn.LSTM(4, 6, dropout=True), ValueError, "between 0 and 1"),
    (lambda: nn.LSTM(4, 0), ValueError, "greater than zero"),
    (lambda: nn.LSTM(0, 6), ValueError, "greater than zero"),
    (lambda: nn.LSTM(4, 6, 0), ValueError, "num_layers"),
    (lambda: nn.LSTM(4, 6.5), TypeError, "hidden_size must be an int"),
    (lambda: nn.LSTM(4, 6)(rl.randn(5, 3, 7)), RuntimeError, "input_size=4"),
    (lambda: nn.LSTM(4, 6)(rl.randn(5)), ValueError, "3 dimensions, or 2"),
    (lambda: nn.GRU(4, 6)(rl.randn(1, 5, 3, 4)), ValueError, "3 dimensions, or 2"),
    (lambda: nn.LSTM(4, 6)(X, (rl.zeros(2, 3, 6), rl.zeros(1, 3, 6))), RuntimeError, "initial h"),
    (lambda: nn.LSTM(4, 6)(X, (rl.zeros(1, 3, 6), rl.zeros(1, 3, 7))), RuntimeError, "initial c"),
    (lambda: nn.LSTM(4, 6)(X, (rl.zeros(3, 6), rl.zeros(3, 6))), RuntimeError, "3 dimensions"),
    (lambda: nn.GRU(4, 6)(X[:, 0], rl.zeros(1, 3, 6)), RuntimeError, "2 dimensions"),
    (lambda: nn.GRU(4, 6)(X, rl.zeros(2, 3, 6)), RuntimeError, r"\[1, 3, 6\]"),
    (lambda: nn.LSTM(4, 6)(X, rl.zeros(1, 3, 6)), IndexError, "pair"),
    (lambda: nn.LSTM(4, 6)(X.double()), ValueError, "float64"),
    (lambda: nn.LSTM(4, 6)(X.long()), ValueError, "int64"),
    (lambda: nn.GRU(4, 6)(X, rl.zeros(1, 3, 6).double()), RuntimeError, "dtype"),
    (lambda: nn.RNN(4, 6)(X[:0]), RuntimeError, "at least one step"),
    (lambda: nn.RNNBase("GRU", 4, 6)(X), NotImplementedError, "forward"),
    (lambda: nn.LSTMCell(4, 6)(rl.randn(3, 5)), RuntimeError, "input_size=4"),
    (lambda: nn.LSTMCell(4, 6)(X), ValueError, "2 dimensions, or 1"),
    (lambda: nn.LSTMCell(4, 6)(X[0], rl.zeros(3, 6)), TypeError, "pair"),
    (lambda: nn.LSTMCell(4, 6)(X[0], (rl.zeros(3, 6), rl.zeros(3, 5))), RuntimeError, r"\[3, 6\]"),
    (lambda: nn.GRUCell(4, 6)(X[0], rl.zeros(2, 6)), RuntimeError, r"\[3, 6\]"),
    (lambda: nn.RNNCell(4, 6)(X[0, 0], rl.zeros(1, 6)), RuntimeError, r"\[6\]"),
    (lambda: nn.RNNCell(4, 6, nonlinearity="sin")(X[0]), RuntimeError, "nonlinearity"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, text", ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def function_call(**changes):
    m = nn.GRU(4, 6)
    arguments = {"input": X, "hx": rl.zeros(1, 3, 6), "params": m._flat_weights, "has_biases": True,
                 "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False,
                 "batch_first": False}  # fmt: skip
    return rl.gru(*{**arguments, **changes}.values())


def test_functions_check_their_arguments():
    weights = nn.GRU(4, 6)._flat_weights
    assert function_call()[0].shape == (5, 3, 6)
    assert function_call(hx=None)[0].shape == (5, 3, 6)
    bad = [
        ({"input": X[0]}, "3 dimensions"),
        ({"hx": rl.zeros(1, 3, 5)}, "hx must have shape"),
        ({"params": weights[:3]}, "parameters"),
        ({"num_layers": 0}, "num_layers"),
        ({"num_layers": 2}, "parameters"),
        ({"dropout": 2.0}, "probability"),
        ({"params": [weights[0], weights[1][:, :5], *weights[2:]]}, "w_hh must have shape"),
        ({"params": [weights[0][:, :3], *weights[1:]]}, "takes inputs of size 3"),
        ({"params": [*weights[:3], weights[3][:4]]}, "bias must have shape"),
        ({"params": [w.double() for w in weights]}, "same dtype"),
        ({"params": [weights[0], weights[1][0], *weights[2:]]}, "2 dimensions"),
    ]
    for changes, text in bad:
        with pytest.raises(RuntimeError, match=text):
            function_call(**changes)
    data, options = rl.randn(5, 4), (weights, True, 1, 0.0, False, False)
    for sizes, text in [
        ([2, 3], "not grow"),
        ([3, 0], "positive"),
        ([3, 3], "add up"),
        ([], "empty"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            rl.gru(data, rl.tensor(sizes, dtype=rl.int64), None, *options)
    with pytest.raises(RuntimeError, match="two tensors"):
        rl.lstm(
            X, [rl.zeros(1, 3, 6)], nn.LSTM(4, 6)._flat_weights, True, 1, 0.0, False, False, False
        )


def test_summary_counts_products():
    m = nn.LSTM(3, 4, 2, proj_size=2)
    weights = 16 * 3 + 16 * 2 + 2 * 4 + 16 * 2 + 16 * 2 + 2 * 4
    assert m.multiply_adds((), m(rl.randn(5, 7, 3))) == 35 * weights
    packed = packing.pack_sequence([rl.randn(5, 3), rl.randn(2, 3)])
    assert m.multiply_adds((), m(packed)) == 7 * weights
    c = nn.GRUCell(3, 4)
    assert c.multiply_adds((), c(rl.randn(5, 3))) == 5 * 12 * 7


def test_complex_numbers():
    m = nn.GRU(2, 3, dtype=rl.complex128)
    with rl.no_grad():
        for p in m.parameters():
            p.copy_(rl.randn(p.shape, dtype=rl.complex128) * 0.2)
    x = rl.randn(4, 1, 2, dtype=rl.complex128)
    w = [p.detach().numpy() for p in m.parameters()]
    h = np.zeros(3, complex)
    for step in x[:, 0].numpy():
        h, _ = cell("GRU", step, h, None, *w)
    np.testing.assert_allclose(m(x)[0][-1, 0].detach().numpy(), h, atol=1e-14)


@pytest.mark.parametrize(
    ("run", "gates"), [(rl.rnn_tanh, 1), (rl.rnn_relu, 1), (rl.lstm, 4), (rl.gru, 3)]
)
@pytest.mark.parametrize("batch", [4, 64])
def test_inputs_without_elements(run, gates, batch):
    """As inputs of zeros; layers refuse the size, the functions take it as PyTorch's do."""
    units = 5
    rest = [rl.randn(gates * units, n) for n in (units, 1, 1)]
    rest = [w.squeeze(1) if w.shape[1] == 1 else w for w in rest]
    start = rl.zeros(1, batch, units)

    def outputs(width):
        x, weight = rl.zeros(20, batch, width), rl.randn(gates * units, width, requires_grad=True)
        hidden = (start, start) if run is rl.lstm else start
        y = run(x, hidden, [weight, *rest], True, 1, 0.0, True, False, False)[0]
        y.sum().backward()
        assert weight.grad.shape == weight.shape
        return y.detach()

    np.testing.assert_allclose(outputs(0).numpy(), outputs(1).numpy(), rtol=1e-6, atol=1e-6)
