"""Sparse tensors against SciPy, by gradcheck, in files and modules, and among threads."""

import copy
import gc
import io
import pickle
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import rushlight as rl

DATA = Path(__file__).resolve().parent.parent / "data"
LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((3, 2)),
    "bsc": lambda x: x.to_sparse_bsc((3, 2)),
}


def scattered(rows, columns, share=0.2, seed=0, dtype=np.float64):
    """A SciPy matrix with a share of its elements, and some rows that have many."""
    rng = np.random.default_rng(seed)
    there = rng.random((rows, columns)) < share
    there[: rows // 8] |= rng.random((rows // 8, columns)) < 0.9
    return sp.csr_matrix((rng.standard_normal((rows, columns)) * there).astype(dtype))


def ours(m, layout="csr"):
    return LAYOUTS[layout](rl.from_numpy(m.toarray()))


def same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b, tolerance, tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions_agree_with_scipy(layout):
    m = scattered(24, 16)
    x = ours(m, layout)
    same(x.to_dense(), m.toarray())
    for other in LAYOUTS:
        assert rl.equal(
            x.to_sparse(layout=getattr(rl, f"sparse_{other}"),
                        **({"blocksize": (3, 2)} if other[0] == "b" else {})).to_dense(),
            x.to_dense(),
        )  # fmt: skip
    if layout in ("csr", "csc"):
        theirs = getattr(m, f"to{layout}")()
        assert np.array_equal(x._parts[0].numpy(), theirs.indptr)
        assert np.array_equal(x._parts[1].numpy(), theirs.indices)
        same(x.values(), theirs.data)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [1, 7, 16, 133])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex128])
def test_products_agree_with_scipy(layout, columns, dtype):
    m = scattered(72, 40)
    if dtype == np.int64:
        m = m * 9
    m = m.astype(dtype)
    y = (np.random.default_rng(1).standard_normal((40, columns)) * 9).astype(dtype)
    x, b = ours(m, layout), rl.from_numpy(y)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    same(x @ b, m @ y, tolerance)
    same(b.t() @ x.t(), (m @ y).T, tolerance)
    assert x.dtype == (x @ b).dtype


def test_a_product_of_two_sparse_ones_agrees_with_scipy():
    a, b = scattered(40, 30, seed=1), scattered(30, 50, seed=2)
    for layout in ("coo", "csr"):
        found = ours(a, layout) @ ours(b, layout)
        assert found.layout == getattr(rl, f"sparse_{layout}")
        same(found.to_dense(), (a @ b).toarray())


@pytest.mark.threads
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_threads(threads):
    m = scattered(500, 300, 0.1, dtype=np.float32)
    x, y = ours(m), rl.randn(300, 20)
    before = rl.get_num_threads()
    expected = [x @ y, x @ y[:, 0]]
    rl.set_num_threads(threads)
    try:
        assert all(map(rl.equal, expected, [x @ y, x @ y[:, 0]]))
    finally:
        rl.set_num_threads(before)


