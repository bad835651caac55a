"""Orthogonal parametrizations, and the functions of matrices under them."""

import numpy as np
import pytest
from scipy import linalg as sla

import rushlight as rl
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn.utils.parametrizations import orthogonal

RNG = np.random.RandomState(0)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 4.0, 60.0])
@pytest.mark.parametrize("kind", ["f8", "c16"])
def test_matrix_exp(scale, kind):
    a = RNG.randn(2, 5, 5) * scale / 5
    if kind == "c16":
        a = a + 1j * RNG.randn(2, 5, 5) * scale / 5
    want = np.stack([sla.expm(m) for m in a])
    got = rl.linalg.matrix_exp(rl.tensor(a)).numpy()
    assert np.abs(got - want).max() < 1e-12 * np.abs(want).max()
    assert rl.equal(rl.matrix_exp(rl.tensor(a)), rl.tensor(a).matrix_exp())


@pytest.mark.parametrize("size", [2, 5, 16, 40])
def test_matrix_exp_loses_no_more_than_its_norm_says(size):
    """The condition of exp at A is at least the norm of A: eps times that is what can be had."""
    rng = np.random.default_rng(0)
    for norm in (1e-3, 0.1, 1, 4, 10, 30, 100):
        a = rng.standard_normal((size, size))
        a *= norm / np.linalg.norm(a, 1)
        a = np.float32((a - a.T) / 2 if norm > 30 else a)
        want = sla.expm(a.astype(np.float64))
        got = rl.matrix_exp(rl.tensor(a)).double().numpy()
        error = np.linalg.norm(got - want, 1) / np.linalg.norm(want, 1)
        assert error < np.finfo(np.float32).eps * (2 + norm), norm


def test_matrix_exp_of_matrices_of_different_size_in_a_batch():
    a = np.stack([RNG.randn(3, 3) * 1e-9, RNG.randn(3, 3) * 20])
    got = rl.matrix_exp(rl.tensor(a)).numpy()
    want = [sla.expm(m) for m in a]
    np.testing.assert_allclose(got[0], want[0], 1e-15, 1e-15)
    np.testing.assert_allclose(got[1], want[1], 1e-9)


def test_matrix_exp_edges():
    assert rl.matrix_exp(rl.zeros(0, 3, 3)).shape == (0, 3, 3)
    assert rl.equal(rl.matrix_exp(rl.zeros(4, 4)), rl.eye(4))
    assert rl.matrix_exp(rl.tensor([[2.0]])) == rl.tensor(2.0).exp()
    single = rl.randn(6, 6)
    want = rl.matrix_exp(single.double())
    assert (rl.matrix_exp(single).double() - want).abs().max() < 1e-5 * want.abs().max()
    for bad in (rl.zeros(3), rl.zeros(2, 3)):
        with pytest.raises(RuntimeError, match="square"):
            rl.matrix_exp(bad)
    with pytest.raises(RuntimeError, match="int64"):
        rl.matrix_exp(rl.ones(2, 2).long())


def test_matrix_exp_gradients():
    a = rl.tensor(RNG.randn(2, 3, 3), requires_grad=True)
    assert gradcheck(rl.matrix_exp, (a,), check_forward_ad=True)
    assert gradgradcheck(rl.matrix_exp, (a,))


@pytest.mark.parametrize("columns", [1, 3, 5])
def test_householder_product(columns):
    m = RNG.randn(5, columns)
    (raw, tau), _ = sla.qr(m, mode="raw")
    want = sla.qr(m, mode="economic")[0]
    got = rl.linalg.householder_product(rl.tensor(np.ascontiguousarray(raw)), rl.tensor(tau))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-14)
    assert rl.equal(rl.orgqr(rl.tensor(np.ascontiguousarray(raw)), rl.tensor(tau)), got)
    a, t = (rl.tensor(RNG.randn(*s), requires_grad=True) for s in ((4, 3), (3,)))
    assert gradcheck(rl.linalg.householder_product, (a, t))
    assert gradgradcheck(rl.linalg.householder_product, (a, t))


def test_householder_product_refuses():
    for a, tau in [((2, 3), (2,)), ((3, 2), (3,)), ((2, 3, 2), (2,))]:
        with pytest.raises(RuntimeError, match="householder_product"):
            rl.linalg.householder_product(rl.zeros(a), rl.zeros(tau))


