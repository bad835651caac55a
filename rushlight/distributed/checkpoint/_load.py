"""load: the parts of a checkpoint that this rank needs."""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import rushlight
from rushlight._C import Tensor
from rushlight.distributed.checkpoint._storage import (
    FileSystemReader,
    folder_of,
    is_stateful,
    leaves_of,
    region_of,
)
from rushlight.distributed.tensor._dtensor import local_of
from rushlight.utils import safetensors

__all__ = ["load"]


class _Files:
    """The files of a checkpoint, opened when first needed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.opened: dict[str, Any] = {}

    def part(self, file: str, name: str) -> Any:
        if file not in self.opened:
            self.opened[file] = safetensors.safe_open(os.path.join(self.folder, file), "pt")
        return self.opened[file].get_slice(name)


def _fill(name, tensor, entry, files):
    if list(tensor.shape) != entry["shape"]:
        raise ValueError(
            f"distributed.checkpoint.load: {name} has shape {entry['shape']} in the checkpoint, "
            f"and {list(tensor.shape)} here"
        )
    first, sizes, _ = region_of(tensor)
    local = local_of(tensor).detach()
    copied = 0
    for part in entry["parts"]:
        ranges = [
            (max(a, b), min(a + n, b + m))
            for a, n, b, m in zip(first, sizes, part["first"], part["sizes"], strict=True)
        ]
        if any(start >= end for start, end in ranges):
            continue
        there = tuple(slice(s - b, e - b) for (s, e), b in zip(ranges, part["first"], strict=True))
        here = tuple(slice(s - a, e - a) for (s, e), a in zip(ranges, first, strict=True))
        source = files.part(part["file"], name)
        found = source[there] if there else source[...]
        local[here].copy_(found) if here else local.copy_(found)
        copied += found.numel()
    if copied != local.numel():
        raise ValueError(
            f"distributed.checkpoint.load: the checkpoint has {copied} of the {local.numel()} "
            f"elements of {name} that this rank needs"
        )


def _value(entry):
    if "json" in entry:
        return entry["json"]
    return rushlight.load(io.BytesIO(base64.b64decode(entry["saved"])), weights_only=True)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Reads a checkpoint into the tensors of a state dict, whatever number of ranks wrote it and
    however its tensors are cut now. Other values are put into the dict; objects with a state_dict
    load theirs."""
    folder = folder_of(checkpoint_id, storage_reader)
    metadata = FileSystemReader(folder).read_metadata()
    whole = {k: v.state_dict() if is_stateful(v) else v for k, v in state_dict.items()}
    files = _Files(folder)
    with rushlight.no_grad():
        for name, value, container, key in list(leaves_of(whole)):
            kind = "tensors" if isinstance(value, Tensor) else "values"
            entry = metadata[kind].get(name)
            if entry is None:
                raise KeyError(
                    f"distributed.checkpoint.load: the checkpoint in {folder} has no "
                    f"{'tensor' if kind == 'tensors' else 'value'} {name!r}"
                )
            if isinstance(value, Tensor):
                _fill(name, value, entry, files)
            else:
                container[key] = _value(entry)
    for key, value in state_dict.items():
        if is_stateful(value):
            value.load_state_dict(whole[key])
        else:
            state_dict[key] = whole[key]
