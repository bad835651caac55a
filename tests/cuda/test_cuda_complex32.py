"""complex32 on a GPU gives what it gives on the CPU, and is refused where it is refused there."""

import numpy as np
import pytest

import rushlight as rl

SAME = {
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: (x * 0.5).cumprod(1),
    "linspace": lambda x: rl.linspace(0, 1 + 1j, 7, dtype=rl.complex32, device=x.device),
    "nonzero": lambda x: rl.nonzero(x * (x.real > 0)),
    "unique_consecutive": lambda x: rl.unique_consecutive(x.flatten()),
    "index_add": lambda x: x.index_add(0, rl.tensor([0, 0, 1], device=x.device), x[:3]),
    "index_put": lambda x: x.index_put(
        (rl.tensor([0, 2, 2], device=x.device),), x[:3], accumulate=True
    ),
    "scatter_add": lambda x: x.scatter_add(0, rl.arange(20, device=x.device).view(4, 5) % 4, x),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "exp": lambda x: x.exp(),
    "mul": lambda x: x * x + 2j,
    "where": lambda x: rl.where(x.real > 0, x, -x),
    "masked_select": lambda x: x[x.real > 0],
    "cat": lambda x: rl.cat([x, x.conj()]),
    "flip": lambda x: x.flip(0).t().contiguous(),
}


@pytest.mark.parametrize("name", SAME)
def test_values(name):
    rl.manual_seed(2)
    x = (rl.randn(4, 5) + 1j * rl.randn(4, 5)).to(rl.complex32)
    want, found = SAME[name](x), SAME[name](x.cuda()).cpu()
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    wide = rl.complex64 if want.is_complex() else want.dtype
    np.testing.assert_allclose(found.to(wide).numpy(), want.to(wide).numpy(), rtol=5e-3, atol=5e-3)


def test_gradients_of_indexing():
    x = (rl.randn(4, 5) + 1j * rl.randn(4, 5)).to(rl.complex32)
    grads = []
    for device in ("cpu", "cuda"):
        own = x.to(device).requires_grad_()
        picked = own[rl.tensor([0, 0, 2], device=device)]
        grads += rl.autograd.grad(picked, own, rl.ones_like(picked))
    np.testing.assert_allclose(
        grads[1].cpu().to(rl.complex64).numpy(), grads[0].to(rl.complex64).numpy(), atol=5e-3
    )


@pytest.mark.parametrize("f", [lambda x: x @ x, lambda x: x.mv(x[0]), lambda x: x[0].dot(x[0])])
def test_products_are_refused(f):
    x = rl.zeros(4, 4, dtype=rl.complex32)
    for device in ("cpu", "cuda"):
        with pytest.raises(TypeError, match="complex32"):
            f(x.to(device))
