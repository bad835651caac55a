"""gradcheck finds wrong derivatives, and accepts right ones."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd import forward_ad as fw


def x64(*shape, dtype=rl.float64):
    rng = np.random.RandomState(7)
    a = rng.uniform(0.5, 2.0, shape)
    if dtype == rl.complex128:
        a = a + 1j * rng.uniform(0.5, 2.0, shape)
    return rl.from_numpy(np.asarray(a)).requires_grad_()


def wrong_backward(x):
    """x ** 2 whose recorded gradient is that of 3 x ** 2."""
    return x.detach() ** 2 + (x**2 - x.detach() ** 2) * 3


def wrong_second(x):
    """Right gradient, wrong derivative of the gradient: one factor is cut off."""
    return x.detach() * x * 1.5 - 0.5 * x.detach() ** 2 + 0.5 * (x - x.detach()) * x.detach()


def wrong_forward(x):
    level = rl._C._dual_level()
    if level == 0:
        return x * 3
    value, tangent = fw.unpack_dual(x)
    return value * 3 if tangent is None else fw.make_dual(value * 3, tangent * 4)


@pytest.mark.parametrize("fast", [False, True])
def test_right_derivatives(fast):
    x, y = x64(3, 2), x64(2)
    f = lambda a, b: ((a * b).sin(), (a.exp() + b).sum(0))  # noqa: E731
    assert gradcheck(f, (x, y), fast_mode=fast, check_forward_ad=True, check_batched_grad=True,
                     check_batched_forward_grad=True)  # fmt: skip
    assert gradgradcheck(f, (x, y), fast_mode=fast, check_fwd_over_rev=True)
    assert gradgradcheck(f, (x, y), fast_mode=fast, gen_non_contig_grad_outputs=True)


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_derivatives_are_found(fast):
    with pytest.raises(GradcheckError, match="mismatch for output 0 with respect to input 0"):
        gradcheck(wrong_backward, x64(3), fast_mode=fast)
    assert not gradcheck(wrong_backward, x64(3), fast_mode=fast, raise_exception=False)
    with pytest.raises(GradcheckError, match="forward"):
        gradcheck(wrong_forward, x64(3), fast_mode=fast, check_forward_ad=True)
    assert gradcheck(wrong_forward, x64(3), fast_mode=fast)
    assert not gradgradcheck(wrong_second, x64(3), fast_mode=fast, raise_exception=False)
    assert issubclass(GradcheckError, RuntimeError)


@pytest.mark.parametrize("fast", [False, True])
def test_an_output_cut_off_from_the_graph(fast):
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: (x * 1, x.detach() * 2), x64(3), fast_mode=fast)
    assert gradcheck(lambda x: (x * 1, rl.ones(2)), x64(3), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_complex(fast):
    z, w = x64(3, dtype=rl.complex128), x64(3, dtype=rl.complex128)
    for f in (lambda a, b: a * b, lambda a, b: (a * b.conj()).abs(), lambda a, b: (a / b).exp(),
              lambda a, b: a.real * b.imag, lambda a, b: rl.view_as_real(a * b)):  # fmt: skip
        assert gradcheck(f, (z, w), fast_mode=fast, check_forward_ad=True)
        assert gradgradcheck(f, (z, w), fast_mode=fast)
    wrong = lambda a: a.conj().detach() * 0 + a * a.detach().conj() / a.detach()  # noqa: E731
    assert not gradcheck(wrong, z, fast_mode=fast, raise_exception=False)


def test_arguments():
    with pytest.raises(ValueError, match="requires_grad"):
        gradcheck(lambda x: x, x64(2).detach())
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x, x64(2), check_backward_ad=False)
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x, x64(2), check_batched_forward_grad=True)
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x, x64(2), check_batched_grad=True, check_backward_ad=False,
                  check_forward_ad=True)  # fmt: skip
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 2, rl.ones(2, requires_grad=True), eps=1e-2, atol=1e-2)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, rl.ones(1, dtype=rl.float64).expand(3).requires_grad_())
    with pytest.raises(ValueError, match="return tensors"):
        gradcheck(lambda x: 3.0, x64(2))
    assert gradcheck(lambda x, n: x * n, (x64(2), 3))
    assert gradcheck(lambda x: x.sum(), x64(0, 2))


def test_inputs_are_put_back():
    x = x64(3, 2)
    before = x.detach().clone()
    gradcheck(lambda t: t.t().exp(), x)
    gradcheck(lambda t: t.t().exp(), x, fast_mode=True)
    assert rl.equal(x.detach(), before)
    strided = x64(3, 4).detach()[:, ::2].requires_grad_()
    assert gradcheck(lambda t: t.exp(), strided)


def test_nondeterminism_is_found():
    noise = iter(range(10_000))

    def f(x):
        y = x * 1
        if y.requires_grad:
            y.register_hook(lambda g: g + 1e-7 * next(noise))
        return y

    with pytest.raises(GradcheckError, match="reentrant"):
        gradcheck(f, x64(2))
    assert gradcheck(f, x64(2), nondet_tol=1.0, atol=1.0)


def test_functions_that_take_gradients_themselves():
    """They run as they do outside of a check, with a graph: PyTorch does not turn it off."""

    def slope(x):
        inner = x.detach().requires_grad_()
        return x * rl.autograd.grad((inner**2).sum(), inner)[0].detach().sum().reshape(1) * 0 + x

    x = rl.tensor([0.5, 1.5], dtype=rl.float64, requires_grad=True)
    assert gradcheck(slope, (x,))


def test_second_derivatives_of_parameters_given_to_a_module():
    """A module keeps what is a Parameter as one; a view of it would be an attribute like others."""

    class Power(rl.nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            (weight,) = self.parameters()
            return (weight * x) ** 3

    weight = rl.nn.Parameter(rl.tensor([0.5, 1.5], dtype=rl.float64))
    x = rl.tensor([1.0, 2.0], dtype=rl.float64, requires_grad=True)
    assert gradgradcheck(lambda weight, x: Power(weight)(x), (weight, x))
    assert gradgradcheck(lambda a, b: a * b * b, (x, x))
