"""Modules that hold other modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
import warnings
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from rushlight._C import Tensor
from rushlight.nn.modules._homes import getattr_of
from rushlight.nn.modules._tree import _addindent
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.parameter_container import ParameterDict, ParameterList
from rushlight.types import Self

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index, length, name):
    """A list's index, counted from the front."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"{name}: index {index} is out of range for {length} modules")
    return index % length


def _renumber(container, modules):
    container._modules = {str(i): module for i, module in enumerate(modules)}


class Container(Module):
    """The old name of a plain Module with children."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated: subclass nn.Module instead", FutureWarning, stacklevel=2
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Calls its modules one after the other, each with the result of the one before.

    Layers are given by place, or in an OrderedDict that names them. Append, insert, slice and
    index as with a list.

    Arguments:
        args: the modules, or one OrderedDict of them.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> net(rl.zeros(2, 4)).shape
        rushlight.Size([2, 1])
        >>> net[:2]
        Sequential(
          (0): Linear(in_features=4, out_features=8, bias=True)
          (1): ReLU()
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Tensor) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index):
        return list(self._modules)[_position(index, len(self), type(self).__name__)]

    def __getitem__(self, index: Any) -> Sequential | Module:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for name in list(self._modules)[index]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(index))
        _renumber(self, list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before position index."""
        if not isinstance(module, Module):
            raise AssertionError(f"insert: expected a Module, got {type(module).__name__}")
        length = len(self)
        if not -length <= index <= length:
            raise IndexError(f"insert: index {index} is out of range for {length} modules")
        modules = list(self._modules.values())
        modules.insert(index, module)
        _renumber(self, modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds all modules of another one at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Takes out the module at a position and returns it."""
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Tensor) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"Sequential + ...: the other must be a Sequential, got {type(other).__name__}"
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Tensor) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"Sequential += ...: the other must be a Sequential, got {type(other).__name__}"
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * _times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        modules = list(self)
        for _ in range(_times(other) - 1):
            self.extend(modules)
        return self


def _times(count):
    if not isinstance(count, int):
        raise TypeError(f"Sequential * ...: the other must be an int, got {type(count).__name__}")
    if count <= 0:
        raise ValueError(f"Sequential * ...: the factor must be positive, got {count}")
    return count


class ModuleList(Module):
    """A list of modules; the module that holds it decides how they are called.

    A plain list would hide its modules: their parameters would be neither trained nor moved nor
    saved.

    Arguments:
        modules: an iterable of modules.

    Example:
        >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        >>> x = rl.zeros(1, 2)
        >>> for layer in layers:
        ...     x = layer(x)
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _get_abs_string_index(self, index):
        return str(_position(index, len(self), type(self).__name__))

    def __getitem__(self, index: Any) -> Module | ModuleList:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._get_abs_string_index(index)]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._get_abs_string_index(index), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for k in range(len(self))[index]:
                delattr(self, str(k))
        else:
            delattr(self, self._get_abs_string_index(index))
        _renumber(self, list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for module in (*self, *other):
            combined.append(module)
        return combined

    def __repr__(self) -> str:
        """Equal neighbours share a line: (0-2): 3 x Linear(...)."""
        if not self._modules:
            return f"{self._get_name()}()"
        runs = []  # [first, last, text]
        for i, module in enumerate(self._modules.values()):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = [
            f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"  # type: ignore[operator]
            for a, b, text in runs
        ]
        body = "\n  ".join(_addindent(line, 2) for line in lines)
        return f"{self._get_name()}(\n  {body}\n)"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before position index, as a list does."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self.add_module(str(len(self)), module)  # checks it
        _renumber(self, modules)

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Takes out the module at a position, or those of a slice, and returns it."""
        module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend: expected an iterable, got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self


class ModuleDict(Module):
    """Modules by name, in the order in which they were added.

    Arguments:
        modules: a mapping of names to modules, or pairs of them.

    Example:
        >>> heads = nn.ModuleDict({"age": nn.Linear(4, 1), "sex": nn.Linear(4, 2)})
        >>> heads["sex"](rl.zeros(1, 4)).shape, list(heads)
        (rushlight.Size([1, 2]), ['age', 'sex'])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes out one module and returns it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Adds the modules of a mapping, or of (name, module) pairs."""
        for key, module in key_value_pairs("ModuleDict.update", modules):
            self[key] = module


def key_value_pairs(name: str, given: Any) -> list[tuple[Any, Any]]:
    """The pairs of a mapping or of an iterable of pairs; checks the latter."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{name}: expected a mapping or an iterable of key/value pairs, got "
            f"{type(given).__name__}"
        )
    if isinstance(given, Mapping | ModuleDict | ParameterDict):
        return list(given.items())
    pairs = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name}: element {i} must be a pair, got {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name}: element {i} must be a pair, has length {len(pair)}")
        pairs.append(pair)
    return pairs


__getattr__ = getattr_of(__name__)
