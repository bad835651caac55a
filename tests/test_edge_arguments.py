"""Extreme and wrong arguments of linear algebra, transforms, statistics and special functions: what
PyTorch 2.13 returns or raises, and no call that never ends."""

import math

import numpy as np
import pytest
import scripts

import rushlight as rl

INF, NAN = math.inf, math.nan


def f64(values):
    return rl.tensor(values, dtype=rl.float64)


# ----- huge numbers


def legendre_by_doubling(n, x):
    """P_n(x) from the integral (x + sqrt(x^2 - 1) cos t)^n, a mean that converges exponentially."""
    t = (np.arange(4 * n + 8) + 0.5) * np.pi / (4 * n + 8)
    return np.mean((x + 1j * np.sqrt(1 - x * x) * np.cos(t)) ** n).real


@pytest.mark.parametrize("x", [0.0, 0.3, -0.7, 0.99])
def test_legendre_of_large_degree(x):
    n = 150_000  # beyond the switch to the asymptotic form
    got = rl.special.legendre_polynomial_p(f64([x]), n).item()
    before = rl.special.legendre_polynomial_p(f64([x]), 131_071).item()  # by the recurrence
    assert got == pytest.approx(legendre_by_doubling(n, x), rel=1e-7, abs=1e-11)
    assert before == pytest.approx(legendre_by_doubling(131_071, x), rel=1e-7, abs=1e-11)


def test_polynomials_on_both_sides_of_the_switch():
    """The recurrence from the last two degrees below the switch gives the first ones above it."""
    n = 131_072
    for x in (1e-3, 0.5, 3.0, 40.0, 500.0, -1e-4, -0.1):
        p = [rl.special.laguerre_polynomial_l(f64([x]), n + k).item() for k in (-2, -1, 0, 1)]
        size = max(abs(v) for v in p)
        for k in (1, 2):
            m = n + k - 2
            want = ((2 * m + 1 - x) * p[k] - m * p[k - 1]) / (m + 1)
            assert p[k + 1] == pytest.approx(want, rel=1e-8, abs=1e-8 * size), (x, k)
    for x in (0.2, 1.00001, -1.00001):
        p = [rl.special.legendre_polynomial_p(f64([x]), n + k).item() for k in (-2, -1, 0, 1)]
        for k in (1, 2):
            m = n + k - 2
            want = ((2 * m + 1) * x * p[k] - m * p[k - 1]) / (m + 1)
            assert p[k + 1] == pytest.approx(want, rel=1e-8, abs=1e-10), (x, k)


@pytest.mark.parametrize("letter", "tuvw")
def test_chebyshev_outside(letter):
    n, x = 140_000, 1 + 1e-9
    f = getattr(rl.special, f"chebyshev_polynomial_{letter}")
    got = f(f64([x, -x]), n)
    t = math.acosh(x)
    want = {
        "t": lambda: math.cosh(n * t),
        "u": lambda: math.sinh((n + 1) * t) / math.sinh(t),
        "v": lambda: math.cosh((n + 0.5) * t) / math.cosh(t / 2),
        "w": lambda: math.sinh((n + 0.5) * t) / math.sinh(t / 2),
    }
    other = {"v": "w", "w": "v"}.get(letter, letter)
    assert got[0].item() == pytest.approx(want[letter](), rel=1e-7)
    assert got[1].item() == pytest.approx(want[other](), rel=1e-7)


