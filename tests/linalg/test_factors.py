"""Factors are judged by their product and their form. Sizes on both sides of where LAPACK takes
over."""

import numpy as np
import pytest

import rushlight as rl

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [
    (3, 3),
    (5, 3),
    (3, 5),
    (2, 4, 4),
    (2, 2, 3, 2),
    (40, 40),
    (50, 37),
    (37, 50),
    (3, 33, 33),
]
EMPTY = [(0, 0), (0, 3), (3, 0), (0, 3, 3), (2, 0, 0)]
TOLERANCE = {"float32": 2e-4, "float64": 1e-11, "complex64": 2e-4, "complex128": 1e-11}


def random(shape, dtype="float64", seed=0):
    rng = np.random.RandomState(seed)
    a = rng.randn(*shape)
    if "complex" in dtype:
        a = a + 1j * rng.randn(*shape)
    return rl.from_numpy(np.array(a)).to(getattr(rl, dtype))


def near(a, b, dtype="float64"):
    assert a.shape == b.shape, (a.shape, b.shape)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=TOLERANCE[dtype] * 10)


def identity(n, like):
    return rl.eye(n, dtype=like.dtype).expand(*like.shape[:-2], n, n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_qr(shape, dtype):
    a = random(shape, dtype)
    rows, cols = shape[-2:]
    for mode in ("reduced", "complete"):
        q, r = rl.linalg.qr(a, mode)
        k = rows if mode == "complete" else min(rows, cols)
        assert q.shape == (*shape[:-1], k) and r.shape == (*shape[:-2], k, cols)
        near(q @ r, a, dtype)
        near(q.mH @ q, identity(k, q), dtype)
        assert r.equal(r.triu())
        if a.numel():  # the signs are LAPACK's, as NumPy's are
            want = np.linalg.qr(a.numpy(), mode)
            np.testing.assert_allclose(r.numpy(), want[1], atol=TOLERANCE[dtype] * 20)
    empty, r = rl.linalg.qr(a, "r")
    assert empty.numel() == 0
    near(r, rl.linalg.qr(a).R, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_svd(shape, dtype):
    a = random(shape, dtype)
    for full in (False, True):
        u, s, vh = rl.linalg.svd(a, full_matrices=full)
        k = min(shape[-2:])
        near(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, dtype)
        near(u.mH @ u, identity(u.shape[-1], u), dtype)
        near(vh @ vh.mH, identity(vh.shape[-2], vh), dtype)
        assert not s.is_complex() and (s.diff() <= 0).all()
    near(rl.linalg.svdvals(a), s, dtype)
    near(rl.linalg.svdvals(a, driver="gesvd"), s, dtype)
    u, s, v = rl.svd(a)
    near(u * s.unsqueeze(-2) @ v.mH, a, dtype)
    assert rl.svd(a, compute_uv=False).U.shape == (*shape[:-1], shape[-2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (40, 40), (0, 0), (0, 3, 3)])
def test_eigh(shape, dtype):
    a = random(shape, dtype)
    a = a + a.mH
    for side in ("L", "U"):
        w, v = rl.linalg.eigh(a.tril() if side == "L" else a.triu(), side)
        near(v * w.unsqueeze(-2) @ v.mH, a, dtype)
        near(v.mH @ v, identity(shape[-1], v), dtype)
        near(rl.linalg.eigvalsh(a, side), w, dtype)
    assert not w.is_complex()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (40, 40), (0, 0), (0, 3, 3)])
