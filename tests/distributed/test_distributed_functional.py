"""Collectives with gradients: each rank's gradient is that of the sum of all ranks' losses."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed.nn import functional as F

pytestmark = pytest.mark.threads

SIZE = 3
rng = np.random.default_rng(0)
X = rng.standard_normal((SIZE, SIZE, 2))  # X[rank]: what a rank begins with
W = rng.standard_normal((SIZE, SIZE, 2))  # the weights of its loss


def parts(x):
    return [row.clone() for row in x]


def rows(tensors):
    return rl.stack(list(tensors))


def like_parts():
    return [rl.empty(2, dtype=rl.float64) for _ in range(SIZE)]


# What a rank computes from its (SIZE, 2) tensor, and the outputs of all ranks for NumPy's X.
CASES = {
    "all_reduce": (lambda x: F.all_reduce(x), lambda X: [X.sum(0)] * SIZE),
    "all_reduce mean": (lambda x: F.all_reduce(x, dist.ReduceOp.AVG),
                        lambda X: [X.mean(0)] * SIZE),
    "broadcast": (lambda x: F.broadcast(x, 1), lambda X: [X[1]] * SIZE),
    "reduce": (lambda x: F.reduce(x, 2), lambda X: [X[0], X[1], X.sum(0)]),
    "all_gather": (lambda x: rows(F.all_gather(x[0])), lambda X: [X[:, 0]] * SIZE),
    "gather": (lambda x: rows(F.gather(x[0], 1)), lambda X: [0 * X[0], X[:, 0], 0 * X[0]]),
    "scatter": (lambda x: F.scatter(parts(x), 1), lambda X: [X[1, r] for r in range(SIZE)]),
    "reduce_scatter": (lambda x: F.reduce_scatter(like_parts()[0], parts(x)),
                       lambda X: [X.sum(0)[r] for r in range(SIZE)]),
    "all_to_all": (lambda x: rows(F.all_to_all(like_parts(), parts(x))),
                   lambda X: [X[:, r] for r in range(SIZE)]),
    "all_to_all_single": (lambda x: F.all_to_all_single(rl.empty_like(x), x),
                          lambda X: [X[:, r] for r in range(SIZE)]),
}  # fmt: skip
# Of reduce, what the other ranks hold afterwards is no function of their input.
LOSSES = {"reduce": [0, 0, 1]}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, reference = CASES[name]
    scale = LOSSES.get(name, [1] * SIZE)

    def loss_of_all(X):
        loss = 0.0
        for r, out in enumerate(reference(X)):
            loss += scale[r] * (out**2 * (W[r] if out.ndim == 2 else W[r][0])).sum()
        return loss

    def program(rank):
        x = rl.tensor(X[rank], requires_grad=True)
        out = function(x)
        np.testing.assert_allclose(out.detach().numpy(), reference(X)[rank], rtol=1e-12)
        weight = rl.tensor(W[rank] if out.dim() == 2 else W[rank][0])
        (scale[rank] * out**2 * weight).sum().backward()
        return x.grad.numpy()

    got = dist.simulate(SIZE, program)
    step = 1e-6
    for index in np.ndindex(X.shape):
        moved = X.copy()
        moved[index] += step
        up = loss_of_all(moved)
        moved[index] -= 2 * step
        slope = (up - loss_of_all(moved)) / (2 * step)
        np.testing.assert_allclose(got[index[0]][index[1:]], slope, atol=1e-7, err_msg=str(index))


def test_a_maximum_has_no_gradient():
    def program():
        x = rl.ones(2, requires_grad=True)
        F.all_reduce(x, dist.ReduceOp.MAX).sum().backward()

    with pytest.raises(NotImplementedError, match="gradient of"):
        dist.simulate(2, program)
