"""compile: norms, softmax and dropout among pointwise ops equal eager in every bit, and so do their
gradients; random programs, half types, numbers that are none, inputs that lie in any way."""

import os
from dataclasses import dataclass, field

import numpy as np
import pytest

import rushlight as rl

F = rl.nn.functional
COUNT = int(os.environ.get("RUSHLIGHT_FUSED_ROW_PROGRAMS", "120"))
DTYPES = [rl.float32, rl.float32, rl.float64, rl.bfloat16, rl.float16]
SHAPES = [(6, 64), (33, 70), (2, 7, 48), (4, 8, 5, 6), (300, 16), (1, 512), (2, 3, 2100), (70, 1)]


def bits(t):
    """All kinds of NaN count as one: which it is depends on the instruction that found it."""
    t = t.detach()
    t = t.masked_fill(t.isnan(), float("nan"))
    if t.dtype in (rl.float16, rl.bfloat16):
        t = t.view(rl.int16)
    return t.contiguous().numpy().tobytes()


# What a program may do with x, another tensor of its shape, and parameters by width and channels.
POINTWISE = [
    lambda x, o, p: x + o,
    lambda x, o, p: x * o - x,
    lambda x, o, p: F.gelu(x),
    lambda x, o, p: F.silu(x) * o,
    lambda x, o, p: x * p.row + p.other_row,
    lambda x, o, p: rl.where(o > 0, x, x * 0.5),
    lambda x, o, p: F.dropout(x, 0.3, True),
    lambda x, o, p: F.dropout(x, 0.5, True) + o,
    lambda x, o, p: x.float().to(x.dtype) + 1,
    lambda x, o, p: (x + 0.5).relu_(),
]
ROWS = [
    lambda x, p: F.layer_norm(x, x.shape[-1:], p.row, p.other_row),
    lambda x, p: F.layer_norm(x, x.shape[-1:]),
    lambda x, p: F.layer_norm(x, x.shape[1:]),
    lambda x, p: F.rms_norm(x, x.shape[-1:], p.row),
    lambda x, p: F.softmax(x, -1),
    lambda x, p: F.log_softmax(x, -1),
    lambda x, p: F.softmax(x, 0),
]
IMAGES = [
    lambda x, p: F.group_norm(x, 4, p.channel, p.other_channel),
    lambda x, p: F.group_norm(x, 2),
    lambda x, p: F.batch_norm(x, None, None, p.channel, p.other_channel, training=True),
    lambda x, p: F.batch_norm(x, *p.moments, p.channel, p.other_channel, training=True),
    lambda x, p: F.batch_norm(x, *(m + 0 for m in p.moments), p.channel, p.other_channel),
]


@dataclass
class Parameters:
    row: rl.Tensor
    other_row: rl.Tensor
    channel: rl.Tensor | None = None
    other_channel: rl.Tensor | None = None
    moments: list = field(default_factory=list)

    def tensors(self):
        named = (self.row, self.other_row, self.channel, self.other_channel)
        return [t for t in named if t is not None]


