"""Pinning of batches. Without a GPU a stand-in takes the place of what copies to pinned memory:
what is tested is the thread around it."""

import collections
import os
import signal

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, dataloader
from rushlight.utils.data._utils import pin_memory

Point = collections.namedtuple("Point", "x y")


@pytest.fixture
def pinned(monkeypatch):
    monkeypatch.setattr(dataloader, "_can_pin", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, device=None: self + 1000)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_batch_is_pinned_in_order(pinned, workers):
    loader = DataLoader(range(20), 3, num_workers=workers, pin_memory=True)
    for _ in range(2):
        found = [x for b in loader for x in b.tolist()]
        assert found == list(range(1000, 1020))


def test_containers(pinned):
    x = torch.zeros(2)
    out = pin_memory.pin_memory({"a": [x, (x, "text")], "b": Point(x, 3), "c": None})
    assert out["a"][0][0] == 1000 and type(out["a"][1]) is tuple and out["a"][1][1] == "text"
    assert type(out["b"]) is Point and out["b"].x[1] == 1000 and out["b"].y == 3
    assert out["c"] is None and x.tolist() == [0, 0]


def test_errors_come_through(pinned):
    def collate(batch):
        if 5 in batch:
            raise LookupError("five")
        return torch.tensor(batch)

    batches = iter(DataLoader(range(9), 3, num_workers=2, pin_memory=True, collate_fn=collate))
    assert next(batches).tolist() == [1000, 1001, 1002]
    with pytest.raises(LookupError, match="five"):
        next(batches)
    assert next(batches).tolist() == [1006, 1007, 1008]
    assert next(batches, None) is None


def test_leaving_early(pinned):
    loader = DataLoader(range(1000), 2, num_workers=2, pin_memory=True, persistent_workers=True)
    for _ in range(3):
        for batch in loader:
            assert batch.tolist() == [1000, 1001]
            break
    fresh = iter(DataLoader(range(1000), 2, num_workers=2, pin_memory=True))
    next(fresh)
    del fresh


def test_state_counts_what_was_handed_out(pinned):
    loader = DataLoader(range(30), 3, num_workers=2, pin_memory=True)
    batches = iter(loader)
    next(batches), next(batches)
    other = DataLoader(range(30), 3)
    other.load_state_dict(loader.state_dict())
    assert next(iter(other)).tolist() == [6, 7, 8]


def test_a_killed_worker(pinned):
    loader = DataLoader(range(40), 2, num_workers=2, pin_memory=True, persistent_workers=True)
    assert len(list(loader)) == 20
    batches = iter(loader)
    victim = loader._iterator._pool._workers[0].process.pid
    os.kill(victim, signal.SIGKILL)
    for _ in range(2):  # said again to those who ask again
        with pytest.raises(RuntimeError, match=f"pid {victim}.*SIGKILL"):
            list(batches)
    assert len(list(loader)) == 20
