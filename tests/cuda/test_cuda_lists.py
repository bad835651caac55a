"""Passes over lists of tensors on a GPU: values, launches, no waits."""

import math
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import cuda, nn
from rushlight._functions import foreach
from rushlight.optim import swa_utils

sys.path.insert(0, str(Path(__file__).parents[1] / "optim"))
from test_foreach import BINARY, FLOATS

PIECE = 16384  # elements that a block takes
SHAPES = [(3,), (), (0, 2), (PIECE,), (PIECE + 1,), (5, PIECE), (257, 33), (1,)]


@contextmanager
def no_waits():
    cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        cuda.set_sync_debug_mode("default")


def launches(f):
    f()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        f()
    return graph._graph.node_count()


def tensors(dtype=rl.float32, seed=0, low=0.1, high=0.9):
    """The same on both devices. Every other tensor begins where packs do not."""
    r = np.random.default_rng(seed)
    here = [rl.tensor(r.uniform(low, high, s), dtype=dtype) for s in SHAPES * 2]
    there = [t.cuda() for t in here]
    for i, t in enumerate(there[len(SHAPES) :], len(SHAPES)):
        room = rl.zeros(t.numel() + 1, dtype=dtype, device="cuda")
        there[i] = room[1:].view(t.shape).copy_(t)
    return here, there


def tolerance(dtype):
    return {rl.float16: 2e-3, rl.bfloat16: 1e-2, rl.float32: 2e-6, rl.float64: 1e-13}[dtype]


def close(found, expected, dtype):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.is_cuda and a.dtype == b.dtype and a.shape == b.shape
        rl.testing.assert_close(a.cpu(), b, rtol=tolerance(dtype), atol=tolerance(dtype))


def both_ways(op, here, there, *args, dtype, expected):
    with no_waits():
        found = getattr(rl, f"_foreach_{op}")(there, *args)
        assert getattr(rl, f"_foreach_{op}_")(there, *args) is there
    close(found, expected, dtype)
    close(there, expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", foreach._OF_ONE)
def test_unary(op, dtype):
    here, there = tensors(dtype)
    both_ways(op, here, there, dtype=dtype, expected=[getattr(rl, op)(t) for t in here])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, dtype):
    one = foreach._method(op, False)
    y, y_there = tensors(dtype, 1)
    numbers = [0.25 * (i + 1) for i in range(len(y))]
    for other, mine in (
        (y_there, y),
        (0.3, 0.3),
        (2, 2),
        (numbers, numbers),
        (rl.tensor(0.3, dtype=dtype, device="cuda"), rl.tensor(0.3, dtype=dtype)),
    ):
        x, there = tensors(dtype)
        rows = zip(x, mine if isinstance(mine, list) else [mine] * len(x), strict=True)
        both_ways(op, x, there, other, dtype=dtype, expected=[one(a, b) for a, b in rows])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ternary(dtype):
    (a, a_there), (b, b_there) = tensors(dtype, 1), tensors(dtype, 2)
    numbers = [0.1 * i for i in range(len(a))]
    for op in ("addcmul", "addcdiv"):
        one = getattr(rl, op)
        for value in (1, -0.7, numbers):
            x, there = tensors(dtype)
            values = value if isinstance(value, list) else [value] * len(x)
            rows = zip(x, a, b, values, strict=True)
            both_ways(op, x, there, a_there, b_there, value, dtype=dtype,
                      expected=[one(p, q, r, value=v) for p, q, r, v in rows])  # fmt: skip
    weight = rl.tensor(0.6, dtype=rl.float64)
    for given, mine in ((0.3, 0.3), (numbers, numbers), (b_there, b), (weight.cuda(), weight)):
        x, there = tensors(dtype)
        weights = mine if isinstance(mine, list) else [mine] * len(x)
        rows = zip(x, a, weights, strict=True)
        both_ways("lerp", x, there, a_there, given, dtype=dtype,
                  expected=[rl.lerp(p, q, w) for p, q, w in rows])  # fmt: skip


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_copies(dtype, source):
    here, there = tensors(source)
    to = tensors(dtype, 1)[1]
    with no_waits():
        rl._foreach_copy_(to, there)
        copies = rl._foreach_clone(there)
    for a, b in zip(to, here, strict=True):
        assert rl.equal(a.cpu(), b.to(dtype))
    for a, b in zip(copies, here, strict=True):
        assert rl.equal(a.cpu(), b)
    with no_waits():
        rl._foreach_zero_(to)
    assert all((t == 0).all() for t in to)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ord", [1, 2, math.inf, -math.inf])