def test_eig(shape, dtype):
    a = random(shape, dtype)
    w, v = rl.linalg.eig(a)
    assert w.is_complex() and v.is_complex()
    near(a.to(v.dtype) @ v, v * w.unsqueeze(-2), dtype)
    got, want = rl.linalg.eigvals(a).numpy(), w.numpy()
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(want), atol=1e-3)
    if a.numel():
        np.testing.assert_allclose(rl.linalg.vector_norm(v, dim=-2).numpy(), 1, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_lu(shape, dtype):
    a = random(shape, dtype)
    p, lower, upper = rl.linalg.lu(a)
    near(p @ lower @ upper, a, dtype)
    assert lower.equal(lower.tril()) and upper.equal(upper.triu())
    factors, pivots, info = rl.linalg.lu_factor_ex(a)
    assert pivots.dtype == rl.int32 and info.dtype == rl.int32 and not info.any()
    for got, want in zip(rl.lu_unpack(factors, pivots), (p, lower, upper), strict=True):
        near(got, want, dtype)
    assert rl.lu(a)[1].equal(pivots) and len(rl.lu(a, get_infos=True)) == 3
    assert a.lu()[0].equal(factors)
    if shape[-1] == shape[-2]:
        b = random((*shape[:-1], 2), dtype, seed=1)
        near(a @ rl.linalg.lu_solve(factors, pivots, b), b, dtype)
        near(a.mH @ rl.linalg.lu_solve(factors, pivots, b, adjoint=True), b, dtype)
        near(rl.linalg.lu_solve(factors, pivots, b.mT, left=False) @ a, b.mT, dtype)
        near(rl.lu_solve(b, factors, pivots), rl.linalg.solve(a, b), dtype)


def test_lu_without_pivots():
    a = random((2, 5, 5)) + 5 * rl.eye(5, dtype=rl.float64)
    p, lower, upper = rl.linalg.lu(a, pivot=False)
    assert p.numel() == 0
    near(lower @ upper, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_ldl(n, hermitian, dtype):
    a = random((2, n, n), dtype)
    a = a + (a.mH if hermitian else a.mT)
    b = random((2, n, 3), dtype, seed=1)
    factors, pivots = rl.linalg.ldl_factor(a, hermitian=hermitian)
    x = rl.linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)
    near((a @ x) / 10, b / 10, dtype)
    assert not rl.linalg.ldl_factor_ex(a, hermitian=hermitian).info.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections(dtype):
    a = random((2, 6, 4), dtype)
    packed, tau = rl.geqrf(a)
    q, r = rl.linalg.qr(a)
    near(packed.triu()[..., :4, :], r, dtype)
    near(rl.linalg.householder_product(packed, tau), q, dtype)
    near(rl.orgqr(packed, tau), q, dtype)
    whole = rl.linalg.qr(a, "complete").Q
    c = random((2, 6, 3), dtype, seed=1)
    near(rl.ormqr(packed, tau, c), whole @ c, dtype)
    near(rl.ormqr(packed, tau, c, transpose=True), whole.mH @ c, dtype)
    near(rl.ormqr(packed, tau, c.mT, left=False), c.mT @ whole, dtype)
    near(rl.ormqr(packed, tau, c.mT, left=False, transpose=True), c.mT @ whole.mH, dtype)
    # the way that is differentiated is another one
    packed.requires_grad_()
    near(rl.linalg.householder_product(packed, tau).detach(), q, dtype)
    near(rl.ormqr(packed, tau, c).detach(), whole @ c, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 6, 2)])
def test_lstsq(shape, driver, dtype):
    a, b = random(shape, dtype), random((*shape[:-1], 2), dtype, seed=1)
    found = rl.linalg.lstsq(a, b, driver=driver)
    want = np.linalg.pinv(a.numpy()) @ b.numpy()
    np.testing.assert_allclose(found.solution.numpy(), want, atol=TOLERANCE[dtype] * 20)
    if driver in ("gelsd", "gelss", "gels") and shape[-2] > shape[-1]:
        left = np.abs(a.numpy() @ want - b.numpy()) ** 2
        np.testing.assert_allclose(found.residuals.numpy(), left.sum(-2), rtol=1e-3)
    else:
        assert found.residuals.numel() == 0
    if driver in ("gelsd", "gelss"):
        near(found.singular_values, rl.linalg.svdvals(a), dtype)
    if driver != "gels":
        assert (found.rank == min(shape[-2:])).all()
    near(rl.linalg.lstsq(a, b[..., 0], driver=driver).solution, found.solution[..., 0], dtype)


def test_extreme_elements():
    for scale in (1e-30, 1e30):
        a = random((4, 4), "float32") * scale
        q, r = rl.linalg.qr(a)
        near(q.mT @ q, rl.eye(4), "float32")
        np.testing.assert_allclose((q.double() @ r.double() / scale).numpy(),
                                   (a.double() / scale).numpy(), atol=1e-5)  # fmt: skip
        np.testing.assert_allclose((rl.linalg.inv(a) @ a).numpy(), np.eye(4), atol=1e-3)


def test_layouts_agree():
    a = random((3, 6, 6))
    a = a @ a.mT + rl.eye(6, dtype=rl.float64)
    wide = rl.zeros(3, 6, 13, dtype=rl.float64)
    wide[..., 1::2] = a
    others = [a.mT, wide[..., 1::2], a.permute(1, 2, 0).contiguous().permute(2, 0, 1),
              a[:1].expand(3, 6, 6)]  # fmt: skip
    for f in (rl.linalg.inv, rl.linalg.det, rl.linalg.cholesky, rl.linalg.svdvals,
              lambda x: rl.linalg.eigvals(x).abs(), lambda x: rl.linalg.qr(x).R,
              lambda x: rl.linalg.solve(x, x[..., :2])):  # fmt: skip
        for b in others:
            near(f(b), f(b.clone(memory_format=rl.contiguous_format)))
