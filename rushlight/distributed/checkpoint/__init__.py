"""Checkpoints that all ranks write together, and any number of ranks can load.

A checkpoint is a folder: a safetensors file per rank with the parts of tensors that the rank held,
and `.metadata`, a JSON file that says which part of which tensor is where. The metadata is put in
place last and at once, so a folder always holds a whole checkpoint: the old one until then, the new
one from then on.
"""

from rushlight._names.missing import fill
from rushlight.distributed.checkpoint._load import load
from rushlight.distributed.checkpoint._save import async_save, save
from rushlight.distributed.checkpoint._storage import (
    CheckpointException,
    FileSystemReader,
    FileSystemWriter,
)

__all__ = [
    "CheckpointException",
    "FileSystemReader",
    "FileSystemWriter",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]

save_state_dict, load_state_dict = save, load  # PyTorch's older names

fill(globals())