def test_norms(ord, dtype):
    here, there = tensors(dtype, low=-0.9)
    here, there = ([t for t in x if t.numel()] for x in (here, there))
    with no_waits():
        found = rl._foreach_norm(there, ord)
        total = nn.utils.get_total_norm(there, ord)
        again = nn.utils.get_total_norm(there, ord)
    for a, b in zip(found, here, strict=True):
        assert a.dtype == dtype
        expected = np.linalg.norm(b.double().numpy().reshape(-1), ord)
        np.testing.assert_allclose(a.item(), expected, rtol=max(1e-5, tolerance(dtype)))
    flat = np.concatenate([t.double().numpy().reshape(-1) for t in here])
    if dtype != rl.float16:  # the sum of its magnitudes does not fit
        expected = np.linalg.norm(flat, ord)
        np.testing.assert_allclose(total.item(), expected, rtol=max(1e-5, tolerance(dtype)))
    assert rl.equal(total, again)
    there[3][7] = math.nan
    assert rl._foreach_norm(there, ord)[3].isnan() and nn.utils.get_total_norm(there, ord).isnan()


def test_norms_that_squares_of_floats_would_spoil():
    for scale in (1e25, 1e-25):
        x = [rl.full((1000,), scale, device="cuda"), rl.full((24,), scale, device="cuda")]
        np.testing.assert_allclose(nn.utils.get_total_norm(x).item(), scale * 32, rtol=1e-6)


def parameters(dtype=rl.float32, count=None):
    made = []
    for t in tensors(seed=7, low=-1.0, high=1.0)[1][:count]:
        p = nn.Parameter(rl.zeros_like(t, dtype=dtype))
        p.grad = t.to(dtype)
        made.append(p)
    return made


def flat(ps):
    return np.concatenate([p.grad.double().cpu().numpy().reshape(-1) for p in ps])


@pytest.mark.parametrize("ord", [1.0, 2.0, 3.0, math.inf])
def test_clip_grad_norm(ord):
    ps = parameters() + parameters(rl.float64)
    before = flat(ps)
    with no_waits():
        total = nn.utils.clip_grad_norm_(ps, 0.5, ord)
    np.testing.assert_allclose(total.item(), np.linalg.norm(before, ord), rtol=1e-5)
    np.testing.assert_allclose(flat(ps), before * 0.5 / (total.item() + 1e-6), rtol=1e-5)
    after = [p.grad.clone() for p in ps]
    with no_waits():
        nn.utils.clip_grad_norm_(ps, 1e6, ord)  # short enough
    assert all(rl.equal(p.grad, g) for p, g in zip(ps, after, strict=True))


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_clip_grad_norm_of_what_is_not_finite(bad):
    ps = parameters()
    ps[3].grad[5] = bad
    nn.utils.clip_grad_norm_(ps, 1.0)
    for p in ps:
        assert p.grad.eq(0).logical_or(p.grad.isnan()).all()
    with pytest.raises(RuntimeError, match="error_if_nonfinite"):
        nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    ps = parameters() + parameters(rl.bfloat16)
    ps[3].grad[5] = math.nan
    before = flat(ps)
    with no_waits():
        nn.utils.clip_grad_value_(ps, 0.25)
    np.testing.assert_array_equal(flat(ps), np.clip(before, -0.25, 0.25))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unscale(dtype):
    grads = [p.grad for p in parameters(dtype)]
    expected = [(g.cpu() * 0.125) for g in grads]
    found, inverse = rl.zeros(1, device="cuda"), rl.tensor(0.125, device="cuda")
    with no_waits():
        rl._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    assert all(rl.equal(a.cpu(), b) for a, b in zip(grads, expected, strict=True))
    assert found.item() == 0
    one = rl.ones((), device="cuda")
    for place, bad in ((5, math.inf), (4, math.nan), (8, -math.inf)):
        found.zero_()
        grads[place].view(-1)[-1] = bad
        with no_waits():
            rl._amp_foreach_non_finite_check_and_unscale_(grads, found, one)
        assert found.item() == 1
        grads[place].view(-1)[-1] = 0


