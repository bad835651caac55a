"""Launchers and ranks that go and come: --nnodes MIN:MAX, and data that go on behind what others
have done."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed import _shrink, run
from rushlight.distributed._elastic_machines import ElasticMachines
from rushlight.distributed._machines import Failure
from rushlight.utils.data import DataLoader, Dataset, DistributedSampler

needs_mpi = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")


def launcher(store, holds=False, processes=1, counts=(1, 3), last_call=0.05, timeout=20.0):
    return ElasticMachines(store, "a", holds, counts, processes, 1, 0.01, timeout, last_call, 10.0)


class Together:
    """Launchers that wait for each other, on threads."""

    def __init__(self):
        self.shares = {}
        self.errors = []

    def do(self, *calls):
        def one(name, call):
            try:
                self.shares[name] = call()
            except Exception as error:
                self.errors.append(error)

        threads = [threading.Thread(target=one, args=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self


def never():
    return False


def test_rounds_follow_the_launchers():
    store = dist.HashStore()
    one, two, three = launcher(store, True), launcher(store, False, 2), launcher(store, False, 3)
    both = Together().do(("1", lambda: one.join(never)), ("2", lambda: two.join(never)))
    assert both.shares == {"1": [1, 2], "2": [1, 2]} and not both.errors
    assert (one.place, two.place, one.attempt) == (0, 1, 0)
    assert one.failure(0) is None and two.failure(0) is None

    # Another one comes: the round ends, and does not count as a restart.
    coming = threading.Thread(target=lambda: both.do(("3", lambda: three.join(never))))
    coming.start()
    while (change := one.failure(0)) is None:
        two.failure(0)
        time.sleep(0.01)
    assert change.machines and "has come" in change.words and two.failure(0) == change
    again = both.do(("1", lambda: one.regroup(0, never)), ("2", lambda: two.regroup(0, never)))
    coming.join()
    assert again.shares == {name: [1, 2, 3] for name in "123"} and not again.errors
    assert (three.place, three.attempt, one.attempt, three.restarts) == (2, 1, 1, 0)

    # A rank fails, and all launchers give signs of life after that: it counts, on all of them.
    def watch(machines):
        while (found := machines.failure(1)) is None:
            machines._beats._beaten = 0.0  # the next sign is due
            time.sleep(0.01)
        return found

    def fail():
        while not two._store.check(["suspected/1"]):  # rank 0 fails of that, after it
            time.sleep(0.01)
        return one.say_failed(1, Failure("there", 4, number=0))

    both.do(("2", lambda: two.say_failed(1, Failure("here", 3, number=1))),
            ("1", fail), ("3", lambda: watch(three)))  # fmt: skip
    first = both.shares["2"]
    assert first.number == 1
    assert both.shares["1"] == both.shares["3"] == first and not first.machines
    calls = [(n, lambda m=m: m.regroup(1, never)) for n, m in zip("123", (one, two, three))]  # noqa: B905
    assert not both.do(*calls).errors and one.restarts == three.restarts == 1

    # One is asked to end, and leaves: the others go on without it.
    left = two.say_failed(2, Failure("there", -15, final=True))
    assert left.machines and not left.final
    two.leave()
    both.do(("1", lambda: one.regroup(2, never)), ("3", lambda: three.regroup(2, never)))
    assert both.shares["1"] == both.shares["3"] == [1, 3] and three.place == 1

    # One gives no sign of life any more.
    one._beats._lost = 0.2
    deadline = time.monotonic() + 10
    while (gone := one.failure(3)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone is not None and gone.machines and "is gone" in gone.words
    assert one.regroup(3, never) == [1]
    one._beats._lost = 10.0
    # It was only slow: it comes back when there is room.
    back = threading.Thread(target=lambda: both.do(("3", lambda: three.regroup(3, never))))
    back.start()
    while one.failure(4) is None:
        time.sleep(0.01)
    assert one.regroup(4, never) == [1, 3]
    back.join()
    assert both.shares["3"] == [1, 3]
    # It is gone with its ranks, which a rank here notices first and fails: that does not count.
    one._beats._lost = 0.2
    gone = one.say_failed(5, Failure("here", 1, number=0))
    assert gone.machines and gone.words == "launcher 2 is gone"
    assert one.regroup(5, never) == [1] and one.restarts == 1
    # The job ends: whoever waits is told so.
    waits = launcher(store, False)
    ends = Together()
    waiting = threading.Thread(target=lambda: ends.do(("4", lambda: waits.join(never))))
    waiting.start()
    three.leave()
    one.leave()
    waiting.join()
    assert ends.shares == {"4": None} and not ends.errors


def test_too_few_launchers():
    with pytest.raises(ValueError, match="1 launchers are there, and --nnodes asks for 2"):
        launcher(dist.HashStore(), True, counts=(2, 3), timeout=0.05).join(never)
    assert launcher(dist.HashStore(), True, counts=(2, 3)).join(lambda: True) is None
    store = dist.HashStore()
    launcher(store, True).join(never)
    with pytest.raises(ValueError, match="--nnodes is '2:3' here and '1:3'"):
        launcher(store, False, counts=(2, 3)).join(never)
    for text in ("3:2", "0", "a:b", "0:2"):
        with pytest.raises(ValueError, match="expected a number or MIN:MAX"):
            run._machines(text)
    assert run._machines("4") == (4, 4) and run._machines("2:4") == (2, 4)


class Numbers(Dataset):
    """Each sample draws a random number."""

    def __len__(self):
        return 103

    def __getitem__(self, i):
        return rl.tensor([i, int(rl.randint(0, 1 << 20, (1,)))])


def loaders(ranks, batch, **options):
    made = []
    for rank in range(ranks):
        rl.manual_seed(7)
        sampler = DistributedSampler(Numbers(), ranks, rank, seed=3)
        made.append(DataLoader(Numbers(), batch, sampler=sampler, **options))
    return made


def samples(ranks, steps=1000):
    """What so many steps of all ranks take, in the order that they share."""
    passes = []
    for loader in ranks:
        rl.manual_seed(7)
        passes.append(iter(loader))
    taken = []
    for _ in range(steps):
        parts = [next(one, None) for one in passes]
        if parts[0] is None:
            break
        longest = max(map(len, parts))
        taken += [tuple(p[j].tolist()) for j in range(longest) for p in parts if j < len(p)]
    return taken


@pytest.mark.parametrize("way", [(4, 2, 0), (2, 4, 0), (8, 1, 0), (3, 5, 2), (1, 8, 0)])
def test_data_go_on_with_another_number_of_ranks(way):
    """The order, and the random numbers of each sample, are those of one process."""
    whole = samples(loaders(1, 8))
    before = loaders(4, 2)
    taken = samples(before, 3)
    state = before[0].state_dict()
    ranks, batch, workers = way
    now = loaders(ranks, batch, num_workers=workers)
    for loader in now:
        loader.load_state_dict(state)
    taken += samples(now, 2)
    state = now[-1].state_dict()
    last = loaders(2, 3)
    for loader in last:
        loader.load_state_dict(state)
    taken += samples(last)
    assert len(whole) == 103 and taken[:103] == whole  # then they fill up
    plain = DataLoader(Numbers(), 4)
    with pytest.raises(ValueError, match="batch_size"):
        plain.load_state_dict(before[0].state_dict())


TRAINING = """
    import os, time
    import rushlight as rl, rushlight.distributed as dist
    from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    x = rl.randn(180, 4, generator=rl.Generator().manual_seed(1), dtype=rl.float64)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, 12 // size, sampler=DistributedSampler(data, seed=5))
    model = rl.nn.Linear(4, 1, dtype=rl.float64)
    with rl.no_grad():
        model.weight.zero_(), model.bias.zero_()
    model = rl.nn.parallel.DistributedDataParallel(model)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    if os.path.exists("checkpoint.pt"):
        state = rl.load("checkpoint.pt", weights_only=False)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]
    for inputs, targets in loader:
        while (step, size) in [(5, 3), (10, 1)]:  # until machines go, or come
            if rank == 0:
                open(f"at-{step}", "w").close()
            dist.barrier()
            time.sleep(0.02)
        optimizer.zero_grad()
        ((model(inputs) - targets) ** 2).mean().backward()
        optimizer.step()
        step += 1
        if rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            rl.save({**state, "step": step, "loader": loader.state_dict()}, "new.pt")
            os.replace("new.pt", "checkpoint.pt")
    if rank == 0:
        print(step, *model.module.weight.flatten().tolist(), model.module.bias.item(), flush=True)
