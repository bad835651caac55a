"""cpu.memory.CPUPluggableAllocator: the memory of CPU tensors from a user's functions."""

import ctypes
import gc
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.cpu import memory

SOURCE = Path(__file__).resolve().parent / "counting_allocator.c"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("allocator") / "libcounting.so"
    subprocess.run(
        [compiler, "-std=c11", "-shared", "-fPIC", "-O1", SOURCE, "-o", path], check=True
    )
    return path


def test_tensors_come_from_there(library):
    counts = ctypes.CDLL(str(library))
    for name in ("count_taken", "count_given_back", "count_bytes"):
        getattr(counts, name).restype = ctypes.c_long
    before = rl.randn(1000), rl.ones(3)
    memory.change_current_allocator(
        memory.CPUPluggableAllocator(library, "counted_alloc", "counted_free")
    )
    try:
        x = rl.randn(64, 64, requires_grad=True)
        (x @ x).relu().sum().backward()
        assert counts.count_taken() > 3 and counts.count_bytes() >= 2 * 64 * 64 * 4
        del before  # goes back to where it came from
        big = rl.ones(1_000_000)
        results = []
        threads = [
            threading.Thread(target=lambda: results.append((rl.rand(500) * 2).sum().item()))
            for _ in range(4)
        ]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(results) == 4
        counts.set_refuses(1)
        with pytest.raises(rl.OutOfMemoryError, match="from a user's allocator"):
            rl.ones(10)
        counts.set_refuses(0)
    finally:
        counts.set_refuses(0)
        memory.change_current_allocator(None)
    taken = counts.count_taken()
    y = rl.ones(100) + 1
    assert y.sum().item() == 200 and counts.count_taken() == taken
    assert big.sum().item() == 1_000_000 and x.grad.shape == (64, 64)
    del x, big  # live blocks go back to the user's functions
    gc.collect()
    assert counts.count_taken() == counts.count_given_back() and counts.count_bytes() == 0


@pytest.mark.parametrize("count", [1, 17, 1000, 300_001])
def test_no_byte_more_is_asked_for(library, count):
    """Allocators that look for steps beyond a tensor's end have to know where that is."""
    counts = ctypes.CDLL(str(library))
    counts.count_bytes.restype = ctypes.c_long
    memory.change_current_allocator(
        memory.CPUPluggableAllocator(library, "counted_alloc", "counted_free")
    )
    try:
        seen = [counts.count_bytes()]
        held = []
        for more in (0, 1):  # a storage's own words stand before its bytes
            held.append(rl.empty(count + more, dtype=rl.int8))
            seen.append(counts.count_bytes())
        assert (seen[2] - seen[1]) - (seen[1] - seen[0]) == 1
    finally:
        memory.change_current_allocator(None)


def test_what_is_refused(library):
    counts = ctypes.CDLL(str(library))
    memory.change_current_allocator(
        memory.CPUPluggableAllocator(library, "counted_alloc", "counted_free")
    )
    counts.set_misaligns(1)
    try:
        with pytest.raises(RuntimeError, match="not aligned to 64 bytes"):
            rl.ones(10)
    finally:
        counts.set_misaligns(0)
        memory.change_current_allocator(None)
    with pytest.raises(TypeError, match="expected a CPUPluggableAllocator"):
        memory.change_current_allocator("malloc")
    with pytest.raises(AttributeError):
        memory.CPUPluggableAllocator(library, "no_such_function", "counted_free")
    with pytest.raises(OSError):
        memory.CPUPluggableAllocator("/nowhere.so", "a", "b")
    with pytest.raises(ValueError, match="both functions"):
        rl._C._set_user_allocator(1, 0)
