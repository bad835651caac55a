"""Modules that hold parameters by number or name; other objects may stand between them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any, NoReturn, overload

from rushlight._C import Tensor
from rushlight.nn.modules._homes import live_in
from rushlight.nn.modules._tree import _addindent
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Self

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(value):
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.shape)
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    dtype = str(value.dtype).replace("rushlight.", "torch.")
    return f"{kind} containing: [{dtype} of size {size}{place}]"


def _print(container, pairs):
    lines = [_addindent(f"  ({key}): {_describe(value)}", 4) for key, value in pairs]
    if not lines:
        return f"{container._get_name()}()"
    return f"{container._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ParameterList(Module):
    """A list; tensors in it become parameters.

    Arguments:
        values: an iterable of tensors; those that are not parameters become some.

    Example:
        >>> nn.ParameterList([rl.zeros(2), rl.ones(3)])[1].requires_grad
        True
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"ParameterList: index {index} is out of range for {len(self)} values")
        return str(index % len(self))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            out = type(self)()
            for i in range(len(self))[index]:
                out.append(self[i])
            return out
        return getattr(self, self._get_abs_string_index(index))

    def __setitem__(self, index: Any, param: Any) -> None:
        name = self._get_abs_string_index(index)
        param = _as_parameter(param)
        if name in self._parameters and not isinstance(param, Parameter):
            del self._parameters[name]
        setattr(self, name, param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Any) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        name = str(len(self))
        self._size += 1
        setattr(self, name, _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend: expected an iterable, got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __repr__(self) -> str:
        return _print(self, enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("ParameterList holds parameters and cannot be called")


class ParameterDict(Module):
    """A dict; tensors in it become parameters.

    Arguments:
        parameters: a mapping of names to tensors.

    Example:
        >>> params = nn.ParameterDict({"left": rl.zeros(2)})
        >>> params["right"] = nn.Parameter(rl.ones(2))
        >>> list(params)
        ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys must be strings, got {type(key).__name__}")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        value = _as_parameter(value)
        if name in self._parameters and not isinstance(value, Parameter):
            del self._parameters[name]
        setattr(self, name, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict with the same values."""
        return ParameterDict({key: self[key] for key in self._keys})

    def setdefault(self, key: str, default: Any | None = None) -> Any:
        """The value of key, which becomes default where there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Takes out everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes out one value and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes out the last (key, value) pair and returns it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any | None = None) -> Any:
        """The value of key, or default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any | None = None) -> ParameterDict:
        """A new dict of these keys, all with one value."""
        return ParameterDict(dict.fromkeys(keys, default))

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | ParameterDict) -> None:
        """Adds the values of a mapping, or of (key, value) pairs."""
        from rushlight.nn.modules.container import key_value_pairs

        for key, value in key_value_pairs("ParameterDict.update", parameters):
            self[key] = value

    def __repr__(self) -> str:
        return _print(self, self.items())

    def __call__(self, input: Tensor) -> NoReturn:
        raise RuntimeError("ParameterDict holds parameters and cannot be called")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self


live_in("container", ParameterDict, ParameterList)
