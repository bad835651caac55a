"""Functions of rushlight._functions, against NumPy and the functions they are made of."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck


@pytest.fixture(autouse=True)
def seed():
    rl.manual_seed(0)


def test_histogramdd():
    x = rl.randn(200, 3, dtype=rl.float64)
    weight = rl.rand(200, dtype=rl.float64)
    for bins, limits, density in (
        (4, None, False),
        ([2, 3, 4], None, True),
        (3, [-1, 1, -1, 1, -2, 2], False),
    ):
        pairs = None if limits is None else list(zip(limits[::2], limits[1::2], strict=True))
        want = np.histogramdd(x.numpy(), bins, pairs, density, weight.numpy())
        got = rl.histogramdd(x, bins, limits, weight=weight, density=density)
        np.testing.assert_allclose(got.hist.numpy(), want[0], rtol=1e-12)
        for a, b in zip(got.bin_edges, want[1], strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)
    edges = [rl.tensor([-1.0, 0.0, 2.0], dtype=rl.float64)] * 3
    want = np.histogramdd(x.numpy(), [e.numpy() for e in edges])[0]
    np.testing.assert_array_equal(rl.histogramdd(x, edges).hist.numpy(), want)
    with pytest.raises(RuntimeError, match="bins"):
        rl.histogramdd(x, [1, 2])
    with pytest.raises(RuntimeError, match="floating"):
        rl.histogramdd(x.long(), 3)


def test_losses_take_numbers_for_reductions():
    a, b, c = (rl.randn(4, 5) for _ in range(3))
    sign = rl.tensor([1.0, -1.0, 1.0, -1.0])
    assert rl.kl_div(a.log_softmax(1), b.softmax(1), 2).allclose(
        F.kl_div(a.log_softmax(1), b.softmax(1), reduction="sum")
    )
    assert rl.margin_ranking_loss(a[:, 0], b[:, 0], sign).allclose(
        F.margin_ranking_loss(a[:, 0], b[:, 0], sign)
    )
    assert rl.cosine_embedding_loss(a, b, sign, reduction=0).allclose(
        F.cosine_embedding_loss(a, b, sign, reduction="none")
    )
    assert rl.triplet_margin_loss(a, b, c).allclose(F.triplet_margin_loss(a, b, c))
    assert rl.binary_cross_entropy_with_logits(a, b.sigmoid()).allclose(
        F.binary_cross_entropy_with_logits(a, b.sigmoid())
    )
    assert rl.poisson_nll_loss(a, b.exp(), True, False, 1e-8, 1).allclose(
        F.poisson_nll_loss(a, b.exp())
    )


def test_dropout():
    x = rl.ones(50, 8, 4)
    assert rl.dropout(x, 0.5, False).equal(x)
    kept = rl.feature_dropout(x, 0.5, True)
    assert set(kept.unique().tolist()) == {0.0, 2.0} and (kept.std(-1) == 0).all()
    value, mask = rl.native_dropout(x, 0.25, True)
    assert value.allclose(mask * (4 / 3)) and 0.6 < mask.float().mean() < 0.9
    assert rl.dropout_(x, 1.0, True) is x and not x.any()


def test_shapes_and_copies():
    x = rl.arange(6)
    for copy in (
        rl.view_copy(x, (2, 3)),
        rl.slice_copy(x, 0, 1, 5, 2),
        rl.alias_copy(x),
        rl.unfold_copy(x, 0, 2, 2),
        rl.expand_copy(x[:1], (3,)),
    ):
        copy.fill_(-1)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert rl.slice_copy(x, 0, 1, 5, 2).tolist() == [1, 3]
    assert rl.empty_permuted((2, 3, 4), (1, 0, 2)).stride() == (4, 8, 1)
    assert rl.nonzero_static(rl.tensor([1, 0, 2]), size=3).reshape(-1).tolist() == [0, 2, -1]
    assert rl.nonzero_static(rl.ones(3), size=2).shape == (2, 1)
    changed = rl.as_strided_scatter(rl.zeros(4), rl.ones(2), (2,), (2,), 1)
    assert changed.tolist() == [0, 1, 0, 1]
    assert [p.tolist() for p in rl.unsafe_split_with_sizes(x, [2, 4])] == [[0, 1], [2, 3, 4, 5]]


def test_layers():
    x, w = rl.randn(7, 2, 3), rl.randn(3, 3, 4)
    got = rl.conv_tbc(x, w, rl.zeros(4), 1)
    want = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), padding=1).permute(2, 0, 1)
    assert got.allclose(want)
    y, mean, scale = rl.native_layer_norm(x, (3,), None, None, 1e-5)
    assert y.allclose((x - mean) * scale, atol=1e-6)
    table = rl.randn(5, 3) * 10
    before = table.clone()
    rl.embedding_renorm_(table, rl.tensor([1, 3, 3]), 1.0, 2.0)
    assert table[[0, 2, 4]].equal(before[[0, 2, 4]])
    assert table[[1, 3]].norm(dim=1).allclose(rl.ones(2), atol=1e-5)
    bags = rl.embedding_bag(before, rl.tensor([0, 1, 4]), rl.tensor([0, 2]), mode=0)[0]
    assert bags.allclose(rl.stack([before[0] + before[1], before[4]]))
    assert rl.frobenius_norm(table).allclose(table.norm())
    assert rl.nuclear_norm(table).allclose(rl.linalg.svdvals(table).sum())
    assert rl.norm_except_dim(table, 2, 0).shape == (5, 1)


def test_segment_reduce():
    x = rl.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    lengths = rl.tensor([1, 0, 3])
    assert rl.segment_reduce(x, "sum", lengths=lengths).tolist() == [1, 0, 9]
    assert rl.segment_reduce(x, "max", lengths=lengths).tolist() == [1, -np.inf, 4]
    assert rl.segment_reduce(x, "amax", lengths=lengths).tolist() == [1, -np.inf, 4]
    assert rl.segment_reduce(x, "mean", lengths=lengths, initial=0).tolist() == [1, 0, 3]
    rl.segment_reduce(x, "prod", offsets=rl.tensor([0, 2, 4])).sum().backward()
    assert x.grad.tolist() == [2, 1, 4, 3]
    with pytest.raises(RuntimeError, match="reduce"):
        rl.segment_reduce(x, "median", lengths=lengths)


def test_segment_reduce_along_other_axes():
    x = np.random.RandomState(0).randn(2, 6, 3)
    lengths = np.array([[2, 0, 4], [1, 3, 2]])
    t = rl.tensor(x, requires_grad=True)
    for name, f in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("prod", np.prod)):
        out = rl.segment_reduce(t, name, lengths=rl.tensor(lengths), axis=1, initial=0.5)
        for i, ends in enumerate(lengths.cumsum(1)):
            for j, (end, n) in enumerate(zip(ends, lengths[i], strict=True)):
                piece = x[i, end - n : end]
                want = f(piece, 0) if n else np.full(3, 0.5)
                if n:
                    want = {"sum": want + 0.5, "mean": want + 0.5 / n, "prod": want * 0.5,
                            "max": np.maximum(want, 0.5)}[name]  # fmt: skip
                np.testing.assert_allclose(out[i, j].detach().numpy(), want, 1e-12)
    assert gradcheck(
        lambda t: rl.segment_reduce(t, "prod", lengths=rl.tensor(lengths), axis=1), (t,)
    )
    # Offsets may leave elements out; whatever lies outside is refused.
    assert rl.segment_reduce(rl.ones(4), "sum", offsets=rl.tensor([1, 3])).tolist() == [2]
    for bad in ({"offsets": [0, 5]}, {"offsets": [0, 3, 2]}, {"lengths": [1, 1]},
                {"lengths": [5, -1]}, {"lengths": [[4]]}):  # fmt: skip
        given = {k: rl.tensor(v) for k, v in bad.items()}
        with pytest.raises(RuntimeError, match="segment_reduce"):
            rl.segment_reduce(rl.ones(4), "sum", **given)
    assert rl.segment_reduce(
        rl.ones(4), "sum", lengths=rl.tensor([1, 1]), unsafe=True
    ).tolist() == [1, 1]


def test_removed_functions_name_their_successors():
    for name, new in (
        ("symeig", "eigh"),
        ("eig", "linalg.eig"),
        ("lstsq", "linalg.lstsq"),
        ("solve", "linalg.solve"),
        ("matrix_rank", "linalg.matrix_rank"),
    ):
        with pytest.raises(RuntimeError, match=new):
            getattr(rl, name)(rl.eye(2))


# ----- names that were defined twice, as PyTorch 2.13 has them


def test_shape_as_tensor():
    got = rl._shape_as_tensor(rl.ones(2, 3, device="meta"))
    assert got.tolist() == [2, 3] and got.dtype == rl.int64 and got.device.type == "cpu"


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_of_softmax_keep_their_dtype(name):
    x = rl.randn(2, 3, dtype=rl.float64, requires_grad=True)
    y, g = getattr(x, name)(1), rl.randn(2, 3, dtype=rl.float64)
    y.backward(g)
    run = getattr(rl, f"_{name}_backward_data")
    assert run(g, y.detach(), 1, rl.float64).allclose(x.grad)
    # The input's dtype counts where a half tensor was widened, and nowhere else.
    assert run(g.float(), y.detach().float(), 1, rl.float64).dtype == rl.float32
    assert run(g.float(), y.detach().float(), 1, rl.float16).dtype == rl.float16


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_small_concentrations_of_dirichlet(dtype):
    """In float32 most of these draws underflow, and their sum with them."""
    draws = rl._sample_dirichlet(rl.full((2000, 3), 0.01, dtype=dtype))
    assert draws.dtype == dtype and not draws.isnan().any()
    assert draws.min() >= rl.finfo(dtype).tiny and draws.max() < 1
    assert draws.sum(-1).allclose(rl.ones(2000, dtype=dtype))
    with pytest.raises(TypeError, match="float32 or float64"):
        rl._sample_dirichlet(rl.ones(3, dtype=rl.float16))


def test_dirichlet_takes_its_generator():
    def draw():
        return rl._sample_dirichlet(rl.ones(4, 3), rl.Generator().manual_seed(5))

    assert draw().equal(draw())


def test_check_tensor_all():
    rl._check_tensor_all(rl.tensor([True, True]))
    with pytest.raises(RuntimeError, match="^why$"):
        rl._check_tensor_all(rl.tensor([True, False]), lambda: "why")
    for wrong in (rl.tensor([1, 1]), rl.ones(2), True):
        with pytest.raises(TypeError):
            rl._check_tensor_all(wrong)
    with pytest.raises(TypeError, match="callable"):
        rl._check_tensor_all(rl.tensor(False), "text")
    with pytest.raises(TypeError, match="bool"):
        rl._check(1)


def test_new_of_a_tensor_shares_its_memory():
    like, x = rl.ones(1), rl.arange(3.0, requires_grad=True)
    got = like.new(x)
    assert got.data_ptr() == x.data_ptr() and got.requires_grad and got.grad_fn is not None
    got.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="float32"):
        like.new(rl.arange(3))
    assert like.new([1, 2]).tolist() == [1, 2] and like.new(2, 3).shape == (2, 3)
    assert like.new().shape == (0,) and like.new(rl.Size([2, 3])).shape == (2, 3)


def test_matrix_methods():
    x = rl.randn(3, 3, dtype=rl.float64)
    assert x.matrix_exp().equal(rl.linalg.matrix_exp(x))
    a, tau = rl.geqrf(rl.randn(4, 2, dtype=rl.float64))
    q = a.orgqr(input2=tau)
    assert q.equal(rl.linalg.householder_product(a, tau))
    assert (q.mT @ q).allclose(rl.eye(2, dtype=rl.float64))


def test_larger_and_smaller_numbers_become_floats():
    assert rl.sym_max(3, 2.0) == 3.0 and isinstance(rl.sym_max(3, 2.0), float)
    assert rl.sym_min(1, 2.0) == 1.0 and isinstance(rl.sym_min(1, 2.0), float)
    assert isinstance(rl.sym_max(3, 2), int)


def test_copies_of_views():
    x = rl.arange(6.0).reshape(2, 3)
    assert rl.transpose_copy(x, 0, 1).stride() == (2, 1) and rl.t_copy(x).equal(x.t())
    out = rl.empty(3, 2)
    assert rl.permute_copy(x, (1, 0), out=out) is out and out.equal(x.t())
    rows = rl.unbind_copy(x)
    assert isinstance(rows, tuple) and [r.tolist() for r in rows] == x.tolist()
    rl.view_copy(x, (6,)).zero_()
    assert x.sum() == 15
