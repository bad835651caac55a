"""What a checkpoint holds: names, sizes and dtypes of tensors, their chunks, and other values.

The classes have the names and fields that PyTorch's have, since `.metadata` is a pickle of them in
both libraries. Files are read by `_metadata_file`, which checks every field.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rushlight
from rushlight._C import Size, Tensor, dtype, layout, memory_format
from rushlight._names.missing import fill

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor's elements: where it begins, and its sizes."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):
    """How files spell memory formats."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


def _encodings() -> dict[memory_format, _MEM_FORMAT_ENCODING]:
    kinds = (rushlight.contiguous_format, rushlight.channels_last, rushlight.preserve_format)
    return dict(zip(kinds, _MEM_FORMAT_ENCODING, strict=True))


@dataclass
class TensorProperties:
    """What a tensor is besides its sizes. Only the dtype is used."""

    dtype: dtype = field(default_factory=lambda: rushlight.get_default_dtype())
    layout: layout = field(default_factory=lambda: rushlight.strided)
    requires_grad: bool = False
    memory_format: memory_format = field(default_factory=lambda: rushlight.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        found = _encodings().get(self.memory_format)
        if found is None:
            raise RuntimeError(
                f"TensorProperties: files have no word for the memory format {self.memory_format}"
            )
        return self.dtype, self.layout, self.requires_grad, found, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = {e: kind for kind, e in _encodings().items()}[encoded]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Those of a tensor.

        Example:
            >>> from rushlight.distributed.checkpoint.metadata import TensorProperties
            >>> TensorProperties.create_from_tensor(rl.ones(2, dtype=rl.float64)).dtype
            rushlight.float64
        """
        return TensorProperties(
            dtype=tensor.dtype,
            layout=tensor.layout,
            requires_grad=tensor.requires_grad,
            pin_memory=tensor.is_pinned(),
        )


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, the size of the whole, and the chunks that were written."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Where a checkpoint is, and the numbers of the calls that wrote and read it."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """A checkpoint: ``state_dict_metadata`` by the names in the flattened state dict,
    ``planner_data`` of the planner (the default one keeps the path of each name),
    ``storage_data`` of the storage (which file has which chunk)."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """One value of a checkpoint: its name and, of a tensor, where the chunk begins. ``index`` is
    a hint where in the list of chunks it stands, and does not count in comparisons.

    Example:
        >>> from rushlight.distributed.checkpoint.metadata import MetadataIndex
        >>> MetadataIndex("weight", [0, 4]) == MetadataIndex("weight", [0, 4], index=1)
        True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
        object.__setattr__(self, "index", index)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A file's index becomes a key before anything else can look at it.
        fqn, offset, index = state["fqn"], state.get("offset"), state.get("index")
        if not isinstance(fqn, str) or not isinstance(offset, Size | None):
            raise TypeError(f"MetadataIndex: expected a name and an offset, got {state}")
        self.__init__(fqn, offset, index)  # type: ignore[misc]


fill(globals())
