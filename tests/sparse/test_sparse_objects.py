"""Sparse tensors as programs handle them: indexed, written in place, gradients and parameters."""

import copy
import io
import itertools
import pickle

import pytest

import rushlight as rl

F = rl.nn.functional


def hybrid():
    """Two elements at one index; two sparse dims and a dense one."""
    indices = rl.tensor([[1, 0, 1], [0, 2, 0]])
    return rl.sparse_coo_tensor(indices, rl.arange(1.0, 10).reshape(3, 3), (2, 3, 3))


ITEMS = [0, 1, -1, None, ..., slice(None), slice(1, 2), slice(None, None, 2), [1, 0, 1],
         rl.tensor(1), rl.tensor([1]), rl.tensor([0], dtype=rl.int32)]  # fmt: skip


def test_every_index_gives_what_it_gives_of_a_dense_tensor():
    checked = 0
    for x in (hybrid(), hybrid().to_dense().to_sparse(), hybrid().to_dense().to_sparse(1)):
        dense = x.to_dense()
        for n in (1, 2, 3):
            for index in itertools.product(ITEMS, repeat=n):
                lists = sum(
                    isinstance(i, list) or (rl.is_tensor(i) and i.dim() == 1) for i in index
                )
                if lists > 1:
                    with pytest.raises(NotImplementedError, match="one list"):
                        x[index]
                elif n < 3 or checked % 5 == 0:
                    assert rl.equal(x[index].to_dense(), dense[index]), index
                checked += 1
    assert checked > 5000


def test_masks_must_fit():
    x = hybrid()
    assert rl.equal(x[:, rl.tensor([True, False, True])].to_dense(), x.to_dense()[:, [0, 2]])
    for mask in ([True], [True] * 3):
        with pytest.raises(IndexError, match="mask"):
            x[rl.tensor(mask)]


def powered(x, y):
    x **= 2
    return x


def added(x, y):
    x += y
    return x


def subtracted(x, y):
    x -= y
    return x


def multiplied(x, y):
    x *= y
    return x


def divided(x, y):
    x /= 4
    x //= 0.5
    return x


@pytest.mark.parametrize("write", [added, subtracted, multiplied, divided, powered])
@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(),
                                  lambda x: x.to_sparse_bsr((1, 3)), lambda x: x])  # fmt: skip
def test_operators_write_in_place(write, make):
    a, b = rl.tensor([[0.0, 3, 4], [5, 0, 0]]), rl.tensor([[1.0, 0, 2], [6, 0, 0]])
    x = make(a.clone())
    found = write(x, make(b) if make(b).layout is not rl.strided else b.to_sparse())
    assert found is x
    assert rl.equal(x.to_dense(), write(a, b))


def test_a_class_of_ones_own_sees_operators_that_write_in_place():
    class Logged(rl.Tensor):
        seen = ()

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen += (func.__name__,)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.ones(2).as_subclass(Logged)
    before, y = x, rl.ones(2)
    x += 1
    x **= 2
    y *= x
    assert Logged.seen == ("__iadd__", "__ipow__", "__imul__") and x is before
    assert rl.equal(y.as_subclass(rl.Tensor), rl.full((2,), 4.0))