QUICK = """
import rushlight as rl
x = rl.tensor([0.3, -0.3, 1.0000001, 2.0, 1e-9, 5000.0], dtype=rl.float64)
s = rl.special
for name in s.__all__:
    if "polynomial" in name:
        for n in (10**9, 2**62, 1e300):
            getattr(s, name)(x, n)
for f in (s.gammainc, s.gammaincc):
    for a in (1e-300, 1.0, 1e5, 1e10, 1e15, 1e300):
        for b in (1e-300, 1.0, 1e5, 1e10, 1e15, 1e300):
            y = f(rl.tensor(a, dtype=rl.float64), rl.tensor(b, dtype=rl.float64)).item()
            assert 0 <= y <= 1, (a, b, y)
s.polygamma(2, rl.tensor([-1e15, -1e300, 1e300], dtype=rl.float64))
s.zeta(rl.tensor([1e300, 1 + 1e-15, 40.5]), rl.tensor([0.5, 1e300, 1e-300]))
rl.linalg.matrix_power(rl.eye(3), 2**62)
assert rl.combinations(rl.ones(3), r=2**31).shape == (0, 2**31)
assert rl.triu_indices(2**62, 3).tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
for call in (lambda: rl.tril_indices(2**62, 3), lambda: s.multigammaln(rl.ones(1), 2**62),
             lambda: rl.combinations(rl.ones(3), r=2**31, with_replacement=True),
             lambda: rl.linalg.matrix_power(rl.eye(3), 10**30),
             lambda: rl.fft.fft(rl.ones(3), n=2**62)):
    try:
        call()
    except (RuntimeError, ValueError):
        continue
    raise SystemExit("no error")
print("done")
"""


def test_no_call_takes_forever():
    assert scripts.run(QUICK, limit=60).strip().endswith("done")


# ----- linear algebra


def test_devices_are_compared():
    A, tau = rl.eye(3), rl.ones(3)
    for args in ((A, tau.to("meta")), (A.to("meta"), tau)):
        with pytest.raises(RuntimeError, match="one device"):
            rl.linalg.householder_product(*args)
        with pytest.raises(RuntimeError, match="one device"):
            rl.ormqr(*args, A)


def test_info_has_the_batch_of_the_matrices():
    assert rl.linalg.solve_ex(rl.eye(3), rl.ones(2, 3, 3)).info.shape == ()
    assert rl.linalg.solve_ex(rl.eye(3).expand(1, 3, 3), rl.ones(2, 3, 3)).info.shape == (1,)
    assert rl.linalg.solve_ex(rl.eye(3).expand(2, 3, 3), rl.ones(3, 1)).info.shape == (2,)
    assert rl.linalg.solve(rl.eye(3) * 2, rl.ones(2, 3, 3)).unique().tolist() == [0.5]


def test_norms_of_empty_matrices():
    norm = rl.linalg.matrix_norm
    for order in (2, "nuc", "fro", 1, INF):
        for shape in ((0, 0), (0, 3), (3, 0)):
            assert norm(rl.zeros(shape), order).item() == 0
        assert norm(rl.zeros(2, 0, 3), order).tolist() == [0, 0]
    for order in (-2, -1, -INF):
        with pytest.raises(IndexError):
            norm(rl.zeros(0, 0), order)
    assert norm(rl.zeros(0, 3), -1).item() == 0
    assert math.isnan(rl.linalg.cond(rl.zeros(2, 2)).item())
    assert rl.linalg.cond(rl.ones(2, 2)).item() > 1e6
    assert rl.linalg.cond(rl.zeros(0, 3), 1).item() == 0
    for dim in ((), (0, 1, 2)):
        with pytest.raises(RuntimeError, match=r"linalg\.norm"):
            rl.linalg.norm(rl.ones(2, 2), dim=dim)


