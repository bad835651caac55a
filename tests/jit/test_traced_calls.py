"""Scripted functions and modules that are called inside of a trace keep their control flow."""

import warnings
from typing import Dict, List, Optional, Tuple  # noqa: UP035

import pytest

import rushlight as rl
from rushlight import nn

# ruff: noqa: UP006, UP045


@rl.jit.script
def collatz(x, most: int = 100):
    for _ in range(most):
        if bool(x.sum() <= 1):
            break
        if int(x.sum()) % 2 == 0:
            x = x / 2
        else:
            x = 3 * x + 1
    return x


@rl.jit.script
def parts(xs: List[rl.Tensor], extra: Optional[Dict[str, rl.Tensor]] = None):
    found: List[rl.Tensor] = []
    for x in xs:
        found.append(x * 2 if bool(x.sum() > 0) else x)
    named = {"first": found[0]}
    if extra is not None:
        for name, value in extra.items():
            named[name] = value + 1
    return found, (named, xs[0])


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("total", rl.zeros(1))
        self.calls = 0

    def forward(self, x) -> Tuple[rl.Tensor, rl.Tensor]:
        self.calls += 1
        self.total += x.detach().sum()
        if bool(x.sum() > 0):
            return self.fc(x), x
        return -self.fc(x), x * self.calls


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.gate = rl.jit.script(Gate())

    def forward(self, x):
        y, other = self.gate(self.first(x))
        z, _ = self.gate(y)
        return z.view(x.size(0), -1) + other


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args, **kwargs)


def test_branches_and_loops_stay(tmp_path):
    def f(x):
        return collatz(x.abs() + 1) * 10

    traced = quiet(rl.jit.trace, f, rl.tensor([6.0]))
    assert "collatz" in traced.code
    traced.save(tmp_path / "f.rush")
    for program in (traced, rl.jit.load(tmp_path / "f.rush")):
        for start in (6.0, 2.0, 26.0, 0.0):
            x = rl.tensor([start])
            assert rl.equal(program(x), f(x)), start


def test_containers_go_in_and_come_out():
    def f(x, y):
        found, (named, same) = parts([x, y], {"a": x, "b": y * 3})
        return found[0] + found[1], named["a"] * named["b"] + named["first"], same - x

    traced = quiet(rl.jit.trace, f, (rl.ones(3), -rl.ones(3)))
    for signs in ((1, 1), (-1, 1), (-1, -1)):
        x, y = signs[0] * rl.rand(3), signs[1] * rl.rand(3)
        for a, b in zip(traced(x, y), f(x, y), strict=True):
            assert rl.equal(a, b)


def test_scripted_parts_of_a_module_share_their_parameters(tmp_path):
    rl.manual_seed(0)
    net = Outer()
    x = rl.randn(4, 3)
    traced = rl.jit.trace(net, x)
    assert traced.gate.fc.weight is net.gate.fc.weight
    for sign in (1, -1):
        for rows in (4, 7):
            y = sign * rl.rand(rows, 3)
            net.gate.calls, net.gate.total = 5, rl.zeros(1)
            expected, total = net(y), net.gate.total.item()
            setattr(traced, "gate.calls", 5)
            traced.gate.total.zero_()
            assert rl.equal(traced(y), expected) and traced.gate.total.item() == total
    loss = traced(x).sum()
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())
    traced.save(tmp_path / "net.rush")
    again = rl.jit.load(tmp_path / "net.rush")
    assert again(x).shape == (4, 3) and len(list(again.parameters())) == 4


def test_parameters_from_elsewhere_and_numbers():
    gate = rl.jit.script(Gate())
    with pytest.raises(RuntimeError, match="'fc.weight', which is none of the module"):
        rl.jit.trace(lambda x: gate(x)[0], rl.ones(1, 3))

    @rl.jit.script
    def counted(x) -> Tuple[rl.Tensor, int]:
        return x + 1, x.size(0)

    with pytest.warns(rl.jit.TracerWarning, match="returned a number"):
        traced = rl.jit.trace(lambda x: counted(x)[0], rl.ones(2))
    assert traced(rl.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_an_error_inside_leaves_the_trace_whole():
    @rl.jit.script
    def picky(x):
        if bool(x.sum() > 0):
            raise ValueError("positive")
        return x

    def f(x):
        try:
            return picky(x)
        except ValueError:
            return x * 2

    traced = rl.jit.trace(f, rl.ones(2))
    assert traced(rl.ones(2)).tolist() == [2.0, 2.0] and "picky" not in traced.code
