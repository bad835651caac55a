"""What nodes are called in print: PyTorch's names for the ops that programs print most."""

import pytest

import rushlight as rl
from rushlight.nn import functional as F

X = rl.tensor([[0.5, -1.0], [2.0, 0.3]], requires_grad=True)
NAMES = {
    "AddmmBackward0": lambda: F.linear(X, rl.ones(3, 2), rl.ones(3, requires_grad=True)),
    "MmBackward0": lambda: F.linear(X, rl.ones(3, 2)),
    "NllLossBackward0": lambda: F.cross_entropy(X, rl.tensor([0, 1])),
    "PowBackward0": lambda: X.square(),
    "LinalgDetBackward0": lambda: rl.linalg.det(X),
    "LinalgSvdBackward0": lambda: rl.linalg.svd(X)[1],
    "LinalgInvExBackward0": lambda: rl.linalg.inv(X),
    "TransposeBackward0": lambda: X.swapaxes(0, 1),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_node(name):
    y = NAMES[name]()
    assert y.grad_fn.name() == name
    assert f"grad_fn=<{name}>" in repr(y)
    assert type(y.grad_fn).__name__ == name


def test_the_transpose_of_a_number_is_the_number():
    x = rl.tensor(2.0)
    assert x.mT == 2 and x.mH == 2
