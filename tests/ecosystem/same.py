"""What the uses share: weights and data that NumPy makes, so that both libraries start equal (their
random numbers differ), and figures that are written down as plain JSON.

A file of `uses/` has functions marked `@use`. Each takes an empty folder and yields pairs of a name
and a figure: a tensor, an array, a number, a text, or a list or dict of them.
"""

import dataclasses
import zlib

import numpy as np
import torch

USES = []
KEPT = 48  # values of a larger tensor that are written down, evenly spaced


def use(function):
    """Marks a function as one to run and to compare."""
    USES.append(function)
    return function


@dataclasses.dataclass
class Statistic:
    """A figure that random numbers took part in: compared within `within`, whatever the dtype."""

    value: float
    within: float


def rng(*key):
    return np.random.default_rng([zlib.crc32(str(part).encode()) for part in key])


def normal(*shape, key=0, dtype=torch.float32):
    return torch.tensor(rng("normal", key).standard_normal(shape)).to(dtype)


def integers(low, high, *shape, key=0):
    return torch.tensor(rng("integers", key).integers(low, high, shape))


def pixels(height, width, key=0):
    """A picture as (height, width, 3) bytes: waves, as noise survives no codec and no resizing."""
    y, x = np.mgrid[:height, :width]
    phases = rng("pixels", key).uniform(0, 6, (3, 3))
    waves = [np.sin(a + x / 5) + np.cos(b + y / 7) + np.sin(c + (x + y) / 9) for a, b, c in phases]
    return (np.stack(waves, -1) * 40 + 128).astype(np.uint8)


@torch.no_grad()
def fill(module, key=0, scale=1.0):
    """Gives every parameter values that depend on its name and `key` alone; returns the module."""
    for name, parameter in module.named_parameters():
        values = rng("parameter", key, name).standard_normal(tuple(parameter.shape))
        if parameter.ndim > 1:
            values *= scale / max(1, np.prod(parameter.shape[1:])) ** 0.5
        else:
            values = 0.1 * values + (1 if name.endswith("weight") else 0)
        parameter.copy_(torch.tensor(values).to(parameter.dtype))
    return module


def gradients(module):
    """The norm of the gradient of every parameter, in the order of the names."""
    named = sorted(module.named_parameters())
    return torch.stack([p.grad.detach().norm() for _, p in named if p.grad is not None])


def descend(module, loss_of, steps=5, optimizer=None):
    """The losses of a few steps of training."""
    optimizer = optimizer or torch.optim.AdamW(module.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def plain(value):
    """A figure as JSON holds it."""
    if isinstance(value, Statistic):
        return {"statistic": float(value.value), "within": value.within}
    if isinstance(value, torch.Tensor):
        value = value.detach()
        dtype = str(value.dtype).removeprefix("torch.")
        return _array(
            value.to(torch.float32 if dtype == "bfloat16" else value.dtype)
            .cpu()
            .resolve_conj()
            .numpy(),
            dtype,
        )
    if isinstance(value, (np.ndarray, np.integer, np.bool_)):
        return _array(np.asarray(value), str(value.dtype))
    if isinstance(value, dict):
        return {"dict": {str(name): plain(one) for name, one in value.items()}}
    if isinstance(value, (list, tuple)):
        return {"list": [plain(one) for one in value]}
    if value is None or isinstance(value, (bool, int, str)):
        return {"exact": value}
    return _array(
        np.asarray(float(value)), "float32"
    )  # a loss that went through `.item()`, or a mean of such


def _array(array, dtype):
    if np.iscomplexobj(array):
        return {"complex": [_array(array.real, "float32"), _array(array.imag, "float32")]}
    flat = array.reshape(-1)
    kept = flat[np.linspace(0, len(flat) - 1, KEPT).astype(int)] if len(flat) > KEPT else flat
    facts = {"dtype": dtype, "shape": list(array.shape), "values": [_rounded(v) for v in kept]}
    if len(flat) > KEPT:
        facts["norm"] = _rounded(np.sqrt(np.square(flat.astype(np.float64)).sum()))
    return facts


def _rounded(value):
    return float(f"{value:.12g}") if isinstance(value, (float, np.floating)) else value.item()
