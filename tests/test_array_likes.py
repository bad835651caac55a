"""Data that shows itself as an array by NumPy's protocols: tensors keep its dtype."""

import numpy as np
import pytest

import rushlight as rl


class Series:
    """As pandas' Series: indexing gives NumPy's numbers, iteration Python's, labels come first."""

    def __init__(self, values, labels=None):
        self.values = np.asarray(values)
        self.labels = list(range(len(self.values))) if labels is None else labels

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[self.labels.index(label)]

    def __iter__(self):
        return iter(self.values.tolist())


class Image:
    """As PIL's: no sequence at all, only the other protocol."""

    def __init__(self, values):
        self.values = values

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


MAKERS = [rl.tensor, rl.as_tensor, rl.asarray]
DTYPES = ["float64", "float32", "float16", "int64", "int32", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("labels", [None, ["a", "b", "c"], [7, 5, 6]])
def test_series(make, name, labels):
    values = np.array([1, 0, 3]).astype(name)
    out = make(Series(values, labels))
    assert out.dtype == getattr(rl, name) and out.shape == (3,)
    assert np.array_equal(out.numpy(), values)
    if name != "complex64":
        assert make(Series(values, labels), dtype=rl.float16).dtype == rl.float16


@pytest.mark.parametrize("make", MAKERS)
def test_images_and_frames(make):
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    out = make(Image(picture))
    assert out.dtype == rl.uint8 and np.array_equal(out.numpy(), picture)
    frame = Series(np.ones((2, 3)), ["x", "y"])
    assert make(frame).shape == (2, 3) and make(frame).dtype == rl.float64
    number = Series.__new__(Series)
    number.values = np.array(2.5)
    assert make(number).shape == () and make(number).item() == 2.5


def test_they_are_copied():
    series = Series(np.zeros(3))
    for make in MAKERS:
        out = make(series)
        out += 1
        assert series.values.sum() == 0


def test_inside_of_lists():
    rows = [Series(np.array([1.0, 2.0])), Series(np.array([3.0, 4.0]))]
    out = rl.tensor(rows)
    assert out.dtype == rl.float64 and out.tolist() == [[1, 2], [3, 4]]
    assert rl.tensor([rows[0], [5, 6]]).dtype == rl.float64
    with pytest.raises(ValueError, match=r"shape \[3\]"):
        rl.tensor([rows[0], Series(np.ones(3))])


def test_elements_of_no_dtype_are_read_as_a_sequence():
    assert rl.tensor(Series(np.array([1, 2.5], dtype=object))).tolist() == [1, 2.5]
    assert rl.tensor(Series(np.array([1, 2.5], dtype=object))).dtype == rl.float32
    for values in (np.array(["a", "b"]), np.array(["2020-01-01"], dtype="datetime64[D]")):
        with pytest.raises((TypeError, ValueError)):
            rl.tensor(Series(values))


def test_other_ways_in():
    series = Series(np.array([1.5, 2.5]))
    assert rl.Tensor(series).dtype == rl.float32 and rl.DoubleTensor(series).tolist() == [1.5, 2.5]
    with pytest.raises(TypeError, match="expected a numpy.ndarray, got Series"):
        rl.from_numpy(series)


def test_what_an_array_raises_comes_through():
    class Refuses:
        def __array__(self, dtype=None, copy=None):
            raise LookupError("on another device")

    with pytest.raises(LookupError, match="on another device"):
        rl.tensor(Refuses())


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([np.float64(1), np.float64(2)], "float64"),
        ([np.float32(1), 2.0], "float32"),
        ([2.0, np.float64(1)], "float64"),
        ([np.int32(1), 2], "int64"),
        ([np.int8(1)], "int8"),
        ([np.bool_(True)], "bool"),
        ([1, np.float16(2)], "float16"),
        ([np.ones(2), np.ones(2, np.float32)], "float64"),
        ([np.ones(2, np.float32), [1, 2]], "float32"),
        (np.float64(1.5), "float64"),
    ],
)
def test_numbers_and_arrays_in_lists(data, dtype):
    for make in MAKERS:
        assert make(data).dtype == getattr(rl, dtype)
