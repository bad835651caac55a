"""Gradients by central differences, in float64: the judge of every formula."""

import numpy as np

import rushlight as rl

STEP, RTOL, ATOL = 1e-6, 1e-5, 1e-7


def _project(outputs, weights):
    """Sum of outputs times fixed weights: one number whose gradient meets every element."""
    return sum(float((o.detach() * w).sum()) for o, w in zip(outputs, weights, strict=False))


def numerical(f, x, weights):
    """d project(f()) / dx, one element at a time; x is changed in place and put back."""
    flat, grad = x.detach().view(-1), np.zeros(x.numel())
    for k in range(x.numel()):
        old = float(flat[k])
        flat[k] = old + STEP
        above = _project(f(), weights)
        flat[k] = old - STEP
        below = _project(f(), weights)
        flat[k] = old
        grad[k] = (above - below) / (2 * STEP)
    return grad.reshape(tuple(x.shape))


def gradcheck(f, inputs):
    """Compares autograd with differences; f() reads `inputs` (contiguous float64 leaves)."""
    outputs, rng = f(), np.random.RandomState(0)
    weights = [rl.from_numpy(rng.uniform(0.5, 1.5, tuple(o.shape))) for o in outputs]
    grads = rl.autograd.grad(outputs, inputs, weights, allow_unused=True)
    for number, (x, grad) in enumerate(zip(inputs, grads, strict=False)):
        want = numerical(f, x, weights)
        got = np.zeros_like(want) if grad is None else (x * 0 + grad).detach().numpy()
        assert got.shape == want.shape, f"gradient {number} has shape {got.shape}"
        np.testing.assert_allclose(got, want, RTOL, ATOL, err_msg=f"gradient of input {number}")
