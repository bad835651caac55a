"""Memory: it returns at once, nothing leaks, and a failed allocation harms nobody.

memory_stats() and _fail_nth_allocation are Rushlight's own, so PyTorch cannot stand in here.
"""

import gc

import pytest

import rushlight as rl

if not hasattr(rl, "memory_stats"):
    pytest.skip("memory_stats is Rushlight's own", allow_module_level=True)

MB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _only_own_objects():
    """These call gc.collect() a thousand times: it need not look at what other tests left."""
    gc.collect()
    gc.freeze()


def allocated():
    return rl.memory_stats()["allocated"]


def test_keys():
    stats = rl.memory_stats()
    assert {"allocated", "reserved", "peak"} <= set(stats)
    assert all(isinstance(v, int) for v in stats.values())
    assert 0 <= stats["allocated"] <= stats["reserved"] and stats["allocated"] <= stats["peak"]


def test_memory_returns_at_once():
    gc.disable()
    try:
        before = allocated()
        x = rl.empty(4 * MB, dtype=rl.uint8)
        assert 4 * MB <= allocated() - before <= 5 * MB
        y = x[10:]
        del x
        assert allocated() - before >= 4 * MB
        del y
        assert allocated() == before
    finally:
        gc.enable()


def test_peak():
    x = rl.empty(8 * MB, dtype=rl.uint8)
    assert rl.memory_stats()["peak"] >= 8 * MB
    del x


def refused(x):
    with pytest.raises(RuntimeError):
        x + rl.ones(3)


def programs():
    x, i = rl.ones(64, 64), rl.tensor([1, 0])
    yield "pointwise", lambda: (x + x * 2 - x.exp()).relu()
    yield "reduce", lambda: (x.sum(0), x.max(1), x.std(), x.cumsum(0))
    yield "index", lambda: (x[i], x[x > 0], x[1:, ::2], x[None, ..., 0])
    yield "set", lambda: x.clone().__setitem__(i, 0.0)
    yield "matmul", lambda: x @ x
    yield "sort", lambda: (x.sort(), x.topk(3), x.unique())
    yield "views", lambda: x.t().reshape(-1).view(32, 128).chunk(4)
    yield "numpy", lambda: rl.from_numpy(x.numpy())
    yield "dlpack", lambda: (rl.from_dlpack(x), x.__dlpack__())
    yield "error", lambda: refused(x)
    yield "repr", lambda: repr(x)
    yield "random", lambda: (rl.randn(100), rl.randperm(10))
    yield "grad", lambda: (x.clone().requires_grad_() ** 2).sum().backward()


@pytest.mark.parametrize(
    "name, program", list(programs()), ids=lambda v: v if type(v) is str else ""
)
def test_no_leak(name, program):
    for _ in range(3):
        program()
    gc.collect()
    before = allocated()
    for _ in range(20):
        program()
    gc.collect()
    assert allocated() == before


def test_a_long_graph_is_freed_without_recursion():
    before = allocated()
    x = rl.ones(1, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + 1
    del x, y
    gc.collect()
    assert allocated() == before


@pytest.mark.parametrize(
    "name, program", list(programs()), ids=lambda v: v if type(v) is str else ""
)
def test_every_allocation_may_fail(name, program):
    """Fails the n-th allocation for n = 0, 1, ... until the program runs through."""
    fail = getattr(rl._C, "_fail_nth_allocation", None)
    if fail is None:
        pytest.skip("built without fault injection")
    program()
    gc.collect()
    before = allocated()
    for n in range(60):
        fail(n)
        try:
            program()
        except (MemoryError, RuntimeError, AssertionError):
            pass
        else:
            if n > 20:
                break
        finally:
            fail(-1)
        gc.collect()
        assert allocated() == before, f"{name}: leak when allocation {n} fails"
    assert rl.ones(3).sum().item() == 3
