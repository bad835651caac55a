"""Large containers of a dataset: packed once for all workers, and still lists and dicts."""

import collections
import copy
import json
import pathlib
import pickle
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest
import scripts

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset
from rushlight.utils.data._utils import packing, worker
from rushlight.utils.data._utils.packed import LEAST, PackedDict, PackedList, borrowed, packed

# Memory of the whole family, as the kernel accounts it, with 0 and with 4 workers.
MEASURE = """
import collections, gc, os, pathlib, sys
import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset

N = COUNT
Row = collections.namedtuple("Row", "name number")

class Samples(Dataset):
    def __init__(self):
        self.items = ITEMS

    def __len__(self):
        return N

    def __getitem__(self, i):
        item = self.items[KEY]
        return len(str(item))

def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

def family():
    children = [p.pid for p in torch.multiprocessing.active_children()]
    return sum(pss(p) for p in [os.getpid(), *children])

def highest(dataset, workers):
    # A tenth of the samples, at random, touches nearly every page.
    order = torch.randperm(N)[: N // 10].tolist()
    loader = DataLoader(dataset, 500, sampler=order, num_workers=workers)
    most, total = 0, 0
    for i, batch in enumerate(loader):
        total += batch.sum().item()
        if i % 20 == 10:
            most = max(most, family())
    return most

import rushlight.multiprocessing
dataset = Samples()
kept = dataset.items if KEEP else None
alone = highest(dataset, 0)
shared = highest(dataset, 4)
assert isinstance(dataset.items, (list, dict))
print(shared / alone, alone, shared)
"""

CONTAINERS = {
    "strings": ('[f"/data/train/class_{i % 1000}/image_{i:08d}.jpeg" for i in range(N)]', "i"),
    "paths": ('[pathlib.Path(f"/data/train/image_{i:08d}.jpeg") for i in range(N)]', "i"),
    "ints": ("[i * 1000 for i in range(N)]", "i"),
    "tuples": ('[(f"/data/image_{i:08d}.jpeg", i % 1000) for i in range(N)]', "i"),
    "named tuples": ("[Row(str(i), i) for i in range(N)]", "i"),
    "dict": ('{f"image_{i:08d}": i for i in range(N)}', 'f"image_{i:08d}"'),
}


# Each makes a million objects. One kind that is packed as one array, and one as several, are fast.
NAMES = [
    name if name in ("ints", "tuples") else pytest.param(name, marks=pytest.mark.slow)
    for name in CONTAINERS
]


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("name", NAMES)
def test_memory_of_workers(name, kept):
    """Also when the program keeps the container for itself, too."""
    items, key = CONTAINERS[name]
    count = "2_000_000" if name == "strings" else "300_000" if name == "paths" else "1_000_000"
    source = MEASURE.replace("ITEMS", items).replace("KEY", key).replace("KEEP", str(kept))
    source = source.replace("COUNT", count)
    ratio = float(scripts.run(source).split()[0])
    assert ratio < 1.3, ratio


def samples(n=LEAST + 5):
    yield "strings", [f"name {i}" for i in range(n)]
    yield "odd strings", ["" if i % 3 == 0 else f"\udc80ä{i}" for i in range(n)]
    yield "bytes", [b"%d" % i for i in range(n)]
    yield "ints", [(-1) ** i * i**3 for i in range(n)]
    yield "big ints", [i * 10**30 for i in range(n)]
    yield "floats", [i / 7 for i in range(n)]
    yield "bools", [i % 2 == 0 for i in range(n)]
    yield "paths", [pathlib.PurePosixPath(f"/a/{i}") for i in range(n)]
    yield "tuples", [(f"x{i}", i, (None, 1.5, b"")) for i in range(n)]
    yield "mixed", [i if i % 2 else str(i) for i in range(n)]


