"""Batches from worker processes: the same as without, in the same order, whatever happens."""

import itertools
import pickle
import random
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

sys.path.insert(0, __file__.rpartition("/")[0])
from test_loader import Augmented, epoch, plain

pytestmark = pytest.mark.filterwarnings("error", "ignore:This DataLoader will create")
METHODS = ["fork", "spawn", "forkserver"]


class Shards(IterableDataset):
    """A stream whose workers take every n-th number."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(start, self.n, step):
            yield i, torch.rand(()).item()


class Images(Dataset):
    def __init__(self, n=40):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"image": torch.full((3, 20, 20), float(i)), "label": i, "name": f"sample {i}"}


def test_batches_are_in_shared_memory_and_right():
    loader = DataLoader(Images(), batch_size=8, num_workers=2)
    for number, batch in enumerate(loader):
        assert batch["label"].tolist() == list(range(8 * number, 8 * number + 8))
        assert batch["name"] == [f"sample {i}" for i in range(8 * number, 8 * number + 8)]
        assert batch["image"].is_shared() and batch["image"].shape == (8, 3, 20, 20)
        assert batch["image"][:, 0, 0, 0].tolist() == batch["label"].tolist()
        assert bool((batch["image"] == batch["image"][:, :1, :1, :1]).all())


def test_batches_that_are_kept_are_not_overwritten():
    loader = DataLoader(Images(200), batch_size=2, num_workers=2)
    kept = [b["image"][1] for b in loader]  # views only
    assert [int(t[0, 0, 0].item()) for t in kept] == list(range(1, 200, 2))
    assert all(bool((t == t[0, 0, 0]).all()) for t in kept)


def test_memory_is_used_again():
    loader = DataLoader(Images(400), batch_size=4, num_workers=1)
    addresses = set()
    for batch in loader:
        addresses.add(batch["image"].data_ptr())
        del batch
    assert len(addresses) < 12, len(addresses)


@pytest.mark.parametrize("method", METHODS)
def test_an_epoch_does_not_depend_on_the_workers(method):
    def run(workers):
        torch.manual_seed(3)
        context = method if workers else None
        loader = DataLoader(
            Augmented(30), 4, shuffle=True, num_workers=workers, multiprocessing_context=context
        )
        return epoch(loader), epoch(loader)

    alone = run(0)
    assert alone[0] != alone[1]
    assert run(1) == alone
    assert run(4) == alone


def test_collate_functions_draw_the_same():
    def run(workers):
        torch.manual_seed(3)

        def mixed(batch):
            return [torch.rand(2), random.random(), np.random.rand(), batch[0][1]]

        return epoch(DataLoader(Augmented(20), 4, num_workers=workers, collate_fn=mixed))

    assert run(0) == run(2) == run(3)
    assert len({b[1] for b in run(0)}) == 5


def test_streams():
    def run(workers):
        torch.manual_seed(3)
        return epoch(DataLoader(Shards(22), 4, num_workers=workers))

    assert run(0) == run(1)
    assert [b[0] for b in run(2)] == [
        [0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15], [16, 18, 20], [17, 19, 21],
    ]  # fmt: skip
    assert run(2) == run(2)
    draws = [x for b in run(3) for x in b[1]]
    assert len(set(draws)) == 22
    assert [b[0] for b in run(5)][-3:] == [[4, 9, 14, 19], [20], [21]]


@pytest.mark.parametrize("before, after", [(0, 2), (2, 0), (2, 3), (1, 4)])
@pytest.mark.parametrize("done", [0, 1, 5])
def test_resume_with_other_workers(before, after, done):
    def make(workers):
        return DataLoader(Augmented(27), 4, shuffle=True, num_workers=workers)

    torch.manual_seed(1)
    loader = make(before)
    batches, unbroken, state = iter(loader), [], None
    for i in itertools.count():
        if i == done:
            state = pickle.loads(pickle.dumps(loader.state_dict()))
        batch = next(batches, None)
        if batch is None:
            break
        unbroken.append(plain(batch))
    unbroken += epoch(loader)
    torch.manual_seed(77)
    resumed = make(after)
    resumed.load_state_dict(state)
    assert epoch(resumed) + epoch(resumed) == unbroken[done:]


@pytest.mark.parametrize("before, after", [(2, 2), (2, 0), (0, 2), (2, 3)])
def test_resume_a_stream(before, after):
    def make(workers):
        return DataLoader(Shards(30), 4, num_workers=workers)

    torch.manual_seed(1)
    loader = make(before)
    batches = iter(loader)
    next(batches), next(batches), next(batches)
    state = loader.state_dict()
    rest = [plain(b) for b in batches]
    resumed = make(after)
    resumed.load_state_dict(state)
    assert epoch(resumed) == rest
    assert sorted(i for b in epoch(resumed) for i in b[0]) == list(range(30))


def test_worker_info():
    class Info(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            info = get_worker_info()
            assert info.dataset is self and torch.get_num_threads() == 1
            return info.id, info.num_workers, info.seed

    rows = list(DataLoader(Info(), 1, num_workers=3, collate_fn=lambda b: b[0]))
    assert [r[:2] for r in rows] == [(0, 3), (1, 3), (2, 3)] * 2
    assert rows[1][2] == rows[0][2] + 1
    assert get_worker_info() is None


def test_worker_init_fn():
    class Marked(Dataset):
        mark = None

        def __len__(self):
            return 4

        def __getitem__(self, i):
            return self.mark

    def init(worker_id):
        get_worker_info().dataset.mark = 10 + worker_id

    loader = DataLoader(Marked(), num_workers=2, worker_init_fn=init)
    assert [b.item() for b in loader] == [10, 11, 10, 11]

    def bad(worker_id):
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        list(DataLoader(Marked(), num_workers=2, worker_init_fn=bad))


def test_persistent_workers():
    class Process(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            import os

            return os.getpid()

    loader = DataLoader(Process(), num_workers=2, persistent_workers=True)
    first, second = [{b.item() for b in loader} for _ in range(2)]
    assert first == second and len(first) == 2
    half = iter(loader)
    next(half)
    assert {b.item() for b in loader} == first  # a pass that was left early
    fresh = DataLoader(Process(), num_workers=2)
    assert {b.item() for b in fresh} != {b.item() for b in fresh}


def test_persistent_epochs_are_the_same():
    def run(persistent):
        torch.manual_seed(9)
        loader = DataLoader(
            Augmented(10), 3, shuffle=True, num_workers=2, persistent_workers=persistent
        )
        return [epoch(loader) for _ in range(3)]

    assert run(True) == run(False)


@pytest.mark.parametrize("prefetch", [1, 2, 50])
def test_prefetch(prefetch):
    loader = DataLoader(range(40), 3, num_workers=2, prefetch_factor=prefetch)
    assert [x for b in loader for x in b.tolist()] == list(range(40))


def test_out_of_order():
    loader = DataLoader(range(40), 3, num_workers=3, in_order=False)
    assert sorted(x for b in loader for x in b.tolist()) == list(range(40))


def test_other_kinds_of_batches():
    class Kinds(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return i

    values = {
        "array": lambda b: np.arange(100_000) + b[0],
        "objects": lambda b: np.array([None, "a", b[0]], dtype=object),
        "view": lambda b: torch.arange(10_000).view(100, 100)[:, 3:5] + b[0],
        "channels": lambda b: torch.rand(2, 3, 40, 40).to(memory_format=torch.channels_last),
        "grad": lambda b: torch.ones(2000, requires_grad=True),
        "text": lambda b: "x" * 300_000,
        "none": lambda b: None,
        "parameter": lambda b: torch.nn.Parameter(torch.ones(3000)),
        "shared": lambda b: torch.ones(3000).share_memory_(),
        "empty": lambda b: torch.zeros(0, 5),
    }
    for name, make in values.items():
        torch.manual_seed(0)
        expected = list(DataLoader(Kinds(), 2, collate_fn=make))
        torch.manual_seed(0)
        found = list(DataLoader(Kinds(), 2, collate_fn=make, num_workers=1))
        for a, b in zip(expected, found, strict=True):
            assert type(a) is type(b), name
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b) and a.stride() == b.stride(), name
                assert a.requires_grad == b.requires_grad and a.dtype == b.dtype, name
            elif isinstance(a, np.ndarray):
                assert a.dtype == b.dtype and (a == b).all(), name
            else:
                assert a == b, name


def test_rows_of_tensors():
    x, y = torch.rand(50, 700), torch.arange(50)
    loader = DataLoader(Subset(TensorDataset(x, y), range(0, 50, 2)), 4, num_workers=2)
    found = list(loader)
    assert torch.equal(torch.cat([b[0] for b in found]), x[::2])
    assert torch.equal(torch.cat([b[1] for b in found]), y[::2])
    assert found[0][0].is_shared()


def test_large_requests_do_not_lock_up():
    """Lists of keys and answers, each larger than a socket's buffer."""

    class Big(Dataset):
        def __len__(self):
            return 600_000

        def __getitems__(self, keys):
            return [f"{k:050d}" for k in keys]

    loader = DataLoader(Big(), 100_000, num_workers=2, prefetch_factor=3)
    count = sum(len(b) for b in loader)
    assert count == 600_000


