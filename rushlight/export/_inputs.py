"""The arguments of a call: by name, and as the tensors among them."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight._C import Tensor
from rushlight.export._errors import UserError
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["Packing", "arguments_of"]

_PLAIN = (bool, int, float, str, bytes, type(None))


def arguments_of(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """{name: value} of a call; what * takes is one tuple, what ** takes has its own names."""
    forward = getattr(module, "forward", module)
    try:
        signature = inspect.signature(forward)
        bound = signature.bind(*args, **kwargs)
    except ValueError:  # written in C
        return {f"argument_{i}": value for i, value in enumerate(args)} | dict(kwargs)
    except TypeError as error:
        raise UserError(f"export: the example inputs do not fit forward: {error}") from None
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


class Packing:
    """How (args, kwargs), or the output, is made of tensors and of values that stay."""

    def __init__(self, value: Any, what: str) -> None:
        leaves, self.spec = tree_flatten(value)
        self.fixed: list[Any] = [None if isinstance(x, Tensor) else x for x in leaves]
        self.tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        for x in leaves:
            if not isinstance(x, (Tensor, *_PLAIN)) and not _is_setting(x):
                raise UserError(
                    f"export: {what} has a {type(x).__name__}, which programs do not know; "
                    "tensors, numbers, strings, None and containers of these are taken, and "
                    "dataclasses after export.register_dataclass"
                )

    @classmethod
    def made(cls, spec: TreeSpec, fixed: list[Any], tensors: list[int]) -> Packing:
        """One that was kept in a file."""
        packing = cls.__new__(cls)
        packing.spec, packing.fixed, packing.tensors = spec, fixed, tensors
        return packing

    def pack(self, tensors: Any) -> Any:
        """The value with these tensors."""
        leaves = list(self.fixed)
        for i, tensor in zip(self.tensors, tensors, strict=True):
            leaves[i] = tensor
        return tree_unflatten(leaves, self.spec)

    def unpack(self, value: Any) -> list[Tensor]:
        """The tensors of a value that is packed like this one; raises where it is not."""
        leaves, spec = tree_flatten(value)
        if not _same(spec, self.spec):
            raise ValueError(
                "the program was exported with inputs that were packed like this: "
                f"{_shown(self.spec)}; now they are packed like this: {_shown(spec)}"
            )
        found = []
        for i, (leaf, fixed) in enumerate(zip(leaves, self.fixed, strict=True)):
            if i in self._places():
                if not isinstance(leaf, Tensor):
                    raise ValueError(f"input {i} must be a tensor, got {type(leaf).__name__}")
                found.append(leaf)
            elif isinstance(leaf, Tensor) or leaf != fixed or type(leaf) is not type(fixed):
                raise ValueError(
                    f"the program was exported with {fixed!r} as input {i}, which is fixed now; "
                    f"got {type(leaf).__name__ if isinstance(leaf, Tensor) else repr(leaf)}"
                )
        return found

    def _places(self):
        return set(self.tensors)


def _same(a, b):
    """Packed alike; named tuples go by their name and fields, since files know no more of them."""
    if a.is_leaf() or b.is_leaf():
        return a.is_leaf() and b.is_leaf()
    named = [getattr(s.type, "_fields", None) for s in (a, b)]
    if named[0] is not None or named[1] is not None:
        alike = named[0] == named[1] and a.type.__name__ == b.type.__name__
    else:
        alike = a.type is b.type and a.context == b.context
    return alike and len(a.children_specs) == len(b.children_specs) and all(
        map(_same, a.children_specs, b.children_specs)
    )  # fmt: skip


def _is_setting(x):
    """dtype, device and their like."""
    from rushlight import _C

    return isinstance(x, (_C.dtype, _C.device, _C.layout, _C.memory_format))


def _shown(spec):
    if spec.is_leaf():
        return "*"
    items = ", ".join(map(_shown, spec.children_specs))
    name = getattr(spec.type, "__name__", str(spec.type))
    keys = f" {spec.context}" if name == "dict" else ""
    return f"{name}{keys}({items})"
