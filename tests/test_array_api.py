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


WIDE = ("uint16", "uint32", "uint64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", *WIDE)


@pytest.mark.parametrize("first", INTEGERS)
@pytest.mark.parametrize("second", INTEGERS)
def test_promotion_of_integers(first, second):
    a, b = getattr(xp, first), getattr(xp, second)
    want = np.promote_types(first, second)
    if want.kind == "f":  # uint64 with a signed one: the standard leaves it open, we refuse
        with pytest.raises(TypeError):
            xp.result_type(a, b)
        assert not xp.can_cast(a, b)
        return
    assert xp.result_type(a, b) == getattr(xp, want.name)
    assert xp.can_cast(a, b) == (want.name == second)
    x, y = xp.asarray([5, 7], dtype=a), xp.asarray([2, 3], dtype=b)
    for f in (xp.add, xp.multiply, xp.floor_divide, xp.remainder, xp.maximum):
        got = f(x, y)
        expected = getattr(np, f.__name__)(np.array([5, 7], want), np.array([2, 3], want))
        assert got.dtype == getattr(xp, want.name) and got.numpy().tolist() == expected.tolist()
    assert xp.concat([x, y]).dtype == getattr(xp, want.name)


@pytest.mark.parametrize("kind", WIDE)
def test_wide_unsigned_numbers(kind):
    """Arithmetic that wraps round, and an order without a sign."""
    top = np.iinfo(kind).max
    a = np.array([0, 1, 2, 7, top // 2, top // 2 + 1, top - 1, top, 12345], dtype=kind)
    b = np.array([3, 1, top, 2, top, 2, 7, top - 2, 1], dtype=kind)
    x, y = t(a), t(b)
    with np.errstate(over="ignore"):
        for name in """add subtract multiply floor_divide remainder maximum minimum bitwise_and
                       bitwise_or bitwise_xor less less_equal greater greater_equal equal not_equal
                       pow""".split():
            got = getattr(xp, name)(x, y).numpy()
            want = getattr(np, name)(a, b)
            assert got.dtype == want.dtype, name
            np.testing.assert_array_equal(got, want, name)
        for shift in (0, 1, 5, np.iinfo(kind).bits - 1):
            for name in ("bitwise_left_shift", "bitwise_right_shift"):
                got = getattr(xp, name)(x, shift).numpy()
                np.testing.assert_array_equal(got, getattr(np, name)(a, np.array(shift, kind)))
        for name in ("abs", "negative", "bitwise_invert", "sign", "square", "positive"):
            np.testing.assert_array_equal(getattr(xp, name)(x).numpy(), getattr(np, name)(a), name)
        np.testing.assert_array_equal(xp.diff(x).numpy(), np.diff(a))
        np.testing.assert_array_equal(xp.linalg.outer(x, y).numpy(), np.outer(a, b))
        np.testing.assert_array_equal(xp.sum(x).numpy(), np.sum(a, dtype=np.uint64))
    np.testing.assert_array_equal(xp.sort(x).numpy(), np.sort(a))
    s = np.sort(a)
    np.testing.assert_array_equal(xp.searchsorted(t(s), y).numpy(), np.searchsorted(s, b))
    np.testing.assert_array_equal(xp.isin(x, y).numpy(), np.isin(a, b))
    np.testing.assert_array_equal(xp.clip(x, 2, 100).numpy(), np.clip(a, 2, 100))
    assert xp.arange(3, dtype=getattr(xp, kind)).numpy().tolist() == [0, 1, 2]


def test_2025():
    x = rl.ones(3, 4)
    assert xp.expand_dims(x, axis=(0, -1)).shape == (1, 3, 4, 1)
    with pytest.raises(ValueError, match="twice"):
        xp.expand_dims(x, axis=(0, 0))
    with pytest.raises(IndexError):
        xp.expand_dims(x, axis=(0, 5))
    assert xp.permute_dims(x, (-1, 0)).shape == (4, 3)
    assert xp.searchsorted(rl.arange(5), 3).item() == 3
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3) and xp.broadcast_shapes() == ()
    with pytest.raises(ValueError):
        xp.broadcast_shapes((2,), (3,))
    assert xp.isin(rl.arange(4), 2).tolist() == [False, False, True, False]
    assert xp.isin(rl.arange(4), rl.tensor([1, 3]), invert=True).tolist() == [True, False] * 2
    for found in (xp.broadcast_arrays(x, x), xp.meshgrid(x[0], x[0])):
        assert isinstance(found, tuple)
    values, vectors = xp.linalg.eig(rl.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=rl.float64))
    assert sorted(values.imag.tolist()) == [-1, 1] and vectors.dtype == rl.complex128
    assert xp.linalg.eigvals(rl.eye(2)).dtype == rl.complex64
    assert xp.unique_values(rl.tensor([1j, 1.0, 1j])).tolist() == [1j, 1]
    assert xp.var(x, axis=()).shape == (3, 4) and xp.sum(x.to(rl.uint8), axis=()).shape == (3, 4)
    assert xp.linalg.cross(rl.eye(3).expand(2, 3, 3), rl.eye(3)).shape == (2, 3, 3)


