"""The Array API standard: its names, its spellings, and libraries that dispatch on it."""

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight import array_api as xp

# Every name of the standard, 2025.12.
NAMES = """e inf nan newaxis pi
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril
triu zeros zeros_like
astype broadcast_arrays broadcast_shapes broadcast_to can_cast finfo iinfo isdtype result_type
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert
bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1
floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p
log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit
sin sinh square sqrt
subtract tan tanh trunc
take take_along_axis matmul matrix_transpose tensordot vecdot
concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
isin unique_all unique_counts unique_inverse unique_values argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var all any diff
__array_namespace_info__ __array_api_version__""".split()
LINALG = """cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm
matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace
vecdot vector_norm""".split()
FFT = """fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq
rfftn""".split()


def test_names():
    x = rl.ones(2)
    assert x.__array_namespace__() is xp
    for version in ("2023.12", "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is xp
    assert xp.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match="2099"):
        x.__array_namespace__(api_version="2099.12")
    assert [n for n in NAMES if not hasattr(xp, n)] == []
    assert [n for n in LINALG if not hasattr(xp.linalg, n)] == []
    assert [n for n in FFT if not hasattr(xp.fft, n)] == []
    assert set(NAMES) <= {*xp.__all__, "__array_api_version__"} | {"bool"}
    for name in xp.__all__:
        f = getattr(xp, name)
        if inspect.isfunction(f):
            words = set(inspect.signature(f).parameters)
            assert not words & {"dim", "keepdim", "input"}, name


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert rl.device("cpu") in info.devices()
    assert info.default_dtypes()["real floating"] == rl.float32
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert "float64" in info.dtypes(kind=("bool", "real floating"))
    assert xp.isdtype(xp.float32, "real floating") and not xp.isdtype(xp.int8, "unsigned integer")
    assert xp.isdtype(xp.int8, ("bool", xp.int8))


RNG = np.random.RandomState(0)
A, B = RNG.randn(3, 4), RNG.randn(3, 4)
I = RNG.randint(-5, 6, (3, 4))


def t(a):
    return rl.from_numpy(np.array(a))


# expression over xp and np alike: x, y floats, i integers
TEXTS = """xp.sum(x, axis=1) xp.sum(x, axis=(0,1), keepdims=True) xp.prod(x, axis=0) xp.prod(x)
xp.mean(x, axis=0, keepdims=True) xp.max(x, axis=1) xp.min(x) xp.argmax(x, axis=1) xp.argmin(x)
xp.concat([x,y],axis=1) xp.concat([x,y],axis=None) xp.stack([x,y],axis=-1)
xp.expand_dims(x,axis=1) xp.flip(x) xp.flip(x,axis=0) xp.permute_dims(x,(1,0)) xp.roll(x,2)
xp.roll(x,(1,2),axis=(0,1)) xp.reshape(x,(4,3)) xp.tile(x,(2,1)) xp.repeat(x,2)
xp.repeat(x,2,axis=1) xp.sort(x,axis=0) xp.argsort(x) xp.take(x,j,axis=1) xp.where(x>0,x,y)
xp.where(x>0,x,0.0)
xp.add(x,y) xp.subtract(x,1) xp.multiply(x,i) xp.divide(x,y) xp.pow(xp.abs(x),y) xp.atan2(x,y)
xp.floor_divide(x,y) xp.remainder(x,y) xp.bitwise_and(i,3) xp.bitwise_invert(i) xp.logical_not(x>0)
xp.equal(x,y) xp.less(x,0) xp.maximum(x,y) xp.clip(x,-0.5,0.5) xp.clip(i,0,3) xp.sign(x)
xp.square(i) xp.floor(i) xp.round(x) xp.ceil(x) xp.hypot(x,y) xp.copysign(x,y) xp.logaddexp(x,y)
xp.signbit(x)
xp.std(x,axis=0,correction=1) xp.var(x) xp.cumulative_sum(x,axis=1) xp.count_nonzero(i,axis=0)
xp.cumulative_sum(x,axis=0,include_initial=True) xp.cumulative_prod(x,axis=1) xp.diff(x,axis=0)
xp.matmul(x,xp.matrix_transpose(y)) xp.vecdot(x,y) xp.tensordot(x,y,axes=((1,),(1,)))
xp.take_along_axis(x,xp.argsort(x,axis=1),axis=1)
xp.searchsorted(xp.sort(xp.reshape(x,(12,))),0.1*x[0])
xp.linspace(0,1,5) xp.linspace(0,1,5,endpoint=False) xp.arange(5) xp.arange(3,0) xp.eye(3,4,k=1)
xp.tril(x,k=1) xp.triu(x,k=-1) xp.sort(xp.unique_values(i)) xp.all(x>-9) xp.any(x>0,axis=1)
xp.real(x) xp.broadcast_to(x[0],(2,4)) xp.squeeze(x[:1],axis=0) xp.moveaxis(x,0,1) xp.nonzero(i)[0]
xp.linalg.solve(m,x[:,0]) xp.linalg.inv(m) xp.linalg.det(m) xp.linalg.trace(m)
xp.linalg.vector_norm(x,axis=1) xp.linalg.matrix_norm(x) xp.linalg.outer(x[0],y[0])
xp.linalg.cross(x[:,:3],y[:,:3]) xp.linalg.svdvals(x) xp.linalg.matrix_rank(x) xp.linalg.pinv(x)
xp.linalg.cholesky(m@xp.matrix_transpose(m)) xp.linalg.cholesky(m@xp.matrix_transpose(m),upper=True)
xp.fft.fft(x) xp.fft.rfft(x,axis=0) xp.fft.irfft(x,n=5) xp.fft.fftn(x,axes=(0,)) xp.fft.fftshift(x)
xp.fft.fftfreq(5,d=0.5)"""
SAME = re.split(r"(?<!,)\s+", TEXTS)  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_same_as_numpy(text):
    names = {"x": A, "y": B, "i": I, "j": np.array([2, 0]), "m": A[:, :3] + 3 * np.eye(3)}
    want = np.asarray(eval(text, {"xp": np} | names))
    got = eval(text, {"xp": xp} | {k: t(v) for k, v in names.items()})
    assert isinstance(got, rl.Tensor)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    if want.dtype.kind in "iub" and want.dtype == got.numpy().dtype:
        np.testing.assert_array_equal(got.numpy(), want)