def test_vander_and_vecdot():
    assert rl.linalg.vander(rl.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    for x, n in ((rl.ones(3), 1), (rl.ones(1), None), (rl.ones(3, dtype=rl.bool), 2)):
        with pytest.raises((RuntimeError, TypeError), match=r"linalg\.vander"):
            rl.linalg.vander(x, N=n)
    with pytest.raises(RuntimeError, match="dtypes differ"):
        rl.linalg.vecdot(rl.ones(3), f64([1, 2, 3]))
    with pytest.raises(RuntimeError, match=r"linalg\.vecdot"):
        rl.linalg.vecdot(rl.ones(3, dtype=rl.int64), rl.ones(3, dtype=rl.int64))
    with pytest.raises(TypeError):
        rl.linalg.vecdot(rl.ones(3), 2.0)


def test_cholesky_inverse_of_a_singular_factor():
    with pytest.raises(rl.linalg.LinAlgError, match="batch element 1.*element 2"):
        rl.cholesky_inverse(rl.stack([rl.eye(2), rl.diag(rl.tensor([1.0, 0.0]))]))
    assert rl.cholesky_inverse(input=rl.eye(2) * 2).tolist() == [[0.25, 0], [0, 0.25]]
    assert rl.cholesky_inverse(rl.zeros(0, 0)).shape == (0, 0)


def test_old_names_have_pytorchs_parameters():
    one, row = rl.eye(2), rl.ones(2, 1)
    pivots = rl.tensor([1, 2], dtype=rl.int32)
    assert rl.cholesky_solve(input=row, input2=one).equal(row)
    assert rl.triangular_solve(input=row, A=one).solution.equal(row)
    assert rl.lu_solve(input=row, LU_data=one, LU_pivots=pivots).equal(row)
    assert rl.matrix_power(input=one, n=2).equal(one)
    assert rl.matrix_exp(input=rl.zeros(2, 2)).equal(one)
    assert rl.orgqr(input=one, input2=rl.zeros(2)).equal(one)
    assert rl.ormqr(input=one, input2=rl.zeros(2), input3=one).equal(one)
    with pytest.raises(RuntimeError, match="ormqr: tau"):
        rl.ormqr(one, rl.zeros(1), one)


def test_pivots_and_tolerances_broadcast():
    LU = rl.ones(2, 3, 3)
    P, _, _ = rl.lu_unpack(LU, rl.tensor([1, 2, 3], dtype=rl.int32))
    assert P.shape == (2, 3, 3)
    found = rl.linalg.pinv(rl.diag(rl.tensor([1.0, 0.25])), rcond=rl.tensor([0.1, 0.5]))
    assert found.diagonal(0, 1, 2).tolist() == [[1, 4], [1, 0]]
    assert [t.shape for t in rl.svd_lowrank(rl.ones(3, 4), q=9)] == [(3, 3), (3,), (4, 3)]


# ----- transforms and windows


def test_frequencies_of_nothing():
    assert rl.fft.fftfreq(0).tolist() == []
    assert rl.fft.fftfreq(5, d=0.0)[1:].tolist() == [INF, INF, -INF, -INF]
    with pytest.raises(RuntimeError, match=r"fft\.fft: "):
        rl.fft.fft(rl.ones(3), n=-1)
    assert rl.fft.fftn(rl.ones(3), s=(-1,)).shape == (3,)
    assert rl.fft.fftshift(rl.arange(4), dim=rl.tensor(0)).tolist() == [2, 3, 0, 1]
    with pytest.raises(TypeError, match="hann_window"):
        rl.hann_window(1.5)


# ----- statistics


def by_itertools(n, r, replacement):
    from itertools import combinations, combinations_with_replacement

    return [list(c) for c in (combinations_with_replacement if replacement else combinations)(
        range(n), r)]  # fmt: skip


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("r", [1, 2, 3, 5, 6])
def test_combinations(n, r, replacement):
    got = rl.combinations(rl.arange(n), r, replacement)
    assert got.tolist() == by_itertools(n, r, replacement)
    assert got.shape == (len(by_itertools(n, r, replacement)), r)


def test_combinations_are_made_without_python_objects():
    got = rl.combinations(rl.arange(400), 3)
    assert got.shape == (400 * 399 * 398 // 6, 3)
    assert (got.diff(dim=1) > 0).all() and got.unique(dim=0).shape == got.shape
    x = rl.arange(4.0).requires_grad_()
    rl.combinations(x, 2).sum().backward()
    assert x.grad.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("rows", [0, 1, 3, 6])
@pytest.mark.parametrize("cols", [0, 1, 4])
@pytest.mark.parametrize("offset", [-7, -2, 0, 1, 3, 9])
def test_triangle_indices(rows, cols, offset):
    for ours, theirs in ((rl.tril_indices, np.tril_indices), (rl.triu_indices, np.triu_indices)):
        got = ours(rows, cols, offset)
        assert got.tolist() == [list(i) for i in theirs(rows, offset, cols)]
        assert got.shape[0] == 2


def test_gradient_of_even_spacing():
    x = rl.tensor([1.0, 2.0, 4.0, 8.0])
    assert rl.gradient(x, spacing=0.0)[0].tolist() == [INF] * 4
    assert rl.gradient(x, spacing=INF)[0].tolist() == [0] * 4
    assert rl.gradient(x.to("meta"))[0].shape == (4,)
    for order in (1, 2):
        got = rl.gradient(x, spacing=0.5, edge_order=order)[0]
        np.testing.assert_allclose(got, np.gradient(x.numpy(), 0.5, edge_order=order), rtol=1e-6)


def test_tensordot_repeats_sizes_of_one():
    a, b = rl.arange(6.0).reshape(2, 3), rl.ones(1, 4)
    assert rl.tensordot(a, b, dims=([1], [0])).tolist() == [[3.0] * 4, [12.0] * 4]
    assert rl.tensordot(b, a, dims=([0], [0])).tolist() == [[3.0, 5.0, 7.0]] * 4
    with pytest.raises(RuntimeError):
        rl.tensordot(a, rl.ones(2, 4), dims=([1], [0]))


def test_others():
    assert rl.multinomial(rl.zeros(0, 3), 2, True).shape == (0, 2)
    with pytest.raises(RuntimeError, match="renorm"):
        rl.renorm(rl.ones(2), 2, 0, 1.0)
    for p in (-1, NAN):
        with pytest.raises(RuntimeError, match="cdist"):
            rl.cdist(rl.ones(2, 2), rl.ones(2, 2), p=p)
    x = f64([50.0, 60.5])
    direct = sum(rl.lgamma(x - 0.5 * i) for i in range(40)) + 40 * 39 / 4 * math.log(math.pi)
    np.testing.assert_allclose(rl.special.multigammaln(x, 40), direct, rtol=1e-13)
    with pytest.raises(TypeError):
        rl.sort(rl.ones(2, 2), dim=True)
    np.testing.assert_allclose(rl.frobenius_norm(rl.ones(2, 2), dim=0), [math.sqrt(2)] * 2)


# ----- distinct elements and sorting of integers, whose keys are narrowed


@pytest.mark.parametrize("kind", ["int64", "int32", "int16", "int8", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("spread", [1, 100, 10**6, 2**40, 2**62])
def test_sort_and_unique_of_integers(kind, spread):
    info = np.iinfo(kind)
    low, high = max(info.min, -spread), min(info.max, spread)
    rng = np.random.RandomState(0)
    a = rng.randint(low, high, 5000, dtype=kind)
    a[::97] = info.max if spread > 2**32 else high
    if spread > 2**60:
        a[::89] = info.min
    x = rl.from_numpy(a)
    for descending in (False, True):
        values, indices = rl.sort(x, descending=descending, stable=True)
        order = np.argsort(a if not descending else info.max - a.astype(object), kind="stable")
        np.testing.assert_array_equal(values.numpy(), a[order])
        np.testing.assert_array_equal(indices.numpy(), order)
    want, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(rl.unique(x).numpy(), want)
    got, number = rl.unique(x, return_counts=True)
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(number.numpy(), counts)
    np.testing.assert_array_equal(rl.unique(x, return_inverse=True)[1].numpy(), inverse)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool", "complex64", "float16"])
def test_unique_consecutive(kind):
    rng = np.random.RandomState(1)
    a = np.repeat(rng.randint(0, 2, 2000), rng.randint(1, 4, 2000)).astype(kind)
    if kind.startswith("float"):
        a[5:9] = np.nan
        a[20:24] = [0.0, -0.0, -0.0, 0.0]
    x = rl.from_numpy(a)
    begins = np.concatenate([[True], ~(a[1:] == a[:-1])])
    values, inverse, counts = rl.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert values.numpy().tobytes() == a[begins].tobytes(), "the first of each run, bit by bit"
    np.testing.assert_array_equal(inverse.numpy(), np.cumsum(begins) - 1)
    np.testing.assert_array_equal(
        counts.numpy(), np.diff(np.append(np.flatnonzero(begins), len(a)))
    )
    np.testing.assert_array_equal(rl.unique_consecutive(x).numpy(), a[begins])
    assert rl.unique_consecutive(x[:0]).shape == (0,)
    assert rl.unique_consecutive(x.reshape(1, -1), return_inverse=True)[1].shape == (1, len(a))
