"""Shared settings: tests import helpers as `ops.sample` and `gradcheck`; every test seeds anew."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parent))

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _fresh_state():
    import rushlight as rl

    rl.manual_seed(0)
    yield
    if hasattr(rl, "set_default_dtype"):
        rl.set_default_dtype(rl.float32)
