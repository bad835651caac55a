"""Linear algebra on the GPU: what defines each factor, the CPU's values, errors, gradients."""

import itertools
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight import linalg
from rushlight.autograd import gradcheck
from rushlight.linalg import LinAlgError

TYPES = [rl.float32, rl.float64, rl.complex64, rl.complex128]
EPS = {rl.float32: 1.2e-7, rl.complex64: 1.2e-7, rl.float64: 2.2e-16, rl.complex128: 2.2e-16}
# One matrix, many small ones (the batched functions), a few larger ones (one by one).
SQUARE = [
    (1, 1),
    (5, 5),
    (7, 4, 4),
    (2, 3, 33, 33),
    (2, 300, 300),
    (40, 1, 1),
    (0, 3, 3),
    (2, 0, 0),
]
ANY = [
    (5, 3),
    (3, 5),
    (7, 6, 4),
    (7, 4, 6),
    (2, 300, 20),
    (2, 20, 300),
    (33, 40),
    (3, 33, 33),
    (0, 3, 2),
]

each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
square = pytest.mark.parametrize("shape", SQUARE, ids=str)
any_shape = pytest.mark.parametrize("shape", ANY, ids=str)


def random(shape, dtype=rl.float64, seed=0):
    rng = np.random.RandomState(seed)
    a = rng.randn(*shape) + (1j * rng.randn(*shape) if dtype.is_complex else 0)
    return rl.from_numpy(np.array(a)).to(dtype).cuda()


def well_conditioned(shape, dtype, seed=0):
    one = rl.eye(shape[-1], dtype=dtype, device="cuda")
    return random(shape, dtype, seed) + 2 * shape[-1] ** 0.5 * one


def positive(shape, dtype):
    a = random(shape, dtype)
    return a @ a.mH + shape[-1] * rl.eye(shape[-1], dtype=dtype, device="cuda")


def near(got, want, slack=1.0):
    assert got.is_cuda and got.shape == want.shape and got.dtype == want.dtype
    if got.numel() == 0:
        return
    got, want = got.cpu().numpy(), want.cpu().numpy()
    scale = max(np.abs(want).max(), 1e-30)
    limit = 60 * slack * float(EPS[rl.from_numpy(got).dtype]) * max(got.shape[-2:] or (1,)) * scale
    np.testing.assert_allclose(got, want, rtol=0, atol=limit)


def identity(q):
    return rl.eye(q.shape[-1], dtype=q.dtype, device="cuda").expand(*q.shape[:-2], -1, -1)


@each_type
@square
def test_cholesky(shape, dtype):
    a = positive(shape, dtype)
    for upper in (False, True):
        f = linalg.cholesky(a, upper=upper)
        near(f.mH @ f if upper else f @ f.mH, a)
        assert ((f.tril(-1) if upper else f.triu(1)) == 0).all()
    b = random((*shape[:-1], 2), dtype)
    near(a @ rl.cholesky_solve(b, linalg.cholesky(a)), b, 20)
    near(linalg.cholesky(a.mT.contiguous().mT), linalg.cholesky(a))


@each_type
@pytest.mark.parametrize("shape", [(4, 4), (5, 6, 6), (2, 300, 300), (0, 3, 3)], ids=str)
def test_triangular_systems(shape, dtype):
    n = shape[-1]
    a = well_conditioned(shape, dtype)
    for upper, unit, turned, left in itertools.product((False, True), repeat=4):
        t = a.mT if turned else a
        if unit:
            t = t / (4 * n)
        b = random((*shape[:-2], n, 3) if left else (*shape[:-2], 3, n), dtype, 1)
        x = linalg.solve_triangular(t, b, upper=upper, unitriangular=unit, left=left)
        used = t.triu() if upper else t.tril()
        if unit:
            used = used - rl.diag_embed(used.diagonal(0, -2, -1)) + identity(used)
        near(used @ x if left else x @ used, b, 20)


