"""Cholesky's factorization and triangular systems, against NumPy and gradcheck."""

import numpy as np
import pytest

import rushlight as rl


def positive(*shape, dtype=rl.float64):
    rl.manual_seed(0)
    a = rl.randn(*shape, dtype=dtype)
    return a @ a.mT + shape[-1] * rl.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 4, 4), (0, 0), (0, 3, 3)])
def test_cholesky(shape):
    a = positive(*shape)
    np.testing.assert_allclose(
        rl.linalg.cholesky(a).numpy(), np.linalg.cholesky(a.numpy()), rtol=1e-12
    )
    assert rl.linalg.cholesky(a, upper=True).equal(rl.linalg.cholesky(a).mT)
    assert rl.cholesky(a).equal(a.cholesky())
    assert rl.linalg.cholesky(a.float()).dtype == rl.float32


def test_cholesky_reads_one_triangle():
    a = positive(4, 4)
    assert rl.linalg.cholesky(a.tril()).allclose(rl.linalg.cholesky(a))
    assert rl.linalg.cholesky(a.mT.contiguous().mT).allclose(rl.linalg.cholesky(a))


def test_cholesky_errors():
    with pytest.raises(rl.linalg.LinAlgError, match="minor of order 2 is not positive"):
        rl.linalg.cholesky(rl.tensor([[1.0, 2.0], [2.0, 1.0]]))
    batch = rl.stack([rl.eye(2), -rl.eye(2)])
    with pytest.raises(RuntimeError, match="batch element 1"):
        rl.linalg.cholesky(batch)
    assert rl.linalg.cholesky_ex(batch).info.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="square"):
        rl.linalg.cholesky(rl.ones(2, 3))
    with pytest.raises(RuntimeError):
        rl.linalg.cholesky(rl.ones(2, 2, dtype=rl.int64))
    with pytest.raises(RuntimeError):
        rl.linalg.cholesky(rl.full((2, 2), float("nan")))


def test_cholesky_gradients():
    a = positive(2, 3, 3).requires_grad_()

    def factor(a):
        return rl.linalg.cholesky((a + a.mT) / 2)

    assert rl.autograd.gradcheck(factor, (a,)) and rl.autograd.gradgradcheck(factor, (a,))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(upper, left, unit):
    rl.manual_seed(0)
    a = (rl.randn(2, 3, 3, dtype=rl.float64) + 3 * rl.eye(3, dtype=rl.float64)).requires_grad_()
    b = rl.randn(*((2, 3, 4) if left else (2, 4, 3)), dtype=rl.float64, requires_grad=True)

    def solve(a, b):
        return rl.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    part = a.detach().triu() if upper else a.detach().tril()
    if unit:
        part = part - part.diagonal(dim1=-2, dim2=-1).diag_embed() + rl.eye(3, dtype=rl.float64)
    x = solve(a, b).detach()
    assert (part @ x if left else x @ part).allclose(b.detach())
    assert rl.autograd.gradcheck(solve, (a, b)) and rl.autograd.gradgradcheck(solve, (a, b))


def test_solve_triangular_broadcasts():
    a, b = positive(4, 1, 3, 3).tril(), rl.ones(5, 3, 2, dtype=rl.float64)
    assert (a @ rl.linalg.solve_triangular(a, b, upper=False)).allclose(b.expand(4, 5, 3, 2))
    with pytest.raises(RuntimeError):
        rl.linalg.solve_triangular(rl.eye(3), rl.ones(2, 1), upper=False)


def test_cholesky_solve_and_inverse():
    a, b = positive(3, 3), rl.randn(3, 2, dtype=rl.float64)
    for upper in (False, True):
        factor = rl.linalg.cholesky(a, upper=upper)
        assert (a @ b.cholesky_solve(factor, upper)).allclose(b)
        assert (a @ rl.cholesky_inverse(factor, upper)).allclose(rl.eye(3, dtype=rl.float64))
