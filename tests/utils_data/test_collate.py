"""default_collate and default_convert: results as PyTorch's, errors that say where and which."""

import collections

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, default_collate, default_convert
from rushlight.utils.data._utils.collate import collate, default_collate_fn_map

Point = collections.namedtuple("Point", "x y")


def test_numbers_and_strings():
    assert default_collate([1, 2]).dtype == torch.int64
    assert default_collate([1.0, 2]).dtype == torch.float64
    assert default_collate([1, 2.5]).dtype == torch.float32
    assert default_collate([True, False]).dtype == torch.bool
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]


def test_tensors_and_arrays():
    assert default_collate([torch.ones(2), torch.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert default_collate([np.ones(2, np.float32)] * 2).dtype == torch.float32
    assert default_collate([np.float32(3), np.float32(4)]).tolist() == [3, 4]
    assert default_collate([np.bool_(True)]).dtype == torch.bool
    assert default_collate([np.array(5)]).shape == (1,)
    x = torch.ones(2, requires_grad=True)
    default_collate([x, x]).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_containers():
    out = default_collate([(1, "a", [2.0]), (3, "b", [4.0])])
    assert type(out) is list and out[0].tolist() == [1, 3] and out[1] == ("a", "b")
    assert out[2][0].tolist() == [2, 4]
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert type(point) is Point and point.x.tolist() == [1, 3]
    ordered = default_collate([collections.OrderedDict(b=1, a=2)] * 2)
    assert type(ordered) is collections.OrderedDict and list(ordered) == ["b", "a"]
    defaults = collections.defaultdict(list, k=5)
    out = default_collate([defaults, defaults])
    assert out["k"].tolist() == [5, 5] and out["other"] == [] and defaults["k"] == 5


def test_own_types():
    class Pair:
        pass

    functions = {Pair: lambda batch, *, collate_fn_map=None: len(batch)}
    assert collate([{"p": Pair()}] * 3, collate_fn_map=functions) == {"p": 3}
    default_collate_fn_map[Pair] = functions[Pair]
    try:
        assert default_collate([Pair(), Pair()]) == 2
    finally:
        del default_collate_fn_map[Pair]


def test_convert():
    out = default_convert(((1, np.zeros(2)), [np.int64(3)], "a", {"k": np.ones(1)}))
    assert out[0][0] == 1 and out[0][1].dtype == torch.float64
    assert out[1][0].item() == 3 and out[2] == "a" and out[3]["k"].tolist() == [1]
    assert type(default_convert(Point(np.zeros(1), 2)).x) is torch.Tensor
    texts = np.array(["a"])
    assert default_convert(texts) is texts


def fails(batch, kind, *parts):
    with pytest.raises(kind) as caught:
        default_collate(batch)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_errors_say_where():
    ragged = [{"image": [torch.zeros(2, 3)]}, {"image": [torch.zeros(2, 4)]}]
    fails(ragged, RuntimeError, "['image'][0]", "batch[0] is [2, 3]", "batch[1] is [2, 4]")
    fails([{"a": np.zeros(2)}, {"a": np.zeros(3)}], RuntimeError, "['a']", "[2]", "[3]")
    fails([[1, 2], [1]], RuntimeError, "equal size", "batch[0] has 2", "batch[1] has 1")
    fails([{"a": 1}, {"b": 1}], KeyError, "'a'", "batch[1] does not")
    fails([None], TypeError, "must contain tensors", "NoneType")
    fails([Point(1, {"k{": None})], TypeError, ".y['k{']")
    fails([torch.zeros(1), 5], TypeError, "different kinds", "builtins.int")
    fails([np.array(["a"])], TypeError, "<U1")
    fails([[1], 5], TypeError, "different kinds")


class Ragged(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"image": torch.zeros(3, 5 if i == 6 else 4), "name": str(i)}


def test_the_loader_names_the_samples():
    loader = DataLoader(Ragged(), batch_size=3, sampler=[9, 8, 7, 5, 6, 4])
    batches = iter(loader)
    next(batches)
    with pytest.raises(RuntimeError) as caught:
        next(batches)
    text = str(caught.value)
    assert "['image']" in text
    assert "sample 5 is [3, 4]" in text and "sample 6 is [3, 5]" in text
