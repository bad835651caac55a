"""profile_memory=True: every block that came or went, the line that made it, and what it is for."""

import json
import os
import threading

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.profiler import profile
from rushlight.profiler._memory import CATEGORIES
from rushlight.utils.data import DataLoader, TensorDataset


def live(history):
    return history.before["cpu"] + sum(change for _, d, change, _ in history.changes if d == "cpu")


def by_category(history, time):
    sums = dict.fromkeys(CATEGORIES, 0)
    for block in history.live_at(time, "cpu"):
        sums[CATEGORIES[block.category]] += block.bytes
    return sums


def train(steps, model, optimizer, x, y):
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def trained():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = rl.optim.Adam(model.parameters())
    x, y = rl.randn(512, 64), rl.randint(0, 10, (512,))
    with profile(profile_memory=True, with_modules=True) as prof:
        train(3, model, optimizer, x, y)
        at_the_end = rl.memory_stats()["allocated"]
    return prof, model, at_the_end


def test_what_is_live_is_what_the_allocator_says(trained):
    prof, _, at_the_end = trained
    # Closing the profile itself allocates no tensors.
    assert live(prof.events().memory) == at_the_end


def test_categories(trained):
    prof, model, _ = trained
    history = prof.events().memory
    time, peak = history.peak("cpu")
    sums = by_category(history, time)
    parameters = sum(p.numel() * 4 for p in model.parameters())
    room = 64 * 1024  # headers and rounding
    assert 0 <= sums["parameters"] - parameters <= room
    assert 0 <= sums["gradients"] - parameters <= room or sums["gradients"] < parameters
    # Two moments per parameter, and a count of steps.
    assert 0 <= sums["optimizer states"] - 2 * parameters <= room
    # What relu returned, at the least: 512 x 256 floats.
    assert sums["activations"] >= 512 * 256 * 4
    assert 0 <= sums["inputs"] - 512 * 64 * 4 <= room
    assert sum(sums.values()) <= peak


def test_gradients_that_are_gone_at_the_end_were_gradients():
    w = nn.Linear(128, 128)
    optimizer = rl.optim.SGD(w.parameters(), lr=0.1)
    with profile(profile_memory=True) as prof:
        w(rl.ones(4, 128)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    gradients = [
        b for b in prof.events().memory.blocks if CATEGORIES[b.category] == "gradients" and b.end
    ]
    assert max(b.bytes for b in gradients) >= 128 * 128 * 4


def test_the_line_that_made_a_block():
    with profile(profile_memory=True) as prof:
        kept = rl.empty(300_000)
    largest = max(prof.events().memory.blocks, key=lambda b: b.bytes)
    assert largest.bytes >= kept.numel() * 4 and largest.end is None
    assert largest.event.name == "aten::empty"
    assert largest.source.endswith("test_the_line_that_made_a_block")


def test_what_was_there_before_and_goes():
    old = rl.empty(1 << 18)
    with profile(profile_memory=True) as prof:
        del old
    block = max(prof.events().memory.blocks, key=lambda b: b.bytes)
    assert block.begin is None and block.end is not None and block.bytes >= 1 << 20
    freed = [e for e in prof.events() if e.name == "[memory]"]
    assert sum(e.cpu_memory_usage for e in freed) <= -(1 << 20)


@pytest.mark.threads
def test_memory_of_other_threads_is_theirs():
    x = rl.ones(1 << 16)

    def work():
        x.exp()

    with profile(profile_memory=True) as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        x.sin()
    events = prof.events()
    for name in ("aten::exp", "aten::sin"):
        (event,) = [e for e in events if e.name == name]
        assert event.cpu_memory_usage >= (1 << 16) * 4
    assert live(events.memory) == pytest.approx(rl.memory_stats()["allocated"], abs=1 << 16)


def test_batches_of_loaders_are_inputs():
    data = TensorDataset(rl.zeros(64, 1000), rl.zeros(64))
    with profile(profile_memory=True) as prof:
        batches = list(DataLoader(data, batch_size=16))
    inputs = [b for b in prof.events().memory.blocks if CATEGORIES[b.category] == "inputs"]
    assert len([b for b in inputs if b.bytes >= 16 * 1000 * 4]) == len(batches) == 4


def test_memory_events_in_traces(trained, tmp_path):
    prof, _, at_the_end = trained
    prof.export_chrome_trace(tmp_path / "trace.json")
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    memory = [line for line in lines if line["name"] == "[memory]"]
    assert memory and all(
        line["ph"] == "i" and line["cat"] == "cpu_instant_event" for line in memory
    )
    last = memory[-1]["args"]
    assert last["Total Allocated"] == at_the_end
    assert {"Bytes", "Addr", "Device Id", "Device Type", "Total Reserved"} <= set(last)


def test_two_profiles_at_once():
    with profile(profile_memory=True) as outer:
        with profile(profile_memory=True) as inner:
            a = rl.empty(1 << 18)
        b = rl.empty(1 << 18)
    large = [
        len([k for k in p.events().memory.blocks if k.bytes >= 1 << 20]) for p in (inner, outer)
    ]
    assert large == [1, 2] and a.shape == b.shape


def test_a_profile_without_memory_has_no_blocks():
    with profile() as prof:
        rl.ones(3) + 1
    assert prof.events().memory.blocks == [] and prof.events()[0].cpu_memory_usage == 0


def test_meta_tensors_have_blocks():
    with profile(profile_memory=True) as prof:
        x = rl.empty(1000, 1000, device="meta")
        y = x @ x
    sizes = [b.bytes for b in prof.events().memory.blocks if b.device == "meta"]
    assert sizes == [4_000_000, 4_000_000] and y.is_meta


def test_a_fork_stops_listening():
    with profile(profile_memory=True):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                x = rl.ones(100) + 1
                code = 0 if x.sum() == 200 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_fast_path_comes_back():
    with profile(profile_memory=True):
        pass
    before = rl.memory_stats()["allocations"]
    x = rl.ones(4)
    y = x + x
    assert rl.memory_stats()["allocations"] > before and y.sum() == 8
