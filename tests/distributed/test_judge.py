"""Ranks that get out of step: every rank's error says which, where and why, in time."""

import os
import re
import signal
import socket
import time

import pytest
from distributed.ranks import Ranks

import rushlight.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")

# What rank 0 and rank 1 do after two collectives in step, and what the verdict must say.
FAULTS = {
    "other collective": (
        "dist.all_reduce(rl.ones(4))",
        "dist.broadcast(rl.ones(4), src=0)",
        ["disagree at collective #3", "rank 0: #3 all_reduce(SUM) of float32 [4]",
         "rank 1: #3 broadcast(from rank 0) of float32 [4]"],
    ),
    "other shape": (
        "dist.all_reduce(rl.ones(4))",
        "dist.all_reduce(rl.ones(5000, 100))",
        ["disagree at collective #3", "float32 [4]", "float32 [5000, 100]"],
    ),
    "other dtype": (
        "dist.all_reduce(rl.ones(4))",
        "dist.all_reduce(rl.ones(4, dtype=rl.int32))",
        ["disagree at collective #3", "of float32 [4]", "of int32 [4]"],
    ),
    "other reduction": (
        "dist.all_reduce(rl.ones(4))",
        "dist.all_reduce(rl.ones(4), dist.ReduceOp.MAX)",
        ["disagree at collective #3", "all_reduce(SUM)", "all_reduce(MAX)"],
    ),
    "forgets one": (
        "dist.all_reduce(rl.ones(4))",
        "pass",
        ["rank 1", "left the group|ended", "#2 all_reduce", "rank 0 waits in #3 all_reduce"],
    ),
    "raises": (
        "dist.all_reduce(rl.ones(4))",
        "raise KeyError('lost')",
        ["rank 1", "raised KeyError: 'lost'", "program.py:", "rank 0 waits in #3"],
    ),
    "dies": (
        "dist.all_reduce(rl.ones(4))",
        "os.kill(os.getpid(), 9)",
        ["rank 1", "ended without leaving the group", "rank 0 waits in #3"],
    ),
    "is frozen": (
        "dist.all_reduce(rl.ones(4))",
        "os.kill(os.getpid(), 19)",
        ["rank 1", "is stopped", "rank 0 waits in #3"],
    ),
}  # fmt: skip

PROGRAM = """
def train():
    for _ in range(2):
        dist.all_reduce(rl.ones(3))
    if RANK == 0:
        {first}
    else:
        {second}
    if {go_on}:
        time.sleep(4)
        dist.all_reduce(rl.ones(1))  # the disagreement is known by now
train()
"""

# Fifteen seconds are promised, of which the heartbeats take twelve; a busy machine adds some.
LIMIT = 25


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.slow
def test_verdicts(fault):
    first, second, words = FAULTS[fault]
    disagrees = "disagree" in words[0]
    ranks = Ranks(PROGRAM.format(first=first, second=second, go_on=disagrees))
    start = time.monotonic()
    if fault == "is frozen":
        ranks.processes[0].wait(40)
        os.kill(ranks.processes[1].pid, signal.SIGKILL)
    results = ranks.finish(40)
    assert time.monotonic() - start < 25
    for rank, (out, err, code) in enumerate(results):
        if rank == 1 and not disagrees:
            continue  # it is the one that went wrong
        assert code == 1 and "DistBackendError" in err, f"rank {rank}: {code}\n{out}\n{err}"
        for word in words:
            parts = word.split("|")
            assert any(part in err for part in parts), f"rank {rank}: {word}\n{err}"
        assert re.search(r"at \S*program.py:\d+ in train `", err), err


def test_a_killed_rank_is_named_in_time():
    ranks = Ranks("""
        x = rl.ones(1 << 18)
        for step in range(100000):
            dist.all_reduce(x, dist.ReduceOp.AVG)
            if step == 10:
                print("goes", flush=True)
        """)
    for process in ranks.processes:
        assert process.stdout.readline() == "goes\n"
    start = time.monotonic()
    ranks.processes[1].kill()
    (_, err, code), (_, _, killed) = ranks.finish(30)
    assert time.monotonic() - start < LIMIT and killed == -9
    assert code == 1 and "DistBackendError" in err and "rank 1" in err, err
    assert "ended without leaving the group" in err and "all_reduce(AVG)" in err, err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_rank_that_holds_the_store_is_lost(number):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = Ranks(
        """
        while True:
            dist.all_reduce(rl.ones(5))
            print("goes", flush=True) if dist.group.WORLD._core._recorded()[-1][0] == 10 else None
        """,
        METHOD=f"tcp://127.0.0.1:{port}",
    )
    for process in ranks.processes:
        assert process.stdout.readline() == "goes\n"
    start = time.monotonic()
    os.kill(ranks.processes[0].pid, number)
    ranks.processes[1].wait(30)
    assert time.monotonic() - start < LIMIT
    ranks.processes[0].kill()
    _, (_, err, code) = ranks.finish(20)
    assert code == 1 and "DistBackendError" in err and "rank 0" in err, err


def test_a_timeout_raises_everywhere_and_says_who_did_not_come():
    ranks = Ranks("""
        group = dist.new_group(timeout=timedelta(seconds=2))
        dist.all_reduce(rl.ones(1), group=group)
        try:
            if RANK == 0:
                dist.all_reduce(rl.ones(2), group=group)
            else:
                time.sleep(5)
                dist.all_reduce(rl.ones(2), group=group)
        except dist.DistBackendError as error:
            print(error)
        else:
            raise AssertionError("it timed out on rank 0")
        """)
    for out, err, code in ranks.finish(60):
        assert code == 0, err
        assert "timed out on rank 0 after 2000 ms" in out, out
        assert "rank 1 (process" in out and "has not come there" in out, out
        assert "#1 all_reduce(SUM) of float32 [1]" in out and "program.py" in out, out


def test_works_that_wait_fail_with_the_group():
    ranks = Ranks("""
        work = dist.all_reduce(rl.ones(3), async_op=True) if RANK == 0 else None
        behind = dist.all_reduce(rl.ones(3), async_op=True) if RANK == 0 else None
        if RANK == 0:
            for w in (work, behind):
                try:
                    w.wait()
                except dist.DistBackendError as error:
                    assert "rank 1" in str(error), error
                    assert w.is_completed() and not w.is_success()
                else:
                    raise AssertionError
            print("told")
        """)
    (out, err, code), (_, other, last) = ranks.finish(60)
    assert code == 0 and out == "told\n" and last == 0, (err, other)


def test_ctrl_c_ends_a_wait():
    ranks = Ranks("""
        if RANK == 0:
            print("waits", flush=True)
            dist.barrier()
        time.sleep(60)
        """)
    assert ranks.processes[0].stdout.readline() == "waits\n"
    time.sleep(0.5)
    os.kill(ranks.processes[0].pid, signal.SIGINT)
    ranks.processes[0].wait(10)
    ranks.processes[1].kill()
    (_, err, code), _ = ranks.finish(20)
    assert "KeyboardInterrupt" in err and code != 0, err