@pytest.mark.parametrize("way", [packed, borrowed])
@pytest.mark.parametrize("name, values", list(samples()), ids=[name for name, _ in samples()])
def test_a_packed_list_is_a_list(name, values, way):
    found = way(values)
    assert type(found) is PackedList and isinstance(found, list)
    n = len(values)
    assert len(found) == n and bool(found) and found == values and values == found
    assert list(found) == values and [*found] == values and tuple(found) == tuple(values)
    assert found[3:9] == values[3:9] and found[::-977] == values[::-977]
    assert (found[0], found[-1], found[n - 1], found[np.int64(5)]) == (
        values[0], values[-1], values[n - 1], values[5],
    )  # fmt: skip
    for bad, kind in ((n, IndexError), (-n - 1, IndexError), ("a", TypeError)):
        with pytest.raises(kind):
            found[bad]
    assert [type(v) for v in found] == [type(v) for v in values]
    assert values[77] in found and found.index(values[77]) == values.index(values[77])
    assert object() not in found and found.count(values[9]) == values.count(values[9])
    assert list(reversed(found)) == values[::-1]
    assert found + values == values + values == values + found and found * 2 == values * 2
    assert not found != values and found != values[1:]
    assert repr(found) == repr(values)
    for clone in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert type(clone) is list and clone == values
    if name in ("strings", "ints"):
        assert json.loads(json.dumps(found)) == values
        assert sorted(found) == sorted(values) and np.array(found).tolist() == values
        assert ",".join(map(str, found)) == ",".join(map(str, values))
    if name == "ints":
        assert torch.tensor(found).tolist() == values and sum(found) == sum(values)
        assert max(found) == max(values)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.append("new"),
        lambda x: x.__setitem__(4, "new"),
        lambda x: x.__delitem__(slice(2, 50)),
        lambda x: x.pop(7),
        lambda x: x.sort(reverse=True),
        lambda x: x.extend(["a", "b"]),
        lambda x: x.clear(),
        lambda x: x.__iadd__(["z"]),
    ],
)
@pytest.mark.parametrize("way", [packed, borrowed])
def test_a_packed_list_that_is_changed(change, way):
    values = [f"name {i}" for i in range(LEAST)]
    owner = list(values)
    found = way(owner)
    change(found)
    change(values)
    assert found == values and list(found) == values and len(found) == len(values)
    again = packed(found)
    assert again is found and list(found) == values
    if way is borrowed:  # it stays one list
        assert owner == values


@pytest.mark.parametrize("way", [packed, borrowed])
def test_a_packed_dict_is_a_dict(way):
    values = {f"key {i}": (i, str(i)) for i in range(LEAST)}
    found = way(dict(values))
    assert type(found) is PackedDict and isinstance(found, dict)
    assert len(found) == len(values) and found == values and values == found
    assert list(found) == list(values) and list(found.items()) == list(values.items())
    assert list(found.keys()) == list(values) and list(found.values()) == list(values.values())
    assert dict(found) == values and {**found} == values and (found | {"a": 1})["a"] == 1
    assert found["key 9"] == (9, "9") and "key 77" in found and "no" not in found
    assert found.get("no") is None and found.get("no", 5) == 5 and 5 not in found
    with pytest.raises(KeyError, match="no"):
        found["no"]
    with pytest.raises(TypeError):
        found[[]]
    for clone in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), found.copy()):
        assert type(clone) is dict and clone == values
    assert json.loads(json.dumps(found))["key 3"] == [3, "3"]
    assert list(reversed(found)) == list(reversed(values)) and repr(found) == repr(values)
    found["new"] = 1
    del found["key 0"]
    assert found["new"] == 1 and "key 0" not in found and len(found) == len(values)
    assert packed(found) is found and found["new"] == 1 and found["key 1"] == (1, "1")


def test_what_is_not_packed():
    for values in (
        [[i] for i in range(LEAST)],  # a list inside can be changed through the outer one
        [object()] * LEAST,
        [np.str_("a")] * LEAST,
        list(range(LEAST - 1)),
        {i: i for i in range(LEAST)},
        [f"{i}" for i in range(LEAST)] + [{}],
    ):
        assert packed(values) is values


class Holder:
    def __init__(self, names):
        self.names = names


class Nested(Dataset):
    def __init__(self, n):
        names = [f"name {i}" for i in range(n)]
        self.names = names
        self.inner = {"deep": [Holder(names)]}

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        deep = self.inner["deep"][0].names
        assert isinstance(deep, list)
        return self.names[i], deep[-1 - i]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_workers(method):
    dataset = Nested(LEAST)
    loader = DataLoader(
        torch.utils.data.Subset(dataset, list(range(0, LEAST))),
        2500,
        num_workers=2,
        multiprocessing_context=method,
    )
    names = [name for batch in loader for name in batch[0]]
    assert names == [f"name {i}" for i in range(LEAST)]
    assert type(dataset.names) is PackedList
    assert dataset.inner["deep"][0].names is dataset.names
    assert type(loader.dataset.indices) is PackedList


def test_cycles_and_modules_are_no_trouble():
    dataset = Nested(5)
    dataset.itself, dataset.module, dataset.function = dataset, packing, packed
    dataset.data = data = torch.zeros(3)
    packing.Containers(dataset, forks=True)
    assert dataset.itself is dataset and dataset.data is data
    assert (dataset.module, dataset.function) == (packing, packed)


Row = collections.namedtuple("Row", "name number")


class Named(NamedTuple):
    name: str