@pytest.mark.parametrize("blocks", [(1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("layout", [rl.sparse_bsr, rl.sparse_bsc])
def test_blocks_whose_elements_have_dims(layout, blocks):
    x = (rl.arange(6 * 5.0) % 7 - 3).reshape(2, 3, 5).relu()
    found = x.to_sparse(layout=layout, blocksize=blocks, dense_dim=1)
    assert found.dense_dim() == 1 and rl.equal(found.to_dense(), x)
    coo = x.to_sparse(2)
    assert rl.equal(coo.to_sparse(layout=layout, blocksize=blocks).to_dense(), x)
    assert rl.equal(found.to_sparse_coo().to_dense(), x)
    assert rl.equal(found.transpose(0, 1).to_dense(), x.transpose(0, 1))
    parts = found._parts
    assert rl.equal(
        rl.sparse_compressed_tensor(*parts, found.values(), layout=layout).to_dense(), x
    )


def test_sizes_of_zero():
    for size, sparse in itertools.product([(3, 0, 2), (0, 2, 2), (2, 2, 0)], (1, 2, 3)):
        x = rl.zeros(size)
        s = x.to_sparse(sparse)
        assert rl.equal(s.to_dense(), x) and rl.equal((x + s), x) and s.shape == x.shape
        assert x.sparse_mask(s)._nnz() == s._nnz()


def leaf(layout="sparse_coo"):
    return rl.eye(3).to_sparse(layout=getattr(rl, layout)).requires_grad_()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_gradients_of_sparse_leaves_are_written_to(layout):
    s = leaf(layout)
    (s @ rl.ones(3, 1)).sum().backward()
    s.grad.mul_(3)
    assert s.grad.to_dense().sum() == 9
    s.grad.zero_()
    assert s.grad.to_dense().sum() == 0
    optimizer = rl.optim.SGD([s], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        (s @ rl.ones(3, 1)).sum().backward()
        optimizer.step()
    assert s.grad.to_dense().sum() == 3
    with pytest.raises(RuntimeError, match="sizes"):
        s.grad = rl.eye(4).to_sparse()


def test_a_gradient_with_other_places_needs_no_dense_copy():
    size = (2**31, 2**31)
    s = rl.sparse_coo_tensor([[5], [7]], [2.0], size, requires_grad=True)
    other = rl.sparse_coo_tensor([[5, 5], [6, 7]], [1.0, 4.0], size)
    (s * 3).backward(other)
    assert s.grad.coalesce().values().tolist() == [12.0]


def test_data_takes_another_dtype():
    s = leaf()
    s.data = (s.detach() * 2).double()
    assert s.dtype == s.to_dense().dtype == rl.float64 and s.requires_grad and s.is_leaf
    (s @ rl.ones(3, 1).double()).sum().backward()
    assert s.grad.dtype == rl.float64
    model = rl.nn.Module()
    model.weight = rl.nn.Parameter(rl.eye(3).to_sparse_csr())
    model.double()
    assert model.weight.dtype == rl.float64 and model.weight.requires_grad


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_parameters_stay_parameters(layout):
    p = rl.nn.Parameter(leaf(layout).detach())
    (p @ rl.ones(3, 1)).sum().backward()
    file = io.BytesIO()
    rl.save({"p": p, "again": p}, file)
    file.seek(0)
    loaded = rl.load(file)
    copied = copy.deepcopy(p)
    assert loaded["p"] is loaded["again"] and rl.equal(copied.grad, p.grad)
    for other in (copied, pickle.loads(pickle.dumps(p)), loaded["p"]):
        assert isinstance(other, rl.nn.Parameter) and other.requires_grad
        assert other.layout == p.layout and rl.equal(other.detach(), p.detach())


def test_columns_out_of_order_survive_a_file():
    c = rl.sparse_csr_tensor([0, 3], [1, 0, 1], [1.0, 2.0, 4.0], (1, 2))
    file = io.BytesIO()
    rl.save(c, file)
    file.seek(0)
    for back in (rl.load(file), pickle.loads(pickle.dumps(c))):
        assert back.col_indices().tolist() == [1, 0, 1] and back.to_dense().tolist() == [[2.0, 5.0]]


@pytest.mark.parametrize("masked", [True, None])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_gradcheck_takes_sparse_inputs(layout, masked):
    s = rl.eye(3, dtype=rl.float64).to_sparse(layout=getattr(rl, layout)).requires_grad_()
    d = rl.randn(3, 2, dtype=rl.float64).requires_grad_()
    assert rl.autograd.gradcheck(lambda s, d: (s * 2 @ d, s.sin()), (s, d), masked=masked)
    assert rl.autograd.gradgradcheck(lambda s, d: s.sin() @ d, (s, d), masked=masked)
    with pytest.raises(RuntimeError, match="mismatch|differ|Jacobian"):
        rl.autograd.gradcheck(lambda s, d: (s * s.detach()) @ d, (s, d), masked=masked)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (), (2, 2)])
def test_indices_of_any_shape_give_sparse_gradients(shape):
    table = rl.nn.Embedding(5, 3, sparse=True)
    table(rl.ones(shape, dtype=rl.int64)).sum().backward()
    count = rl.Size(shape).numel()
    assert table.weight.grad._nnz() == count and table.weight.grad.to_dense().sum() == 3 * count
    bags = rl.nn.EmbeddingBag(5, 3, mode="sum", sparse=True)
    bags(rl.ones(count, dtype=rl.int64), rl.tensor([0, 0])).sum().backward()
    assert bags.weight.grad.to_dense().sum() == 3 * count


@pytest.mark.parametrize("bag", [False, True])
def test_sparse_gradients_have_second_derivatives(bag):
    found, look = [], F.embedding_bag if bag else F.embedding
    for sparse in (True, False):
        w = rl.arange(12.0).reshape(4, 3).requires_grad_()
        loss = (look(rl.tensor([[1, 2, 1]]), w, sparse=sparse) ** 3).sum()
        (grad,) = rl.autograd.grad(loss, w, create_graph=True)
        (grad.to_dense() ** 2).sum().backward()
        found.append(w.grad.to_dense())
    assert rl.allclose(*found) and found[0].sum() > 0


def test_a_computed_table_gets_a_dense_gradient():
    w = rl.ones(4, 3, requires_grad=True)
    F.embedding(rl.tensor([1]), (w * 2).view(3, 4).t(), sparse=True).sum().backward()
    F.embedding_bag(rl.tensor([[1]]), w * 2, sparse=True).sum().backward()
    assert w.grad.layout == rl.strided and w.grad.sum() == 2 * 3 + 2 * 3


def test_momentum_keeps_one_row_per_index():
    w = rl.ones(4, 3, requires_grad=True)
    optimizer = rl.optim.SGD([w], lr=0.1, momentum=0.9)
    for _ in range(6):
        optimizer.zero_grad()
        F.embedding(rl.tensor([1, 2, 1]), w, sparse=True).sum().backward()
        optimizer.step()
    assert optimizer.state[w]["momentum_buffer"]._nnz() == 2


@pytest.mark.parametrize("name", ["Adam", "Adafactor", "Muon", "RMSprop"])
def test_other_optimisers_name_those_that_take_sparse_gradients(name):
    w = rl.ones(4, 3, requires_grad=True)
    F.embedding(rl.tensor([1]), w, sparse=True).sum().backward()
    with pytest.raises(RuntimeError, match=f"{name}: does not support sparse gradients"):
        getattr(rl.optim, name)([w], lr=0.1).step()


def test_arguments_that_do_not_fit_are_refused():
    s, d = rl.eye(3).to_sparse(), rl.ones(3, 3)
    for call in (lambda: rl.smm(d, d), lambda: rl.hspmm(d, d), lambda: rl.cat(s),
                 lambda: rl.stack(s), lambda: rl.mm(s, d, d), lambda: s.float(d),
                 lambda: s.clone(d),
                 lambda: rl.stack([s, d]), lambda: d.mul_(rl.eye(2).to_sparse()),
                 lambda: s * rl.ones(2, 2), lambda: rl.ones(2, 3, 3).to_sparse(2) * d.to_sparse(1),
                 lambda: rl.ones(2, 3, 2).to_sparse() * rl.ones(2, 3, 2).to_sparse(1)):  # fmt: skip
        with pytest.raises((RuntimeError, TypeError)):
            call()
