"""compile: sum, mean, amax and amin end the pass that makes what they are of, with eager's bits."""

import os
import threading

import numpy as np
import pytest

import rushlight as rl

F = rl.nn.functional
COUNT = int(os.environ.get("RUSHLIGHT_FUSED_FOLD_PROGRAMS", "120"))
SMALL = {"least_elements": 1}
DTYPES = [rl.float32, rl.float32, rl.float64, rl.bfloat16, rl.float16]
# One long row, whose parts threads share; many rows; rows of a few elements; one per segment.
SHAPES = [
    (200_001,), (3, 70_000), (65_537,), (65_536,), (40_000, 3), (9000, 16), (77, 1000), (1000, 77),
    (5, 7, 11, 13), (2, 3, 65_536), (1, 1, 70_000), (130,), (4, 1, 300), (50, 60, 1),
]  # fmt: skip
POINTWISE = [
    lambda x, o: x + o,
    lambda x, o: x * o - x,
    lambda x, o: (x - o).square(),
    lambda x, o: x.tanh(),
    lambda x, o: rl.where(o > 0, x, x * 0.5),
    lambda x, o: x.float().to(x.dtype) + 1,
    lambda x, o: F.silu(x),
]
FOLDS = [rl.sum, rl.mean, rl.amax, rl.amin]


def bits(t):
    t = t.detach()
    t = t.masked_fill(t.isnan(), float("nan"))
    if t.dtype in (rl.float16, rl.bfloat16):
        t = t.view(rl.int16)
    return t.contiguous().numpy().tobytes()


def same(a, b):
    return a.dtype == b.dtype and a.stride() == b.stride() and bits(a) == bits(b)


class Program:
    """Pointwise calls and what folds their results, to be run again on the same inputs."""

    def __init__(self, rng):
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        shape = SHAPES[rng.integers(len(SHAPES))]
        self.values = [rl.tensor(rng.standard_normal(shape), dtype=self.dtype) for _ in range(2)]
        if rng.random() < 0.2:
            odd = rng.choice([np.inf, -np.inf, np.nan])
            self.values[0].view(-1)[rng.integers(self.values[0].numel())] = odd
        self.calls = [POINTWISE[i] for i in rng.integers(len(POINTWISE), size=rng.integers(1, 5))]
        self.folds = [self.fold(rng, len(shape)) for _ in range(rng.integers(1, 4))]
        self.keep = rng.random() < 0.3

    def fold(self, rng, rank):
        fold = FOLDS[rng.integers(len(FOLDS))]
        first = rng.integers(rank)  # now and then other dims than the last ones
        dims = list(range(first, rank)) if rng.random() < 0.8 else [int(first)]
        options = {"keepdim": bool(rng.random() < 0.5)}
        if fold in (rl.sum, rl.mean) and rng.random() < 0.3:
            options["dtype"] = DTYPES[rng.integers(len(DTYPES))]
        return lambda x: fold(x, dims, **options)

    def run(self, backward):
        x, other = (v.clone().requires_grad_(backward) for v in self.values)
        leaves = [x, other]
        for call in self.calls:
            x = call(x, other)
        folded = [fold(x) for fold in self.folds]
        if backward:
            sum(f.double().mean() for f in folded).backward()
            folded += [leaf.grad for leaf in leaves if leaf.grad is not None]
        return [*folded, x] if self.keep else folded