"""


def trained_alone():
    weight, bias, step_w, step_b = np.zeros(4), 0.0, np.zeros(4), 0.0
    x = rl.randn(180, 4, generator=rl.Generator().manual_seed(1), dtype=rl.float64).numpy()
    order = rl.randperm(180, generator=rl.Generator().manual_seed(5)).numpy()
    for part in x[order].reshape(15, 12, 4):
        error = part @ weight + bias - part.sum(1)
        step_w = 0.9 * step_w + 2 * (error[:, None] * part).mean(0)
        step_b = 0.9 * step_b + 2 * error.mean()
        weight, bias = weight - 0.05 * step_w, bias - 0.05 * step_b
    return [*weight, bias]


def wait_for(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)


@pytest.mark.slow
@needs_mpi
def test_training_goes_on_while_machines_go_and_come(tmp_path):
    """Three ranks on two machines; one machine is lost, and one rank goes on alone until another
    machine comes. The result is that of one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "program.py").write_text(textwrap.dedent(TRAINING))
    conf = "last_call_timeout=1,keep_alive_interval=0.5,keep_alive_max_attempt=6"

    def machine(processes):
        command = [sys.executable, "-m", "rushlight.distributed.run", "--nnodes=1:2",
                   f"--nproc-per-node={processes}", "--rdzv-backend=c10d", f"--rdzv-conf={conf}",
                   f"--rdzv-endpoint=127.0.0.1:{port}", "program.py"]  # fmt: skip
        return subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    machines = [machine(1)]
    try:
        with socket.socket() as probe:  # the first one holds the store
            while probe.connect_ex(("127.0.0.1", port)):
                assert machines[0].poll() is None, machines[0].communicate()
                time.sleep(0.05)
        machines.append(machine(2))
        wait_for(tmp_path / "at-5", machines[0])
        os.killpg(machines[1].pid, signal.SIGKILL)
        wait_for(tmp_path / "at-10", machines[0])
        machines.append(machine(1))
        ends = [machines[i].communicate(timeout=60) for i in (0, 2)]
    finally:
        for process in machines:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert [machines[i].returncode for i in (0, 2)] == [0, 0], ends
    step, *found = [float(word) for word in ends[0][0].split()]
    assert step == 15
    np.testing.assert_allclose(found, trained_alone(), rtol=1e-9, atol=1e-12)
    said = ends[0][1]
    assert "launcher 1 is gone" in said and "launcher 2 has come" in said, said


