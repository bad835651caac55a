"""Samples to batches: ``default_collate`` joins, ``default_convert`` only makes tensors.

An error tells where in the samples it happened (the path of keys), which samples disagree and how.
"""

from __future__ import annotations

import collections.abc
import copy
from typing import Any

import rushlight
from rushlight import ShapeError, Tensor
from rushlight.utils.data._utils import buffers

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]


class CollateError(Exception):
    """What goes wrong in collation. The loader, which knows the samples' keys, names them."""

    def __init__(self, message, positions=(), keys=None):
        self._template, self._positions = message, tuple(positions)
        super().__init__(self._text(keys))

    def _text(self, keys):
        names = (f"batch[{i}]" if keys is None else f"sample {keys[i]!r}" for i in self._positions)
        return "default_collate: " + self._template.format(*names)

    def with_keys(self, keys):
        """The same error that names the keys of the samples."""
        if len(keys) <= max(self._positions, default=-1):
            return self
        return type(self)(self._template, self._positions, keys)

    def __str__(self):  # a KeyError would print the repr of its text
        return str(self.args[0])


class CollateShapeError(CollateError, ShapeError):
    """Tensors, or sequences, of different sizes."""


class CollateTypeError(CollateError, TypeError):
    """Values that cannot be joined."""


class CollateKeyError(CollateError, KeyError):
    """A sample without a key that another one has."""


def _braces(text):
    return str(text).replace("{", "{{").replace("}", "}}")


def _at(path):
    return f" at {_braces(path)}" if path else ""


def default_collate(batch: Any) -> Any:
    """A batch of samples as one sample of batches: tensors and arrays are stacked, numbers become
    tensors, strings a list, and containers are joined value by value.

    Arguments:
        batch: a list of samples: tensors, arrays, numbers, strings, tuples, lists or dicts of
            them.

    Example:
        >>> rl.utils.data.default_collate([{"x": rl.zeros(2), "y": 1}, {"x": rl.ones(2), "y": 2}])
        {'x': tensor([[0., 0.],
                [1., 1.]]), 'y': tensor([1, 2])}
    """
    return _collate(batch, default_collate_fn_map, "")


def collate(batch, *, collate_fn_map=None):
    """The same with functions for types of one's own: ``{type: f(batch, *, collate_fn_map)}``."""
    return _collate(batch, {} if collate_fn_map is None else collate_fn_map, "")


def _function_for(kind, sample, functions):
    if kind.__module__ == "numpy" and functions is default_collate_fn_map:
        _know_numpy()
    found = functions.get(kind)
    if found is None:
        for each, function in functions.items():
            if isinstance(sample, each):
                return function
    return found


def _collate(batch, functions, path):
    sample = batch[0]
    kind = type(sample)
    function = _function_for(kind, sample, functions)
    if function is not None:
        try:
            return function(batch, collate_fn_map=functions)
        except CollateError:
            raise
        except Exception:
            _explain(batch, path)
            raise
    if isinstance(sample, collections.abc.Mapping):
        return _collate_mapping(batch, functions, path)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        fields = _columns(batch, path)
        return kind(
            *(
                _collate(column, functions, f"{path}.{name}")
                for name, column in zip(sample._fields, fields, strict=True)
            )
        )
    if isinstance(sample, collections.abc.Sequence):
        columns = [
            _collate(column, functions, f"{path}[{i}]")
            for i, column in enumerate(_columns(batch, path))
        ]
        return columns if isinstance(sample, tuple) else _same_class(sample, columns)
    raise CollateTypeError(
        "batch must contain tensors, numpy arrays, numbers, dicts or lists; {} holds "
        f"{_article(kind)}{_at(path)}. Convert it in the dataset, or give the loader a collate_fn",
        (0,),
    )


def _article(kind):
    return f"a {_braces(kind.__module__)}.{_braces(kind.__qualname__)}"


def _columns(batch, path):
    """The transposed batch: a list of values for each place."""
    width = _length(batch, 0, path)
    for i in range(1, len(batch)):
        if _length(batch, i, path) != width:
            raise CollateShapeError(
                "each element in list of batch should be of equal size"
                f"{_at(path)}: {{}} has {width} elements, {{}} has {len(batch[i])}",
                (0, i),
            )
    return list(zip(*batch, strict=True))