SCIPY = """
import numpy as np, rushlight as rl
from scipy import __version__, special, stats, signal, cluster
x = rl.linspace(0.1, 2, 12, dtype=rl.float64).reshape(3, 4)
for f, args in ((special.logsumexp, (x,)), (stats.zscore, (x,)), (stats.skew, (x,)),
                (stats.pearsonr, (x[0], x[1] ** 2)), (special.softmax, (x, 1))):
    if f is special.softmax and [*map(int, __version__.split(".")[:2])] < [1, 16]:
        continue  # it knows NumPy's arrays alone
    got = f(*args)
    want = f(*(a.numpy() if isinstance(a, rl.Tensor) else a for a in args))
    if hasattr(want, "statistic"):
        got, want = got.statistic, want.statistic
    assert isinstance(got, rl.Tensor), (f, type(got))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)
print("fine")
"""
SKLEARN = """
import numpy as np, rushlight as rl, sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import (KernelCenterer, MaxAbsScaler, MinMaxScaler, Normalizer,
                                   PolynomialFeatures, StandardScaler)
rng = np.random.RandomState(0)
X = rng.randn(40, 6)
y = X @ rng.randn(6) + 0.1
c = (X[:, 0] > 0).astype(np.int64)
T = rl.from_numpy
version = [*map(int, sklearn.__version__.split(".")[:2])]
with sklearn.config_context(array_api_dispatch=True):
    for make in (lambda: PCA(2, svd_solver="full"), lambda: PCA(3, svd_solver="covariance_eigh"),
                 MinMaxScaler, StandardScaler, MaxAbsScaler, Normalizer):
        if make is StandardScaler and version < [1, 8]:  # knows NumPy's arrays alone
            continue
        got = make().fit(T(X)).transform(T(X))
        want = make().fit(X).transform(X)
        assert isinstance(got, rl.Tensor), make
        np.testing.assert_allclose(np.abs(got.numpy()), np.abs(want), atol=1e-8)
    K = X @ X.T
    got = KernelCenterer().fit(T(K)).transform(T(K))
    np.testing.assert_allclose(got.numpy(), KernelCenterer().fit(K).transform(K), atol=1e-8)
    model = Ridge(solver="svd").fit(T(X), T(y))
    assert isinstance(model.predict(T(X)), rl.Tensor)
    np.testing.assert_allclose(model.coef_.numpy(), Ridge(solver="svd").fit(X, y).coef_, rtol=1e-6)
    lda = LinearDiscriminantAnalysis().fit(T(X), T(c))
    want = LinearDiscriminantAnalysis().fit(X, c)
    np.testing.assert_array_equal(lda.predict(T(X)).numpy(), want.predict(X))
    p = model.predict(T(X))
    for f in (metrics.mean_squared_error, metrics.mean_absolute_error, metrics.r2_score):
        np.testing.assert_allclose(float(f(T(y), p)), f(y, p.numpy()), rtol=1e-9)
    assert float(metrics.accuracy_score(T(c), lda.predict(T(X)))) > 0.8
    np.testing.assert_allclose(metrics.pairwise.cosine_similarity(T(X)).numpy(),
                               metrics.pairwise.cosine_similarity(X), atol=1e-9)
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