def test_borrowed_values_are_copies():
    """Reading them writes nothing: no count of theirs changes while copies are held."""
    here = pathlib.Path("/some/where")
    hash(here), here.parts, str(here)  # what a path remembers goes along
    values = [
        "text" * 9, "\u00e4\u4e2d\U0001f600", b"bytes" * 9, 10**40, -(10**40), 12345.678, 3 + 4j,
        ("a" * 30, (1.5, None, True)), Row("r" * 30, 10**20), Named("n" * 30), here,
        pathlib.PureWindowsPath("c:/x"), pathlib.PurePosixPath("a"), 2**63, -(2**63) - 1,
    ]  # fmt: skip
    before = [sys.getrefcount(v) for v in values]
    view = borrowed(values)
    copies = [view[i] for i in range(len(values))]
    assert copies == values and [type(c) for c in copies] == [type(v) for v in values]
    assert [sys.getrefcount(v) for v in values] == before
    assert str(copies[10]) == "/some/where" and copies[10].parent == here.parent
    assert hash(copies[10]) == hash(here) and copies[10] / "x" == here / "x"
    assert copies[8].name == "r" * 30 and copies[9]._asdict() == {"name": "n" * 30}


def test_borrowed_values_that_are_not_plain():
    """They are handed out as they are."""
    moment = time.localtime()  # a tuple with more inside than it shows
    values = [[1], {"a": 1}, object(), np.str_("x"), moment, Holder(None), {1, 2}]
    view = borrowed(values)
    assert all(a is b for a, b in zip(view, values, strict=True))
    nested = borrowed([(values[2], "text")])
    assert nested[0][0] is values[2]


def deeply(n):
    value = ()
    for _ in range(n):
        value = (value,)
    return value


def test_borrowed_values_that_are_too_deep():
    with pytest.raises(RecursionError):
        borrowed([deeply(100_000)])[0]


GLOBAL = [f"global {i}" for i in range(LEAST)]


class Slotted:
    __slots__ = ("names",)


class Everywhere(Dataset):
    """Names that the program holds, too, in every kind of place."""

    in_class = [f"class {i}" for i in range(LEAST)]  # noqa: RUF012

    def __init__(self, names, numbers, closed):
        self.pair = (names, 5)
        self.slotted = Slotted()
        self.slotted.names = names
        self.numbers = numbers
        self.look = lambda i: closed[i]

    def __len__(self):
        return 4

    def __getitem__(self, i):
        inside = [self.pair[0], self.slotted.names, self.numbers, self.in_class, GLOBAL,
                  self.look.__closure__[0].cell_contents]  # fmt: skip
        kinds = {type(x).__name__ for x in inside}
        values = [self.numbers[f"key {i}"], *(x[i] for x in inside if isinstance(x, list))]
        return str(sorted(kinds)), str(values), self.look(i)


def test_what_the_program_holds_as_well_stays_its_own():
    names = [f"name {i}" for i in range(LEAST)]
    closed = [f"closed {i}" for i in range(LEAST)]
    numbers = {f"key {i}": i for i in range(LEAST)}
    dataset = Everywhere(names, numbers, closed)
    for _ in range(2):
        for i, (kinds, values, looked) in enumerate(DataLoader(dataset, None, num_workers=1)):
            assert kinds == "['PackedDict', 'PackedList']"
            expected = [
                numbers[f"key {i}"], names[i], names[i], f"class {i}", f"global {i}", closed[i],
            ]  # fmt: skip
            assert values == str(expected) and looked == closed[i]
        # In this process nothing is different, and changes are seen in the next epoch.
        assert dataset.pair[0] is names and dataset.slotted.names is names
        assert dataset.numbers is numbers and type(names) is list and type(numbers) is dict
        assert type(Everywhere.in_class) is type(GLOBAL) is list
        names[2], numbers["key 1"] = "another", 77


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_list_as_the_dataset(method):
    values = [f"name {i}" for i in range(LEAST)]
    loader = DataLoader(values, 5000, num_workers=2, multiprocessing_context=method)
    assert [x for batch in loader for x in batch] == values
    assert loader.dataset is values and type(values) is list


def test_what_is_kept_goes_packed_to_a_fresh_process():
    names = [f"name {i}" for i in range(LEAST)]
    dataset = Nested(0)
    dataset.names = dataset.inner["deep"][0].names = names
    setup = worker.Setup(dataset, *[None] * 8)
    with packing.Containers(setup, forks=False):
        assert type(dataset.names) is PackedList and dataset.names == names
        assert dataset.inner["deep"][0].names is dataset.names
    assert dataset.names is names
    loader = DataLoader(dataset, 5000, num_workers=1, multiprocessing_context="spawn")
    assert [x for batch in loader for x in batch[0]] == names and dataset.names is names
