"""Calls between processes, over Ray; test_rpc.py has the same programs with simulated ranks."""

import importlib.util
import socket
from pathlib import Path

import pytest
from scripts import Script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray"
    ),
]

TESTS = Path(__file__).resolve().parent.parent

HEAD = f"""
import os, sys, time
sys.path.insert(0, {str(TESTS)!r})
from distributed import rpc_programs
from rushlight import multiprocessing as mp
from rushlight.distributed import rpc
"""

MAIN = """
if __name__ == "__main__":
    mp.spawn(work, nprocs=SIZE)
    print("ok")
"""


def run(body, size, limit=240):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                   "RAY_worker_niceness": "0"}  # fmt: skip
    code = HEAD + body + MAIN.replace("SIZE", str(size))
    return Script(code, env=environment).finish(limit)


def test_programs_over_ray():
    """One start of Ray for all of them: it takes seconds."""
    out, err, status = run(
        """
def work(rank):
    for program in ("calls", "references", "gradients", "values_that_stay"):
        result = getattr(rpc_programs, program)(rank, 3)
        assert result or rank > 0, program
""",
        3,
    )
    assert status == 0 and "ok" in out, err[-3000:]
