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
from rushlight.distributed import run

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
    assert code == 1 and time.monotonic() - start < 40
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
    assert time.monotonic() - start < 40 and not alive(pids)


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
    assert time.monotonic() - start < 40 and not alive(pids)


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


@pytest.mark.parametrize(
    "options, words",
    [("--nproc-per-node many", "--nproc-per-node"), ("--nproc-per-node 0", "a number from 1"),
     ("--no-python -m", "do not go together"), ("--rdzv-endpoint here:there", "HOST:PORT"),
     ("--local-ranks-filter a", "--local-ranks-filter"), ("--monitor-interval 0", "seconds"),
     ("--nnodes 2 --node-rank 2", "--node-rank: expected 0 to 1"),
     ("--rdzv-conf join_timeout=inf", "join_timeout=SECONDS")],
)  # fmt: skip
def test_bad_options(capsys, options, words):
    with pytest.raises(SystemExit) as end:
        run.main([*options.split(), "program.py"])
    assert end.value.code == 2 and words in capsys.readouterr().err


def test_what_cannot_be_started_is_said_without_a_traceback():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit, match="already in use; .* ports of their own"):
            run.main(["--master-port", str(taken.getsockname()[1]), "program.py"])
    with pytest.raises(SystemExit, match="cannot be started: .*no_such_program"):
        run.main(["--standalone", "--no-python", "no_such_program"])


def test_logs(tmp_path):
    out, err, code = Launched(
        tmp_path,
        """
        import os, sys
        print("out of", os.environ["RANK"])
        print("err of", os.environ["RANK"], file=sys.stderr)
        """,
        *TWO, "--log-dir", str(tmp_path / "logs"), "-r", "0:3", "-t", "1:1", "--rdzv-id", "job",
    ).finish()  # fmt: skip
    assert code == 0 and out == "[default1]:out of 1\n" and err == "err of 1\n"
    folder = tmp_path / "logs" / "job" / "attempt_0"
    assert (folder / "0" / "stdout.log").read_text() == "out of 0\n"
    assert (folder / "0" / "stderr.log").read_text() == "err of 0\n"
    assert (folder / "1" / "stdout.log").read_text() == "out of 1\n"
    assert not (folder / "1" / "stderr.log").exists()


def test_options(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_MAX_RESTARTS", "2")
    args = run.parse_args(["--log_dir", "x", "-t", "3", "-r", "1", "program.py", "--tee", "no"])
    assert (args.nproc_per_node, args.max_restarts, args.log_dir) == ("3", 2, "x")
    assert args.training_script_args == ["--tee", "no"] and (args.tee, args.redirects) == ("3", "1")
    with pytest.raises(ValueError, match="--tee"):
        run._streams("--tee", "7")


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, {}),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"},
         {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
          "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "a"},
         {"RANK": "3", "WORLD_SIZE": "4"}),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "77",
          "SLURM_JOB_NODELIST": "gpu[07-09,12],login"},
         {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu07"}),
    ],
)  # fmt: skip
def test_ranks_of_mpirun_and_slurm(environment, expected):
    from rushlight.distributed._schedulers import variables_of_scheduler

    found = variables_of_scheduler(environment)
    port = found.pop("MASTER_PORT", None)
    assert found == expected and (port is None) == (not expected)
    assert port is None or 20000 <= int(port) < 32000


def test_mpirun(tmp_path):
    mpirun = os.path.join(os.path.dirname(sys.executable), "mpirun")
    if not os.path.exists(mpirun):
        pytest.skip("no mpirun")
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import rushlight as rl, rushlight.distributed as dist
        dist.init_process_group("mpi")
        dist.all_reduce(x := rl.ones(1))
        if dist.get_rank() == 1:
            print(dist.get_world_size(), x.item())
        dist.destroy_process_group()
        """)
    )
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    done = subprocess.run(
        [mpirun, "-n", "2", sys.executable, str(tmp_path / "program.py")],
        capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 2.0\n"
