"""The GPU's allocator at work: no driver calls once it is warm, no gaps, full and recovered."""

import gc
import random

import pytest

import rushlight as rl
from rushlight import nn

cuda = rl.cuda
MB = 2**20


def driver_calls():
    stats = cuda.memory_stats()
    return stats["num_device_alloc"] + stats["num_device_free"]


def test_a_training_loop_asks_the_driver_only_once():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    ).cuda()  # fmt: skip
    opt = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = rl.randn(64, 3, 64, 64, device="cuda"), rl.randint(0, 10, (64,), device="cuda")

    def step():
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    step()
    step()
    before = driver_calls()
    for _ in range(5):
        step()
    assert driver_calls() == before


def test_random_lengths_leave_no_gaps():
    gc.collect()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    random.seed(3)
    layer = nn.Linear(512, 512).cuda()
    most, early = 0, 0
    for step in range(150):
        n = random.randint(1, 200)
        h = rl.randn(n, 64, 512, device="cuda")
        for _ in range(6):
            h = layer(h).relu()
        h.sum().backward()
        layer.zero_grad()
        most = max(most, cuda.max_memory_allocated())
        if step == 50:
            early = cuda.memory_reserved()
    assert cuda.memory_reserved() <= early * 1.25 + 64 * MB
    assert cuda.max_memory_reserved() <= most * 1.25 + 64 * MB


def test_a_full_gpu_is_explained_and_half_the_batch_runs():
    model = nn.Linear(1024, 1024).cuda()
    cuda.empty_cache()
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction(min(1.0, (cuda.memory_reserved() + 600 * MB) / total))

    def step(batch):
        x = rl.ones(batch, 1024, device="cuda")
        for _ in range(8):
            x = model(x).relu()
        x.sum().backward()
        model.zero_grad()
        return batch

    try:
        batch, texts = 65536, []
        while True:
            try:
                done = step(batch)
                break
            except cuda.OutOfMemoryError as error:
                texts.append(str(error))
                batch //= 2
        assert texts and done < 65536
        for part in ("parameters 4.0", "activations", "The largest live tensors", "float32 [",
                     "Linear.weight", "test_cuda_memory.py", "smaller batch",
                     "set_per_process_memory_fraction"):  # fmt: skip
            assert part in texts[0], texts[0]
        assert step(batch) == batch
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def test_growth_and_release_of_virtual_memory():
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_reserved()
    a = rl.ones(100 * MB, dtype=rl.uint8, device="cuda")
    b = rl.ones(50 * MB, dtype=rl.uint8, device="cuda")
    c = rl.ones(100 * MB, dtype=rl.uint8, device="cuda")
    del b
    cuda.empty_cache()  # the middle goes back, its neighbours stay
    assert cuda.memory_reserved() - before < 240 * MB
    assert bool((a == 1).all()) and bool((c == 1).all())
    d = rl.full((50 * MB,), 2, dtype=rl.uint8, device="cuda")
    assert bool((a == 1).all()) and bool((c == 1).all()) and bool((d == 2).all())
    del a, c, d
    cuda.empty_cache()
    assert cuda.memory_reserved() <= before


@pytest.mark.parametrize("name", ["cuda_caching_allocator", "cuda_blocking"])
def test_settings_change_no_results(name):
    gc.collect()
    if cuda.memory_allocated():
        pytest.skip("another test's tensors are alive")
    with rl.config.patch(**{name: not getattr(rl.config, name)}):
        rl.manual_seed(0)
        x = rl.randn(64, 64, device="cuda")
        got = (x @ x).relu().sum().item()
        del x
        gc.collect()
    rl.manual_seed(0)
    x = rl.randn(64, 64)
    assert got == pytest.approx((x @ x).relu().sum().item(), rel=1e-4)


def test_snapshot_and_summary():
    x = rl.ones(4 * MB, dtype=rl.uint8, device="cuda")
    blocks = [b for s in cuda.memory_snapshot() for b in s["blocks"]]
    mine = next(b for b in blocks if b["address"] == x.data_ptr())
    assert mine["state"] == "active_allocated" and mine["requested_size"] == 4 * MB
    assert mine["frames"][0]["filename"].endswith("test_cuda_memory.py")
    assert "Memory of cuda:0" in cuda.memory_summary()
    live = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    assert live == cuda.memory_allocated()
