"""DataLoader in one process: arguments, order, randomness tied to the sample, resuming."""

import itertools
import pickle
import random
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)


class Augmented(Dataset):
    """Draws from every global generator."""

    def __init__(self, n=12):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i, torch.rand(2), random.gauss(0, 1), np.random.randn(3), random.random()


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i, torch.rand(()).item()


def plain(batch):
    return [x.tolist() if isinstance(x, torch.Tensor) else x for x in batch]


def epoch(loader):
    return [plain(batch) for batch in loader]


def test_batches():
    loader = DataLoader(range(5), batch_size=2)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]] and len(loader) == 3
    loader = DataLoader(range(5), batch_size=2, drop_last=True)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]] and len(loader) == 2
    assert list(DataLoader([1, 2], batch_size=None)) == [1, 2]
    assert list(DataLoader(range(4), 2, collate_fn=lambda b: b)) == [[0, 1], [2, 3]]
    loader = DataLoader(range(9), batch_sampler=[[8], [1, 2]])
    assert [b.tolist() for b in loader] == [[8], [1, 2]]
    loader = DataLoader({"a": 1, "b": 2}, sampler=["b", "a"])
    assert [b.tolist() for b in loader] == [[2], [1]]
    assert [b.tolist() for b in DataLoader(Stream(3), 2, collate_fn=torch.tensor)]


def test_streams():
    loader = DataLoader(Stream(5), batch_size=2)
    assert [b[0].tolist() for b in loader] == [[0, 1], [2, 3], [4]]
    assert [b[0].tolist() for b in DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError):
        len(loader)


def test_shuffling():
    torch.manual_seed(0)
    loader = DataLoader(range(50), batch_size=5, shuffle=True)
    first, second = (list(itertools.chain(*(b.tolist() for b in loader))) for _ in range(2))
    assert sorted(first) == list(range(50)) and first != second
    own = torch.Generator().manual_seed(1)
    loader = DataLoader(range(50), batch_size=50, shuffle=True, generator=own)
    before = torch.get_rng_state()
    first = next(iter(loader)).tolist()
    assert torch.equal(before, torch.get_rng_state())
    own.manual_seed(1)
    assert next(iter(loader)).tolist() == first


def test_arguments_that_are_refused_when_a_pass_begins():
    with pytest.raises(AssertionError, match="timeout == 0"):
        iter(DataLoader(range(3), timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(range(3), num_workers=1, prefetch_factor=0))
    with pytest.raises(TypeError, match="num_workers must be an int"):
        DataLoader(range(3), num_workers=1.0)
    assert len(list(DataLoader(range(3), num_workers=True))) == 3


@pytest.mark.parametrize(
    "kwargs, text",
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"num_workers": 1, "prefetch_factor": -2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"),
        ({"sampler": [0], "shuffle": True}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "drop_last"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"multiprocessing_context": "bogus", "num_workers": 1}, "valid start method"),
        ({"multiprocessing_context": "fork"}, "num_workers > 0"),
    ],
)
def test_bad_arguments(kwargs, text):
    with pytest.raises(ValueError, match=text):
        DataLoader([1], **kwargs)


@pytest.mark.parametrize("kwargs", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_streams_take_no_order(kwargs):
    with pytest.raises(ValueError, match="with IterableDataset"):
        DataLoader(Stream(3), **kwargs)


def test_fixed_attributes():
    loader = DataLoader([1])
    for name in ("batch_size", "sampler", "dataset", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match="should not be set"):
            setattr(loader, name, None)
    assert next(iter(pickle.loads(pickle.dumps(loader)))).tolist() == [1]


def test_a_wrong_length_is_noticed():
    class Liar(Stream):
        def __len__(self):
            return 2

    loader = DataLoader(Liar(4), batch_size=1)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2"):
        list(loader)


def test_pinning_without_a_gpu_warns():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="no accelerator"):
        assert next(iter(DataLoader([1], pin_memory=True))).tolist() == [1]


def test_rows_of_tensors_are_taken_at_once():
    x, y = torch.rand(20, 3), torch.arange(20)
    loader = DataLoader(Subset(TensorDataset(x, y), [3, -1, 7]), batch_size=2)
    first = next(iter(loader))
    assert type(first) is list
    assert torch.equal(first[0], x[[3, 19]]) and first[1].tolist() == [3, 19]
    with pytest.raises(IndexError):
        list(DataLoader(TensorDataset(x), sampler=[20]))


def test_the_failing_sample_is_named():
    class Broken(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return 1 / (3 - i)

    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader(Broken(), batch_size=5))
    if sys.version_info >= (3, 11):
        assert "sample 3" in caught.value.__notes__[0]


def test_randomness_belongs_to_the_sample():
    torch.manual_seed(7)
    by_index = {b[0][0]: b for b in epoch(DataLoader(Augmented(), shuffle=True))}
    torch.manual_seed(7)
    again = {b[0][0]: b for b in epoch(DataLoader(Augmented(), sampler=range(11, -1, -1)))}
    assert by_index == again
    draws = [tuple(b[1][0]) for b in again.values()]
    assert len(set(draws)) == 12
    torch.manual_seed(7)
    loader = DataLoader(Augmented(), batch_size=5)
    first, second = epoch(loader), epoch(loader)
    assert [b[0] for b in first] == [b[0] for b in second]
    for column in (1, 2, 3, 4):
        assert first[0][column] != second[0][column]
        assert first[0][column][0] == again[0][column][0]