@pytest.mark.parametrize("part", range(6))
def test_random_programs_that_end_in_folds(part):
    fused = rl.compile(Program.run, options=SMALL)
    for seed in range(part * COUNT // 6, (part + 1) * COUNT // 6):
        program = Program(np.random.default_rng(seed))
        for backward in (False, True):
            want, got = program.run(backward), fused(program, backward)
            for a, b in zip(want, got, strict=True):
                assert same(a, b), (seed, backward, program.values[0].shape, program.dtype)


def folded_in(f, *args):
    """The names of the ops of the one pass that there is."""
    told = rl.compiler.explain(rl.compile(f, options=SMALL))(*args)
    (one,) = told.passes
    assert one.fused and same(told.result, f(*args))
    return [s.name for s in one.steps], [s.name for s in one.steps if s.kept]


@pytest.mark.parametrize("fold", FOLDS)
def test_what_is_folded_does_not_go_to_memory(fold):
    x, y = rl.randn(300, 500), rl.randn(500)
    assert folded_in(lambda x, y: fold((x * y + 1).relu(), -1), x, y) == (
        ["mul", "add", "relu", fold.__name__],
        [],
    )


def test_memory_of_a_loss():
    x, y = rl.randn(1 << 20), rl.randn(1 << 20)

    def loss(x, y):
        return ((x - y) ** 2).mean()

    before = rl.memory_stats()["allocated"]
    rl.reset_peak_memory_stats()
    got = rl.compile(loss)(x, y)
    assert rl.memory_stats()["peak"] - before < x.nbytes / 2
    assert same(got, loss(x, y))
    np.testing.assert_allclose(got.item(), np.mean((x - y).numpy() ** 2, dtype="f8"), rtol=1e-6)


def test_what_is_kept_is_folded_where_it_lies():
    def f(x):
        y = (x * 2).tanh()
        return y, y.sum(-1)

    for n in (3000, 1 << 22):  # the second is written past the caches
        x = rl.randn(n // 100, 100)
        for a, b in zip(f(x), rl.compile(f, options=SMALL)(x), strict=True):
            assert same(a, b)


def test_the_same_bits_on_any_number_of_threads():
    def f(x):
        return [(x * 1.5 + 1).sum(), (x * 3).amax(-1), (x - 1).mean((1, 2))]

    x, threads, found = rl.randn(150, 40, 30), rl.get_num_threads(), []
    try:
        for n in (1, 2, 3, 7):
            rl.set_num_threads(n)
            found.append([bits(t) for t in (*f(x), *rl.compile(f, options=SMALL)(x))])
    finally:
        rl.set_num_threads(threads)
    assert all(one == found[0] for one in found) and found[0][:3] == found[0][3:]


@pytest.mark.threads
def test_another_thread_asks_for_it():
    @rl.compile(options=SMALL)
    def f(x):
        y = x * 2 + 1
        waiting, rows, seen = y.sum(), y.amax(-1), []
        other = threading.Thread(target=lambda: seen.extend((waiting.item(), rows.tolist())))
        other.start()
        other.join()
        return seen, waiting, rows

    x = rl.randn(40, 50)
    (total, rows), waiting, largest = f(x)
    assert total == waiting.item() and rows == largest.tolist()
    assert same(waiting, (x * 2 + 1).sum()) and same(largest, (x * 2 + 1).amax(-1))


def test_what_is_folded_later_or_never():
    def f(x):
        y = (x * 2).exp()
        (y + 1).sum()  # nobody holds it
        total = y.sum()
        return total * 2 + y.amax()

    x = rl.randn(300, 300)
    assert same(rl.compile(f, options=SMALL)(x), f(x))
    told = rl.compiler.explain(rl.compile(f, options=SMALL))(x)
    assert [s.name for flush in told.flushes for s in flush.dropped] == ["add", "sum"]


def test_an_input_that_is_written_to_afterwards():
    def f(x):
        total = (x * 2).sum()
        x.add_(1)
        return total, (x * 2).mean()

    x = rl.randn(50, 50)
    for a, b in zip(f(x.clone()), rl.compile(f, options=SMALL)(x.clone()), strict=True):
        assert same(a, b)


def test_errors_come_where_the_line_is():
    @rl.compile(options=SMALL)
    def f(x, dim):
        return (x * 2).amax(dim)

    with pytest.raises(IndexError, match="amax: dim is out of range.*got 2"):
        f(rl.randn(20, 20), 2)
    with pytest.raises(IndexError):
        f(rl.randn(20, 0), 1)
