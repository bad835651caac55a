"""These tests need a GPU; without one they are left out (tests/conftest.py)."""

import os

import pytest

import rushlight as rl


def pytest_itemcollected(item):
    if item.path.name != "test_cuda_without_gpu.py":
        item.add_marker("gpu")


def pytest_collection_modifyitems(items):
    # RUSHLIGHT_TEST_PART=3/16: every sixteenth test, for processes side by side.
    part, parts = map(int, os.environ.get("RUSHLIGHT_TEST_PART", "0/1").split("/"))
    items[:] = items[part::parts]


@pytest.fixture(autouse=True)
def _full_float32():
    """Convolutions use TF32 by default, as in PyTorch; comparisons with the CPU want all bits."""
    old, rl.backends.cudnn.allow_tf32 = rl.backends.cudnn.allow_tf32, False
    yield
    rl.backends.cudnn.allow_tf32 = old


@pytest.fixture
def no_waiting():
    """Whatever makes the host wait for the GPU raises."""
    rl.cuda.synchronize()
    rl.cuda.set_sync_debug_mode("error")
    yield
    rl.cuda.set_sync_debug_mode("default")


@pytest.fixture(autouse=True)
def _nothing_stays():
    """A test leaves no live bytes on the GPU."""
    import gc

    if not rl.cuda.is_available():
        yield
        return
    gc.collect()
    before = rl.cuda.memory_allocated()
    yield
    gc.collect()
    if rl.cuda.memory_allocated() > before:
        # What another stream reads is live until that stream is done; an allocation finds that out.
        rl.cuda.synchronize()
        rl.empty(1, device="cuda")
    # (A test that failed keeps its tensors in its traceback until the next one.)
    assert rl.cuda.memory_allocated() <= before
