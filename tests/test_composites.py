"""Functions written in Python over operators, against NumPy."""

import numpy as np
import pytest

import rushlight as rl

X = np.random.RandomState(0).randn(3, 5)
POINTS = np.array([0.0, 1.0, 3.0, 4.5, 5.0])


def same(got, want):
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


def test_windows():
    for ours, theirs in ((rl.hann_window, np.hanning), (rl.hamming_window, np.hamming),
                         (rl.blackman_window, np.blackman),
                         (rl.bartlett_window, np.bartlett)):  # fmt: skip
        same(ours(7, periodic=False, dtype=rl.float64), theirs(7))
        same(ours(6, dtype=rl.float64), theirs(7)[:6])
        assert ours(1).tolist() == [1] and ours(0).shape == (0,)
        assert ours(4, requires_grad=True).requires_grad
        with pytest.raises(RuntimeError, match="window_length"):
            ours(-1)


def test_integrals():
    x = rl.tensor(X)
    same(rl.trapezoid(x), np.trapezoid(X) if hasattr(np, "trapezoid") else np.trapz(X))
    same(rl.trapezoid(x, dx=0.5, dim=0), ((X[1:] + X[:-1]) * 0.25).sum(0))
    steps = (X[:, 1:] + X[:, :-1]) / 2 * np.diff(POINTS)
    same(rl.trapezoid(x, rl.tensor(POINTS)), steps.sum(1))
    same(rl.cumulative_trapezoid(x, rl.tensor(POINTS)), steps.cumsum(1))
    assert rl.trapezoid(rl.arange(4)).dtype == rl.float32
    none = rl.zeros(0, 3, dtype=rl.int8)
    assert rl.trapezoid(none, dim=0).dtype == rl.int8  # as in PyTorch, as is
    assert rl.cumulative_trapezoid(none, dim=0).dtype == rl.float32
    with pytest.raises(RuntimeError, match="not both"):
        rl.trapezoid(x, rl.tensor(POINTS), dx=1)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(edge_order):
    x = rl.tensor(X)
    for got, want in zip(rl.gradient(x, edge_order=edge_order),
                         np.gradient(X, edge_order=edge_order), strict=True):  # fmt: skip
        same(got, want)
    (got,) = rl.gradient(x, spacing=(rl.tensor(POINTS),), dim=1, edge_order=edge_order)
    same(got, np.gradient(X, POINTS, axis=1, edge_order=edge_order))
    with pytest.raises(RuntimeError, match="at least"):
        rl.gradient(rl.ones(edge_order), edge_order=edge_order)


def test_quantile_and_nan():
    x = X.copy()
    x[1, 2] = np.nan
    q = [0.0, 0.3, 1.0]
    same(rl.quantile(rl.tensor(x), rl.tensor(q, dtype=rl.float64), 1), np.quantile(x, q, axis=1))
    same(rl.nanquantile(rl.tensor(x), rl.tensor(q, dtype=rl.float64), 1),
         np.nanquantile(x, q, axis=1))  # fmt: skip
    assert rl.quantile(rl.tensor(x), 0.5, 0, keepdim=True).shape == (1, 5)
    assert rl.quantile(rl.tensor(x), 0.5, keepdim=True).shape == (1, 1)


def test_unravel_index():
    got = rl.unravel_index(rl.tensor([[0, 7], [11, 5]]), (3, 4))
    want = np.unravel_index([[0, 7], [11, 5]], (3, 4))
    assert all((g.numpy() == w).all() for g, w in zip(got, want, strict=True))
    with pytest.raises(ValueError, match="outside"):
        rl.unravel_index(rl.tensor([12]), (3, 4))


def test_norms_of_matrices():
    x = rl.tensor(X)
    for order in (1, -1, np.inf, -np.inf, "fro"):
        same(rl.linalg.norm(x, order), np.linalg.norm(X, order))
    same(rl.linalg.norm(x), np.linalg.norm(X))
    same(rl.linalg.norm(x, 3, dim=1), np.linalg.norm(X, 3, axis=1))


