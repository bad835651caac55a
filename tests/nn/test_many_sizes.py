"""Ever new shapes of images: what oneDNN compiles for them is bounded, and memory with it."""

import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import config

PROGRAM = """
import rushlight as rl
from rushlight import config, nn

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
optimizer = rl.optim.SGD(model.parameters(), lr=0.1)

def step(height, width):
    optimizer.zero_grad()
    out = model(rl.ones(2, 3, height, width))
    nn.functional.cross_entropy(out, rl.tensor([0, 1])).backward()
    optimizer.step()

config.primitive_cache_limit = 4 << 20
for _ in range(3):
    step(40, 40)
before = resident()
for i in range(150):
    step(20 + i % 15, 20 + i // 15)
stats = config.primitive_cache_stats()
assert stats["bytes"] <= 4 << 20, stats
if rl._C._onednn_level() is not None:
    assert stats["evictions"] > 100, stats
    assert stats["entries"] > 0 and stats["misses"] > stats["entries"], stats
growth = resident() - before
assert growth < 64 << 20, growth
"""


def test_memory_is_bounded_over_many_sizes():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def limit():
    yield
    config.reset()


def convolve(size):
    return rl.nn.functional.conv2d(rl.ones(1, 2, size, size), rl.ones(3, 2, 3, 3))


def test_a_shape_is_compiled_once_and_again_after_it_was_thrown_out(limit):
    convolve(9)
    if rl._C._onednn_level() is None:
        pytest.skip("no oneDNN")
    before = config.primitive_cache_stats()
    convolve(9)
    after = config.primitive_cache_stats()
    assert after["hits"] > before["hits"] and after["misses"] == before["misses"]

    config.primitive_cache = False
    assert config.primitive_cache_stats()["entries"] == 0
    assert rl.equal(convolve(9), convolve(9))
    assert config.primitive_cache_stats()["entries"] == 0
    assert config.primitive_cache_stats()["misses"] > after["misses"]
    config.primitive_cache = True
    convolve(9)
    assert config.primitive_cache_stats()["entries"] > 0


@pytest.mark.threads
def test_a_thread_executes_what_another_throws_out(limit):
    import threading

    errors = []

    def work(seed):
        try:
            for i in range(40):
                out = convolve(8 + (i * seed) % 11)
                assert (out == 18).all()
        except BaseException as error:
            errors.append(error)

    config.primitive_cache_limit = 100_000
    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