def is_orthogonal(w):
    w = w.detach()
    small = w.mH @ w if w.shape[-2] >= w.shape[-1] else w @ w.mH
    return bool((small - rl.eye(small.shape[-1], dtype=w.dtype)).abs().max() < 1e-10)


MAPS = ["matrix_exp", "cayley", "householder"]


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("trivial", [True, False])
def test_the_weight_is_orthogonal_and_trains(shape, name, trivial):
    rl.manual_seed(0)
    rows, columns = shape
    layer = nn.Linear(columns, rows, dtype=rl.float64)
    if not trivial and name != "householder":
        with pytest.raises(NotImplementedError, match="use_trivialization"):
            fresh = orthogonal(layer, orthogonal_map=name, use_trivialization=False)
            fresh.weight = rl.zeros(rows, columns)
        return
    orthogonal(layer, orthogonal_map=name, use_trivialization=trivial)
    assert is_orthogonal(layer.weight)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)
    x, y = (rl.tensor(RNG.randn(8, n)) for n in (columns, rows))
    before = layer.weight.detach().clone()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        assert is_orthogonal(layer.weight)
    assert losses[-1] < losses[0] and not rl.allclose(before, layer.weight)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("shape", [(5, 5), (5, 2), (2, 5)])
def test_an_orthogonal_matrix_can_be_assigned(name, shape):
    q = rl.empty(shape, dtype=rl.float64)
    nn.init.orthogonal_(q)
    layer = nn.Linear(shape[1], shape[0], bias=False, dtype=rl.float64)
    orthogonal(layer, orthogonal_map=name)
    layer.weight = q
    assert rl.allclose(layer.weight, q, atol=1e-10)


@pytest.mark.parametrize("shape", [(5, 5), (5, 2), (2, 5), (1, 1)])
def test_householder_without_trivialization_takes_an_assignment(shape):
    q = rl.empty(shape, dtype=rl.float64)
    nn.init.orthogonal_(q)
    layer = nn.Linear(shape[1], shape[0], bias=False, dtype=rl.float64)
    orthogonal(layer, orthogonal_map="householder", use_trivialization=False)
    layer.weight = q
    assert rl.allclose(layer.weight, q, atol=1e-10)


@pytest.mark.parametrize("name", ["matrix_exp", "cayley"])
def test_unitary(name):
    layer = nn.Linear(4, 4, bias=False, dtype=rl.complex128)
    orthogonal(layer, orthogonal_map=name)
    assert is_orthogonal(layer.weight)
    layer.parametrizations.weight.original.data.add_(rl.randn(4, 4, dtype=rl.complex128))
    assert is_orthogonal(layer.weight)


@pytest.mark.parametrize("name", MAPS)
def test_gradients_of_the_maps(name):
    layer = nn.Linear(3, 3, bias=False, dtype=rl.float64)
    orthogonal(layer, orthogonal_map=name)
    part = layer.parametrizations.weight[0]
    x = layer.parametrizations.weight.original.detach().clone()
    x += rl.tensor(RNG.randn(3, 3)).tril(-1)
    x.requires_grad_()
    assert gradcheck(part, (x,))
    assert gradgradcheck(part, (x,))


def test_batches_defaults_and_wrong_calls():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(rl.randn(2, 4, 3, dtype=rl.float64))

    holder = orthogonal(Holder(), "w")
    assert holder.parametrizations.w[0].orthogonal_map == "householder"
    assert is_orthogonal(holder.w[0]) and is_orthogonal(holder.w[1])
    square = orthogonal(nn.Linear(3, 3))
    assert square.parametrizations.weight[0].orthogonal_map == "matrix_exp"
    again = orthogonal(nn.Linear(3, 3))
    again.load_state_dict(square.state_dict())
    assert rl.equal(again.weight, square.weight)
    with pytest.raises(ValueError, match="no parameter"):
        orthogonal(nn.Linear(2, 2), "nothing")
    with pytest.raises(ValueError, match="matrix"):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map"):
        orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    with pytest.raises(ValueError, match="real"):
        orthogonal(nn.Linear(2, 2, dtype=rl.complex64), orthogonal_map="householder")
