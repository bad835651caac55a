"""Sparse tensors on a GPU: what they are on the CPU, tests/sparse says."""

import operator

import numpy as np
import pytest

import rushlight as rl

LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((3, 2)),
    "bsc": lambda x: x.to_sparse_bsc((3, 2)),
}


def matrix(rows, columns, share=0.2, dtype=rl.float32):
    """A dense matrix of which a share is not zero."""
    rng = np.random.default_rng(rows * columns)
    x = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < share)
    return rl.from_numpy(x).to(dtype)


def close(a, b, tolerance=1e-4):
    assert a.is_cuda
    np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [1, 5, 16, 130])
def test_a_product_and_its_gradients(layout, columns):
    x, y = matrix(60, 40), matrix(40, columns, 1.0)
    results = []
    for device in ("cpu", "cuda"):
        a = LAYOUTS[layout](x.to(device)).requires_grad_()
        b = y.to(device, copy=True).requires_grad_()
        out = a @ b
        (out * out).sum().backward()
        results.append((out, a.grad.to_dense(), b.grad))
    for cpu, gpu in zip(*results, strict=True):
        close(gpu, cpu)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout):
    x = matrix(60, 40)
    a = LAYOUTS[layout](x)
    b = a.cuda()
    assert b.is_cuda and b.layout == a.layout and b.values().is_cuda
    assert rl.equal(b.to_dense().cpu(), x)
    assert rl.equal(b.cpu().to_dense(), x)
    assert rl.equal(LAYOUTS[layout](x.cuda()).to_dense().cpu(), x)
    assert rl.equal(b.to_sparse_coo().coalesce().to_dense().cpu(), x)
    assert "device='cuda:0'" in repr(b)


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.coalesce().values(),
        lambda s: (s + s).to_dense(),
        lambda s: (s * s).to_dense(),
        lambda s: (s * 3 - s).to_dense(),
        lambda s: s.t().to_dense(),
        lambda s: rl.sparse.sum(s, 0).to_dense(),
        lambda s: rl.sparse.sum(s),
        lambda s: rl.sparse.softmax(s, 1).to_dense(),
        lambda s: rl.sparse.log_softmax(s, 0).to_dense(),
        lambda s: s.index_select(1, rl.tensor([3, 3, 0, 7], device=s.device)).to_dense(),
        lambda s: s[3].to_dense(),
        lambda s: s[5:20].to_dense(),
        lambda s: s[[3, -1, 3]].to_dense(),
        lambda s: s[:, rl.tensor([2])].to_dense(),
        lambda s: operator.iadd(rl.ones(60, 40, device=s.device), s),
        lambda s: operator.imul(s.clone(), 3).to_dense(),
        lambda s: rl.cat((s, s), 1).to_dense(),
        lambda s: (s @ s.t()).to_dense(),
        lambda s: rl.ones(60, 40, device=s.device) + s,
        lambda s: rl.ones(60, 40, device=s.device).add_(s, alpha=2),
        lambda s: s.norm(),
        lambda s: rl.bmm(rl.stack((s, s)), rl.ones(2, 40, 3, device=s.device)),
        lambda s: rl.sparse.sampled_addmm(
            s.coalesce().to_sparse_csr(), rl.ones(60, 8, device=s.device),
            rl.ones(8, 40, device=s.device)
        ).to_dense(),
    ],
)  # fmt: skip
def test_operations(f):
    x = matrix(60, 40).to_sparse()
    order = rl.randperm(x._nnz())  # uncoalesced, with some indices twice
    indices = rl.cat((x.indices()[:, order], x.indices()[:, :7]), 1)
    s = rl.sparse_coo_tensor(indices, rl.cat((x.values()[order], x.values()[:7])), x.shape)
    close(f(s.cuda()), f(s))


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16, rl.float64, rl.complex64, rl.int64])
def test_products_of_other_types(dtype):
    x, y = (matrix(30, 20) * 4).round(), (matrix(20, 6, 1.0) * 4).round()
    s, d = x.to(dtype).to_sparse_csr(), y.to(dtype)
    close((s.cuda() @ d.cuda()).to(rl.complex64), (s @ d).to(rl.complex64), 1e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: rl.optim.Adagrad(p, lr=0.1),
        lambda p: rl.optim.SparseAdam(p, lr=0.1),
    ],
)
@pytest.mark.parametrize("bag", [False, True])
def test_sparse_gradients(make, bag):
    weights = []
    for device in ("cpu", "cuda"):
        rl.manual_seed(0)
        layer = (
            rl.nn.EmbeddingBag(50, 6, sparse=True) if bag else rl.nn.Embedding(50, 6, sparse=True)
        )
        layer.to(device)
        optimizer = make(layer.parameters())
        for step in range(3):
            optimizer.zero_grad()
            x = rl.tensor([[step, 4, 4], [7, 1, step]], device=device)
            (layer(x) ** 2).sum().backward()
            assert layer.weight.grad.is_sparse and layer.weight.grad.device == layer.weight.device
            optimizer.step()
        weights.append(layer.weight)
    close(weights[1], weights[0])


def test_pickled_and_saved(tmp_path):
    s = matrix(30, 20).to_sparse_csr().cuda()
    rl.save(s, tmp_path / "s.pt")
    back = rl.load(tmp_path / "s.pt")
    assert back.is_cuda and back.layout == rl.sparse_csr
    assert rl.equal(back.to_dense(), s.to_dense())
    assert not rl.load(tmp_path / "s.pt", map_location="cpu").is_cuda
