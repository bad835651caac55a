"""hstack and its kin, movedim, ones_like and its kin, and products of empty batches."""

import pytest

import rushlight as rl

DENSE = rl.tensor([[0.0, 2, 0], [1, 0, 3]])


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack", "row_stack"])
@pytest.mark.parametrize("x", [DENSE, DENSE[0]], ids=["matrix", "vector"])
def test_stacks(name, x):
    join = getattr(rl, name)
    found = join([x.to_sparse(), x.to_sparse()])
    assert found.layout == rl.sparse_coo
    assert rl.equal(found.to_dense(), join([x, x]))
    with pytest.raises(RuntimeError, match="sparse_coo"):
        join([x.to_sparse(), x])


@pytest.mark.parametrize("source, destination", [(0, 2), (-1, 0), ((0, 1), (2, 0))])
def test_movedim(source, destination):
    x = rl.arange(24).reshape(2, 3, 4) % 5
    found = x.to_sparse().movedim(source, destination)
    assert rl.equal(found.to_dense(), x.movedim(source, destination))
    assert rl.equal(rl.moveaxis(x.to_sparse(), source, destination).to_dense(), found.to_dense())


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_other_values_in_the_same_places(layout):
    block = {"blocksize": (1, 1)} if layout[0] == "b" else {}
    x = DENSE.to_sparse(layout=getattr(rl, f"sparse_{layout}"), **block)
    for found, value in ((rl.ones_like(x), 1), (rl.full_like(x, 4.0), 4)):
        assert found.layout == x.layout and found._nnz() == x._nnz()
        assert rl.equal(found.to_dense(), (DENSE != 0) * float(value))
    assert rl.randn_like(x, dtype=rl.float64).dtype == rl.float64
    with pytest.raises(NotImplementedError):
        rl.ones_like(DENSE.to_sparse())


@pytest.mark.parametrize("sizes", [(2, 4, 0, 3), (0, 4, 2, 3), (2, 0, 2, 3), (2, 4, 2, 0)])
def test_batches_without_elements(sizes):
    count, rows, inner, columns = sizes
    a, b = rl.zeros(count, rows, inner), rl.zeros(count, inner, columns)
    assert rl.equal(rl.bmm(a.to_sparse(), b), rl.bmm(a, b))
