"""Functions of the library that are written in Python, called from scripted code: packages script
such calls when they are imported, so one that cannot be compiled keeps the package from loading."""

import linecache

import pytest

import rushlight as rl

CALLS = [
    "rl.linalg.solve(A, b)",
    "rl.linalg.solve(A[None], b, left=True)",
    "rl.linalg.pinv(A)",
    "rl.pinverse(A)",
    "rl.linalg.matrix_rank(A)",
    "rl.linalg.matrix_rank(A, rtol=rl.full((2, 1), 1e-3))",
    "rl.linalg.matrix_norm(A)",
    "rl.linalg.matrix_norm(A, 'nuc')",
    "rl.matrix_power(A, 5)",
    "rl.matrix_power(A, -2)",
    "rl.linalg.lstsq(A, b)[0]",
    "rl.quantile(A, 0.25)",
    "rl.quantile(A, rl.tensor([0.25, 0.5]), 1)",
    "rl.stft(A.flatten(), 4, return_complex=True)",
    "rl.istft(rl.stft(A.flatten(), 4, return_complex=True), 4)",
    "rl.fft.fftshift(A)",
    "rl.fft.ifftshift(A, [0])",
    "rl.nn.functional.pad(A[None], (1, 1), mode='reflect')",
    "rl.nn.functional.pad(A[None], (1, 2), mode='circular')",
    "rl.nn.functional.pad(A[None], [1, 0], mode='replicate')",
]


def function_of(call):
    """A function with a source, as one that was read from a file."""
    source = f"def f(A, b):\n    return {call}\n"
    name = f"<call {call}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"rl": rl}
    exec(compile(source, name, "exec"), space)
    return space["f"]


@pytest.mark.parametrize("call", CALLS)
def test_calls(call):
    f = function_of(call)
    A = rl.tensor([[3.0, 1.0, 0.5], [1.0, 2.0, 0.25], [0.0, 0.5, 1.5]])
    b = rl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    expected, given = f(A, b), rl.jit.script(f)(A, b)
    assert given.dtype == expected.dtype and given.shape == expected.shape
    rl.testing.assert_close(given, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 6, 7, 8, -1, -3])
def test_powers_of_matrices(n):
    A = rl.tensor([[1.0, 0.5], [-0.25, 2.0]], dtype=rl.float64)
    expected = rl.eye(2, dtype=rl.float64)
    for _ in range(abs(n)):
        expected = expected @ (A if n > 0 else A.inverse())
    result = rl.linalg.matrix_power(A, n)
    rl.testing.assert_close(result, expected)
    assert result.data_ptr() != A.data_ptr()
    assert rl.autograd.gradcheck(lambda A: rl.linalg.matrix_power(A, n), (A.requires_grad_(),))