SHRINKING = """
    import os
    from datetime import timedelta
    import rushlight as rl, rushlight.distributed as dist
    from rushlight.nn.parallel import DistributedDataParallel
    from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    first = dist.get_rank()
    x = rl.randn(180, 4, generator=rl.Generator().manual_seed(1), dtype=rl.float64)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    net = rl.nn.Linear(4, 1, dtype=rl.float64)
    with rl.no_grad():
        net.weight.zero_(), net.bias.zero_()
    optimizer = rl.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    step, where = 0, None
    while step < 15:
        size = dist.get_world_size()
        model = DistributedDataParallel(net)
        loader = DataLoader(data, 12 // size, sampler=DistributedSampler(data, seed=5))
        if where is not None:
            loader.load_state_dict(where)
        try:
            for inputs, targets in loader:
                if (step, first) == (5, 1):
                    os.kill(os.getpid(), 9)
                if (step, first) == (9, 0):
                    os._exit(3)
                optimizer.zero_grad()
                ((model(inputs) - targets) ** 2).mean().backward()
                optimizer.step()
                step, where = step + 1, loader.state_dict()
        except dist.DistBackendError:
            here = dist.survivors(timeout=timedelta(seconds=4))
            dist.shrink_group([r for r in range(size) if r not in here])
            steps = [None] * dist.get_world_size()
            dist.all_gather_object(steps, step)
            assert len(set(steps)) == 1
    pair = dist.new_group([0, 1])
    dist.all_reduce(total := rl.tensor([float(first)]), group=pair)
    assert dist.get_world_size() == 2 and total.item() == 5
    print(step, *net.weight.flatten().tolist(), net.bias.item(), flush=True)
"""


@pytest.mark.slow
@needs_mpi
def test_training_goes_on_without_lost_ranks(tmp_path):
    """Four ranks lose two, one after the other, and go on in the same processes."""
    (tmp_path / "program.py").write_text(textwrap.dedent(SHRINKING))
    command = [sys.executable, "-m", "rushlight.distributed.run", "--standalone",
               "--nproc-per-node=4", "--max-lost-ranks=2", "program.py"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and "rank 1 is lost (signal SIGKILL)" in done.stderr
    for line in lines:
        step, *found = [float(word) for word in line.split()]
        assert step == 15
        np.testing.assert_allclose(found, trained_alone(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("excluded", "error", "words"),
    [([], ValueError, "at least one"), ([1, 1], ValueError, "different"), ([4], ValueError, "0 to"),
     ([0, 1, 2], ValueError, "no rank would be left"), ([0], RuntimeError, "must not call"),
     (["1"], TypeError, "integers"), ([True], TypeError, "integers")],
)  # fmt: skip
def test_shrinking_by_nonsense(excluded, error, words):
    with pytest.raises(error, match=words):
        _shrink._kept(excluded, 3, 0)
    assert _shrink._kept([1], 3, 0) == [0, 2]


def test_a_rank_that_is_lost_between_the_roll_call_and_the_new_group(monkeypatch):
    """The others are told who is missing, keep the old group, and may ask again."""
    group = SimpleNamespace(rank=lambda: 0, size=lambda: 4)
    member = SimpleNamespace(group=group, ranks=[0, 1, 2, 3])
    world = SimpleNamespace(member=lambda *_: member, store=dist.HashStore(), roll_calls={},
                            hub=None, default=group)  # fmt: skip
    monkeypatch.setattr(_shrink, "world", world)
    monkeypatch.setattr(_shrink, "_MEETING", timedelta(0))
    for _ in range(2):
        with pytest.raises(dist.DistBackendError, match=r"ranks \[2, 3\] were to go on"):
            dist.shrink_group([1])
    assert world.default is group


def test_the_survivors_agree():
    def program(rank):
        if rank == 1:
            return None
        return dist.survivors(timeout=timedelta(seconds=1))

    assert dist.simulate(3, program) == [[0, 2], None, [0, 2]]