def test_settings_about_repeatable_results():
    try:
        assert not rl.are_deterministic_algorithms_enabled()
        rl.use_deterministic_algorithms(True, warn_only=True)
        assert rl.are_deterministic_algorithms_enabled()
        assert rl.is_deterministic_algorithms_warn_only_enabled()
        rl.set_deterministic_debug_mode("error")
        assert rl.get_deterministic_debug_mode() == 2
        with pytest.raises(RuntimeError):
            rl.set_deterministic_debug_mode("never")
        with pytest.raises(TypeError):
            rl.use_deterministic_algorithms("yes")
    finally:
        rl.use_deterministic_algorithms(False)


def test_fork_rng_leaves_no_trace():
    rl.manual_seed(5)
    want = [rl.rand(3).tolist(), rl.rand(3).tolist()]
    rl.manual_seed(5)
    first = rl.rand(3).tolist()
    with rl.random.fork_rng():
        rl.manual_seed(9)
        rl.rand(100)
    assert [first, rl.rand(3).tolist()] == want


def test_version():
    assert rl.version.__version__ == rl.__version__ and rl.version.cuda is None


class TestAssertClose:
    def test_equal_values_pass(self):
        x = rl.tensor(X)
        rl.testing.assert_close(x, x + 1e-9)
        rl.testing.assert_close([1, {"a": x}, (2.0, None)], [1, {"a": x}, (2.0, None)])
        rl.testing.assert_close(X, X)
        rl.testing.assert_close(rl.tensor(float("nan")), rl.tensor(float("nan")), equal_nan=True)
        rl.testing.assert_close(rl.ones(0), rl.ones(0))

    @pytest.mark.parametrize("a, b, text", [
        (rl.zeros(2), rl.zeros(3), "shape"),
        (rl.zeros(2), rl.zeros(2).double(), "dtype"),
        (rl.zeros(2), rl.zeros(2, device="meta"), "device"),
        (rl.zeros(2, 2), rl.tensor([[0.0, 0.0], [0.0, 1.0]]), r"1 / 4.*\n.*1.0 at index \(1, 1\)"),
        (rl.arange(3), rl.arange(3) + 1, "not equal"),
        (rl.zeros(1), rl.full((1,), float("nan")), "not close"),
        ([1, 2], [1, 3], r"at \[1\]"),
        ({"a": 1.0}, {"b": 1.0}, "keys"),
        ([1], [1, 2], "lengths"),
        (1, 1.0, "types"),
    ])  # fmt: skip
    def test_differences_are_told(self, a, b, text):
        with pytest.raises(AssertionError, match=text):
            rl.testing.assert_close(a, b)

    def test_message_and_misuse(self):
        with pytest.raises(AssertionError, match="mine"):
            rl.testing.assert_close(1, 2, msg="mine")
        with pytest.raises(AssertionError, match=r"^mine: Scalars"):
            rl.testing.assert_close(1, 2, msg=lambda text: "mine: " + text)
        with pytest.raises(ValueError, match="neither"):
            rl.testing.assert_close(1, 2, rtol=1)
        with pytest.raises(TypeError, match="str"):
            rl.testing.assert_close("a", "a")


def test_any_and_all_over_no_dims_fold_nothing():
    x = rl.tensor([[1.0, 0.0], [0.0, 2.0]])
    for fold in (rl.any, rl.all):
        assert fold(x, []).tolist() == [[True, False], [False, True]]
        assert fold(x, dim=[], keepdim=True).shape == (2, 2)


def test_diff_has_the_dtype_of_its_parts_together():
    x, before = rl.tensor([True, False]), rl.tensor([0.5], dtype=rl.bfloat16)
    got = rl.diff(x, prepend=before)
    assert got.dtype == rl.bfloat16 and got.tolist() == [0.5, -1.0]
    assert rl.diff(x).tolist() == [True]


def test_uniform_complex_numbers_have_independent_parts():
    rl.manual_seed(0)
    z = rl.rand(4000, dtype=rl.complex64)
    parts = rl.view_as_real(z)
    assert parts.min() >= 0 and parts.max() < 1
    assert abs(parts.mean(0) - 0.5).max() < 0.03
    assert abs(np.corrcoef(z.real.numpy(), z.imag.numpy())[0, 1]) < 0.06
