"""Datasets and samplers: contents, lengths, errors, and draws against what must hold for them."""

import collections

import pytest

import rushlight as torch
from rushlight.utils import data
from rushlight.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_import_paths_of_pytorch():
    import rushlight.utils.data._utils.collate as collate
    from rushlight.utils.data.dataloader import DataLoader, _SingleProcessDataLoaderIter
    from rushlight.utils.data.dataset import Dataset
    from rushlight.utils.data.distributed import DistributedSampler as Distributed
    from rushlight.utils.data.sampler import Sampler

    assert collate.default_collate is data.default_collate
    assert (Dataset, DataLoader, Sampler) == (data.Dataset, data.DataLoader, data.Sampler)
    assert Distributed is DistributedSampler
    assert type(iter(DataLoader([1]))) is _SingleProcessDataLoaderIter


def test_tensor_dataset():
    x, y = torch.arange(6).view(3, 2), torch.tensor([7, 8, 9])
    dataset = TensorDataset(x, y)
    assert len(dataset) == 3
    row, label = dataset[1]
    assert row.tolist() == [2, 3] and label.item() == 8
    with pytest.raises(AssertionError, match=r"Size mismatch.*\[3, 2\]"):
        TensorDataset(y, y[:2])


def test_concat():
    both = ConcatDataset([[1, 2, 3], [4, 5]])
    assert [both[i] for i in range(len(both))] == [1, 2, 3, 4, 5]
    assert (both[-1], both[-5]) == (5, 1)
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(AssertionError, match="empty"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Stream(2)])
    rows = TensorDataset(torch.arange(2))
    assert type(rows + rows) is ConcatDataset and len(rows + rows) == 4


def test_chain():
    chain = ChainDataset([Stream(2), Stream(3)])
    assert list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    assert list(Stream(1) + Stream(2)) == [0, 0, 1]
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([[1]]))
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()


def test_stack():
    pairs = StackDataset([1, 2], "ab")
    assert pairs[1] == (2, "b") and len(pairs) == 2
    named = StackDataset(number=[1, 2], letter="ab")
    assert named[0] == {"number": 1, "letter": "a"}
    assert named.__getitems__([1, 0]) == [
        {"number": 2, "letter": "b"},
        {"number": 1, "letter": "a"},
    ]
    for bad in (
        lambda: StackDataset(),
        lambda: StackDataset([1], a=[1]),
        lambda: StackDataset([1], []),
    ):
        with pytest.raises(ValueError):
            bad()


class ManyAtOnce(data.Dataset):
    def __init__(self):
        self.calls = []

    def __len__(self):
        return 10

    def __getitem__(self, i):
        raise AssertionError("asked for one sample")

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [10 * i for i in indices]


def test_getitems_is_asked_for_whole_batches():
    dataset = ManyAtOnce()
    loader = data.DataLoader(Subset(dataset, [9, 8, 7]), batch_size=2)
    assert [b.tolist() for b in loader] == [[90, 80], [70]]
    assert dataset.calls == [[9, 8], [7]]
    stacked = StackDataset(dataset, range(10))
    assert [b.tolist() for b in next(iter(data.DataLoader(stacked, batch_size=2)))] == [
        [0, 10],
        [0, 1],
    ]


def test_subset():
    subset = Subset([5, 6, 7, 8], [3, 0])
    assert len(subset) == 2 and [subset[0], subset[1]] == [8, 5]
    assert Subset(torch.arange(5), [1, 3, 4])[[0, 2]].tolist() == [1, 4]


def test_random_split():
    parts = random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [3, 7]
    assert sorted(x for p in parts for x in p) == list(range(10))
    again = random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(1))
    assert [p.indices for p in parts] == [p.indices for p in again]
    assert [len(p) for p in random_split(range(10), [0.35, 0.35, 0.3])] == [4, 3, 3]
    with pytest.raises(ValueError, match="does not equal the length"):
        random_split(range(10), [3, 6])
    with pytest.raises(ValueError, match="does not equal the length"):
        random_split(range(10), [0.5, 0.6])
    with pytest.warns(UserWarning, match="index 1 is 0"):
        random_split(range(3), [0.99, 0.01])


def test_random_sampler():
    torch.manual_seed(3)
    sampler = RandomSampler(range(100))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == list(range(100)) and first != second
    torch.manual_seed(3)
    assert list(sampler) == first
    more = list(RandomSampler(range(4), num_samples=10))
    assert len(more) == 10 and all(sorted(more[i : i + 4]) == [0, 1, 2, 3] for i in (0, 4))
    draws = list(RandomSampler(range(5), replacement=True, num_samples=9000))
    counts = collections.Counter(draws)
    assert len(draws) == 9000 and set(counts) == set(range(5))
    assert all(abs(c - 1800) < 5 * (9000 * 0.16) ** 0.5 for c in counts.values())
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler([])
    with pytest.raises(TypeError, match="replacement"):
        RandomSampler([1], replacement=1)


def test_other_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    picked = list(SubsetRandomSampler([3, 5, 9], generator=torch.Generator().manual_seed(0)))
    assert sorted(picked) == [3, 5, 9]
    draws = list(WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    counts = collections.Counter(draws)
    assert counts[0] == 0 and abs(counts[2] - 3000) < 5 * (4000 * 0.1875) ** 0.5
    assert sorted(WeightedRandomSampler([1, 1, 1], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="1d sequence"):
        WeightedRandomSampler([[1.0]], 1)
    with pytest.raises(ValueError, match="replacement"):
        WeightedRandomSampler([1.0], 1, replacement=1)
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, d)) for d in (False, True)] == [3, 2]
    for bad in ((0, False), (True, False), (2.0, False), (1, 1)):
        with pytest.raises(ValueError):
            BatchSampler([1], *bad)


@pytest.mark.parametrize("length, ranks", [(10, 3), (2, 5), (9, 3)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_sampler(length, ranks, shuffle):
    samplers = [DistributedSampler(range(length), ranks, r, shuffle=shuffle) for r in range(ranks)]
    parts = [list(s) for s in samplers]
    assert len({len(p) for p in parts}) == 1 and len(samplers[0]) == len(parts[0])
    assert {i for p in parts for i in p} == set(range(length))
    if not shuffle:
        assert parts[0][0] == 0 and (length < 2 or parts[1][0] == 1)
    else:
        for s in samplers:
            s.set_epoch(1)
        if length > 2:
            assert [list(s) for s in samplers] != parts
    short = [DistributedSampler(range(length), ranks, r, drop_last=True) for r in range(ranks)]
    assert len({i for s in short for i in s}) == sum(len(list(s)) for s in short)


def test_distributed_sampler_errors():
    with pytest.raises(ValueError, match=r"interval \[0, 1\]"):
        DistributedSampler([1, 2], 2, 2)
    with pytest.raises((ValueError, RuntimeError)):
        DistributedSampler([1, 2])