class Program:
    """Calls by number, to be run any number of times on copies of the same inputs."""

    def __init__(self, rng):
        self.rng, self.dtype = rng, DTYPES[rng.integers(len(DTYPES))]
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.lies = rng.integers(4)
        self.values = [self.numbers(self.shape) for _ in range(2)]
        self.rows = [self.numbers(self.shape[-1:]) for _ in range(2)]
        image = len(self.shape) == 4
        self.channels = [self.numbers(self.shape[1:2]) for _ in range(2)] if image else []
        rows = ROWS + IMAGES * 2 if image else ROWS
        self.calls = []
        for _ in range(rng.integers(1, 4)):
            self.calls += [POINTWISE[i] for i in rng.integers(len(POINTWISE), size=rng.integers(4))]
            self.calls.append(rows[rng.integers(len(rows))])
        self.calls += [POINTWISE[i] for i in rng.integers(len(POINTWISE), size=rng.integers(3))]
        self.keep = rng.random(len(self.calls)) < 0.25

    def numbers(self, shape):
        values = self.rng.standard_normal(shape)
        if self.rng.random() < 0.2:
            values[self.rng.random(shape) < 0.02] = self.rng.choice([np.inf, -np.inf, np.nan])
        return values

    def lying(self, t):
        if self.lies == 1 and t.dim() == 4:
            return t.contiguous(memory_format=rl.channels_last)
        if self.lies == 2:
            return rl.cat([t, t], 0)[: t.shape[0]]
        if self.lies == 3 and t.dim() >= 2:
            return t.transpose(0, -1).contiguous().transpose(0, -1)
        return t

    def run(self, backward):
        def leaf(values):
            t = rl.tensor(values, dtype=self.dtype)
            return t.requires_grad_() if backward else t

        first, second = (self.lying(rl.tensor(v, dtype=self.dtype)) for v in self.values)
        leaves = [first.requires_grad_(backward), second.requires_grad_(backward)]
        p = Parameters(*map(leaf, self.rows), *map(leaf, self.channels))
        moments = [rl.tensor(np.abs(v), dtype=self.dtype) for v in self.channels]
        p.moments = moments
        rl.manual_seed(3)
        x, kept = leaves[0], []
        for call, keep in zip(self.calls, self.keep, strict=True):
            x = call(x, leaves[1], p) if call in POINTWISE else call(x, p)
            if keep:
                kept.append(x)
        if backward and x.requires_grad:
            x.backward(rl.full_like(x, 0.5))
        grads = [t.grad for t in (*leaves, *p.tensors()) if t.grad is not None]
        return [x, *kept, *moments, *grads]


@pytest.mark.parametrize("part", range(6))
def test_random_programs_over_rows(part):
    fused = rl.compile(Program.run, options={"least_elements": 1})
    rl.compiler.reset()
    for seed in range(part * COUNT // 6, (part + 1) * COUNT // 6):
        program = Program(np.random.default_rng(seed))
        for backward in (False, True):
            want, got = program.run(backward), fused(program, backward)
            assert len(want) == len(got)
            for a, b in zip(want, got, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
                assert bits(a) == bits(b), (seed, backward, program.shape, program.dtype)
    assert rl.compiler.stats()["fused"] > COUNT // 6, rl.compiler.stats()


class Residual(rl.nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.narrow = rl.nn.Conv2d(width, width // 2, 1, bias=False)
        self.wide = rl.nn.Conv2d(width // 2, width, 1)
        self.norms = rl.nn.ModuleList(rl.nn.BatchNorm2d(n) for n in (width // 2, width))

    def forward(self, x):
        y = F.relu(self.norms[0](self.narrow(x)))
        return F.relu(self.norms[1](self.wide(y)) + x)


def test_sums_of_gradients_that_lie_differently():
    """One from a convolution, in a layout of its own, and one that lies as the program sees it: a
    bias gets what is added up in the order in which eager's sum of the two lies."""

    def gradients(compiled):
        rl.manual_seed(0)
        model = rl.nn.Sequential(
            rl.nn.Conv2d(3, 24, 3, 2), rl.nn.BatchNorm2d(24), *(Residual() for _ in range(3)),
            rl.nn.BatchNorm2d(24, affine=False), rl.nn.Flatten(2), rl.nn.AdaptiveAvgPool1d(1),
            rl.nn.Flatten(), rl.nn.Linear(24, 10),
        ).to(memory_format=rl.channels_last).eval()  # fmt: skip
        run = rl.compile(model, options={"least_elements": 1}) if compiled else model
        x = rl.randn(12, 3, 20, 20).requires_grad_()
        for _ in range(2):
            run(x).square().mean().backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    for a, b in zip(gradients(False), gradients(True), strict=True):
        assert bits(a) == bits(b)


def test_what_reads_statistics_comes_before_they_move():
    """A batch norm lets wait what does not read them, and nothing else."""
    norm = rl.nn.BatchNorm1d(5)

    @rl.compile(options={"least_elements": 1})
    def seen_before(x):
        before, beside = norm.running_mean * 2 + 1, x * 2 + 1
        norm(x)
        return before, beside

    x = rl.rand(8, 5)
    before, beside = seen_before(x)
    assert (before == 1).all() and (norm.running_mean > 0).all()
    assert rl.equal(beside, x * 2 + 1)
