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
FLAGS = [
    "-std=c++20",
    "-O2",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-ffp-contract=fast",
    "-fPIC",
    "-shared",
    f"-I{ROOT / 'csrc'}",
]
NAMES = {np.float32: "float", np.float64: "double"}


def has_avx2():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return cpuinfo.exists() and " avx2 " in cpuinfo.read_text()


# The wide one has more ways to go wrong, so it is the one of the fast run.
@pytest.fixture(scope="module", params=[pytest.param("baseline", marks=pytest.mark.slow), "avx2"])
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
    positive = [
        0,
        info.smallest_subnormal,
        info.tiny,
        info.tiny * 1.5,
        info.eps,
        1e-10,
        0.1,
        0.25,
        0.5,
        1,
        1 - info.epsneg,
        1 + info.eps,
        1.5,
        2,
        2.5,
        3,
        10,
        20,
        87.5,
        88.7,
        88.73,
        89.5,
        100,
        103.9,
        104.5,
        709.7,
        709.79,
        710.4,
        745.1,
        746,
        1e5,
        2.0**43,
        2.0**86,
        1e10,
        1e22,
        1e30,
        1e37,
        info.max / 2,
        info.max,
        np.inf,
    ]
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
    ("Exp2", np.exp2, (-150, 130), (1, 1.1)),
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
        near = (np.arange(1, 20_000) * (np.pi / 2)).astype(dtype)  # one of sine and cosine is small
        x = np.concatenate([x, huge, -huge, near])
    with np.errstate(all="ignore"):
        want = ref(x.astype(WIDER[dtype]))
    got = apply(lib, name, x)
    gap = ulps(got, want, dtype)
    worst = np.argmax(gap)
    bound = bounds[dtype == np.float64]
    assert gap[worst] <= bound + 0.01, f"{name}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"


ODD = [
    "Expm1",
    "Log1p",
    "Sin",
    "Tan",
    "Tanh",
    "Sinh",
    "Asin",
    "Atan",
    "Asinh",
    "Atanh",
    "Sqrt",
    "Erf",
    "Erfinv",
    "Floor",
    "Ceil",
    "Round",
    "Trunc",
]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_negative_zero(lib, name, dtype):
    y = apply(lib, name, np.array([-0.0, 0.0], dtype))
    assert list(np.signbit(y)) == [True, False] and not y.any()


# ---- special functions: SciPy in double judges float, mpmath judges double ----


def special_rows():
    mpmath = pytest.importorskip("mpmath")
    sp = pytest.importorskip("scipy.special")
    mp = mpmath.mp.clone()
    mp.prec = 160

    def gelu(x):
        return x * mp.erfc(-x / mp.sqrt(2)) / 2

    return mp, {
        # name: SciPy, mpmath, range, bounds
        "Erf": (sp.erf, mp.erf, (-6, 6), (2, 2)),
        "Erfc": (sp.erfc, mp.erfc, (-6, 27), (4, 4)),
        "Erfinv": (sp.erfinv, mp.erfinv, (-0.9999, 0.9999), (2, 4)),
        "Lgamma": (sp.gammaln, lambda x: mp.log(abs(mp.gamma(x))), (0, 60), (1, 4)),
        "Digamma": (sp.digamma, mp.digamma, (2, 60), (1, 6)),
        "I0": (sp.i0, lambda x: mp.besseli(0, x), (-80, 80), (1, 4)),
        "Sinc": (np.sinc, mp.sincpi, (-4, 4), (None, None)),  # pi x is rounded, as in NumPy
        "Entr": (sp.entr, lambda x: -x * mp.log(x), (0.001, 50), (2, 2)),
        "Gelu": (lambda x: x * sp.erfc(-x / np.sqrt(2)) / 2, gelu, (-5, 5), (None, None)),
        "LogSigmoid": (sp.log_expit, lambda x: -mp.log1p(mp.exp(-x)), (-30, 30), (3, 3)),
        "Softplus": (
            lambda x: np.logaddexp(0, x),
            lambda x: mp.log1p(mp.exp(x)),
            (-30, 15),
            (3, 3),
        ),
        "Silu": (lambda x: x * sp.expit(x), lambda x: x / (1 + mp.exp(-x)), (-30, 30), (3, 3)),
        "Mish": (
            lambda x: x * np.tanh(np.logaddexp(0, x)),
            lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
            (-30, 30),
            (5, 5),
        ),
        "Logit": (sp.logit, lambda x: mp.log(x / (1 - x)), (0.01, 0.4), (5, 5)),
        "Elu": (
            lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)),
            lambda x: x if x > 0 else 1.5 * mp.expm1(x),
            (-20, 5),
            (3, 3),
        ),
    }


