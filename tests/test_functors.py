"""Accuracy of csrc/functors, in ulps, against NumPy in a wider type or mpmath.

Builds tests/cpp/functors_accuracy.cpp once a session, with AVX2 where this CPU has it and again for
the baseline, since both are shipped.
"""

import ctypes
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = ["-std=c++20", "-O2", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd",
         "-ffp-contract=fast", "-fPIC", "-shared", f"-I{ROOT / 'csrc'}"]
NAMES = {np.float32: "float", np.float64: "double"}


def has_avx2():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return cpuinfo.exists() and " avx2 " in cpuinfo.read_text()


@pytest.fixture(scope="module", params=["baseline", "avx2"])
def lib(request, tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ not found")
    isa = {"baseline": [], "avx2": ["-mavx2", "-mfma"]}[request.param]
    if isa and not has_avx2():
        pytest.skip("this CPU has no AVX2")
    out = tmp_path_factory.mktemp("functors") / f"{request.param}.so"
    source = ROOT / "tests/cpp/functors_accuracy.cpp"
    subprocess.run(["g++", *FLAGS, *isa, str(source), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def call(lib, name, *arrays, out=None):
    arrays = [np.ascontiguousarray(a) for a in arrays]
    y = np.empty(arrays[0].shape, out or arrays[0].dtype)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, y)]
    getattr(lib, name)(*pointers, ctypes.c_long(y.size))
    return y


def apply(lib, name, *arrays):
    dtype = arrays[0].dtype
    return call(lib, f"{name}_{NAMES.get(dtype.type, dtype.name)}", *arrays)


def ulps(got, want, dtype):
    """Distance in units of the last place of `want`, which is in a wider type."""
    with np.errstate(all="ignore"):
        exact = want.astype(dtype)
        unit = np.spacing(np.abs(np.where(np.isfinite(exact), exact, np.finfo(dtype).max)))
        unit = np.maximum(unit, np.finfo(dtype).smallest_subnormal)
        gap = np.abs(got.astype(want.dtype) - want) / unit.astype(want.dtype)
        same = (got == exact) | (np.isnan(got) & np.isnan(exact))
        # Rounding to infinity is judged by the rounded value; one step from it counts as one ulp.
        edge = np.isinf(exact) & (got == np.copysign(np.finfo(dtype).max, exact))
        gap = np.where(same, np.where(np.isfinite(exact), np.minimum(gap, 0.5), 0), gap)
        gap = np.where(edge, 1, gap)
        return np.where(np.isnan(gap), np.inf, gap)


def specials(dtype):
    info = np.finfo(dtype)
    positive = [0, info.smallest_subnormal, info.tiny, info.tiny * 1.5, info.eps, 1e-10, 0.1, 0.25,
                0.5, 1, 1 - info.epsneg, 1 + info.eps, 1.5, 2, 2.5, 3, 10, 20, 87.5, 88.7, 88.73,
                89.5, 100, 103.9, 104.5, 709.7, 709.79, 710.4, 745.1, 746, 1e5, 2.0**43, 2.0**86,
                1e10, 1e22, 1e30, 1e37, info.max / 2, info.max, np.inf]
    with np.errstate(over="ignore"):
        p = np.array(positive, np.float64).astype(dtype)
    return np.concatenate([p, -p, np.array([np.nan], dtype)])


def grid(dtype, low, high, count, seed=0):
    """Even, logarithmic and extreme points of both signs where the range has both."""
    rng = np.random.default_rng(seed)
    flat = rng.uniform(low, high, count)
    top = max(abs(low), abs(high))
    smallest = -30 if dtype == np.float32 else -250
    log = 10.0 ** rng.uniform(smallest, np.log10(top), count)
    log = np.concatenate([log[::2], -log[1::2]])
    log = log[(log >= low) & (log <= high)]
    return np.concatenate([flat, log]).astype(dtype)


WIDER = {np.float32: np.float64, np.float64: np.longdouble}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# name, reference, range, bound in ulps for float and for double
ROWS = [
    ("Exp", np.exp, (-110, 90), (1, 1)),
    ("Exp2", np.exp2, (-150, 130), (1, 1)),
    ("Expm1", np.expm1, (-40, 90), (1.5, 1.5)),
    ("Log", np.log, (0, 1e6), (1, 1)),
    ("Log2", np.log2, (0, 1e6), (2, 2)),
    ("Log10", np.log10, (0, 1e6), (1, 2)),
    ("Log1p", np.log1p, (-1, 100), (1.5, 1.5)),
    ("Sin", np.sin, (-100, 100), (1.5, 1)),
    ("Cos", np.cos, (-100, 100), (1.5, 1)),
    ("Tan", np.tan, (-100, 100), (1, 2.5)),
    ("Tanh", np.tanh, (-12, 12), (2.5, 2.5)),
    ("Sinh", np.sinh, (-95, 95), (1, 2.5)),
    ("Cosh", np.cosh, (-95, 95), (1, 2)),
    ("Asin", np.arcsin, (-1, 1), (2, 2)),
    ("Acos", np.arccos, (-1, 1), (2, 2)),
    ("Atan", np.arctan, (-10, 10), (2, 2)),
    ("Asinh", np.arcsinh, (-1e4, 1e4), (1, 3)),
    ("Acosh", np.arccosh, (1, 1e4), (1, 3)),
    ("Atanh", np.arctanh, (-1, 1), (1, 3)),
    ("Sqrt", np.sqrt, (0, 1e6), (0.5, 0.5)),
    ("Rsqrt", lambda x: 1 / np.sqrt(x), (0, 1e6), (1.5, 1.5)),
    ("Sigmoid", sigmoid, (-110, 90), (2.5, 2.5)),
    ("Floor", np.floor, (-1e5, 1e5), (0, 0)),
    ("Ceil", np.ceil, (-1e5, 1e5), (0, 0)),
    ("Trunc", np.trunc, (-1e5, 1e5), (0, 0)),
    ("Round", np.rint, (-1e5, 1e5), (0, 0)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, ref, span, bounds", ROWS, ids=[r[0] for r in ROWS])
def test_unary(lib, name, ref, span, bounds, dtype):
    x = np.concatenate([grid(dtype, *span, 50_000), specials(dtype)])
    if name in ("Sin", "Cos", "Tan"):
        rng = np.random.default_rng(1)
        top = 38 if dtype == np.float32 else 308
        huge = (10.0 ** rng.uniform(0, top, 20_000)).astype(dtype)
        near = (np.arange(1, 20_000) * (np.pi / 2)).astype(dtype)  # where the sine or cosine is small
        x = np.concatenate([x, huge, -huge, near])
    with np.errstate(all="ignore"):
        want = ref(x.astype(WIDER[dtype]))
    got = apply(lib, name, x)
    gap = ulps(got, want, dtype)
    worst = np.argmax(gap)
    bound = bounds[dtype == np.float64]
    assert gap[worst] <= bound + 0.01, f"{name}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"


@pytest.mark.parametrize("name", ["Expm1", "Log1p", "Sin", "Tan", "Tanh", "Sinh", "Asin", "Atan",
                                  "Asinh", "Atanh", "Sqrt", "Erf", "Erfinv", "Floor", "Ceil", "Round",
                                  "Trunc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_negative_zero(lib, name, dtype):
    y = apply(lib, name, np.array([-0.0, 0.0], dtype))
    assert list(np.signbit(y)) == [True, False] and not y.any()