def test_draws_look_random():
    """Means and correlations of what neighbouring samples draw, against five sigma."""
    torch.manual_seed(1)
    n = 4000

    class Draws(Dataset):
        def __len__(self):
            return n

        def __getitem__(self, i):
            return torch.rand(()).item(), random.random(), np.random.rand(), random.random()

    columns = [c.numpy() for c in next(iter(DataLoader(Draws(), batch_size=n)))]
    for c in columns:
        assert abs(c.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5
        assert abs(np.corrcoef(c[1:], c[:-1])[0, 1]) < 5 / n**0.5
    for a, b in itertools.combinations(columns, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / n**0.5


def test_the_program_keeps_its_own_randomness():
    def draws():
        return torch.rand(1).item(), random.gauss(0, 1), np.random.randn(), random.random()

    def seed():
        torch.manual_seed(1), random.seed(2), np.random.seed(3)
        draws()  # leaves half a pair of normals behind, in Python's and in NumPy's

    seed()
    own = torch.Generator()
    expected = [draws() for _ in range(4)]
    seed()
    found = []
    for _ in DataLoader(Augmented(4), generator=own):
        found.append(draws())
    assert found == expected


def test_keys_of_any_kind():
    class Words(dict):
        def __getitem__(self, key):
            return torch.rand(()).item()

    def run():
        torch.manual_seed(0)
        return epoch(
            DataLoader(
                Words(), sampler=["a", ("b", 1), 3], batch_size=None, collate_fn=lambda v: [v]
            )
        )

    assert run() == run() and len({b[0] for b in run()}) == 3


class OddSampler(Sampler):
    """Not ours, and draws from Python's generator."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        order = list(range(self.n))
        random.shuffle(order)
        yield from order

    def __len__(self):
        return self.n


def loaders():
    n = 23
    yield "order", lambda: DataLoader(Augmented(n), batch_size=4)
    yield "shuffle", lambda: DataLoader(Augmented(n), batch_size=4, shuffle=True)
    yield (
        "own generator",
        lambda: DataLoader(
            Augmented(n), 4, shuffle=True, generator=torch.Generator().manual_seed(3)
        ),
    )
    yield (
        "replacement",
        lambda: DataLoader(
            Augmented(n),
            500,
            sampler=RandomSampler(range(n), True, 4500, generator=torch.Generator().manual_seed(4)),
        ),
    )
    yield (
        "weights",
        lambda: DataLoader(Augmented(n), 4, sampler=WeightedRandomSampler([1.0] * n, n)),
    )
    yield "subset", lambda: DataLoader(Augmented(n), 2, sampler=SubsetRandomSampler(range(0, n, 2)))
    yield (
        "batches",
        lambda: DataLoader(
            Augmented(n), batch_sampler=BatchSampler(RandomSampler(range(n)), 3, True)
        ),
    )
    yield "ranks", lambda: DataLoader(Augmented(n), 2, sampler=DistributedSampler(range(n), 2, 1))
    yield "odd", lambda: DataLoader(Augmented(n), 4, sampler=OddSampler(n))
    yield "stream", lambda: DataLoader(Stream(n), batch_size=4)
    yield "single", lambda: DataLoader(Augmented(n), batch_size=None, shuffle=True)


@pytest.mark.parametrize("name, make", list(loaders()), ids=[name for name, _ in loaders()])
@pytest.mark.parametrize("done", [0, 1, 4])
def test_resume(name, make, done):
    torch.manual_seed(5), random.seed(6), np.random.seed(7)
    loader = make()
    if name == "ranks":
        loader.sampler.set_epoch(2)
    unbroken, state = [], None
    batches = iter(loader)
    for i in itertools.count():
        if i == done:
            state = pickle.loads(pickle.dumps(loader.state_dict()))
        batch = next(batches, None)
        if batch is None:
            break
        unbroken.append(plain(batch))
    if name != "odd":  # its next order depends on what the program does with Python's generator
        unbroken += epoch(loader)

    torch.manual_seed(99), random.seed(99), np.random.seed(99)
    resumed = make()
    resumed.load_state_dict(state)
    rest = epoch(resumed)
    if name != "odd":
        rest += epoch(resumed)
    assert rest == unbroken[done:]


def test_state_between_epochs():
    torch.manual_seed(1)
    loader = DataLoader(Augmented(), 5, shuffle=True)
    epoch(loader)
    state = loader.state_dict()
    second = epoch(loader)
    other = DataLoader(Augmented(), 5, shuffle=True)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert epoch(other) == second


def test_a_state_that_does_not_fit():
    state = DataLoader(range(9), 3).state_dict()
    with pytest.raises(ValueError, match="batch_size"):
        DataLoader(range(9), 4).load_state_dict(state)
    with pytest.raises(ValueError, match="state_dict"):
        DataLoader(range(9), 3).load_state_dict({})
    loader = DataLoader(range(9), 3)
    batches = iter(loader)
    next(batches), next(batches)
    short = DataLoader(range(2), 3)
    short.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="ends after 1"):
        iter(short)
