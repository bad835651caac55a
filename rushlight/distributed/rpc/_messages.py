"""What travels between workers: objects as bytes, their tensors beside them.

A message is ``(head, buffers)``: pickled bytes, and the memory of the tensors that they mention, so
that a transport can carry that without pickling it.
"""

from __future__ import annotations

import io
import pickle
import traceback
from typing import Any

import rushlight as rl
from rushlight.types import Tensor

Message = tuple[bytes, list[Any]]


class _Pickler(pickle.Pickler):
    """Tensors go by value into a list; RRefs as their numbers, once the owner knows of the copy."""

    def __init__(self, file: io.BytesIO, share_rref: Any) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[Tensor] = []
        self._share_rref = share_rref

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is rl.Tensor:
            self.tensors.append(obj)
            return "tensor", len(self.tensors) - 1
        from rushlight.distributed.rpc._rref import RRef

        if isinstance(obj, RRef):
            return "rref", self._share_rref(obj)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor], take_rref: Any) -> None:
        super().__init__(file)
        self._tensors, self._take_rref = tensors, take_rref

    def persistent_load(self, pid: Any) -> Any:
        kind, value = pid
        return self._tensors[value] if kind == "tensor" else self._take_rref(*value)


def pack(obj: Any, share_rref: Any) -> tuple[bytes, list[Tensor]]:
    """An object as bytes, and the tensors in it."""
    file = io.BytesIO()
    pickler = _Pickler(file, share_rref)
    pickler.dump(obj)
    return file.getvalue(), pickler.tensors


def unpack(data: bytes, tensors: list[Tensor], take_rref: Any) -> Any:
    """The object again."""
    return _Unpickler(io.BytesIO(data), tensors, take_rref).load()


def tensor_bytes(tensor: Tensor) -> tuple[tuple[Any, ...], Any]:
    """(dtype, shape, requires_grad), and the memory as an array of bytes."""
    if tensor.device.type != "cpu":
        raise RuntimeError(
            f"rpc: calls carry CPU tensors only, got one on {tensor.device}; move it with .cpu(), "
            "and back with .to(device) in the function that is called"
        )
    flat = tensor.detach().contiguous().reshape(-1)
    facts = tensor.dtype, tuple(tensor.shape), tensor.requires_grad
    return facts, flat.view(rl.uint8).numpy()


def tensor_from(facts: tuple[Any, ...], data: Any) -> Tensor:
    """A tensor with memory of its own."""
    dtype, shape, _ = facts
    if len(data) == 0:
        return rl.empty(shape, dtype=dtype)
    return rl.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


class RemoteError:
    """An exception as it travels."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: Any = type(error)
        self.where = where
        self.text = f"{type(error).__name__}: {error}"
        self.trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            pickle.dumps(self.kind)
        except Exception:
            self.kind = RuntimeError

    def to_raise(self) -> Exception:
        """The same class where one text makes it, with the traceback of the other worker."""
        text = f"{self.text}\n\nraised on {self.where}:\n{self.trace}"
        try:
            error = self.kind(text)
            if isinstance(error, Exception):
                return error
        except Exception:
            pass
        return RuntimeError(text)
