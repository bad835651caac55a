"""Helpers that packages written for PyTorch import."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import distributed as dist
from rushlight._names.missing import names_missing_from

__all__: list[str] = []


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int, src: int,
    params_and_buffers_to_ignore: Any, broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Gives all ranks the parameters, and the buffers, of rank ``src`` of the group."""
    states = [p.detach() for n, p in module.named_parameters()
              if n not in params_and_buffers_to_ignore]  # fmt: skip
    if broadcast_buffers:
        states += [b.detach() for n, b in module.named_buffers()
                   if n not in params_and_buffers_to_ignore]  # fmt: skip
    by_dtype: dict[Any, list[Any]] = {}
    for state in states:
        by_dtype.setdefault(state.dtype, []).append(state)
    for tensors in by_dtype.values():
        flat = rushlight.cat([t.reshape(-1) for t in tensors])
        dist.broadcast(flat, group=process_group, group_src=src)
        parts = flat.split([t.numel() for t in tensors])
        with rushlight.no_grad():
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(part.view_as(tensor))


__getattr__ = names_missing_from(__name__)
