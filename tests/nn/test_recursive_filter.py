"""Filters that feed back what they gave, which `ops.torchaudio` has."""

import numpy as np
import pytest

import rushlight as rl

ops = rl.ops.torchaudio
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}


def filtered(x, feedback, before):
    """One sample after the other, in float64."""
    order = feedback.shape[1]
    y = np.concatenate([before, np.zeros_like(x)], 2)
    for i in range(x.shape[2]):
        y[:, :, order + i] = x[:, :, i] - (y[:, :, i : i + order] * feedback).sum(2)
    return y[:, :, order:]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_against_a_loop(order, dtype):
    rng = np.random.RandomState(order)
    arrays = rng.randn(2, 3, 40), rng.uniform(-0.2, 0.2, (3, order)), rng.randn(2, 3, order)
    tensors = [rl.tensor(a).to(getattr(rl, dtype)) for a in arrays]
    got = rl._C._recursive_filter(*tensors)
    want = filtered(*(t.double().numpy() for t in tensors))
    assert got.dtype == tensors[0].dtype
    np.testing.assert_allclose(got.double().numpy(), want, atol=TOLERANCE[dtype], rtol=0)


def test_torchaudios_filters():
    rng = np.random.RandomState(0)
    x, a, padded = rng.randn(2, 2, 30), rng.uniform(-0.3, 0.3, (2, 3)), np.zeros((2, 2, 32))
    a[:, 2], padded[:, :, :2] = 1, rng.randn(2, 2, 2)
    out = rl.tensor(padded)
    ops._lfilter_core_loop(rl.tensor(x), rl.tensor(a), out)
    assert np.allclose(out.numpy()[:, :, 2:], filtered(x, a[:, :2], padded[:, :, :2]))
    assert (out.numpy()[:, :, :2] == padded[:, :, :2]).all()

    wave, temp = rng.randn(2, 2, 50)
    last_in, last_out = want_in, want_out = rng.randn(2, 2)
    got, want = rl.zeros(2, 50, dtype=rl.float64), np.zeros((2, 50))
    ops._overdrive_core_loop(*map(rl.tensor, (wave, temp, last_in, last_out)), got)
    for i in range(50):
        want_out, want_in = temp[:, i] - want_in + 0.995 * want_out, temp[:, i]
        want[:, i] = wave[:, i] * 0.5 + want_out * 0.75
    assert np.allclose(got.numpy(), want)


def test_wrong_arguments():
    x, feedback, before = rl.zeros(2, 3, 5), rl.zeros(3, 2), rl.zeros(2, 3, 2)
    assert rl._C._recursive_filter(x[:, :, :0], feedback, before).shape == (2, 3, 0)
    for bad in (
        (x[0], feedback, before),
        (x, feedback[:2], before),
        (x, feedback, before[:1]),
        (x, feedback.double(), before),
        (x.long(), feedback.long(), before.long()),
    ):
        with pytest.raises(RuntimeError, match="^recursive_filter: "):
            rl._C._recursive_filter(*bad)
