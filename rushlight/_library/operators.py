"""Operators as `torch.ops` gives them: a packet has overloads, each with a schema and kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import _C


class Argument:
    """A parameter or a result of a schema."""

    def __init__(self, name: str, type: str, **facts: Any) -> None:
        self.name, self.type = name, type
        self.kwarg_only: bool = facts.get("kwarg_only", False)
        self.is_write: bool = facts.get("is_write", False)
        self._has_default: bool = facts.get("has_default", False)

    def has_default_value(self) -> bool:
        """Whether callers may leave it out."""
        return self._has_default

    def __repr__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


class FunctionSchema:
    """The signature of one overload."""

    def __init__(self, op: Any) -> None:
        self._text, self.name, self.overload_name = op.schema, op.qualified, op.overload
        self.arguments = [
            Argument(name, kind, kwarg_only=keyword, is_write=written, has_default=default)
            for name, kind, keyword, written, default in op.arguments
        ]
        self.returns = [Argument("", kind) for kind in op.results]

    @property
    def is_mutable(self) -> bool:
        """Whether it writes to arguments."""
        return any(a.is_write for a in self.arguments)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class OpOverload:
    """One overload of an operator."""

    def __init__(self, packet: OpOverloadPacket, op: Any) -> None:
        self._packet, self._op = packet, op
        self._overloadname = op.overload or "default"
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__qualname__, self.__module__ = self.__name__, packet.__module__
        self._schema = FunctionSchema(op)
        self.tags: list[Any] = []

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _C._is_overridden(args, kwargs):
            return _C._ask_overrides(self, args, kwargs)
        return self._op(*args, **kwargs)

    @property
    def op(self) -> Callable[..., Any]:
        """What is called."""
        return self._op

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator that it belongs to."""
        return self._packet

    @property
    def namespace(self) -> str:
        """The namespace, as in `torch.ops.<namespace>`."""
        return self._op.qualified.partition("::")[0]

    def name(self) -> str:
        """ "ns::name", and the overload where it has a name."""
        op = self._op
        return f"{op.qualified}.{op.overload}" if op.overload else op.qualified

    def has_kernel_for_dispatch_key(self, k: Any) -> bool:
        """Whether there is a function for "CPU", "CUDA", "Meta", "Autograd" and so on."""
        return self._op.has_kernel(str(k).rpartition(".")[2])

    def __str__(self) -> str:
        return f"{self._packet}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet}', overload='{self._overloadname}')>"

    def __hash__(self) -> int:
        return hash(self.name())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverload) and self.name() == other.name()

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_again, (self._op.qualified, self._overloadname)


class OpOverloadPacket:
    """An operator under its name, `torch.ops.ns.name`: calling it takes the overload that fits."""

    def __init__(self, qualname: str, ops: list[Any]) -> None:
        self._qualified_op_name = qualname
        namespace, _, self.__name__ = qualname.partition("::")
        self.__qualname__, self.__module__ = self.__name__, f"rushlight.ops.{namespace}"
        self._take(ops)

    def _take(self, ops):
        self._ops = tuple(ops)
        self._by_name = {op.overload or "default": OpOverload(self, op) for op in ops}
        self._single = next(iter(self._by_name.values())) if len(ops) == 1 else None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._single is not None:
            return self._single(*args, **kwargs)
        if _C._is_overridden(args, kwargs):
            return _C._ask_overrides(self, args, kwargs)
        return _C._call_custom_overloads(self._ops, *args, **kwargs)

    @property
    def op(self) -> Callable[..., Any]:
        """What is called."""
        return self

    def overloads(self) -> list[str]:
        """The names of the overloads; the one without a name is "default"."""
        return list(self._by_name)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__") or name in ("_by_name", "_ops"):
            raise AttributeError(name)
        found = self._by_name.get(name)
        if found is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._by_name]

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_again, (self._qualified_op_name, None)


_packets: dict[str, OpOverloadPacket] = {}


def find_packet(qualname: str) -> OpOverloadPacket | None:
    """The operator "ns::name", from wherever it was defined, or None."""
    ops = _C._find_custom_ops(qualname)
    if not ops:
        _packets.pop(qualname, None)
        return None
    found = _packets.get(qualname)
    if found is None:
        found = _packets[qualname] = OpOverloadPacket(qualname, ops)
    elif [op.schema for op in ops] != [op.schema for op in found._ops]:
        found._take(ops)
    return found


def forget(qualname: str) -> None:
    """Takes an operator away."""
    _C._remove_custom_op(qualname)
    _packets.pop(qualname, None)


def find_overload(qualname: str) -> OpOverload | None:
    """ "ns::name" or "ns::name.overload"."""
    base, _, overload = qualname.partition(".")
    packet = find_packet(base)
    return None if packet is None else packet._by_name.get(overload or "default")


def _find_again(qualname, overload):
    packet = find_packet(qualname)
    if packet is None:
        raise RuntimeError(f"the operator {qualname} is not defined in this process")
    return packet if overload is None else getattr(packet, overload)
