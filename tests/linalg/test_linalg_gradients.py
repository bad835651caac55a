"""Gradients of what is unique: phases and signs of vectors cancel in the functions checked here."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck

KINDS = ["float64", "complex128"]


def random(shape, dtype="float64", seed=0):
    rng = np.random.RandomState(seed)
    a = rng.randn(*shape)
    if "complex" in dtype:
        a = a + 1j * rng.randn(*shape)
    return rl.from_numpy(np.array(a)).to(getattr(rl, dtype)).requires_grad_()


def check(f, *inputs, second=True):
    assert gradcheck(f, inputs, fast_mode=True, check_forward_ad=True)
    if second:
        assert gradgradcheck(f, inputs, fast_mode=True)


def real_parts(x):
    return rl.view_as_real(x) if x.is_complex() else x


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 2)])
def test_svd(shape, dtype):
    a = random(shape, dtype)

    def f(a):
        u, s, vh = rl.linalg.svd(a, full_matrices=False)
        # u and v turn together: their products, and what each projects on, do not
        return s, u @ vh, (u * s.unsqueeze(-2)).abs() ** 2, vh.abs() ** 2

    check(f, a)
    check(rl.linalg.svdvals, a)


@pytest.mark.parametrize("dtype", KINDS)
def test_eigh(dtype):
    def f(a):
        w, v = rl.linalg.eigh((a + a.mH) / 2)
        return w, v * w.exp().unsqueeze(-2) @ v.mH, v.abs() ** 2

    check(f, random((3, 3), dtype))
    check(f, random((2, 3, 3), dtype))
    check(lambda a: rl.linalg.eigvalsh((a + a.mH) / 2, "U"), random((3, 3), dtype))


@pytest.mark.parametrize("dtype", KINDS)
def test_eig(dtype):
    def f(a):
        w, v = rl.linalg.eig(a)
        return real_parts(w.sum()), real_parts((w * w).sum()), (v.abs() ** 2 * w.abs()).sum(-1)

    check(f, random((3, 3), dtype))
    check(lambda a: real_parts((rl.linalg.eigvals(a) ** 3).sum()), random((2, 3, 3), dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 2)])
def test_qr(shape, dtype):
    check(lambda a: tuple(rl.linalg.qr(a)), random(shape, dtype))
    if shape[-2] <= shape[-1]:
        check(lambda a: tuple(rl.linalg.qr(a, "complete")), random(shape, dtype))


def test_qr_without_gradient():
    tall = random((4, 3))
    with pytest.raises(RuntimeError, match="reduced"):
        rl.linalg.qr(tall, "complete").Q.sum().backward()
    with pytest.raises(RuntimeError, match="mode='r'"):
        rl.linalg.qr(tall, "r").R.sum().backward()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 3, 3)])
def test_lu(shape, dtype):
    check(lambda a: rl.linalg.lu_factor(a).LU, random(shape, dtype))
    check(lambda a: tuple(rl.linalg.lu(a))[1:], random(shape, dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve(left, adjoint, dtype):
    factors, pivots = rl.linalg.lu_factor(random((2, 3, 3), dtype).detach())
    b = random((2, 3, 2) if left else (2, 2, 3), dtype, 1)
    check(lambda f, b: rl.linalg.lu_solve(f, pivots, b, left=left, adjoint=adjoint),
          factors.clone().requires_grad_(), b)  # fmt: skip


@pytest.mark.parametrize("dtype", KINDS)
def test_cholesky(dtype):
    def f(a, upper=False):
        return rl.linalg.cholesky(a @ a.mH + 2 * rl.eye(3, dtype=a.dtype), upper=upper)

    check(f, random((2, 3, 3), dtype))
    check(lambda a: f(a, True), random((3, 3), dtype))
    check(lambda b, a: rl.cholesky_solve(b, f(a)), random((3, 2), dtype), random((3, 3), dtype, 1))
    check(lambda a: rl.cholesky_inverse(f(a, True), True), random((3, 3), dtype))


@pytest.mark.parametrize("dtype", KINDS)
def test_inverses(dtype):
    a = random((2, 3, 3), dtype)
    check(rl.linalg.inv, a)
    check(rl.linalg.det, a)
    check(lambda a: tuple(map(real_parts, rl.linalg.slogdet(a))), a)
    check(rl.linalg.solve, a, random((2, 3), dtype, 1))
    check(rl.linalg.solve, random((3, 3), dtype), random((4, 3, 2), dtype, 1))
    for shape in [(3, 3), (4, 2), (2, 4)]:
        check(rl.linalg.pinv, random(shape, dtype))
        check(lambda a, b: rl.linalg.lstsq(a, b).solution, random(shape, dtype),
              random((shape[0], 2), dtype, 1))  # fmt: skip
    check(lambda a: rl.linalg.pinv(a + a.mH, hermitian=True), random((3, 3), dtype))
    check(rl.linalg.pinv, rl.eye(3, dtype=getattr(rl, dtype)).requires_grad_())


def test_det_of_singular_matrices():
    for rows in ([[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]],
                 [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]]):  # fmt: skip
        a = rl.tensor(rows, dtype=rl.float64, requires_grad=True)
        (g,) = rl.autograd.grad(rl.linalg.det(a), a)
        n = len(rows)
        cofactors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(rows, i, 0), j, 1))
                      for j in range(n)] for i in range(n)]  # fmt: skip
        np.testing.assert_allclose(g.numpy(), cofactors, atol=1e-12)


@pytest.mark.parametrize("dtype", KINDS)
def test_reflections(dtype):
    packed, tau = rl.geqrf(random((4, 3), dtype).detach())
    packed, tau = packed.clone().requires_grad_(), tau.clone().requires_grad_()
    check(rl.linalg.householder_product, packed, tau)
    check(lambda a, t, c: rl.ormqr(a, t, c, True, True), packed, tau, random((4, 2), dtype, 1))


@pytest.mark.parametrize("dtype", KINDS)
def test_norms(dtype):
    a = random((3, 4), dtype)
    for order in ("fro", "nuc", 2, -2, 1, np.inf):
        check(lambda a, order=order: rl.linalg.matrix_norm(a, order), a)
    check(rl.linalg.cond, a)
    check(lambda a: rl.linalg.cond(a, 1), random((3, 3), dtype))
    check(lambda a: rl.linalg.matrix_power(a, -3), random((3, 3), dtype))
    check(lambda a: rl.linalg.multi_dot([a, a.mT, a]), a)


def test_phases_are_refused():
    a = random((3, 3), "complex128")
    with pytest.raises(RuntimeError, match="phase"):
        rl.linalg.svd(a).U.real.sum().backward()
    with pytest.raises(RuntimeError, match="phase"):
        rl.linalg.eigh(a + a.mH).eigenvectors.imag.sum().backward()


def test_vmap_and_jacobians():
    a = random((5, 3, 3)).detach()
    got = rl.vmap(rl.linalg.inv)(a)
    assert got.allclose(rl.linalg.inv(a))
    assert rl.vmap(rl.linalg.solve)(a, a[..., 0]).allclose(rl.linalg.solve(a, a[..., :1])[..., 0])
    jacobian = rl.func.jacrev(rl.linalg.det)(a[0])
    assert jacobian.allclose(rl.linalg.inv(a[0]).mT * rl.linalg.det(a[0]))
    singular = a.clone()
    singular[3] = 0
    with pytest.raises(rl.linalg.LinAlgError, match="batch element 3"):
        rl.vmap(rl.linalg.inv)(singular)
