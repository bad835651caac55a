"""What goes wrong says so: with the matrix's place in the batch."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.linalg import LinAlgError

SINGULAR = rl.stack([rl.eye(3), rl.ones(3, 3), rl.eye(3)])


@pytest.mark.parametrize(
    "f",
    [
        rl.linalg.inv,
        rl.linalg.lu_factor,
        rl.inverse,
        lambda a: rl.linalg.solve(a, a[..., :1]),
        lambda a: rl.linalg.tensorinv(a.reshape(-1, 3, 3)[1], 1),
    ],
)
def test_singular(f):
    with pytest.raises(LinAlgError, match="singular"):
        f(SINGULAR)
    if f is rl.linalg.inv:
        with pytest.raises(LinAlgError, match=r"linalg.inv: \(batch element 1\): .*element 2 on"):
            f(SINGULAR)
        with pytest.raises(LinAlgError, match="linalg.inv: the matrix"):
            f(SINGULAR[1])


def test_info_instead_of_errors():
    assert rl.linalg.inv_ex(SINGULAR).info.tolist() == [0, 2, 0]
    assert rl.linalg.lu_factor_ex(SINGULAR).info.tolist() == [0, 2, 0]
    assert rl.linalg.solve_ex(SINGULAR, SINGULAR).info.tolist() == [0, 2, 0]
    for f in (rl.linalg.inv_ex, rl.linalg.lu_factor_ex, rl.linalg.cholesky_ex):
        with pytest.raises(LinAlgError, match="batch element 1"):
            f(SINGULAR - 2 * (f is rl.linalg.cholesky_ex) * rl.ones(3, 1, 1).cumsum(0).eq(2),
              check_errors=True)  # fmt: skip
    assert rl.linalg.det(SINGULAR)[1] == 0
    assert rl.linalg.slogdet(SINGULAR[1]).logabsdet == -np.inf
    assert rl.linalg.slogdet(SINGULAR[1]).sign == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("f", [rl.linalg.svd, rl.linalg.svdvals, rl.linalg.eigh, rl.linalg.eigvalsh,
                               rl.linalg.eig, rl.linalg.eigvals, rl.linalg.pinv,
                               lambda a: rl.linalg.lstsq(a, a)])  # fmt: skip
def test_not_finite(f, bad):
    a = rl.eye(3).repeat(4, 1, 1)
    a[2, 1, 0] = bad
    with pytest.raises(LinAlgError, match=r"\(batch element 2\): the input holds inf or nan"):
        f(a)


def test_nan_flows_through_the_others():
    a = rl.eye(3)
    a[1, 1] = np.nan
    assert rl.linalg.det(a).isnan()
    assert rl.linalg.qr(a).R.isnan().any()
    with pytest.raises(LinAlgError):
        rl.linalg.cholesky(a)


def test_bad_shapes_and_dtypes():
    for f in (
        rl.linalg.inv,
        rl.linalg.det,
        rl.linalg.slogdet,
        rl.linalg.eig,
        rl.linalg.eigh,
        rl.linalg.cholesky,
        lambda a: rl.matrix_power(a, 2),
    ):
        with pytest.raises(RuntimeError, match="square"):
            f(rl.ones(2, 3))
        with pytest.raises(RuntimeError):
            f(rl.ones(3))
    for f in (rl.linalg.inv, rl.linalg.svd, rl.linalg.qr, rl.linalg.eigvals):
        with pytest.raises(RuntimeError, match="int64"):
            f(rl.ones(2, 2, dtype=rl.int64))
        with pytest.raises(RuntimeError, match="float16"):
            f(rl.ones(2, 2, dtype=rl.float16))
    with pytest.raises(RuntimeError, match="dtypes differ"):
        rl.linalg.solve(rl.eye(2), rl.ones(2, 1, dtype=rl.float64))
    with pytest.raises(RuntimeError, match="broadcast"):
        rl.linalg.solve(rl.ones(2, 3, 3), rl.ones(4, 3, 1))
    with pytest.raises(RuntimeError, match="columns"):
        rl.linalg.solve(rl.eye(3), rl.ones(2, 2))
    with pytest.raises(RuntimeError, match="between 1 and 3"):
        rl.lu_unpack(rl.eye(3), rl.tensor([7, 1, 1], dtype=rl.int32))
    with pytest.raises(RuntimeError, match="mode"):
        rl.linalg.qr(rl.eye(2), "some")
    with pytest.raises(RuntimeError, match="driver"):
        rl.linalg.svd(rl.eye(2), driver="fast")


def test_meta_and_names():
    a = rl.empty(2, 5, 3, device="meta")
    assert rl.linalg.svd(a).Vh.shape == (2, 3, 3)
    assert rl.linalg.qr(a).Q.shape == (2, 5, 3)
    assert rl.linalg.inv(a[..., :3, :]).device.type == "meta"
    found = rl.linalg.svd(rl.eye(2))
    assert "linalg_svd" in repr(found) and type(found) is rl.return_types.linalg_svd
    out = rl.empty(0), rl.empty(0), rl.empty(0)
    assert rl.linalg.svd(rl.eye(2), out=out)[1] is out[1]


def test_low_rank():
    rl.manual_seed(0)
    a = rl.randn(30, 4, dtype=rl.float64) @ rl.randn(4, 20, dtype=rl.float64)
    for x in (a, a.mT):
        u, s, v = rl.svd_lowrank(x, q=6)
        assert (u * s @ v.mT).allclose(x, atol=1e-10)
        assert s[:4].allclose(rl.linalg.svdvals(x)[:4])
    u, s, v = rl.pca_lowrank(a, q=5)
    assert s[:4].allclose(rl.linalg.svdvals(a - a.mean(0))[:4])
    spd = a @ a.mT + rl.eye(30, dtype=rl.float64)
    w, x = rl.lobpcg(spd, k=3)
    assert (spd @ x).allclose(x * w) and w.allclose(rl.linalg.eigvalsh(spd).flip(0)[:3])
