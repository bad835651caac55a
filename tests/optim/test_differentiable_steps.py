"""differentiable=True: gradients flow through the steps, back to the first parameters."""

import pytest

import rushlight as rl
from rushlight import optim
from rushlight.autograd import gradcheck

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.9, 0.5)}),
    ("Adamax", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adadelta", {"lr": 0.1, "rho": 0.5}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True}),
    ("ASGD", {"lr": 0.1, "t0": 1.0}),
    ("Rprop", {"lr": 0.1}),
]


def steps(name, options, first, target):
    """The parameter after three steps towards the target, as a function of both."""
    with rl.enable_grad():
        p = first.clone()
        optimizer = getattr(optim, name)([p], differentiable=True, **options)
        for _ in range(3):
            now = p.clone()  # the step writes to p, which the loss keeps
            loss = ((now.sin() - target) ** 2).sum() + now.prod()
            (p.grad,) = rl.autograd.grad(loss, now, create_graph=True)
            optimizer.step()
        return p


@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{n}{i}" for i, (n, _) in enumerate(CASES)]
)
def test_gradients_flow_through_steps(name, options):
    first = rl.tensor([0.3, -0.8, 1.7], dtype=rl.float64, requires_grad=True)
    target = rl.tensor([0.9, 0.2, -0.4], dtype=rl.float64, requires_grad=True)
    assert gradcheck(lambda a, b: steps(name, options, a, b), (first, target), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{n}{i}" for i, (n, _) in enumerate(CASES)]
)
def test_the_values_are_those_of_ordinary_steps(name, options):
    first = rl.tensor([0.3, -0.8, 1.7], dtype=rl.float64)
    target = rl.tensor([0.9, 0.2, -0.4], dtype=rl.float64)
    recorded = steps(name, options, first.clone().requires_grad_(), target).detach()
    p = first.clone().requires_grad_()
    optimizer = getattr(optim, name)([p], **options)
    for _ in range(3):
        optimizer.zero_grad()
        (((p.sin() - target) ** 2).sum() + p.prod()).backward()
        optimizer.step()
    assert rl.allclose(recorded, p.detach(), rtol=1e-12, atol=1e-12)


def test_what_does_not_go_together():
    p = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="differentiable"):
        optim.Adam([p], differentiable=True, foreach=True)
    rate = rl.tensor(0.1, requires_grad=True)
    optimizer = optim.SGD([p.clone()], lr=rate, differentiable=True)
    optimizer.param_groups[0]["params"][0].grad = rl.ones(2)
    with pytest.raises(NotImplementedError, match="options are used as numbers"):
        optimizer.step()
    leaf = optim.SGD([p], lr=0.1, differentiable=True)
    p.grad = rl.ones(2)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.step()


def test_groups_are_set_apart_in_print():
    a, b = rl.ones(1, requires_grad=True), rl.ones(1, requires_grad=True)
    shown = repr(optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.2}], lr=0.1))
    assert "weight_decay: 0\n\nParameter Group 1\n" in shown