@each_type
@pytest.mark.parametrize("shape", [*SQUARE, *ANY], ids=str)
def test_lu(shape, dtype):
    a = random(shape, dtype)
    p, lower, upper = linalg.lu(a)
    near(p @ lower @ upper, a)
    k = min(shape[-2:])
    assert (lower[..., :k, :].diagonal(0, -2, -1) == 1).all() and (upper.tril(-1) == 0).all()
    if a.numel():
        assert (lower.abs() <= 1.5).all()  # complex pivots are chosen by |re| + |im|
        lu, pivots = linalg.lu_factor(a) if shape[-1] == shape[-2] else linalg.lu_factor_ex(a)[:2]
        assert pivots.dtype == rl.int32 and pivots.shape == (*shape[:-2], k)
        near(rl.lu_unpack(lu, pivots)[0] @ lower @ upper, a)


@each_type
@pytest.mark.parametrize("shape", [(4, 4), (5, 6, 6), (2, 300, 300)], ids=str)
def test_lu_without_pivots(shape, dtype):
    a = well_conditioned(shape, dtype)
    lu, pivots, info = linalg.lu_factor_ex(a, pivot=False)
    assert (info == 0).all()
    assert (pivots == rl.arange(1, shape[-1] + 1, device="cuda", dtype=rl.int32)).all()
    near((lu.tril(-1) + identity(lu)) @ lu.triu(), a, 10)


@each_type
@square
def test_solve(shape, dtype):
    a = well_conditioned(shape, dtype)
    for columns in (1, 7):
        b = random((*shape[:-1], columns), dtype, 1)
        near(a @ linalg.solve(a, b), b, 20)
        near(linalg.solve(a, b.mT, left=False) @ a, b.mT, 20)
    near(linalg.solve(a, b[..., 0]), linalg.solve(a, b)[..., 0])
    near(linalg.inv(a) @ a, identity(a), 20)
    near(linalg.inv(a.mT), linalg.inv(a).mT, 20)
    lu, pivots = linalg.lu_factor(a)
    for adjoint, left in itertools.product((False, True), repeat=2):
        m = a.mH if adjoint else a
        c = b if left else b.mT
        x = linalg.lu_solve(lu, pivots, c, adjoint=adjoint, left=left)
        near(m @ x if left else x @ m, c, 20)


def test_one_matrix_for_many_right_hand_sides():
    a, b = well_conditioned((4, 4), rl.float64), random((3, 5, 4, 2))
    near(a @ linalg.solve(a, b), b)
    near(a.tril() @ linalg.solve_triangular(a, b, upper=False), b)


@each_type
@square
def test_determinants(shape, dtype):
    a = random(shape, dtype)
    det, host = linalg.det(a), linalg.det(a.cpu())
    if shape[-1] < 100:
        np.testing.assert_allclose(det.cpu().numpy(), host.numpy(), rtol=4000 * EPS[dtype])
    sign, size = linalg.slogdet(a)
    host_sign, host_size = linalg.slogdet(a.cpu())
    np.testing.assert_allclose(sign.cpu().numpy(), host_sign.numpy(), atol=4000 * EPS[dtype])
    np.testing.assert_allclose(
        size.cpu().numpy(), host_size.numpy(), rtol=4000 * EPS[dtype], atol=4000 * EPS[dtype]
    )


def test_determinants_of_singular_matrices():
    a = rl.stack([rl.eye(3), rl.ones(3, 3), -rl.eye(3)]).double().cuda()
    assert linalg.det(a).tolist() == [1, 0, -1]
    sign, size = linalg.slogdet(a)
    assert sign.tolist() == [1, 0, -1] and size.tolist() == [0, -np.inf, 0]
    a[0, 0, 0] = float("nan")
    assert linalg.det(a)[0].isnan().item() and linalg.slogdet(a)[0][0].isnan().item()