def test_scaler():
    p = nn.Parameter(rl.ones(3, device="cuda"))
    optimizer = rl.optim.SGD([p], lr=1.0)
    scaler = rl.amp.GradScaler(init_scale=8.0, growth_interval=2)
    for bad, scale in ((False, 8.0), (False, 16.0), (True, 8.0), (False, 8.0), (False, 16.0)):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        if bad:
            p.grad[1] = math.inf
        before = p.tolist()
        scaler.step(optimizer)
        with no_waits():
            scaler.update()
        assert scaler.get_scale() == scale
        assert p.tolist() == (before if bad else [x - 1 for x in before])


def test_averages_and_zero_grad():
    model = nn.Sequential(nn.Linear(30, 40), nn.BatchNorm1d(40)).cuda()
    moving = swa_utils.get_ema_multi_avg_fn(0.9)
    averages = [swa_utils.AveragedModel(model).cuda(),
                swa_utils.AveragedModel(model, multi_avg_fn=moving).cuda()]  # fmt: skip
    values = []
    for step in range(3):
        with rl.no_grad():
            for p in model.parameters():
                p.normal_()
        with nullcontext() if step == 0 else no_waits():  # the first looks how many there were
            for average in averages:
                average.update_parameters(model)
        values.append([p.detach().cpu().numpy().copy() for p in model.parameters()])
    for i, (p, q) in enumerate(zip(*(a.module.parameters() for a in averages), strict=True)):
        a, b, c = (v[i] for v in values)
        np.testing.assert_allclose(p.detach().cpu().numpy(), (a + b + c) / 3, rtol=1e-5, atol=1e-6)
        expected = 0.9 * (0.9 * a + 0.1 * b) + 0.1 * c
        np.testing.assert_allclose(q.detach().cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
    ps = parameters() + parameters(rl.float16)
    with no_waits():
        rl.optim.SGD(ps, lr=0.1).zero_grad(set_to_none=False)
    assert all(p.grad.eq(0).all() for p in ps)


def test_launches():
    ps = parameters(count=len(SHAPES))  # all aligned
    x, y = [p.grad for p in ps], [p.grad.clone() for p in ps]
    assert launches(lambda: rl._foreach_add_(x, 1)) == 1
    assert launches(lambda: rl._foreach_lerp_(x, y, 0.1)) == 1
    assert launches(lambda: rl._foreach_norm([t for t in x if t.numel()])) == 2
    assert launches(lambda: nn.utils.clip_grad_norm_(ps, 1.0)) <= 6
    assert launches(lambda: nn.utils.clip_grad_value_(ps, 1.0)) == 1
    found, inverse = rl.zeros((), device="cuda"), rl.ones((), device="cuda")
    check = rl._amp_foreach_non_finite_check_and_unscale_
    assert launches(lambda: check(x, found, inverse)) == 1
    assert launches(lambda: rl.optim.SGD(ps, lr=0.1).zero_grad(set_to_none=False)) == 1


def test_more_tensors_than_a_launch_takes():
    x = [rl.full((i % 7 + 1,), float(i), device="cuda") for i in range(200)]
    rl._foreach_add_(x, list(range(200)))
    assert all((t == 2 * i).all() for i, t in enumerate(x))
    expected = math.sqrt(sum((2 * i) ** 2 * (i % 7 + 1) for i in range(200)))
    assert nn.utils.get_total_norm(x).item() == pytest.approx(expected, rel=1e-6)
    for i, norm in enumerate(rl._foreach_norm(x)):
        assert norm.item() == pytest.approx(2 * i * math.sqrt(i % 7 + 1), rel=1e-6)


def test_captured_graphs_replay_lists():
    x = [rl.ones(5, device="cuda"), rl.ones(PIECE + 3, device="cuda")]
    norm = nn.utils.get_total_norm(x)
    rl._foreach_mul_(x, norm * 0 + 1)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        total = nn.utils.get_total_norm(x)
        rl._foreach_mul_(x, 2.0)
    for k in range(3):
        graph.replay()
        assert total.item() == pytest.approx(2**k * math.sqrt(PIECE + 8), rel=1e-6)
    assert all((t == 8).all() for t in x)
    del total, graph
