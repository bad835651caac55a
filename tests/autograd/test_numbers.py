"""Gradients of calls with Python numbers have the precision of the tensors beside them: what is
computed of a number alone is not rounded to the default dtype."""

import pytest

import rushlight as rl

CALLS = {
    "lerp": lambda x, y, n: rl.lerp(x, y, n),
    "lerp back": lambda x, y, n: rl.lerp(y, x, n),
    "xlogy": lambda x, y, n: rl.xlogy(x, n),
    "xlogy of a number": lambda x, y, n: rl.xlogy(n, x),
    "xlog1py": lambda x, y, n: rl.special.xlog1py(x, n),
    "xlog1py of a number": lambda x, y, n: rl.special.xlog1py(n, x),
    "zeta": lambda x, y, n: rl.special.zeta(n, x),
    "pow": lambda x, y, n: rl.pow(x, n),
    "pow of a number": lambda x, y, n: rl.pow(n, x),
    "float_power": lambda x, y, n: rl.float_power(n, x),
    "div": lambda x, y, n: n / x,
    "rsub": lambda x, y, n: rl.rsub(x, n),
    "remainder": lambda x, y, n: rl.remainder(x, n),
    "copysign": lambda x, y, n: rl.copysign(x, n),
    "where": lambda x, y, n: rl.where(y > 1, x, n) * x,
}
REAL = ("xlog1py", "zeta", "remainder", "copysign", "where", "xlogy")


def gradients(call, dtype, number):
    x = rl.tensor([0.37, 1.91, 2.63], dtype=dtype, requires_grad=True)
    y = rl.tensor([1.3, 0.7, 2.2], dtype=dtype, requires_grad=True)
    out = call(x, y, number)
    found = rl.autograd.grad(out, x, rl.ones_like(out), create_graph=True)
    if not found[0].requires_grad:
        return found
    return *found, *rl.autograd.grad(found[0], x, rl.ones_like(found[0]), allow_unused=True)


@pytest.mark.parametrize("number", [1.7, 3])
@pytest.mark.parametrize("dtype", [rl.float64, rl.complex128])
@pytest.mark.parametrize("name", CALLS)
def test_a_number_counts_as_a_tensor_of_the_same_dtype(name, dtype, number):
    if dtype.is_complex and name.startswith(REAL):
        return
    with_number = gradients(CALLS[name], dtype, number)
    with_tensor = gradients(CALLS[name], dtype, rl.tensor(number, dtype=dtype))
    for a, b in zip(with_number, with_tensor, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            rl.testing.assert_close(a, b, rtol=64 * rl.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16, rl.float32])
def test_narrow_dtypes_stay(dtype):
    x = rl.ones((), dtype=dtype, requires_grad=True)
    (found,) = rl.autograd.grad(rl.lerp(x, x.detach() + 1, 0.4), x)
    assert found.dtype == dtype and found == rl.tensor(0.6, dtype=dtype)
