"""Shared settings: tests import helpers as `ops.sample` and `gradcheck`; every test seeds anew;
tests marked `gpu` are left out where there is none."""

import gc
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent))

# A shell lets what it starts in the background ignore Ctrl-C, and so would the programs that tests
# start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption(
        "--all-devices",
        action="store_true",
        help="keep the tests that need a GPU where there is none: to list them",
    )


LEFT_OUT = pytest.StashKey[list]()  # how many tests need a GPU, and why there is none


def pytest_configure(config):
    config.stash[LEFT_OUT] = []


@pytest.hookimpl(trylast=True)  # after those of the folders, which set the mark
def pytest_collection_modifyitems(config, items):
    import rushlight as rl

    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu or config.getoption("--all-devices") or rl.cuda.is_available():
        return
    config.hook.pytest_deselected(items=on_gpu)
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.stash[LEFT_OUT] = [len(on_gpu), rl.cuda.why_unavailable()]
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist, which prints nothing itself
        config.workeroutput["left_out"] = config.stash[LEFT_OUT]


def pytest_collection_finish():
    # Twenty thousand tests are many objects, and none of them is garbage: gc.collect(), which tests
    # of memory call often, need not look at them each time, for a third of a second.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT_OUT] = output.get("left_out") or node.config.stash[LEFT_OUT]


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[LEFT_OUT]:
        count, why = config.stash[LEFT_OUT]
        terminalreporter.write_line(f"{count} tests need a GPU and were left out: {why}")


@pytest.fixture(autouse=True)
def _fresh_state():
    import rushlight as rl

    rl.manual_seed(0)
    yield
    if hasattr(rl, "set_default_dtype"):
        rl.set_default_dtype(rl.float32)