@each_type
@pytest.mark.parametrize("shape", [*ANY, (4, 4), (9, 5, 5), (2, 0, 0), (3, 0), (0, 3)], ids=str)
def test_qr(shape, dtype):
    a = random(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        host_q, host_r = linalg.qr(a.cpu(), mode)
        assert q.shape == host_q.shape and r.shape == host_r.shape
        near(q @ r, a)
        near(q.mH @ q, identity(q.mH @ q))
        assert (r.tril(-1) == 0).all()
    near(linalg.qr(a, "r").R, linalg.qr(a).R)


@each_type
@pytest.mark.parametrize("shape", [(5, 3), (7, 6, 4), (2, 300, 20)], ids=str)
def test_reflections(shape, dtype):
    a = random(shape, dtype)
    f, tau = rl.geqrf(a)
    q = linalg.householder_product(f, tau)
    near(q @ f[..., : shape[-1], :].triu(), a)
    near(q, linalg.householder_product(f.cpu(), tau.cpu()).cuda())
    few = linalg.householder_product(f, tau[..., :2])
    near(few, linalg.householder_product(f.cpu(), tau[..., :2].cpu()).cuda())
    for left, transpose in itertools.product((False, True), repeat=2):
        c = random((*shape[:-2], shape[-2], 4) if left else (*shape[:-2], 4, shape[-2]), dtype, 1)
        got = rl.ormqr(f, tau, c, left, transpose)
        near(got, rl.ormqr(f.cpu(), tau.cpu(), c.cpu(), left, transpose).cuda())


@each_type
@pytest.mark.parametrize("shape", [*ANY, (5, 5), (50, 8, 8), (2, 0, 3), (3, 0)], ids=str)
def test_svd(shape, dtype):
    a = random(shape, dtype)
    k = min(shape[-2:])
    want = linalg.svdvals(a.cpu()).cuda()
    for full in (False, True):
        u, s, vh = linalg.svd(a, full_matrices=full)
        assert s.shape == want.shape and s.dtype == want.dtype
        near(s.unsqueeze(-1), want.unsqueeze(-1))
        near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
        near(u.mH @ u, identity(u.mH @ u))
        near(vh @ vh.mH, identity(vh @ vh.mH))
    near(linalg.svdvals(a).unsqueeze(-1), want.unsqueeze(-1))


@pytest.mark.parametrize("driver", ["gesvd", "gesvdj", "gesvda"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 5, 5), (40, 70)], ids=str)
def test_svd_drivers(shape, driver):
    for dtype in (rl.float64, rl.complex64):
        a = random(shape, dtype)
        for full in (False, True):
            u, s, vh = linalg.svd(a, full_matrices=full, driver=driver)
            k = s.shape[-1]
            near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
            near(u.mH @ u, identity(u.mH @ u))
        near(linalg.svdvals(a, driver=driver).unsqueeze(-1), s.unsqueeze(-1))


def test_svd_of_low_rank_and_of_zeros():
    a = random((6, 1)) @ random((1, 5), seed=1)
    s = linalg.svdvals(a)
    assert (s[1:] < 1e-14 * s[0]).all()
    u, s, _ = linalg.svd(rl.zeros(3, 4, 4, device="cuda"))
    assert (s == 0).all()
    near(u.mH @ u, identity(u))
    assert linalg.matrix_rank(a).item() == 1
    near(linalg.pinv(a), linalg.pinv(a.cpu()).cuda(), 20)


@each_type
@square
def test_eigh(shape, dtype):
    a = random(shape, dtype)
    a = (a + a.mH) / 2
    want = linalg.eigvalsh(a.cpu()).cuda()
    for uplo in "LU":
        half = a.tril() if uplo == "L" else a.triu()  # the other triangle is not read
        values, vectors = linalg.eigh(half, uplo)
        near(values.unsqueeze(-1), want.unsqueeze(-1))
        near(a @ vectors, vectors * values.unsqueeze(-2))
        near(vectors.mH @ vectors, identity(vectors))
        near(linalg.eigvalsh(half, uplo).unsqueeze(-1), want.unsqueeze(-1))


