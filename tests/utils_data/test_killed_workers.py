"""Workers that are killed, at any time: the error names them, the loader goes on with new ones, and
nothing is left over: no process, no descriptor."""

import gc
import os
import signal
import time

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        time.sleep(0.002)
        return i


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(get_worker_info().id, 12, get_worker_info().num_workers)


class KillsItself(Dataset):
    """In the first batch of the first pass; a file remembers that it was done."""

    def __init__(self, done):
        self.done = done

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 0 and not os.path.exists(self.done):
            open(self.done, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return i


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def workers_of(loader):
    return [remote.process for remote in loader._iterator._pool._workers]


def kill(processes):
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)


def numbers_of(loader):
    return sorted(i for batch in loader for i in batch.tolist())


def loader_of(dataset, method="fork", **options):
    options = {"num_workers": 2, "persistent_workers": True} | options
    return DataLoader(dataset, 2, multiprocessing_context=method, **options)


# (A killed worker of the other two is also in test_killed_while_another_is_starting.)
METHODS = ["fork", *(pytest.param(m, marks=pytest.mark.slow) for m in ("spawn", "forkserver"))]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dataset", [Numbers(), Stream()], ids=["map", "iterable"])
def test_killed_during_an_epoch(method, dataset):
    loader = loader_of(dataset, method)
    assert numbers_of(loader) == list(range(12))
    batches = iter(loader)
    victim = workers_of(loader)[1].pid
    # Held, it cannot finish its batches before it is killed.
    os.kill(victim, signal.SIGSTOP)
    batches = iter(loader)
    kill(workers_of(loader)[1:])
    with pytest.raises(RuntimeError) as caught:
        list(batches)
    text = str(caught.value)
    assert f"(pid {victim})" in text and "SIGKILL" in text and "worker 1 of 2" in text, text
    # Asked again, the iterator says it again.
    with pytest.raises(RuntimeError, match=f"pid {victim}"):
        next(batches)
    for _ in range(2):
        assert numbers_of(loader) == list(range(12))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2])
def test_killed_while_idle(method, count):
    """No batch is lost with it: the next pass begins with new workers, and says why."""
    loader = loader_of(Numbers(), method)
    assert numbers_of(loader) == list(range(12))
    victims = workers_of(loader)[:count]
    names = [f"(pid {p.pid})" for p in victims]
    kill(victims)
    with pytest.warns(UserWarning, match="SIGKILL.*started again") as caught:
        assert numbers_of(loader) == list(range(12))
    assert all(name in str(caught[0].message) for name in names)
    assert numbers_of(loader) == list(range(12))


def test_killed_in_the_first_batch(tmp_path):
    loader = loader_of(KillsItself(str(tmp_path / "done")))
    with pytest.raises(RuntimeError, match=r"SIGKILL.*while loading sample 0"):
        list(loader)
    assert numbers_of(loader) == list(range(8))


def test_an_iterator_of_its_own_says_it_again():
    batches = iter(DataLoader(Numbers(), 2, num_workers=2))
    next(batches)
    kill([remote.process for remote in batches._pool._workers])
    texts = []
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"worker \(pid") as caught:
            list(batches)
        texts.append(str(caught.value))
    assert len(set(texts)) == 1 and texts[0].count("SIGKILL") == 2, texts


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_killed_while_another_is_starting(method, monkeypatch):
    from rushlight.utils.data._utils import pool

    loader = loader_of(Numbers(), method)
    add = pool.WorkerPool._add

    def add_and_kill(self, own, other, process):
        add(self, own, other, process)
        if len(self._workers) == 1:
            kill([process])

    monkeypatch.setattr(pool.WorkerPool, "_add", add_and_kill)
    with pytest.raises(RuntimeError, match=r"SIGKILL.*worker 0 of 2"):
        list(loader)
    monkeypatch.undo()
    assert numbers_of(loader) == list(range(12))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_over(method):
    before = set(torch.multiprocessing.active_children())
    loader = loader_of(Numbers(), method)
    counts = []
    for _ in range(4):
        assert numbers_of(loader) == list(range(12))
        batches = iter(loader)
        own = {p.pid for p in workers_of(loader)}
        kill(workers_of(loader))
        with pytest.raises(RuntimeError):
            list(batches)
        del batches
        assert not any(os.path.exists(f"/proc/{pid}") for pid in own)
        counts.append(descriptors())
    assert len(set(counts)) == 1, counts
    del loader
    assert set(torch.multiprocessing.active_children()) <= before


def test_a_closed_connection_has_no_socket():
    """socket.socket(fileno=None) would make a new one, which nobody closes."""
    from rushlight.multiprocessing import _channels

    own, other = _channels.pipe()
    other.close(), own.close()
    before = descriptors()
    with pytest.raises(OSError, match="closed"):
        own._socket()
    assert descriptors() == before