SPECIAL = [
    "Erf",
    "Erfc",
    "Erfinv",
    "Lgamma",
    "Digamma",
    "I0",
    "Sinc",
    "Entr",
    "Gelu",
    "LogSigmoid",
    "Softplus",
    "Silu",
    "Mish",
    "Logit",
    "Elu",
]


@pytest.mark.parametrize("name", SPECIAL)
def test_special_float(lib, name):
    scipy_ref, _, span, (bound, _) = special_rows()[1][name]
    x = grid(np.float32, *span, 20_000)
    want = scipy_ref(x.astype(np.float64))
    got = apply(lib, name, x)
    if bound is None:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=3e-7)
        return
    gap = ulps(got, want, np.float32)
    worst = np.argmax(gap)
    assert gap[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"


@pytest.mark.parametrize("name", SPECIAL)
def test_special_double(lib, name):
    mp, rows = special_rows()
    _, ref, span, (_, bound) = rows[name]
    x = grid(np.float64, *span, 100)
    got = apply(lib, name, x)
    exact = [ref(mp.mpf(float(v))) for v in x]
    if bound is None:
        np.testing.assert_allclose(got, [float(v) for v in exact], rtol=1e-14, atol=1e-15)
        return
    gap = [
        abs(mp.mpf(float(g)) - e) / mp.mpf(float(np.spacing(abs(float(e)))))
        for g, e in zip(got, exact, strict=True)
    ]
    worst = int(np.argmax([float(g) for g in gap]))
    assert gap[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}: {float(gap[worst])} ulps"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_edges(lib, dtype):
    sp = pytest.importorskip("scipy.special")
    x = np.array(
        [
            0,
            -0.0,
            1,
            -1,
            2,
            3,
            -2,
            -3,
            np.inf,
            -np.inf,
            np.nan,
            1e30,
            -1e30,
            1e-30,
            -1e-30,
            -0.5,
            -2.5,
            200,
            -26,
            26,
        ],
        dtype,
    )
    with np.errstate(all="ignore"):
        for name, ref in [
            ("Erf", sp.erf),
            ("Erfc", sp.erfc),
            ("Erfinv", sp.erfinv),
            ("I0", sp.i0),
            ("Lgamma", sp.gammaln),
        ]:
            v = x
            if name == "Lgamma":
                v = x[~np.isneginf(x)]  # C and PyTorch say inf, SciPy nan
                assert apply(lib, name, np.array([-np.inf], dtype))[0] == np.inf
            if name == "I0":  # SciPy says nan at infinity
                v = x[~np.isinf(x)]
                assert apply(lib, name, np.array([-np.inf], dtype))[0] == np.inf
            want = ref(v.astype(np.float64)).astype(dtype)
            np.testing.assert_allclose(apply(lib, name, v), want, rtol=4e-6, err_msg=name)
    y = apply(lib, "Digamma", np.array([0, -0.0, -1, -2, np.inf, -np.inf, np.nan, -0.5], dtype))
    assert y[0] == -np.inf and y[1] == np.inf and np.isnan(y[[2, 3, 5, 6]]).all() and y[4] == np.inf
    np.testing.assert_allclose(y[7], sp.digamma(-0.5), rtol=1e-5)


# ---- two arguments ----

BINARY = [
    ("Pow", np.power, (1, 2)),
    ("Atan2", np.arctan2, (1, 2.5)),
    ("Hypot", np.hypot, (1, 1.5)),
    ("Nextafter", None, (0, 0)),
    ("Copysign", np.copysign, (0, 0)),
    ("Maximum", np.maximum, (0, 0)),
    ("Minimum", np.minimum, (0, 0)),
    ("Fmax", np.fmax, (0, 0)),
    ("Fmin", np.fmin, (0, 0)),
    ("Heaviside", np.heaviside, (0, 0)),
    ("Fmod", np.fmod, (0, 0)),
    ("Logaddexp", np.logaddexp, (None, None)),
    ("Logaddexp2", np.logaddexp2, (None, None)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, ref, bounds", BINARY, ids=[r[0] for r in BINARY])
def test_binary(lib, name, ref, bounds, dtype):
    edge = specials(dtype)
    a, b = (v.ravel() for v in np.meshgrid(edge, edge))
    ra, rb = grid(dtype, -20, 20, 30_000, 2), grid(dtype, -9, 9, 30_000, 3)
    n = min(ra.size, rb.size)
    rng = np.random.default_rng(4)
    pa, pb = np.abs(ra[:n]), rng.permutation(rb[:n])
    a, b = np.concatenate([a, pa, ra[:n]]), np.concatenate([b, pb, rng.permutation(rb[:n])])
    if name == "Pow":  # near overflow the exponent amplifies every error of the logarithm
        base = np.exp(rng.uniform(-3, 3, 20_000)).astype(dtype)
        limit = 88 if dtype == np.float32 else 709
        a, b = (
            np.concatenate([a, base]),
            np.concatenate([b, (rng.uniform(-limit, limit, 20_000) / np.log(base)).astype(dtype)]),
        )
    wide = dtype if bounds == (0, 0) else WIDER[dtype]  # exact ones are judged in their own type
    with np.errstate(all="ignore"):
        want = (ref or np.nextafter)(a.astype(wide), b.astype(wide))
    got = apply(lib, name, a, b)
    bound = bounds[dtype == np.float64]
    if bound is None:
        np.testing.assert_allclose(got, want.astype(dtype), rtol=8 * np.finfo(dtype).eps, atol=1e-6)
        return
    gap = ulps(got, want, dtype)
    worst = np.argmax(gap)
    assert gap[worst] <= bound + 0.01, (
        f"{name}({a[worst]!r}, {b[worst]!r}) = {got[worst]!r}, not {want[worst]!r}"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_division_follows_python(lib, dtype):
    rng = np.random.default_rng(5)
    a = np.concatenate([rng.normal(size=4000) * 50, [5, -5, 6, -6, 0, -0.0, 1e30, 7.5]])
    b = np.concatenate([rng.normal(size=4000) * 3, [3, 3, -3, 3, 2, 2, 3, -2.5]])
    a, b = a.astype(dtype), b.astype(dtype)
    np.testing.assert_array_equal(apply(lib, "Remainder", a, b), np.remainder(a, b))
    np.testing.assert_array_equal(apply(lib, "FloorDivide", a, b), np.floor_divide(a, b))
    np.testing.assert_array_equal(apply(lib, "TruncDivide", a, b), np.trunc(a / b))
    zero = apply(lib, "FloorDivide", np.array([1, -1, 0], dtype), np.zeros(3, dtype))
    assert zero[0] == np.inf and zero[1] == -np.inf and np.isnan(zero[2])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_integers(lib, dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(6)
    top = info.max
    edge = np.array([info.min, info.min + 1, 0, 1, 2, 7, top // 2, top - 1, top], dtype)
    if info.min < 0:
        edge = np.concatenate([edge, np.array([-1, -2, -7], dtype)])
    a, b = (v.ravel() for v in np.meshgrid(edge, edge))
    more = rng.integers(info.min, info.max, (2, 5000), dtype=dtype, endpoint=True)
    a, b = np.concatenate([a, more[0]]), np.concatenate([b, more[1]])
    with np.errstate(all="ignore"):
        for name, ref in [
            ("Add", np.add),
            ("Sub", np.subtract),
            ("Mul", np.multiply),
            ("BitwiseAnd", np.bitwise_and),
            ("BitwiseOr", np.bitwise_or),
            ("BitwiseXor", np.bitwise_xor),
            ("Maximum", np.maximum),
            ("Minimum", np.minimum),
        ]:
            np.testing.assert_array_equal(apply(lib, name, a, b), ref(a, b), name)
        keep = b != 0
        a, b = a[keep], b[keep]
        for name, ref in [
            ("FloorDivide", np.floor_divide),
            ("Remainder", np.remainder),
            ("Fmod", np.fmod),
            ("Gcd", np.gcd),
            ("Lcm", np.lcm),
        ]:
            if name == "Gcd" and info.min:  # NumPy wraps the lowest number differently
                ok = (a != info.min) & (b != info.min)
                a, b = a[ok], b[ok]
            if name == "Lcm":  # and overflow
                a, b = a % 11, b % 11
            np.testing.assert_array_equal(apply(lib, name, a, b), ref(a, b), name)
    base = rng.integers(-3 if info.min else 0, 4, 500).astype(dtype)
    power = rng.integers(0, 5, 500).astype(dtype)
    np.testing.assert_array_equal(apply(lib, "Pow", base, power), np.power(base, power))
    count = np.array([0, 1, 8 * dtype().itemsize - 1, 8 * dtype().itemsize, 100], dtype)
    x = np.full(5, info.min or 200, dtype)
    bits = 8 * dtype().itemsize
    most = bits - 1 if info.min else 1000
    right = np.array([int(v) >> min(int(c), most) for v, c in zip(x, count, strict=True)])
    left = np.array(
        [(int(v) << int(c)) % 2**bits if c < bits else 0 for v, c in zip(x, count, strict=True)],
        np.uint64,
    )
    np.testing.assert_array_equal(apply(lib, "BitwiseRightShift", x, count), right.astype(dtype))
    np.testing.assert_array_equal(apply(lib, "BitwiseLeftShift", x, count), left.astype(dtype))


def test_negative_integer_powers(lib):
    a = np.array([1, -1, -1, 2, 0, 3], np.int64)
    b = np.array([-5, -4, -3, -1, -1, 0], np.int64)
    assert apply(lib, "Pow", a, b).tolist() == [1, 1, -1, 0, 0, 1]


# ---- complex ----

COMPLEX = {
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Log1p": np.log1p,
    "Expm1": np.expm1,
    "Log2": np.log2,
    "Log10": np.log10,
    "Sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "Reciprocal": np.reciprocal,
}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex(lib, name, dtype):
    rng = np.random.default_rng(7)
    z = (rng.normal(size=(3000, 2)) * 2).view(np.complex128).ravel()
    z = np.concatenate([z, [1e-3 + 1e-4j, -1e-3j + 2, -3 + 0.1j, 5, -5, 3j, -3j]]).astype(dtype)
    want = COMPLEX[name](z.astype(np.complex128))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(apply(lib, name, z), want, rtol=16 * eps, atol=4 * eps)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_arithmetic(lib, dtype):
    rng = np.random.default_rng(8)
    a, b = (rng.normal(size=(2000, 2)).view(np.complex128).ravel().astype(dtype) for _ in "ab")
    wide_a, wide_b = a.astype(np.complex128), b.astype(np.complex128)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(apply(lib, "Mul", a, b), wide_a * wide_b, rtol=8 * eps)
    np.testing.assert_allclose(apply(lib, "Div", a, b), wide_a / wide_b, rtol=8 * eps)
    np.testing.assert_allclose(apply(lib, "Pow", a, b), wide_a**wide_b, rtol=32 * eps)
    big = np.array([1e30 + 1e30j, (1 - 1j) * np.finfo(dtype).max, 1e-30j], dtype)
    np.testing.assert_allclose(apply(lib, "Div", big, big), [1, 1, 1], rtol=4 * eps)


# ---- 16-bit floats ----


def test_half_both_ways(lib):
    bits = np.arange(65536, dtype=np.uint16)
    want = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(call(lib, "float_from_half", bits, out=np.float32), want)
    rng = np.random.default_rng(9)
    random = rng.integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate(
            [
                want,
                np.nextafter(want, np.float32(np.inf)),
                np.nextafter(want, np.float32(0)),
                (want[:-1] + want[1:]) / 2,
                specials(np.float32),
                random,
            ]
        )
        expect = x.astype(np.float16)
    got = call(lib, "half_from_float", x, out=np.uint16).view(np.float16)
    np.testing.assert_array_equal(got, expect)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expect))


def test_bfloat16(lib):
    rng = np.random.default_rng(10)
    random = rng.integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    x = np.concatenate([specials(np.float32), random])
    x = x[~np.isnan(x)]
    bits = call(lib, "bfloat16_from_float", x, out=np.uint16)
    got = (bits.astype(np.uint32) << 16).view(np.float32)
    b = x.view(np.uint32).astype(np.uint64)
    low, high = b & 0xFFFF, b >> 16
    up = (low > 0x8000) | ((low == 0x8000) & ((high & 1) == 1))
    want = ((high + up).astype(np.uint32) << np.uint32(16)).view(np.float32)
    np.testing.assert_array_equal(got, want)
    nan = call(lib, "bfloat16_from_float", np.array([np.nan, -np.nan], np.float32), out=np.uint16)
    assert ((nan & 0x7FFF) > 0x7F80).all()


# ---- the random generator's functions: the same bits on every build ----


def test_philox_functions(lib):
    u = (np.arange(1, 2**16 + 1, dtype=np.float64) / 2**16).astype(np.float32)
    log = call(lib, "philox_log", u)
    sin, cos = call(lib, "philox_sin", u), call(lib, "philox_cos", u)
    wide = u.astype(np.float64)
    np.testing.assert_allclose(log, np.log(wide), rtol=4e-7, atol=1e-7)
    np.testing.assert_allclose(sin, np.sin(2 * np.pi * wide), atol=2e-7)
    np.testing.assert_allclose(cos, np.cos(2 * np.pi * wide), atol=2e-7)
    sums = [int(v.view(np.uint32).astype(np.uint64).sum()) for v in (log, sin, cos)]
    assert sums == PHILOX_SUMS


PHILOX_SUMS = [210064017668657, 139609094041624, 139609094041624]
