"""Without fusion (config.fused_optimizer = False) a step computes the same."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import config, optim

CASES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (optim.Adam, {}),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    (optim.AdamW, {"weight_decay": 0.1}),
    (optim.AdamW, {"weight_decay": 0.1, "amsgrad": True}),
    (optim.NAdam, {"weight_decay": 0.1}),
    (optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, {"weight_decay": 0.1, "betas": (0.9, 0.6)}),
    (optim.RAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    (optim.Adamax, {"weight_decay": 0.1, "maximize": True}),
    (optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}),
    (optim.Adadelta, {"lr": 0.5, "weight_decay": 0.1, "maximize": True}),
    (optim.RMSprop, {"weight_decay": 0.1}),
    (optim.RMSprop, {"momentum": 0.9}),
    (optim.RMSprop, {"centered": True}),
    (optim.RMSprop, {"centered": True, "momentum": 0.9, "maximize": True}),
    (optim.Rprop, {"maximize": True}),
    (optim.ASGD, {"t0": 3, "lambd": 0.1, "weight_decay": 0.1}),
]


def train(cls, options, fused, dtype=rl.float64):
    rng = np.random.default_rng(0)
    params = [
        rl.nn.Parameter(rl.from_numpy(rng.standard_normal(shape)).to(dtype))
        for shape in ((3, 5), (7,), (), (0, 4))
    ]
    params.append(rl.nn.Parameter(rl.ones(3, dtype=dtype)))  # never gets a gradient
    optimizer = cls(params, **options)
    with config.patch(fused_optimizer=fused):
        for step in range(6):
            for i, p in enumerate(params[:-1]):
                late = step == 0 and i == 1  # its states begin a step later
                p.grad = None if late else rl.from_numpy(rng.standard_normal(p.shape)).to(dtype)
            optimizer.step()
    states = [t for p in params for t in optimizer.state.get(p, {}).values()]
    return [*params, *states]


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_both_forms_agree(cls, options):
    fused, apart = train(cls, options, True), train(cls, options, False)
    assert len(fused) == len(apart)
    for a, b in zip(fused, apart, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.RMSprop])
def test_complex_parameters(cls):
    results = []
    for fused in (True, False):
        p = rl.nn.Parameter(rl.tensor([1 + 2j, -1j], dtype=rl.complex128))
        optimizer = cls([p], lr=0.1)
        with config.patch(fused_optimizer=fused):
            for step in range(4):
                p.grad = rl.tensor([step - 1j, 2 + 1j * step], dtype=rl.complex128)
                optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-9)


def test_a_schedule_and_the_switch_in_the_middle():
    p = rl.nn.Parameter(rl.ones(4, dtype=rl.float64))
    q = rl.nn.Parameter(rl.ones(4, dtype=rl.float64))
    one, other = optim.Adam([p], lr=0.1), optim.Adam([q], lr=0.1)
    for step in range(6):
        p.grad = q.grad = rl.arange(4, dtype=rl.float64) - step
        one.step()
        with config.patch(fused_optimizer=step % 2 == 0):
            other.step()
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-9)