def _length(batch, i, path):
    try:
        return len(batch[i])
    except TypeError:
        raise CollateTypeError(
            f"the values{_at(path)} are of different kinds: {{}} holds {_article(type(batch[0]))}, "
            f"{{}} holds {_article(type(batch[i]))}",
            (0, i),
        ) from None


def _collate_mapping(batch, functions, path):
    sample = batch[0]
    joined = {}
    for key in sample:
        column = []
        for i, other in enumerate(batch):
            try:
                column.append(other[key])
            except (KeyError, TypeError):
                raise CollateKeyError(
                    f"{{}} has the key {_braces(repr(key))}{_at(path)}, {{}} does not", (0, i)
                ) from None
        joined[key] = _collate(column, functions, f"{path}[{key!r}]")
    try:
        if isinstance(sample, collections.abc.MutableMapping):
            # A copy keeps what the class has besides its items: a default factory, for example.
            out = copy.copy(sample)
            out.update(joined)
            return out
        return type(sample)(joined)
    except TypeError:
        return joined


def _same_class(sample, values):
    kind = type(sample)
    if kind is list:
        return values
    try:
        if isinstance(sample, collections.abc.MutableSequence):
            out = copy.copy(sample)
            for i, value in enumerate(values):
                out[i] = value
            return out
        return kind(values)
    except TypeError:
        return values


def _explain(batch, path):
    """Raises the error that says more than the one that a function for one type raised."""
    for i, value in enumerate(batch):
        if type(value) is not type(batch[0]):
            raise CollateTypeError(
                f"the values{_at(path)} are of different kinds: {{}} holds "
                f"{_article(type(batch[0]))}, {{}} holds {_article(type(value))}",
                (0, i),
            ) from None
        shapes = [getattr(v, "shape", None) for v in (batch[0], value)]
        if shapes[0] != shapes[1]:
            raise CollateShapeError(
                f"tensors{_at(path)} differ in shape: {{}} is {list(shapes[0])}, {{}} is "
                f"{list(shapes[1])}. Pad or cut them in the dataset, or give the loader a "
                "collate_fn",
                (0, i),
            ) from None


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Stacks tensors; in a worker straight into memory that the main process sees."""
    out = buffers.room_for_stack(batch)
    return rushlight.stack(batch, 0) if out is None else rushlight.stack(batch, 0, out=out)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Stacks arrays as tensors; arrays of strings and objects are refused."""
    if batch[0].dtype.kind in "SUOaV":
        raise CollateTypeError(
            "batch must contain tensors, numpy arrays, numbers, dicts or lists; {} holds an array "
            f"of dtype {_braces(batch[0].dtype)}",
            (0,),
        )
    return collate_tensor_fn([rushlight.as_tensor(array) for array in batch])


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return rushlight.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return rushlight.tensor(batch, dtype=rushlight.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return rushlight.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _know_numpy():
    """Adds the functions for NumPy's types when one is seen first: importing it takes long."""
    import numpy

    default_collate_fn_map.setdefault(numpy.ndarray, collate_numpy_array_fn)
    numbers = (numpy.bool_, numpy.number, numpy.object_)
    default_collate_fn_map.setdefault(numbers, collate_numpy_scalar_fn)


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, through all containers; the rest as it is.

    Arguments:
        data: a sample.

    Example:
        >>> import numpy as np
        >>> rl.utils.data.default_convert({"x": np.zeros(2), "name": "a"})
        {'x': tensor([0., 0.], dtype=rushlight.float64), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    kind = type(data)
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "bytes_"):
        if kind.__name__ == "ndarray" and data.dtype.kind in "SUOaV":
            return data
        return rushlight.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        values = {key: default_convert(value) for key, value in data.items()}
        try:
            if isinstance(data, collections.abc.MutableMapping):
                out = copy.copy(data)
                out.update(values)
                return out
            return kind(values)
        except TypeError:
            return values
    if isinstance(data, tuple):
        values = [default_convert(value) for value in data]
        return kind(*values) if hasattr(data, "_fields") else values
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, str | bytes):
        return _same_class(data, [default_convert(value) for value in data])
    return data
