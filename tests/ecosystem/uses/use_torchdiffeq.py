"""Eleven solvers forward, backward and by the adjoint, events, training of a neural equation"""

import torch
import torchdiffeq
from same import descend, fill, gradients, normal, use
from torch import nn

PACKAGES = ["torchdiffeq"]


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


@use
def solvers(folder):
    field, start, times = (
        fill(Field()).double(),
        normal(3, 2, dtype=torch.float64),
        torch.linspace(0, 1, 5, dtype=torch.float64),
    )
    for name in (
        "dopri5",
        "dopri8",
        "bosh3",
        "fehlberg2",
        "adaptive_heun",
        "euler",
        "midpoint",
        "rk4",
        "explicit_adams",
        "implicit_adams",
        "heun3",
    ):
        start.requires_grad_()
        out = torchdiffeq.odeint(field, start, times, method=name, rtol=1e-6, atol=1e-8)
        yield name, [out, torch.autograd.grad(out[-1].sum(), start)[0]]
    out = torchdiffeq.odeint_adjoint(field, start, times, rtol=1e-8, atol=1e-10)
    out[-1].square().sum().backward()
    yield "adjoint", [out, gradients(field).float(), start.grad.float()]
    yield (
        "scipy",
        torchdiffeq.odeint(
            field, start.detach(), times, method="scipy_solver", options={"solver": "RK45"}
        ).float(),
    )
    both = torchdiffeq.odeint(
        lambda t, y: (y[1], -y[0]), (torch.ones(2).double(), torch.zeros(2).double()), times
    )
    yield "tuples", list(both)


@use
def events(folder):
    def fall(t, state):
        return state[1], torch.full_like(state[1], -9.8)

    start = (torch.tensor([10.0], dtype=torch.float64), torch.tensor([0.0], dtype=torch.float64))
    when, states = torchdiffeq.odeint_event(
        fall,
        start,
        torch.tensor(0.0, dtype=torch.float64),
        event_fn=lambda t, s: s[0],
        odeint_interface=torchdiffeq.odeint,
        atol=1e-8,
        rtol=1e-8,
    )
    yield "landing", [when, states[1][-1]]


@use
def training(folder):
    field, start, times = fill(Field()), normal(4, 2), torch.linspace(0, 1, 4)
    target = torch.stack([start * torch.cos(t) for t in times])
    yield (
        "losses",
        descend(
            field,
            lambda step: (
                (torchdiffeq.odeint_adjoint(field, start, times, rtol=1e-6, atol=1e-7) - target)
                .square()
                .mean()
            ),
            4,
        ),
    )