INDICES = [[0, 2, 1, 0, 0, 3], [1, 3, 0, 1, 2, 3]]  # one of them twice
FORMULAS = {
    "mm": lambda s, d: rl.sparse.mm(s, d.t()),
    "dense @ sparse": lambda s, d: d[:, :4] @ s,
    "csr mm": lambda s, d: s.coalesce().to_sparse_csr() @ d.t(),
    "csc mm": lambda s, d: s.coalesce().to_sparse_csc() @ d.t(),
    "bsr mm": lambda s, d: s.coalesce().to_sparse_bsr((2, 2)) @ d.t(),
    "addmm": lambda s, d: rl.addmm(d[:, :3] @ d[:, :3].t(), s[:3], d.t(), beta=2, alpha=-1),
    "mv": lambda s, d: s @ d[0],
    "sparse @ sparse": lambda s, d: (s @ (s * d[:1].t()).t()).to_dense(),
    "bmm": lambda s, d: rl.bmm(rl.stack((s, s * 2)), rl.stack((d.t(), d.t()))),
    "sampled": lambda s, d: rl.sparse.sampled_addmm(
        s.coalesce().to_sparse_csr(), d.t(), d, beta=0.5, alpha=2
    ).to_dense(),
    "softmax": lambda s, d: rl.sparse.softmax(s, 1).to_dense(),
    "log_softmax": lambda s, d: rl.sparse.log_softmax(s, 0).to_dense(),
    "sum": lambda s, d: rl.sparse.sum(s * d[:1], 1).to_dense(),
    "mul": lambda s, d: (s * (s + s.t())).to_dense(),
    "sin": lambda s, d: s.sin().to_dense(),
    "select": lambda s, d: s[0].to_dense() + s[:, 3].to_dense(),
    "index_select": lambda s, d: s.index_select(1, rl.tensor([3, 1, 1, 0])).to_dense(),
    "cat": lambda s, d: rl.cat((s, s.t()), 1).to_dense(),
    "dense + sparse": lambda s, d: d.t() @ d + s,
    "sparse_mask": lambda s, d: (d.t() @ d).sparse_mask(s.detach().coalesce()).to_dense(),
    "mean": lambda s, d: rl.sparse.mm(s.coalesce().to_sparse_csr(), d.t(), "mean"),
    "amax": lambda s, d: rl.sparse.mm(s.coalesce().to_sparse_csr(), d.t(), "amax"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients(name):
    def f(values, dense):
        return FORMULAS[name](rl.sparse_coo_tensor(INDICES, values, (4, 4)), dense)

    values = rl.tensor([0.7, -1.3, 0.4, 1.9, -0.6, 1.1], dtype=rl.float64, requires_grad=True)
    dense = rl.randn(3, 4, dtype=rl.float64).requires_grad_()
    assert rl.autograd.gradcheck(f, (values, dense), check_forward_ad=True)
    if name in ("mm", "csr mm", "sampled", "softmax", "sparse @ sparse"):
        assert rl.autograd.gradgradcheck(f, (values, dense))


def test_a_leaf_gets_a_gradient_at_its_places():
    for layout in LAYOUTS:
        s = ours(scattered(12, 8), layout).requires_grad_()
        d = rl.randn(8, 3, dtype=rl.float64)
        (s @ d).sum().backward()
        assert s.grad.layout == s.layout and s.grad.shape == s.shape and s.is_leaf
        want = rl.ones(12, 3, dtype=rl.float64) @ d.t() * (s.detach().to_dense() != 0)
        assert rl.allclose(s.grad.to_dense() * (s.detach().to_dense() != 0), want)
        (again,) = rl.autograd.grad((s @ d).sum(), s)
        assert rl.equal(again.to_dense(), s.grad.to_dense())
        with rl.no_grad():
            s.add_(s.grad, alpha=-0.1)
        assert s.is_leaf and s.requires_grad


def test_indices_that_change_are_seen():
    s = rl.eye(4).to_sparse_csr()
    d = rl.arange(8.0).reshape(4, 2)
    assert rl.equal(s @ d, d)
    s.col_indices().copy_(rl.tensor([3, 2, 1, 0]))
    assert rl.equal(s @ d, d.flip(0))
    s.col_indices()[0] = 7
    with pytest.raises(RuntimeError, match="between 0 and 3"):
        s @ d
    c = rl.eye(4).to_sparse()
    assert rl.equal(c @ d, d)
    c.indices()[1, 0] = -1
    with pytest.raises(RuntimeError, match="out of range"):
        c @ d


@pytest.mark.parametrize(
    "make",
    [
        lambda: rl.sparse_csr_tensor([0, 5], [0], [1.0], (1, 1)),
        lambda: rl.sparse_csr_tensor([0, 2, 1], [0], [1.0], (2, 1)),
        lambda: rl.sparse_csr_tensor([0, 1], [7], [1.0], (1, 1)),
        lambda: rl.sparse_csc_tensor([0, 1], [-1], [1.0], (1, 1)),
        lambda: rl.sparse_bsr_tensor([0, 1], [1], rl.ones(1, 2, 2), (2, 2)),
        lambda: rl.sparse_coo_tensor([[2**62], [2**62]], [1.0], (2**63 - 1, 2**63 - 1)),
    ],
)
def test_parts_that_do_not_fit_are_refused(make):
    with pytest.raises(RuntimeError):
        make()


def test_invariants_are_checked_where_asked():
    unsorted = ([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    rl.sparse_csr_tensor(*unsorted)
    check = rl.sparse.check_sparse_tensor_invariants
    with check(), pytest.raises(RuntimeError, match="in order"):
        rl.sparse_csr_tensor(*unsorted)
    assert not check.is_enabled()

    @check()
    def made():
        return check.is_enabled()

    assert made() and not check.is_enabled()


def test_a_dense_operation_does_not_read_what_is_not_there():
    s = rl.eye(3).to_sparse()
    for f in (lambda: s.exp(), lambda: rl.where(s, 1, 2), lambda: rl.nn.functional.gelu(s),
              lambda: s.view(9), lambda: rl.conv1d(s[None], s[None]), lambda: memoryview(s),
              lambda: rl.Tensor.data_ptr(s), lambda: s.__dlpack__(), lambda: np.asarray(s),
              lambda: s.tolist(), lambda: rl._C._sparse_product(s, s, s, s), lambda: s == s,
              lambda: s.untyped_storage(), lambda: rl.ones(3, 3)[s], lambda: rl.tensor(s),
              lambda: rl.func.vmap(lambda x: x * 2)(s), lambda: rl.ones(3, 3).copy_(s),
              lambda: rl.compile(lambda x: x.cos())(s), lambda: s.fill_(1)):  # fmt: skip
        with pytest.raises((RuntimeError, TypeError, BufferError, ValueError)):
            f()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pickles_copies_and_files(layout, tmp_path):
    s = ours(scattered(12, 8), layout).requires_grad_()
    memory = io.BytesIO()
    rl.save({"s": s, "again": s}, memory)
    memory.seek(0)
    loaded = rl.load(memory)
    assert loaded["s"] is loaded["again"]
    for back in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), loaded["s"]):
        assert back.layout == s.layout and back.requires_grad and back.is_leaf
        assert rl.equal(back.to_dense(), s.to_dense())
        assert back.values().data_ptr() != s.values().data_ptr()


def test_a_file_that_pytorch_wrote():
    s = rl.load(DATA / "sparse.pt")
    s = s if isinstance(s, rl.Tensor) else next(iter(s.values()))
    assert s.layout == rl.sparse_coo and s._nnz() == s.coalesce()._nnz()


def test_files_that_lie_are_refused():
    good = rl.eye(3).to_sparse_csr()
    rebuild, (layout, (crow, col, values, size)) = good.__reduce_ex__(2)
    for parts in ((crow + 1, col, values, size), (crow, col + 2, values, size),
                  (crow, col, values, (3, 1)), (crow, col, values[:1], size)):  # fmt: skip
        with pytest.raises(RuntimeError):
            rebuild(layout, parts)


class Convolution(rl.nn.Module):
    """A layer of a graph network."""

    def __init__(self, adjacency):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.linear = rl.nn.Linear(8, 4)

    def forward(self, x):
        return (self.adjacency @ self.linear(x)).relu()


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_a_graph_network_learns_as_with_a_dense_matrix(layout):
    m = rl.from_numpy(scattered(30, 30, 0.1, dtype=np.float32).toarray())
    x, target, losses = rl.randn(30, 8), rl.randn(30, 4), []
    sparse, dense = Convolution(LAYOUTS[layout](m)), Convolution(m)
    dense.linear.load_state_dict(sparse.linear.state_dict())
    for model in (sparse, dense):
        optimizer = rl.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            loss = rl.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    other = Convolution(LAYOUTS[layout](m * 0 + 1))
    other.load_state_dict(sparse.state_dict()) if layout == "coo" else None
    wide = copy.deepcopy(sparse).double()
    assert wide.adjacency.dtype == rl.float64 and wide.adjacency.layout == sparse.adjacency.layout
    assert rl.allclose(wide(x.double()).float(), sparse(x), atol=1e-5)


@pytest.mark.threads
def test_threads_share_a_matrix():
    s, d = ours(scattered(200, 100)), rl.randn(100, 9, dtype=rl.float64)
    expected, wrong = s.to_dense() @ d, []

    def work():
        for _ in range(20):
            b = d.clone().requires_grad_()
            (s @ b).sum().backward()
            if not rl.allclose(s @ d, expected) or b.grad is None:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_kept():
    s = rl.eye(5).to_sparse().requires_grad_()
    d = rl.randn(5, 2, requires_grad=True)
    (s @ d).sum().backward()
    e = rl.nn.Embedding(5, 2, sparse=True)
    e(rl.tensor([1])).sum().backward()
    kept = [weakref.ref(t) for t in (s, s.grad._vals, e.weight.grad, e.weight.grad._vals)]
    del s, e
    gc.collect()
    assert [r() for r in kept] == [None] * 4
    gc.disable()
    try:  # what products keep goes with the tensor, without a collection
        for turn in (lambda x: x, lambda x: x.t()):
            for layout in LAYOUTS:
                s = turn(ours(scattered(12, 12), layout))
                s @ rl.randn(12, 2, dtype=rl.float64).requires_grad_()
                (s @ rl.randn(12, 2, dtype=rl.float64).requires_grad_()).sum().backward()
                kept = [weakref.ref(t) for t in (s, s._vals, *s._parts)]
                rows = s._rows
                kept += [weakref.ref(r) for r in (rows, rows and rows.turned()) if r is not None]
                del s, rows
                assert all(r() is None for r in kept), layout
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore")
def test_gradients_add_up_whatever_they_are():
    w = rl.arange(8.0).reshape(4, 2).requires_grad_()
    look = lambda: rl.nn.functional.embedding(rl.tensor([1, 3]), w, sparse=True)  # noqa: E731
    one = rl.zeros(4, 2).index_fill(0, rl.tensor([1, 3]), 1.0)
    for losses, count, sparse in (
        ([look, look], 2, True), ([look, lambda: w * one], 2, False),
        ([lambda: w * one, look, look], 3, False),
    ):  # fmt: skip
        w.grad = None
        sum(f().sum() for f in losses).backward()  # in one pass
        assert w.grad.is_sparse == sparse and rl.equal(w.grad.to_dense(), one * count)
        w.grad = None
        for f in losses:  # one after the other
            f().sum().backward()
        assert w.grad.is_sparse == sparse and rl.equal(w.grad.to_dense(), one * count)
    seen = []
    w.register_hook(lambda g: seen.append(g.layout))
    look().sum().backward()
    assert seen == [rl.sparse_coo]
    with rl.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        (look() * float("nan")).sum().backward()


def test_steps_by_sparse_gradients_are_those_by_dense_ones():
    for make in (lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.5), lambda p: rl.optim.Adagrad(p)):
        weights = []
        for sparse in (True, False):
            rl.manual_seed(1)
            layer = rl.nn.EmbeddingBag(6, 3, mode="sum", sparse=sparse)
            optimizer = make(layer.parameters())
            for _ in range(3):
                optimizer.zero_grad(set_to_none=False)
                (layer(rl.tensor([[0, 2, 2], [4, 5, 1]])) ** 2).sum().backward()
                optimizer.step()
            weights.append(layer.weight.detach())
        assert rl.allclose(*weights, atol=1e-6)


def test_a_sparse_parameter_learns():
    p = rl.nn.Parameter(rl.eye(3).to_sparse())
    assert isinstance(p, rl.nn.Parameter) and p.requires_grad
    optimizer = rl.optim.SGD([p], lr=0.5)
    (p @ rl.ones(3, 1)).sum().backward()
    optimizer.step()
    assert rl.equal(p.detach().to_dense(), rl.eye(3) * 0.5) and p.is_leaf
    with pytest.raises(RuntimeError, match="sparse gradients"):
        rl.optim.Adam([p]).step()


def test_a_function_that_would_lose_a_gradient_refuses():
    class Twice(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to_dense() * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    s = rl.eye(2).to_sparse()
    assert rl.equal(Twice.apply(s), rl.eye(2) * 2)
    with pytest.raises(NotImplementedError, match="indices and values"):
        Twice.apply(s.requires_grad_())


def test_assert_close_compares_sparse_tensors():
    s = ours(scattered(12, 8))
    rl.testing.assert_close(s, s * 1.0)
    rl.testing.assert_close(s, s.to_dense(), check_layout=False)
    for other in (s * 1.1, s.to_sparse_coo(), s.to_dense()):
        with pytest.raises(AssertionError):
            rl.testing.assert_close(s, other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_autocast_lowers_products(layout):
    s, x = ours(scattered(12, 8, dtype=np.float32), layout), rl.randn(8, 3)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert (s @ x).dtype == (x.t() @ s.t()).dtype == (s @ x.bfloat16()).dtype == rl.bfloat16
    with pytest.raises(TypeError, match="one dtype"):
        s @ x.bfloat16()