@each_type
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (6, 4, 4), (2, 40, 40), (0, 3, 3)], ids=str)
def test_eig(shape, dtype):
    a = random(shape, dtype)
    values, vectors = linalg.eig(a)
    assert values.dtype.is_complex and vectors.dtype == values.dtype
    near(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), 10)
    lengths = vectors.abs().square().sum(-2).sqrt()
    assert (abs(lengths - 1) < 100 * EPS[dtype]).all()
    for got in (values, linalg.eigvals(a)):
        want = np.sort_complex(linalg.eigvals(a.cpu()).numpy().reshape(-1, shape[-1]))
        mine = got.cpu().numpy().reshape(-1, shape[-1])
        for w, g in zip(want, mine, strict=True):  # in any order
            gap = np.abs(w[:, None] - g[None, :])
            assert gap.min(0).max() < 5000 * EPS[dtype] and gap.min(1).max() < 5000 * EPS[dtype]


def test_eigenvalues_of_a_real_matrix_come_in_pairs():
    turn = rl.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]]).double().cuda()
    values, vectors = linalg.eig(turn)
    by_size = sorted(values.tolist(), key=lambda z: (z.real, z.imag))
    assert np.allclose(by_size, [-1j, 1j, 3])
    assert sum(z.imag == 0 for z in by_size) == 1 and by_size[0] == by_size[1].conjugate()
    near(turn.to(rl.complex128) @ vectors, vectors * values)


@each_type
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (5, 6, 3), (5, 3, 6), (2, 300, 20), (4, 4)])
def test_least_squares(shape, dtype):
    a, b = random(shape, dtype), random((*shape[:-1], 2), dtype, 1)
    got, host = linalg.lstsq(a, b), linalg.lstsq(a.cpu(), b.cpu(), driver="gels")
    near(got.solution, host.solution.cuda(), 50)
    assert got.residuals.shape == host.residuals.shape
    if got.residuals.numel():
        near(got.residuals, host.residuals.cuda(), 50)
    assert got.rank.numel() == 0 and got.singular_values.numel() == 0
    near(linalg.lstsq(a, b, driver="gelsd").solution, host.solution.cuda(), 50)
    if len(shape) == 2:
        near(linalg.lstsq(a, b[:, 0]).solution.unsqueeze(-1), got.solution[:, :1], 5)


def test_what_is_made_of_them():
    a = random((3, 5, 5))
    for f in (linalg.matrix_exp, linalg.cond, linalg.matrix_rank, linalg.pinv, rl.logdet,
              lambda x: linalg.matrix_norm(x, "nuc"), lambda x: linalg.matrix_norm(x, 2),
              lambda x: linalg.matrix_power(x, -2), lambda x: linalg.norm(x[0], -2),
              lambda x: linalg.tensorinv(x[0].reshape(5, 5, 1), 1),
              lambda x: linalg.pinv(x + x.mT, hermitian=True),
              lambda x: rl.linalg.cond(x, 1)):  # fmt: skip
        got, want = f(a), f(a.cpu())
        assert got.is_cuda
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-9, atol=1e-10)


@each_type
@pytest.mark.parametrize("shape", [(4, 4), (3, 5, 5), (2, 70, 70), (0, 3, 3)], ids=str)
def test_ldl(shape, dtype):
    a, b = random(shape, dtype), random((*shape[:-1], 2), dtype, 1)
    for hermitian in (False, True):
        m = a + (a.mH if hermitian else a.mT)
        factors, pivots, info = linalg.ldl_factor_ex(m, hermitian=hermitian)
        assert (info == 0).all() and factors.is_cuda and pivots.dtype == rl.int32
        x = linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)
        near(m @ x, b, 2000)
    linalg.ldl_factor(m)


# ---- errors ----


def failing(count, n, at, dtype=rl.float64):
    a = rl.eye(n, dtype=dtype, device="cuda").repeat(count, 1, 1)
    a[at] = 0
    return a


