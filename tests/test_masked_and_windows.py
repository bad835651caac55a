"""rushlight.masked against NumPy's masked arrays, and signal.windows against SciPy."""

import numpy as np
import pytest

import rushlight as rl

X = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 5.0, -6.0, 2.0], [0.1, 0.2, 0.3, 0.4]])
KEEP = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]], dtype=bool)


def t(a):
    return rl.from_numpy(np.array(a))


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var"])
def test_reductions(name, dim, keepdim):
    if name == "prod" and isinstance(dim, tuple):
        pytest.skip("NumPy's masked arrays multiply along one axis")
    m = np.ma.array(X, mask=~KEEP)
    numpys = {"amax": "max", "amin": "min"}.get(name, name)
    more = {"ddof": 1} if name == "var" else {}
    with np.errstate(all="ignore"):
        want = np.ma.filled(getattr(m, numpys)(axis=dim, keepdims=keepdim, **more), np.nan)
    got = getattr(rl.masked, name)(t(X), dim, keepdim=keepdim, mask=t(KEEP)).numpy()
    assert got.shape == np.shape(want)
    full = ~np.isnan(want)
    np.testing.assert_allclose(got[full], want[full], rtol=1e-12)


def test_where_nothing_counts():
    x, none = rl.ones(2, 3), rl.zeros(2, 3, dtype=rl.bool)
    assert rl.masked.sum(x, 1, mask=none).tolist() == [0, 0]
    assert rl.masked.prod(x, 1, mask=none).tolist() == [1, 1]
    assert rl.masked.amax(x, 1, mask=none).tolist() == [-np.inf] * 2
    assert rl.masked.amin(x.to(rl.int8), 1, mask=none).tolist() == [127] * 2
    assert rl.masked.mean(x, 1, mask=none).isnan().all()
    assert rl.masked.logsumexp(x, 1, mask=none).tolist() == [-np.inf] * 2


def test_along_a_dim():
    x, keep = t(X), t(KEEP)
    soft = rl.masked.softmax(x, 1, mask=keep)
    assert (soft[~keep] == 0).all()
    np.testing.assert_allclose(soft.sum(1), 1)
    np.testing.assert_allclose(rl.masked.log_softmax(x, 1, mask=keep).exp(), soft)
    np.testing.assert_allclose(rl.masked.softmin(-x, 1, mask=keep), soft)
    np.testing.assert_allclose(
        rl.masked.cumsum(x, 1, mask=keep), np.cumsum(np.where(KEEP, X, 0), 1)
    )
    np.testing.assert_allclose(
        rl.masked.norm(x, 1, 1, mask=keep), np.abs(np.where(KEEP, X, 0)).sum(1)
    )
    np.testing.assert_allclose(
        rl.masked.logaddexp(x, x, other_mask=keep), np.where(KEEP, X + np.log(2), X)
    )
    assert rl.masked.argmax(x, 1, mask=keep).tolist() == [2, 1, 0]
    assert rl.masked.median(x, 1, mask=keep).tolist() == [1, -6, 0.1]
    with pytest.raises(TypeError, match=r"masked\.sum"):
        rl.masked.sum(x, mask=x)
    with pytest.raises(ValueError, match=r"masked\.mean"):
        rl.masked.mean(x.to(rl.int64))


def test_gradients_leave_masked_elements_out():
    x = t(X).requires_grad_()
    rl.masked.var(x, 1, correction=0, mask=t(KEEP)).sum().backward()
    assert (x.grad[~t(KEEP)] == 0).all()
    assert rl.autograd.gradcheck(lambda v: rl.masked.softmax(v, 1, mask=t(KEEP)), (x,))


WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0}, "hamming": {},
    "gaussian": {"std": 1.5}, "general_cosine": {"a": [0.4, 0.3, 0.2, 0.1]}, "hann": {},
    "general_hamming": {"alpha": 0.6}, "kaiser": {"beta": 5.0}, "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_windows(name, sym, count):
    scipy = pytest.importorskip("scipy.signal.windows")
    got = getattr(rl.signal.windows, name)(count, sym=sym, dtype=rl.float64, **WINDOWS[name])
    want = getattr(scipy, name)(count, sym=sym, **WINDOWS[name])
    assert got.dtype == rl.float64
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_wrong_windows():
    windows = rl.signal.windows
    for call in (
        lambda: windows.hann(-1),
        lambda: windows.hann(3, dtype=rl.int64),
        lambda: windows.gaussian(3, std=0.0),
        lambda: windows.kaiser(3, beta=-1.0),
        lambda: windows.exponential(3, center=1.0),
        lambda: windows.general_cosine(3, a=[]),
    ):
        with pytest.raises(ValueError, match=r"signal\.windows\."):
            call()
    assert windows.exponential(4, center=1.0, sym=False)[1].item() == 1