def test_rules():
    assert xp.sum(rl.ones(3, dtype=rl.int8)).dtype == rl.int64
    assert xp.sum(rl.ones(3, dtype=rl.uint8)).dtype == rl.uint64
    assert xp.add(rl.ones(3), 1.0).dtype == rl.float32
    # 0-d arrays count in promotion, unlike PyTorch's
    assert xp.add(rl.ones(3), rl.ones((), dtype=rl.float64)).dtype == rl.float64
    with pytest.raises(TypeError):
        xp.add(rl.ones(3, dtype=rl.int64), 1.5)
    with pytest.raises(ValueError):
        xp.squeeze(rl.ones(2, 1), axis=0)
    with pytest.raises(TypeError):
        xp.astype(rl.ones(2, dtype=rl.complex64), rl.float32)
    x = rl.ones(3)
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    assert xp.asarray([1, 2]).dtype == rl.int64 and xp.asarray(2.5).dtype == rl.float32
    assert xp.can_cast(rl.int8, rl.int16) and not xp.can_cast(rl.float64, rl.float32)
    assert xp.result_type(rl.int8, rl.uint8) == rl.int16
    found = xp.unique_all(rl.tensor([3, 1, 3, 2]))
    assert found.values.tolist() == [1, 2, 3] and found.counts.tolist() == [1, 1, 2]
    assert found.indices.tolist() == [1, 3, 0] and found.inverse_indices.tolist() == [2, 0, 2, 1]
    assert len(xp.unique_values(rl.tensor([np.nan, np.nan, 1.0]))) == 3
    assert x.to_device("cpu").equal(x)


SCIPY = """
import numpy as np, rushlight as rl
from scipy import special, stats, signal, cluster
x = rl.linspace(0.1, 2, 12, dtype=rl.float64).reshape(3, 4)
for f, args in ((special.logsumexp, (x,)), (stats.zscore, (x,)), (stats.skew, (x,)),
                (stats.pearsonr, (x[0], x[1] ** 2)), (special.softmax, (x, 1))):
    got = f(*args)
    want = f(*(a.numpy() if isinstance(a, rl.Tensor) else a for a in args))
    if hasattr(want, "statistic"):
        got, want = got.statistic, want.statistic
    assert isinstance(got, rl.Tensor), (f, type(got))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
print("fine")
"""
SKLEARN = """
import numpy as np, rushlight as rl, sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.preprocessing import MinMaxScaler, StandardScaler
rng = np.random.RandomState(0)
X = rng.randn(40, 6)
y = X @ rng.randn(6) + 0.1
with sklearn.config_context(array_api_dispatch=True):
    for make in (lambda: PCA(2, svd_solver="full"), MinMaxScaler, StandardScaler):
        try:
            got = make().fit(rl.from_numpy(X)).transform(rl.from_numpy(X))
        except Exception:
            if make is StandardScaler:
                continue
            raise
        want = make().fit(X).transform(X)
        assert isinstance(got, rl.Tensor)
        np.testing.assert_allclose(np.abs(got.numpy()), np.abs(want), atol=1e-8)
    model = Ridge(solver="svd").fit(rl.from_numpy(X), rl.from_numpy(y))
    assert isinstance(model.predict(rl.from_numpy(X)), rl.Tensor)
    np.testing.assert_allclose(model.coef_.numpy(), Ridge(solver="svd").fit(X, y).coef_, rtol=1e-6)
print("fine")
"""


@pytest.mark.parametrize("package", ["scipy", "sklearn"])
def test_dispatch(package):
    pytest.importorskip(package)
    program = {"scipy": SCIPY, "sklearn": SKLEARN}[package]
    env = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=env, text=True,
                          capture_output=True)  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr[-3000:]