@pytest.mark.parametrize("count,n", [(4, 3), (3, 300)])
def test_singular_matrices_are_named(count, n):
    a = failing(count, n, 2)
    b = rl.ones(count, n, 1, dtype=a.dtype, device="cuda")
    for f in (linalg.inv, linalg.lu_factor, lambda a: linalg.solve(a, b)):
        with pytest.raises(LinAlgError, match=r"batch element 2\): .*singular: element 1"):
            f(a)
    for g in (linalg.inv_ex, linalg.lu_factor_ex):
        assert g(a).info.tolist() == [0, 0, 1, 0][:count]
    with pytest.raises(LinAlgError, match="singular"):
        linalg.inv(rl.zeros(3, 3, device="cuda"))


@pytest.mark.parametrize("count,n", [(4, 3), (3, 600)])
def test_matrices_that_are_not_positive_definite_are_named(count, n):
    a = failing(count, n, 1)
    a[1].fill_diagonal_(1.0)
    a[1, 2, 2] = -1
    with pytest.raises(LinAlgError, match=r"batch element 1\): .*minor of order 3"):
        linalg.cholesky(a)
    assert linalg.cholesky_ex(a).info.tolist() == [0, 3, 0, 0][:count]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 40, 40)], ids=str)
def test_values_that_are_not_finite(shape, value):
    a = random(shape)
    a[1, 2, 1] = value
    for f in (linalg.svd, linalg.svdvals, linalg.eigh, linalg.eigvalsh, linalg.eig, linalg.eigvals):
        with pytest.raises(LinAlgError, match=r"batch element 1\): the input holds inf or nan"):
            f(a)
    linalg.eigh(a, "U")  # the triangle that is not read may hold anything


def test_pivots_out_of_range_are_harmless():
    lu, pivots = linalg.lu_factor(well_conditioned((3, 4, 4), rl.float64))
    bad = pivots.clone()
    bad[1, 0] = 77
    for f in (lambda: linalg.lu_solve(lu, bad, lu), lambda: rl.lu_unpack(lu, bad)):
        f()
        with pytest.raises(RuntimeError, match="pivots must lie between 1 and"):
            rl.cuda.synchronize()
    linalg.lu_solve(lu, pivots, lu)
    rl.cuda.synchronize()


def test_half_types_are_refused():
    for f in (linalg.inv, linalg.svd, linalg.eigh, linalg.cholesky, linalg.qr):
        with pytest.raises(RuntimeError, match="float32, float64, complex64 or complex128"):
            f(rl.eye(2, device="cuda").half())


# ---- gradients ----

F = {
    "cholesky": lambda a: linalg.cholesky(a @ a.mH + 2 * rl.eye(3, device="cuda").to(a.dtype)),
    "solve": lambda a: linalg.solve(a, a * 2 + 1),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "qr": lambda a: linalg.qr(a),
    "lu": lambda a: linalg.lu_factor(a)[0],
    "svdvals": linalg.svdvals,
    "svd": lambda a: (lambda u, s, vh: (s, u @ vh))(*linalg.svd(a)),
    "eigh": lambda a: (lambda w, v: (w, v * w.exp().unsqueeze(-2) @ v.mH))(
        *linalg.eigh((a + a.mH) / 2)
    ),
    "eigvals": lambda a: rl.view_as_real((linalg.eigvals(a) ** 2).sum(-1)),
    "lstsq": lambda a: linalg.lstsq(a, a[..., :1] * 3 + 1).solution,
    "pinv": linalg.pinv,
    "triangular": lambda a: linalg.solve_triangular(a, a, upper=True),
}


@pytest.mark.parametrize("name", F)
@pytest.mark.parametrize("dtype", [rl.float64, rl.complex128], ids=str)
def test_gradients(name, dtype):
    if name == "svd" and dtype.is_complex:
        name = "svdvals"
    for shape in ((3, 3), (2, 3, 3)):
        a = well_conditioned(shape, dtype).requires_grad_()
        assert gradcheck(F[name], (a,), fast_mode=True)


# ---- asynchrony ----


