"""Launchers of several machines, here on one: they start again together, and end together."""

import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed import _machines, run
from rushlight.distributed._machines import Failure, Machines

needs_mpi = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")
# How many ranks are killed one after another: RUSHLIGHT_TEST_KILLS=50 is the long run.
KILLS = int(os.environ.get("RUSHLIGHT_TEST_KILLS", "5"))


def launcher(store, node, job="a", restarts=1, timeout=5.0, nodes=2):
    return Machines(store, job, node, nodes, 1 + node, restarts, 0.01, timeout)


def joined(store):
    both = [launcher(store, node) for node in (0, 1)]
    shares = {}

    def join(node):
        shares[node] = both[node].join(lambda: False)

    threads = [threading.Thread(target=join, args=(node,)) for node in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shares == {0: [1, 2], 1: [1, 2]}
    return both


def test_the_first_failure_counts():
    one, two = joined(dist.HashStore())
    assert one.failure(0) is None and not one.all_are("done", 0)
    first = one.say_failed(0, Failure("here", 3, number=0, words="\u00fcber"))
    assert two.say_failed(0, Failure("there", 4, number=1)) == first == two.failure(0)
    assert not two.all_are("stopped", 0) and one.all_are("stopped", 0)
    assert one.failure(1) is None and two.failure(1) is None  # another attempt
    assert not one.all_are("done", 1) and two.all_are("done", 1) and one.all_are("done", 1)


def test_launchers_that_do_not_belong_together():
    store = dist.HashStore()
    joined(store)
    with pytest.raises(ValueError, match="--node-rank 1 is there already"):
        launcher(store, 1).join(lambda: False)
    with pytest.raises(ValueError, match="--rdzv-id is 'b' here and 'a'"):
        launcher(store, 1, job="b").join(lambda: False)
    with pytest.raises(ValueError, match="--max-restarts is 7 here and 1"):
        launcher(store, 1, restarts=7).join(lambda: False)
    with pytest.raises(ValueError, match=r"machines \[1\] have not come"):
        launcher(dist.HashStore(), 0, timeout=0.05).join(lambda: False)
    assert launcher(dist.HashStore(), 0).join(lambda: True) is None
    with pytest.raises(ValueError, match="join_timeout=SECONDS"):
        _machines.join_timeout("join_timeout=soon")
    for value in ("inf", "-1", "nan", ""):
        with pytest.raises(ValueError, match="last_call_timeout=SECONDS"):
            _machines.seconds_in(f"last_call_timeout={value}", "last_call_timeout", 30.0)
    assert _machines.join_timeout("a=b,join_timeout=7") == 7


def test_nobody_is_waited_for_who_never_came(monkeypatch):
    """Machine 0, which is asked to end while it waits, keeps the store for nobody."""
    alone = launcher(dist.HashStore(), 0)
    assert alone.join(lambda: True) is None
    refused = launcher(store := dist.HashStore(), 1)
    first = launcher(store, 1)
    assert first.join(lambda: True) is None
    with pytest.raises(ValueError, match="is there already"):
        refused.join(lambda: False)

    def sleep(seconds):
        raise AssertionError("it waits")

    monkeypatch.setattr(_machines.time, "sleep", sleep)
    alone.leave()
    refused.leave()
    assert store.num_keys() == 2  # who came, and the job's options: nobody has left


def test_a_launcher_that_waits_for_the_first_one_can_be_asked_to_end():
    with socket.socket() as taken:  # and nobody listens there
        taken.bind(("127.0.0.1", 0))
        job = run._agent(run.parse_args([
            "--nnodes=2", "--node-rank=1", f"--master-port={taken.getsockname()[1]}",
            "--rdzv-conf=join_timeout=30", "program.py"]))  # fmt: skip
        ask = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        ask.start()
        assert job.run() == 128 + signal.SIGINT
        ask.join()


def test_a_launcher_without_a_sign_of_life(monkeypatch):
    one, two = joined(dist.HashStore())
    assert one.failure(0) is None and two.failure(0) is None
    monkeypatch.setattr(_machines, "_LOST", 0.05)
    one.failure(0)
    time.sleep(0.1)
    failure = one.failure(0)
    assert failure.final and "machine 1 is gone" in failure.words
    with pytest.raises(dist.DistNetworkError, match="machine 1 is gone"):
        one.all_are("stopped", 0)


class Job:
    """Two launchers with one and two processes."""

    def __init__(self, folder, source, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "program.py").write_text(textwrap.dedent(source))
        self.launchers = [
            subprocess.Popen(
                [sys.executable, "-m", "rushlight.distributed.run", "--nnodes=2",
                 f"--node-rank={node}", f"--nproc-per-node={1 + node}", "--rdzv-id=job",
                 f"--rdzv-endpoint=127.0.0.1:{port}", *options, "program.py"],
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for node in (0, 1)
        ]  # fmt: skip

    def has_ended(self):
        return any(launcher.poll() is not None for launcher in self.launchers)

    def finish(self, limit=60):
        try:
            ends = [launcher.communicate(timeout=limit) for launcher in self.launchers]
        except subprocess.TimeoutExpired:
            for process in self.launchers:
                os.killpg(process.pid, signal.SIGKILL)
            ends = [launcher.communicate() for launcher in self.launchers]
            raise AssertionError(f"it hung\n{ends}") from None
        return [
            (*end, process.returncode) for end, process in zip(ends, self.launchers, strict=True)
        ]


REPORT = """
    import os, sys
    import rushlight as rl, rushlight.distributed as dist
    dist.init_process_group("gloo")
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), dist.get_rank()
    x = rl.full((1,), float(rank))
    dist.all_reduce(x)
    if (attempt, rank) in FAILURES:
        raise LookupError(f"rank {rank} of attempt {attempt}")
    dist.barrier()
    names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE TORCHELASTIC_RESTART_COUNT"
    print(int(x), *[os.environ[n] for n in names.split()], flush=True)
"""


@needs_mpi
def test_all_machines_start_again_together(tmp_path):
    results = Job(tmp_path, REPORT.replace("FAILURES", "[(0, 2)]"), "--max-restarts=1").finish()
    assert [code for _, _, code in results] == [0, 0], results
    lines = [sorted(out.splitlines()) for out, _, _ in results]
    assert lines == [["3 0 0 0 3 1 1"], ["3 1 0 1 3 2 1", "3 2 1 1 3 2 1"]]
    assert all("rank 2 on" in err and "attempt 2 of 2" in err for _, err, _ in results)


@pytest.mark.slow
@needs_mpi
def test_all_machines_end_together(tmp_path):
    program = REPORT.replace("FAILURES", "[(0, 1), (1, 0)]")
    results = Job(tmp_path, program, "--max-restarts=1").finish()
    assert [code for _, _, code in results] == [1, 1], results
    for _, err, _ in results:  # the other machine's traceback is shown here too
        assert err.rstrip().endswith("LookupError: rank 0 of attempt 1"), err


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("node", [0, 1])
def test_a_launcher_that_is_asked_to_end_or_killed(tmp_path, node):
    """Asked on machine 1, killed on machine 0, which held the store: all end, and say why."""
    job = Job(tmp_path, """
        import os, time
        print(os.getpid(), flush=True)
        time.sleep(100)
        """, "--max-restarts=3")  # fmt: skip
    counts = (1, 2)
    pids = [
        int(launcher.stdout.readline())
        for launcher, n in zip(job.launchers, counts, strict=True)
        for _ in range(n)
    ]
    os.kill(job.launchers[node].pid, signal.SIGTERM if node else signal.SIGKILL)
    results = job.finish()
    if node:
        assert [code for _, _, code in results] == [128 + 15] * 2, results
        assert "a launcher got SIGTERM" in results[0][1]
    else:
        assert results[1][2] == 1 and "lost each other" in results[1][1], results
    assert wait_until(lambda: not alive(pids), 5)


TRAINING = """
    import os, sys, time
    import rushlight as rl, rushlight.distributed as dist

    attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["RANK"])
    with open(f"new-{attempt}-{rank}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"new-{attempt}-{rank}", f"pid-{attempt}-{rank}")
    dist.init_process_group("gloo")
    model = rl.nn.Linear(4, 1, dtype=rl.float64)
    with rl.no_grad():
        model.weight.zero_(), model.bias.zero_()
    model = rl.nn.parallel.DistributedDataParallel(model)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    if os.path.exists("checkpoint.pt"):
        state = rl.load("checkpoint.pt")
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    while step < 60:
        while step == 40 and not os.path.exists("enough"):
            time.sleep(0.02)
        generator = rl.Generator().manual_seed(step)
        x = rl.randn(12, 4, generator=generator, dtype=rl.float64)
        y = x.sum(1, keepdim=True)
        mine = slice(rank, None, dist.get_world_size())
        optimizer.zero_grad()
        ((model(x[mine]) - y[mine]) ** 2).mean().backward()
        optimizer.step()
        step += 1
        time.sleep(0.01)
        if rank == 0 and step % 4 == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            rl.save({**state, "step": step}, "new.pt")
            os.replace("new.pt", "checkpoint.pt")
    if rank == 0:
        print(*model.module.weight.flatten().tolist(), model.module.bias.item(), flush=True)
"""


def trained_alone():
    weight, bias = np.zeros(4), 0.0
    step_w, step_b = np.zeros(4), 0.0
    for step in range(60):
        generator = rl.Generator().manual_seed(step)
        x = rl.randn(12, 4, generator=generator, dtype=rl.float64).numpy()
        error = x @ weight + bias - x.sum(1)
        step_w = 0.9 * step_w + 2 * (error[:, None] * x).mean(0)
        step_b = 0.9 * step_b + 2 * error.mean()
        weight, bias = weight - 0.05 * step_w, bias - 0.05 * step_b
    return [*weight, bias]


def alive(pids):
    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.mark.slow
@needs_mpi
def test_training_outlives_kills(tmp_path):
    """A random rank is killed at a random moment, while it starts or trains, again and again."""
    source = random.Random(0)
    job = Job(tmp_path, TRAINING, f"--max-restarts={KILLS}")
    try:
        for kill in range(KILLS):
            victim = tmp_path / f"pid-{kill}-{source.randrange(3)}"
            assert wait_until(lambda v=victim: v.exists() or job.has_ended(), 60)
            assert not job.has_ended()
            time.sleep(source.random() * 1.5)
            os.kill(int(victim.read_text()), signal.SIGKILL)
        (tmp_path / "enough").touch()
    finally:
        results = job.finish(120)
    assert [code for _, _, code in results] == [0, 0], results
    found = [float(word) for word in results[0][0].split()]
    np.testing.assert_allclose(found, trained_alone(), rtol=1e-9, atol=1e-12)
    started = list(tmp_path.glob("pid-*"))
    assert max(int(path.name.split("-")[1]) for path in started) == KILLS
    assert not alive([int(path.read_text()) for path in started])
