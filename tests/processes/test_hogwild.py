"""The example trains one model from several processes; it checks itself that the loss falls."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hogwild.py"


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_hogwild(method):
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLE), "--start-method", method, "--epochs", "3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=120)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert process.returncode == 0 and "accuracy" in out
