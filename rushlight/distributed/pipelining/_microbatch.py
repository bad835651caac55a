"""How a batch becomes micro-batches, and results become one again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight._C import Tensor
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


@dataclass(frozen=True)
class TensorChunkSpec:
    """A tensor is cut along this dim."""

    split_dim: int = 0


class _Same:
    """Every micro-batch gets the value as it is."""


def _spec_list(values, spec, count):
    """One spec per leaf. Without one, tensors are cut along dim 0, and other values shared."""
    if spec is None:
        return [TensorChunkSpec(0) if isinstance(v, Tensor) and v.dim() else _Same for v in values]
    found, _ = tree_flatten(spec)
    found = [TensorChunkSpec(s) if isinstance(s, int) else _Same if s is None else s for s in found]
    if len(found) != count:
        raise ValueError(
            f"pipelining: {count} values need as many chunk specs, got {len(found)}: {spec}"
        )
    return found


def _chunks_of(values: Any, spec: Any, chunks: int) -> list[Any]:
    leaves, tree = tree_flatten(values)
    specs = _spec_list(leaves, spec, len(leaves))
    columns = []
    for leaf, one in zip(leaves, specs, strict=True):
        if not isinstance(one, TensorChunkSpec):
            columns.append([leaf] * chunks)
            continue
        if not isinstance(leaf, Tensor):
            raise TypeError(f"pipelining: only tensors can be cut, got {type(leaf).__name__}")
        if leaf.shape[one.split_dim] < chunks:
            raise ValueError(
                f"pipelining: a tensor of {list(leaf.shape)} cannot be cut into {chunks} "
                f"micro-batches along dim {one.split_dim}"
            )
        columns.append(list(rushlight.tensor_split(leaf, chunks, one.split_dim)))
    return [tree_unflatten([column[i] for column in columns], tree) for i in range(chunks)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int,
    args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:  # fmt: skip
    """The arguments of each micro-batch. Without a spec, tensors are cut along dim 0."""
    if chunks < 1:
        raise ValueError(f"pipelining: there must be at least one micro-batch, got {chunks}")
    return (
        [tuple(part) for part in _chunks_of(list(args), args_chunk_spec, chunks)],
        _chunks_of(dict(kwargs or {}), kwargs_chunk_spec, chunks),
    )


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """One result of those of the micro-batches: tensors are joined along dim 0 or the spec's dim;
    numbers of no dim, such as losses, are averaged; of other values the first is taken."""
    trees = [tree_flatten(chunk) for chunk in chunks]
    tree = trees[0][1]
    specs = _spec_list(trees[0][0], chunk_spec, len(trees[0][0]))
    merged = []
    for i, spec in enumerate(specs):
        parts = [leaves[i] for leaves, _ in trees]
        if isinstance(spec, TensorChunkSpec):
            merged.append(rushlight.cat(parts, spec.split_dim))
        elif isinstance(parts[0], Tensor) and parts[0].is_floating_point():
            merged.append(rushlight.stack(parts).mean(0))
        else:
            merged.append(parts[0])
    return tree_unflatten(merged, tree)
