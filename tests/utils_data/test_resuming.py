"""Taking up an epoch: streams of different length, samplers of one's own, batches in any order."""

import json
import random
import time

import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, Sampler, get_worker_info

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Uneven(IterableDataset):
    """Worker 0 has 3 samples, worker 1 has 8, worker 2 has 13; some workers are slow."""

    def __iter__(self):
        info = get_worker_info()
        number = info.id if info else 0
        for i in range(3 + 5 * number):
            if number == 1:
                time.sleep(0.002)
            yield torch.tensor([number, i, random.random(), torch.rand(1).item()])


def taken_up(make, at, **other):
    """What is left of an epoch behind `at` batches, in a loader that took it up."""
    loader = make()
    batches = iter(loader)
    done = [next(batches).tolist() for _ in range(at)]
    state = json.loads(json.dumps(loader.state_dict()))
    del batches
    second = make(**other)
    second.load_state_dict(state)
    return done, [b.tolist() for b in second]


SIZES = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(None, marks=pytest.mark.slow)]


@pytest.mark.parametrize("batch_size", SIZES)
def test_streams_of_different_length(batch_size):
    def make(workers=3):
        torch.manual_seed(5)
        return DataLoader(Uneven(), batch_size, num_workers=workers, persistent_workers=True)

    whole = [b.tolist() for b in make()]
    assert [b.tolist() for b in make()] == whole  # whoever is slow
    for at in range(0, len(whole) + 1, 2):
        done, rest = taken_up(make, at, workers=3 if at % 4 else 2)
        assert done == whole[:at] and rest == whole[at:], at


class Drawing(Sampler):
    """Draws every key when it is asked for."""

    def __iter__(self):
        for _ in range(20):
            yield random.randrange(100)

    def __len__(self):
        return 20


@pytest.mark.parametrize("workers, others", [(0, 0), (2, 0), (0, 2), (3, 1)])
def test_a_sampler_that_draws_as_it_goes(workers, others):
    def make(workers=workers):
        torch.manual_seed(1)
        random.seed(1)
        return DataLoader(range(100), 3, sampler=Drawing(), num_workers=workers)

    whole = [b.tolist() for b in make()]
    for at in (0, 1, 3, len(whole) - 1):
        done, rest = taken_up(make, at, workers=others)
        assert done == whole[:at] and rest == whole[at:], at


class Delayed(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        time.sleep(0.05 if i % 7 == 0 else 0)
        return i


class DelayedStream(IterableDataset):
    def __iter__(self):
        for i in range(get_worker_info().id, 24, 3):
            time.sleep(0.02 if i % 7 == 0 else 0)
            yield i


@pytest.mark.parametrize("dataset", [Delayed(), DelayedStream()], ids=["map", "stream"])
def test_batches_in_any_order(dataset):
    """Each comes once, whatever the order was before and after."""

    def make():
        return DataLoader(dataset, 1, num_workers=3, in_order=False)

    for at in (1, 5, 11, 23):
        done, rest = taken_up(make, at)
        assert sorted(done + rest) == [[i] for i in range(24)], at


class Failing(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 2:
            raise ValueError("no")
        return i


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_counts_as_a_batch(workers):
    loader = DataLoader(Failing(), 1, num_workers=workers)
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(ValueError, match="no"):
        next(batches)
    other = DataLoader(Failing(), 1)
    other.load_state_dict(loader.state_dict())
    assert [b.item() for b in batches] == [b.item() for b in other] == [3, 4, 5]