def test_a_batch_that_cannot_be_sent():
    loader = DataLoader(range(3), num_workers=1, collate_fn=lambda b: lambda: 1)
    with pytest.raises(Exception, match="cannot be sent"):
        list(loader)


def test_forking_with_a_batch_in_hand():
    """A process that inherits a batch sees it unchanged while the loader goes on."""
    context = torch.multiprocessing.get_context("fork")
    loader = DataLoader(Images(80), batch_size=2, num_workers=1)
    batches = iter(loader)
    batch = next(batches)["image"]

    def look(batch, go, answer):
        go.recv()
        answer.send(batch.sum().item())

    (go, started), (found, answer) = context.Pipe(), context.Pipe()
    process = context.Process(target=look, args=(batch, started, answer), daemon=True)
    process.start()
    expected = batch.sum().item()
    del batch
    for _ in batches:
        pass
    go.send(1)
    assert found.poll(30) and found.recv() == expected
    process.join(10)


def test_more_workers_than_processors_warn():
    with pytest.warns(UserWarning, match="1000 worker processes"):
        DataLoader([1], num_workers=1000)


def test_a_forked_process_does_not_end_the_workers():
    """It inherits the iterator, and drops it."""
    context = torch.multiprocessing.get_context("fork")
    batches = iter(DataLoader(range(100), 2, num_workers=2))
    first = next(batches)

    def drop(held):
        held.clear()

    process = context.Process(target=drop, args=([batches],))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    rest = [x for b in batches for x in b.tolist()]
    assert first.tolist() + rest == list(range(100))
