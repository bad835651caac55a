"""What the library does beside ops, in profiles: fused passes, replays, collectives."""

import threading

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.profiler import profile


def named(prof, name):
    return [e for e in prof.events() if e.name == name]


def test_fused_passes_are_ops():
    f = rl.compile(lambda x, y: ((x + y) * 2).relu())
    x, y = rl.randn(100, 100), rl.randn(100, 100)
    f(x, y)
    with profile() as prof:
        f(x, y).sum()
    (fused,) = named(prof, "fused(add, mul, relu)")
    assert not fused.is_user_annotation and fused.time_range.elapsed_us() > 0
    assert "fused(add, mul, relu)" in prof.key_averages().table()
    assert prof.key_averages()[0].count  # averages take it as any op


def test_replays_hold_their_ops():
    f = rl.compile(lambda x: (x @ x).softmax(0), mode="frozen")
    x = rl.randn(8, 8)
    for _ in range(5):
        f(x)
    with profile() as prof:
        for _ in range(3):
            f(x)
    replays = named(prof, "frozen function")
    assert replays and all(not e.is_user_annotation for e in replays)
    assert any(c.name == "aten::matmul" or c.name == "aten::mm" for c in replays[0].cpu_children)


@pytest.mark.threads
def test_collectives_are_communication():
    def rank():
        x = rl.ones(4)
        with profile() as prof:
            dist.all_reduce(x)
            dist.all_reduce(x, async_op=True).wait()
        mine = [e for e in prof.events() if e.system_thread == threading.get_native_id()]
        return [e.name for e in mine if e.name.startswith("c10d::")]  # ranks are threads here

    for names in dist.simulate(2, rank):
        assert names == ["c10d::all_reduce", "c10d::all_reduce", "c10d::wait"]
