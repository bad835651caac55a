"""python -m rushlight.distributed.run: environment, exit codes, the first failing rank's words."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

import rushlight.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")


class Launched:
    def __init__(self, tmp_path, source, *options, arguments=(), module=False):
        (tmp_path / "program.py").write_text(textwrap.dedent(source))
        program = ["-m", "program"] if module else [str(tmp_path / "program.py")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rushlight.distributed.run", *options, *program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
        )

    def finish(self, limit=60):
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
            raise AssertionError(f"it hung\n{out}\n{err}") from None
        return out, err, self.process.returncode


def alive(pids):
    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def gone_within(pids, seconds):
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pids)


TWO = ("--standalone", "--nproc-per-node", "2")


def test_ranks_work_together(tmp_path):
    out, err, code = Launched(tmp_path, """
        import os, sys, rushlight as rl, rushlight.distributed as dist
        for turn in range(2):  # the launcher's store serves a second group as well
            dist.init_process_group("gloo")
            assert dist.is_torchelastic_launched()
            rank = dist.get_rank()
            x = rl.full((2,), float(rank + 1))
            dist.all_reduce(x)
            assert x.tolist() == [3, 3] and sys.argv[1:] == ["--lr", "0.1"]
            dist.destroy_process_group()
        names = "LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK OMP_NUM_THREADS"
        print(rank, *[os.environ[n] for n in names.split()], flush=True)
        """, *TWO, arguments=["--lr", "0.1"]).finish()  # fmt: skip
    assert code == 0, err
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))
    assert sorted(out.splitlines()) == [f"{r} {r} 2 2 0 {threads}" for r in range(2)]


def test_a_module_with_underscores_and_a_master_address(tmp_path):
    out, err, code = Launched(
        tmp_path, "import os; print(os.environ['MASTER_ADDR'], os.environ['RANK'], flush=True)",
        "--nproc_per_node=2", "--nnodes=1", "--node_rank=0", "--master_addr=localhost",
        "--master_port=0", module=True,
    ).finish()  # fmt: skip
    assert code == 0 and sorted(out.splitlines()) == ["localhost 0", "localhost 1"], err


def test_the_first_failing_rank_speaks_last(tmp_path):
    launched = Launched(tmp_path, """
        import os, time, rushlight as rl, rushlight.distributed as dist
        dist.init_process_group("gloo")
        print(os.getpid(), flush=True)
        dist.barrier()
        if dist.get_rank() == 1:
            raise ValueError("the cause of it all")
        dist.all_reduce(rl.ones(1))
        """, *TWO)  # fmt: skip
    pids = [int(launched.process.stdout.readline()) for _ in range(2)]
    start = time.monotonic()
    _, err, code = launched.finish()
    assert code == 1 and time.monotonic() - start < 15
    assert err.rstrip().endswith("ValueError: the cause of it all"), err
    last = err[err.rindex("rushlight.distributed.run: rank 1") :]
    assert "failed first (exit code 1)" in last and 'program.py", line 7' in last, err
    assert gone_within(pids, 5)


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("sys.exit(7)", 7, "exit code 7"),
        ("os.kill(os.getpid(), 9)", 137, "signal SIGKILL"),
        ("os.abort()", 134, "signal SIGABRT"),
    ],
)
def test_exit_codes_are_kept(tmp_path, end, code, words):
    launched = Launched(tmp_path, f"""
        import os, sys, time
        print(os.getpid(), flush=True)
        if os.environ["RANK"] == "0":
            time.sleep(1)  # until the other has begun
            {end}
        time.sleep(60)
        """, *TWO)  # fmt: skip
    pids = [int(launched.process.stdout.readline()) for _ in range(2)]
    start = time.monotonic()
    _, err, got = launched.finish()
    assert got == code and "rank 0 on" in err and words in err, err
    assert time.monotonic() - start < 10 and not alive(pids)


def test_a_rank_that_ignores_the_request_is_ended(tmp_path):
    launched = Launched(tmp_path, """
        import os, signal, sys, time
        if os.environ["RANK"] == "1":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        if os.environ["RANK"] == "0":
            time.sleep(0.5)
            sys.exit(3)
        time.sleep(60)
        """, *TWO)  # fmt: skip
    pids = [int(launched.process.stdout.readline()) for _ in range(2)]
    start = time.monotonic()
    assert launched.finish()[2] == 3
    assert time.monotonic() - start < 7 and not alive(pids)


def test_restarts(tmp_path):
    program = """
        import os, sys, rushlight as rl, rushlight.distributed as dist
        dist.init_process_group("gloo")
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        x = rl.full((1,), float(attempt))
        dist.all_reduce(x)
        if attempt < 2 and dist.get_rank() == 1:
            sys.exit(5)
        dist.barrier()
        print("done", int(x), flush=True)
        """
    out, err, code = Launched(tmp_path, program, *TWO, "--max-restarts", "2").finish()
    assert code == 0 and out.splitlines() == ["done 4"] * 2, err
    assert "attempt 3 of 3" in err
    _, err, code = Launched(tmp_path, program, *TWO, "--max-restarts", "1").finish()
    assert code == 5, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_all(tmp_path, number):
    launched = Launched(tmp_path, """
        import os, time
        print(os.getpid(), flush=True)
        time.sleep(60)
        """, *TWO)  # fmt: skip
    pids = [int(launched.process.stdout.readline()) for _ in range(2)]
    os.kill(launched.process.pid, number)
    _, _, code = launched.finish(10)
    assert code == 128 + number and not alive(pids)


def test_ranks_end_with_a_launcher_that_is_killed(tmp_path):
    launched = Launched(tmp_path, """
        import os, time
        print(os.getpid(), flush=True)
        time.sleep(60)
        """, *TWO)  # fmt: skip
    pids = [int(launched.process.stdout.readline()) for _ in range(2)]
    launched.process.kill()
    launched.process.wait()
    assert gone_within(pids, 5)


def test_two_launchers_are_one_job(tmp_path):
    """As on two machines: the first holds the store."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = """
        import os, rushlight as rl, rushlight.distributed as dist
        dist.init_process_group("gloo")
        x = rl.tensor([float(os.environ["RANK"])])
        dist.all_reduce(x)
        names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE"
        print(int(x), *[os.environ[n] for n in names.split()], flush=True)
        dist.barrier()
        """
    nodes = [
        Launched(tmp_path, program, "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1",
                 f"--rdzv-endpoint=127.0.0.1:{port}")
        for node in (1, 0)
    ]  # fmt: skip
    results = [node.finish() for node in nodes]
    assert [code for _, _, code in results] == [0, 0], results
    assert [out for out, _, _ in results] == ["1 1 0 1 2\n", "1 0 0 0 2\n"]


def test_bad_options(tmp_path):
    _, err, code = Launched(tmp_path, "", "--nproc-per-node", "many").finish()
    assert code == 2 and "--nproc-per-node" in err
    _, err, code = Launched(tmp_path, "", "--no-python", module=True).finish()
    assert code == 2 and "do not go together" in err
