"""Models with tied weights: each weight is written once, and the other names in the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rushlight.types import Device, FileLike
from rushlight.utils.safetensors._read import load_file
from rushlight.utils.safetensors._write import byte_range, save_file, shared_groups

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module


def save_model(
    model: Module,
    filename: FileLike,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes a model's state_dict. Of names that stand for the same memory one is written, and the
    metadata maps the others to it.

    Arguments:
        model: the module.
        filename: where to write.
        metadata: strings by name, for the header.
        force_contiguous: whether tensors that are not contiguous are written as if they were; else
            they raise a ValueError.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> path = folder / "net.safetensors"
        >>> rl.utils.safetensors.save_model(nn.Linear(2, 1), path, metadata={"epoch": "3"})
        >>> with rl.utils.safetensors.safe_open(path) as saved:
        ...     saved.keys(), saved.metadata()
        (['bias', 'weight'], {'epoch': '3'})
    """
    state = dict(model.state_dict())
    metadata = dict(metadata or {})
    for kept, removed in _ties(state):
        for name in removed:
            metadata.setdefault(name, kept)
            del state[name]
    if not force_contiguous:
        for name, tensor in state.items():
            if not tensor.is_contiguous():
                raise ValueError(
                    f"save_model: {name!r} is not contiguous; pass force_contiguous=True"
                )
    save_file(state, filename, metadata or None)


def load_model(
    model: Module, filename: FileLike, strict: bool = True, device: Device = "cpu"
) -> tuple[set[str], list[str]]:
    """Loads a file of save_model into a model. Returns (missing, unexpected) names.

    Arguments:
        model: the module, whose parameters and buffers are overwritten.
        filename: the file.
        strict: whether names that are missing or unexpected raise a RuntimeError.
        device: where tensors are read to.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> path = folder / "net.safetensors"
        >>> rl.utils.safetensors.save_model(nn.Linear(2, 1), path)
        >>> rl.utils.safetensors.load_model(nn.Linear(2, 1), path, strict=False)
        (set(), [])
    """
    state = load_file(filename, device=device)
    own = dict(model.state_dict())
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing, unexpected = set(missing), set(unexpected)
    for kept, removed in _ties(own, prefer=set(state)):
        # One name of a tied weight is enough, whichever it is.
        if kept not in missing:
            missing -= set(removed)
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"load_model: the file does not fit the {type(model).__name__}"
            + (f"; missing: {_some(missing)}" if missing else "")
            + (f"; unexpected: {_some(unexpected)}" if unexpected else "")
        )
    return missing, list(unexpected)


def _ties(state, prefer=()):
    """(name to keep, names that its bytes already have) for each group of overlapping tensors."""
    found = []
    for group in shared_groups(state):
        ranges = {name: byte_range(state[name]) for name in group}
        whole = (min(r[0] for r in ranges.values()), max(r[1] for r in ranges.values()))
        covering = [name for name in group if ranges[name] == whole and _is_dense(state[name])]
        if not covering:
            raise RuntimeError(
                f"safetensors: the tensors {_some(group)} overlap in memory and none of them "
                "covers the others; give them memory of their own (.clone()) first"
            )
        kept = next((name for name in covering if name in prefer), covering[0])
        found.append((kept, [name for name in group if name != kept]))
    return found


def _is_dense(tensor):
    first, end = byte_range(tensor)
    return end - first == tensor.numel() * tensor.element_size()


def _some(names):
    names = sorted(names)
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