def test_factors_without_a_check_do_not_wait(no_waiting):
    for shape in ((4, 4), (5, 4, 4), (2, 300, 300)):
        with rl.no_grad():
            rl.cuda.set_sync_debug_mode("default")
            a = positive(shape, rl.float32)
            rl.cuda.set_sync_debug_mode("error")
            linalg.cholesky_ex(a)
            linalg.inv_ex(a)
            linalg.solve_ex(a, a)
            linalg.lu(a)
            linalg.det(a), linalg.slogdet(a)
            linalg.qr(a)
            linalg.solve_triangular(a, a, upper=True)
            rl._C._eigh(a, False)


def test_on_another_stream_and_in_other_threads():
    a = well_conditioned((6, 30, 30), rl.float64)
    want = linalg.inv(a), linalg.svdvals(a), linalg.eigvalsh(a + a.mT)
    rl.cuda.synchronize()
    failures = []

    def work():
        try:
            side = rl.cuda.Stream()
            with rl.cuda.stream(side):
                for _ in range(5):
                    got = linalg.inv(a), linalg.svdvals(a), linalg.eigvalsh(a + a.mT)
            side.synchronize()
            for g, w in zip(got, want, strict=True):
                near(g.reshape(1, -1), w.reshape(1, -1), 10)
        except Exception as error:  # told by the thread that asked
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_captured():
    a, b = well_conditioned((5, 4, 4), rl.float64), random((5, 4, 2))
    linalg.inv_ex(a)  # opens the library
    g = rl.cuda.CUDAGraph()
    with rl.cuda.graph(g):
        inverse, info = linalg.inv_ex(a)
        x = linalg.solve_triangular(a, b, upper=True)
    a.copy_(well_conditioned((5, 4, 4), rl.float64, 3))
    g.replay()
    near(inverse @ a, identity(a), 20)
    near(a.triu() @ x, b, 20)
    assert (info == 0).all()
    g = rl.cuda.CUDAGraph()
    with rl.cuda.graph(g):
        with pytest.raises(RuntimeError, match="cuSOLVER may wait"):
            linalg.eigvalsh(a)
        y = a + 1
    g.replay()
    near(y, a + 1)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_products_of_few_rows(rows, dtype):
    """As a model that writes its text has them: a kernel of our own."""
    rl.manual_seed(0)
    for n, k in ((1, 512), (333, 1032), (2048, 256)):
        x, w, b = rl.randn(rows, k).to(dtype), rl.randn(n, k).to(dtype), rl.randn(n).to(dtype)
        for bias in (None, b):
            there = None if bias is None else bias.cuda()
            got = rl.nn.functional.linear(x.cuda(), w.cuda(), there).cpu().double()
            want = rl.nn.functional.linear(
                x.double(), w.double(), None if bias is None else bias.double()
            )
            worst = (got - want).abs().max().item()
            assert worst <= 4 * k**0.5 * (2**-11 if dtype == rl.float16 else 2**-8)


@pytest.mark.parametrize("width", [5003, 5002])
@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_products_by_rows_that_begin_anywhere(dtype, width):
    """A vocabulary's size is no multiple of eight: copies with aligned rows take part."""
    rl.manual_seed(0)
    x, w = rl.randn(4096, 1024).to(dtype), (rl.randn(width, 1024) / 32).to(dtype)
    g = rl.randn(4096, width).to(dtype)

    def passes(device, wide):
        a, b = (t.to(device).to(wide or dtype).requires_grad_() for t in (x, w))
        y = rl.nn.functional.linear(a, b)
        y.backward(g.to(y))
        assert y.is_contiguous()
        return [t.detach().cpu().double() for t in (y, a.grad, b.grad)]

    for got, want in zip(passes("cuda", None), passes("cuda", rl.float32), strict=True):
        close = 2 * 2.0 ** (-11 if dtype == rl.float16 else -8)
        excess = (got - want).abs() - close * (want.abs() + 0.05 * want.abs().max())
        assert excess.max().item() <= 0
