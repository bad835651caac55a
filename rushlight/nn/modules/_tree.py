"""The part of Module that walks the tree: children, names, modes, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from rushlight._C import Tensor
from rushlight.types import Self

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module
    from rushlight.nn.parameter import Parameter


def _addindent(text, spaces):
    """Indents all lines but the first."""
    return text.replace("\n", "\n" + " " * spaces)


class ModuleTree:
    """Children and what they hold, by name."""

    if TYPE_CHECKING:  # what Module.__init__ makes
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]

    # ---- parameters, buffers and modules

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once, those of children too."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) pairs."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once, those of children too."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) pairs."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, child) pairs; a child under two names comes once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted path, module) pairs, parents first; this module's path is the prefix."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(cast("Module", self))
        yield prefix, cast("Module", self)
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    # ---- by path

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; the empty path is this module."""
        module = cast("Module", self)
        for name in target.split(".") if target else ():
            module = _step(module, name)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path whose parent is there; strict: it replaces another."""
        if target == "":
            raise ValueError("set_submodule: the target path is empty")
        path, _, name = target.rpartition(".")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        from rushlight.nn.parameter import Parameter

        value = self._get_member(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        value = self._get_member(target)
        path, _, name = target.rpartition(".")
        if name not in self.get_submodule(path)._buffers or not isinstance(value, Tensor):
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    def _get_member(self, target):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return getattr(module, name)

    # ---- for all

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls fn with every module below and then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(cast("Module", self))
        return self

    def train(self, mode: bool = True) -> Self:
        """Switches to training, or with False to evaluation, for everything below too."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Switches to evaluation: train(False)."""
        return self.train(False)

    # ---- printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed. Override it."""
        return ""

    def _repr_html_(self) -> str:
        """The tree of modules as notebooks show it, with parts that fold."""
        from rushlight._tensor.pictures import module_html

        return module_html(self)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()
        ]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(lines + children)
        return f"{self._get_name()}(\n  {body}\n)"


def _step(module, name):
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    found = getattr(module, name)
    if not isinstance(found, ModuleTree):
        raise AttributeError(f"`{name}` is not an nn.Module")
    return found
