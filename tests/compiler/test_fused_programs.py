"""compile: fused equals eager in every bit, for random programs over the table's pointwise ops."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "codegen"))
import schema  # noqa: E402

COUNT = int(os.environ.get("RUSHLIGHT_FUSED_PROGRAMS", "500"))
FLOATS = [rl.float32, rl.float64, rl.float16, rl.bfloat16]
SHAPES = [(), (1,), (7,), (513,), (2, 3), (64, 70), (3, 1, 5), (2, 8, 5, 6), (0, 4), (4100,)]


def table():
    """The public pointwise ops that take one, two or three tensors, and need nothing else."""
    rows = schema.load_all(sorted((ROOT / "csrc" / "ops").glob("*/*.yaml")))
    found = {}
    for row in rows:
        needed = [a for a in row.args if a.default is None and not a.optional]
        if not row.pointwise or row.name.startswith("_") or not 1 <= len(needed) <= 3:
            continue
        if all(a.kind in ("Tensor", "Operand") for a in needed) and hasattr(rl, row.name):
            found[row.name] = (getattr(rl, row.name), len(needed))
    return list(found.values())


OPS = table()


def test_the_table_has_ops_of_each_kind():
    counts = [sum(n == k for _, n in OPS) for k in (1, 2, 3)]
    assert counts[0] > 50 and counts[1] > 30 and counts[2] > 2, counts


def add_one(x):
    return x.add_(1) if x.is_floating_point() else x


class Program:
    """A list of calls by number, so that it can be run again on the same inputs."""

    def __init__(self, rng):
        self.rng = rng
        self.inputs = [self.tensor(rng) for _ in range(rng.integers(1, 4))]
        self.calls = [self.call(rng) for _ in range(rng.integers(2, 14))]
        self.keep = rng.random(len(self.calls) + 1) < 0.3

    def tensor(self, rng):
        shape = SHAPES[rng.integers(len(SHAPES))]
        values = rng.standard_normal(shape) * 3
        odd = rng.random(shape) < 0.02
        values = np.where(odd, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30]), values)
        t = rl.tensor(values).to(FLOATS[rng.integers(len(FLOATS))])
        if t.dim() >= 2 and rng.random() < 0.3:
            t = t.transpose(0, 1)
        if t.dim() == 4 and rng.random() < 0.3:
            t = t.contiguous(memory_format=rl.channels_last)
        if t.dim() >= 1 and t.shape[0] > 3 and rng.random() < 0.2:
            t = t[1::2]
        return t

    def call(self, rng):
        if rng.random() < 0.1:
            to = FLOATS[rng.integers(len(FLOATS))]
            return lambda x: x.to(to), 1, rng.integers(1 << 30, size=1)
        if rng.random() < 0.15:
            number = float(rng.standard_normal())
            return lambda x: x * number, 1, rng.integers(1 << 30, size=1)
        if rng.random() < 0.1:
            return (
                lambda x: x.add_(1) if x.is_floating_point() else x,
                1,
                rng.integers(1 << 30, size=1),
            )
        f, n = OPS[rng.integers(len(OPS))]
        return f, n, rng.integers(1 << 30, size=n)

    def run(self, inputs):
        values, raised, kept = list(inputs), [], []
        # In-place calls must not reach the inputs: both runs share them.
        values = [v * 1 for v in values]
        for keep, (f, _, picks) in zip(self.keep, self.calls, strict=False):
            args = [values[p % len(values)] for p in picks]
            try:
                out = f(*args)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                raised.append(type(error).__name__)
                continue
            raised.append(None)
            if not isinstance(out, rl.Tensor) or out.numel() > 1 << 20:
                continue
            values.append(out)
            if keep:
                kept.append(out)
            elif len(values) > 4:
                values.pop(int(picks[0]) % len(values))
        return raised, [*kept, *values[-2:]]


def bits(t):
    t = t.detach()
    if t.dtype in (rl.float16, rl.bfloat16):
        t = t.view(rl.int16)
    return t.contiguous().numpy().tobytes()


def check(want, got):
    assert want[0] == got[0], "the same calls raise"
    for a, b in zip(want[1], got[1], strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        assert bits(a) == bits(b), (a, b)


@pytest.mark.parametrize("part", range(10))
def test_random_programs(part):
    fused = rl.compile(lambda p: p.run(p.inputs), options={"least_elements": 1})
    rl.compiler.reset()
    for seed in range(part * COUNT // 10, (part + 1) * COUNT // 10):
        program = Program(np.random.default_rng(seed))
        check(program.run(program.inputs), fused(program))
    assert rl.compiler.stats()["fused"] > COUNT // 10, rl.compiler.stats()


def gradients(f, inputs):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = f(*leaves)
    out.backward(rl.ones_like(out))
    return [out, *(x.grad for x in leaves)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_chains(dtype):
    def chain(x, y):
        a = (x * y + 0.5).tanh() * x.sigmoid()
        b = rl.nn.functional.gelu(a) / (y.abs() + 1)
        return rl.where(b > 0, b, a * 2).exp()

    x, y = (rl.randn(70, 80).to(dtype) for _ in range(2))
    want = gradients(chain, (x, y))
    rl.compiler.reset()
    got = gradients(rl.compile(chain), (x, y))
    assert rl.compiler.stats()["fused"] >= 20, "backward outside of the function is fused, too"
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and bits(a) == bits(b)
