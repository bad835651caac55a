"""nn.utils: clipping, vectors, packing, parametrizations, norms of weights, fusion, stateless."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import utils
from rushlight.nn.utils import parametrizations, parametrize, rnn


def with_grads(*grads):
    params = [nn.Parameter(rl.zeros(len(g))) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = rl.tensor(g)
    return params


# ---- gradients


@pytest.mark.parametrize("order", [1, 2, 3.5, float("inf")])
def test_clip_grad_norm(order):
    params = [*with_grads([3.0, -4.0], [12.0]), nn.Parameter(rl.zeros(1))]
    flat = np.array([3.0, -4.0, 12.0])
    want = np.linalg.norm(flat, order)
    total = utils.clip_grad_norm_(params, 2.0, order)
    assert np.isclose(float(total), want)
    got = np.concatenate([p.grad.numpy() for p in params[:2]])
    np.testing.assert_allclose(got, flat * 2 / want, 1e-5)
    again = utils.clip_grad_norm_(iter(params), 100.0, order)  # small enough: nothing happens
    assert np.isclose(float(again), 2.0, rtol=1e-5)
    assert np.isclose(
        float(utils.get_total_norm([p.grad for p in params[:2]], order)), 2, rtol=1e-5
    )


def test_clipping_at_the_edges():
    assert utils.clip_grad_norm_([], 1.0) == 0
    one = with_grads([3.0, 4.0])[0]
    assert utils.clip_grad_norm_(one, 1.0) == 5
    bad = with_grads([float("inf")])
    with pytest.raises(RuntimeError, match="inf"):
        utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)
    assert bad[0].grad.isinf().all()
    (p,) = with_grads([-3.0, 0.5])
    utils.clip_grad_value_(p, 1)
    assert p.grad.tolist() == [-1.0, 0.5]
    with pytest.warns(FutureWarning):
        utils.clip_grad_norm([p], 1.0)


def test_parameters_as_a_vector():
    m = nn.Linear(2, 3)
    v = utils.parameters_to_vector(m.parameters())
    assert v.tolist() == [*m.weight.detach().reshape(-1).tolist(), *m.bias.tolist()]
    utils.vector_to_parameters(rl.arange(9.0), m.parameters())
    assert m.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and m.bias.tolist() == [6, 7, 8]
    assert m.weight.requires_grad
    with pytest.raises(TypeError):
        utils.vector_to_parameters([1], m.parameters())


# ---- sequences


def sequences():
    return [rl.arange(1.0, 4), rl.arange(10.0, 15), rl.arange(20.0, 21)]


def test_pad_and_unpad():
    padded = rnn.pad_sequence(sequences(), batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 2, 3, -1, -1], [10, 11, 12, 13, 14], [20, -1, -1, -1, -1]]
    left = rnn.pad_sequence(sequences(), True, 0, padding_side="left")
    assert left[0].tolist() == [0, 0, 1, 2, 3]
    assert rnn.pad_sequence(sequences()).shape == (5, 3)
    back = rnn.unpad_sequence(padded, rl.tensor([3, 5, 1]), batch_first=True)
    assert [s.tolist() for s in back] == [s.tolist() for s in sequences()]
    for wrong in (lambda: rnn.pad_sequence(3), lambda: rnn.pad_sequence([])):
        with pytest.raises(RuntimeError):
            wrong()


def test_packing_sorts_and_sorts_back():
    packed = rnn.pack_sequence(sequences(), enforce_sorted=False)
    assert packed.data.tolist() == [10, 1, 20, 11, 2, 12, 3, 13, 14]
    assert packed.batch_sizes.tolist() == [3, 2, 2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert packed.unsorted_indices.tolist() == [1, 0, 2]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, total_length=6)
    assert padded.shape == (3, 6) and lengths.tolist() == [3, 5, 1]
    assert padded[0].tolist() == [1, 2, 3, 0, 0, 0]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [s.tolist() for s in sequences()]
    again = pickle.loads(pickle.dumps(packed))
    assert type(again) is rnn.PackedSequence and again.data.tolist() == packed.data.tolist()
    data, sizes, *_ = packed
    assert data is packed.data and sizes is packed.batch_sizes
    assert packed.to("cpu") is packed and packed.double().data.dtype == rl.float64


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_of_features_and_its_gradient(batch_first):
    rng = np.random.RandomState(0)
    x = rl.tensor(rng.randn(4, 3, 2), requires_grad=True)  # T, B, F
    given = x.transpose(0, 1) if batch_first else x
    packed = rnn.pack_padded_sequence(given, [4, 2, 1], batch_first=batch_first)
    want = np.concatenate([x.detach().numpy()[t, :n] for t, n in enumerate([3, 2, 1, 1])])
    np.testing.assert_array_equal(packed.data.detach().numpy(), want)
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=7.0)
    assert lengths.tolist() == [4, 2, 1] and (padded[2:, 1] == 7).all()
    padded.sum().backward()
    mask = np.arange(4)[:, None] < np.array([4, 2, 1])
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(mask[..., None], 2, 2).astype(float))


@pytest.mark.parametrize("lengths", [[1, 2], [2, 0], [3, 1], [2]])
def test_lengths_that_do_not_fit(lengths):
    with pytest.raises(RuntimeError):
        rnn.pack_padded_sequence(rl.zeros(2, 2), lengths)


def test_invert_permutation():
    p = rl.tensor([2, 0, 1])
    assert p[rnn.invert_permutation(p)].tolist() == [0, 1, 2]
    assert rnn.invert_permutation(None) is None


# ---- parametrizations


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, a):
        return a.triu()


class Double(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, y):
        return y / 2


def test_a_parametrized_weight():
    m = nn.Linear(3, 3)
    bias, before = m.bias, repr(m)
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert type(m).__name__ == "ParametrizedLinear" and isinstance(m, nn.Linear)
    assert parametrize.type_before_parametrizations(m) is nn.Linear
    assert rl.equal(m.weight, m.weight.t()) and "weight" not in m._parameters
    assert [n for n, _ in m.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(m) and not parametrize.is_parametrized(m, "bias")
    x = rl.randn(2, 3)
    assert rl.allclose(m(x), x @ m.weight + m.bias)
    m(x).sum().backward()
    assert m.parametrizations.weight.original.grad is not None and m.bias is bias
    target = rl.ones(3, 3)
    m.weight = target
    assert rl.equal(m.weight, target)
    parametrize.register_parametrization(m, "weight", Double())
    assert rl.equal(m.weight, 2 * target) and len(m.parametrizations.weight) == 2
    m.weight = 4 * target
    assert rl.equal(m.weight, 4 * target)
    other = copy.deepcopy(m)
    assert rl.equal(other.weight, m.weight) and other.weight.data_ptr() != m.weight.data_ptr()
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(m)
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and isinstance(m.weight, nn.Parameter)
    assert rl.equal(m.weight, 4 * target) and repr(m) == before
    pickle.dumps(m)


def test_removing_without_the_value():
    m = nn.Linear(2, 2)
    weight = m.weight.detach().clone()
    parametrize.register_parametrization(m, "weight", Double())
    parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    assert rl.allclose(m.weight, weight / 2)


def test_state_of_parametrized_modules():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    for m in (a, b):
        parametrize.register_parametrization(m, "weight", Symmetric())
    b.load_state_dict(a.state_dict())
    assert rl.equal(a.weight, b.weight)


def test_cached():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x + 0

    m = nn.Linear(2, 2)
    parametrize.register_parametrization(m, "weight", Counted())
    calls.clear()
    with parametrize.cached():
        assert m.weight is m.weight
    assert len(calls) == 1
    _ = m.weight
    assert len(calls) == 2


def test_wrong_parametrizations():
    class Wrong(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, x):
            return self.f(x)

    m = nn.Linear(2, 2)
    for f in (lambda x: 3, lambda x: x.double(), lambda x: x[0]):
        with pytest.raises(ValueError):
            parametrize.register_parametrization(m, "weight", Wrong(f))
        assert not parametrize.is_parametrized(m) and "weight" in m._parameters
    with pytest.raises(ValueError):
        parametrize.register_parametrization(m, "nothing", Double())
    with pytest.raises(ValueError):
        parametrize.remove_parametrizations(m, "weight")
    parametrize.register_parametrization(m, "weight", Wrong(lambda x: x[0]), unsafe=True)
    assert m.weight.shape == (2,)


def test_transfer():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(a, "weight", Double())
    parametrize.transfer_parametrizations_and_params(a, b)
    assert rl.equal(a.weight, b.weight) and parametrize.is_parametrized(b, "weight")


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("old", [False, True])
def test_weight_norm(dim, old):
    m = nn.Linear(3, 4).double()
    weight, x = m.weight.detach().clone(), rl.randn(2, 3, dtype=rl.float64)
    before = m(x)
    if old:
        with pytest.warns(FutureWarning):
            utils.weight_norm(m, dim=dim)
        g, v = m.weight_g, m.weight_v
    else:
        parametrizations.weight_norm(m, dim=dim)
        g, v = m.parametrizations.weight.original0, m.parametrizations.weight.original1
    axes = {0: 1, 1: 0, None: None}[dim]
    want = np.linalg.norm(weight.numpy(), axis=axes, keepdims=dim is not None)
    np.testing.assert_allclose(g.detach().numpy(), want)
    assert rl.allclose(m(x), before)
    with rl.no_grad():
        g.mul_(2)
    assert rl.allclose(m(x) - m.bias, 2 * (before - m.bias))
    m(x).sum().backward()
    assert g.grad is not None and v.grad is not None
    if old:
        utils.remove_weight_norm(m)
        with pytest.raises(ValueError):
            utils.remove_weight_norm(m)
    else:
        parametrize.remove_parametrizations(m, "weight")
    assert rl.allclose(m.weight, 2 * weight) and isinstance(m.weight, nn.Parameter)
    assert type(m) is nn.Linear


def test_new_weight_norm_reads_old_files():
    old, new = nn.Linear(3, 4), nn.Linear(3, 4)
    with pytest.warns(FutureWarning):
        utils.weight_norm(old)
    parametrizations.weight_norm(new)
    new.load_state_dict(old.state_dict())
    assert rl.allclose(new.weight, old.weight)


@pytest.mark.parametrize("old", [False, True])
def test_spectral_norm(old):
    m = nn.Linear(5, 4)
    weight = m.weight.detach().clone()
    sigma = np.linalg.svd(weight.numpy(), compute_uv=False)[0]
    (utils.spectral_norm if old else parametrizations.spectral_norm)(m, n_power_iterations=60)
    x = rl.randn(2, 5)
    want = x @ (weight / float(sigma)).t() + m.bias
    assert rl.allclose(m(x), want, atol=1e-4)
    m(x).sum().backward()
    original = m.weight_orig if old else m.parametrizations.weight.original
    assert original.grad is not None
    m.eval()
    assert rl.equal(m(x), m(x))
    if old:
        assert {"weight_orig", "weight_u", "weight_v"} <= set(m.state_dict())
        utils.remove_spectral_norm(m)
    else:
        parametrize.remove_parametrizations(m, "weight")
    assert np.isclose(np.linalg.svd(m.weight.detach().numpy(), compute_uv=False)[0], 1, atol=1e-4)


# ---- others


def test_skip_init():
    m = utils.skip_init(nn.Linear, 3, 4, bias=False)
    assert m.weight.shape == (4, 3) and not m.weight.is_meta and m.bias is None
    with pytest.raises(RuntimeError):
        utils.skip_init(nn.ReLU)
    with pytest.raises(RuntimeError):
        utils.skip_init(dict)


def test_functional_call():
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = rl.zeros(2, 2, requires_grad=True)
    own = m[0].weight
    call = rl.func.functional_call
    out = call(m, {"0.weight": weight, "0.bias": rl.ones(2)}, rl.randn(3, 2))
    assert m[0].weight is own and out.shape == (3, 2)
    out.sum().backward()
    assert weight.grad is not None and own.grad is None
    with pytest.raises(RuntimeError):
        call(m, {"0.weight": weight}, rl.randn(3, 2), strict=True)
    with pytest.raises(rl.ShapeError):
        call(m, {"0.weight": rl.zeros(5, 5)}, rl.randn(3, 2))
    assert m[0].weight is own
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    assert not call(tied, {"0.weight": rl.zeros(2, 2)}, rl.ones(1, 2)).any()
    with pytest.warns(FutureWarning):
        utils.stateless.functional_call(tied, {}, (rl.ones(1, 2),))


def test_fusion_of_linear_and_batch_norm():
    linear, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    with rl.no_grad():
        norm.weight.uniform_(0.5, 2)
        norm.bias.uniform_(-1, 1)
    with pytest.raises(AssertionError):
        utils.fuse_linear_bn_eval(linear, norm)
    linear.eval(), norm.eval()
    fused = utils.fuse_linear_bn_eval(linear, norm)
    x = rl.randn(5, 3)
    assert rl.allclose(fused(x), norm(linear(x)), atol=1e-5)
    w, b = utils.fuse_conv_bn_weights(
        rl.ones(2, 3, 1, 1), None, rl.zeros(2), rl.full((2,), 4.0), 0.0, None, None
    )
    assert w.unique().tolist() == [0.5] and b.tolist() == [0, 0]
