"""Batches of loaders as they come: their labels, and whether reading them changes the data."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.doctor._notes import Notes
from rushlight.profiler._memory import _tensors

__all__ = ["Batches", "readable"]

_MOST_NUMBERS = 1 << 22  # of an array whose sum is compared


def readable(value: Any) -> list[Tensor]:
    """The tensors in nested values whose elements can be looked at as those of any other."""
    return [
        t
        for t in _tensors(value)
        if t.layout is rushlight.strided and t.device.type in ("cpu", "cuda")
        and not t.is_nested and not t.is_quantized
    ]  # fmt: skip


def _varies(values: Any) -> bool:
    """Whether it holds data: what is of one number is yet to be filled, as a cache."""
    first = values.reshape(-1)[:1]
    return bool((values != first).any())


class _Data:
    """The tensors and arrays that a dataset holds, and whether they were written to."""

    def __init__(self, loader: Any) -> None:
        dataset: Any = getattr(loader, "dataset", None)
        while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # a Subset
            dataset = dataset.dataset
        held: dict[str, Any] = dict(getattr(dataset, "__dict__", {}))
        if isinstance(held.get("tensors"), tuple | list):
            held |= {f"tensors[{i}]": t for i, t in enumerate(held.pop("tensors"))}
        in_workers = getattr(loader, "num_workers", 0) > 0
        self._held = {} if in_workers else {n: v for n, v in held.items() if self._is_data(v)}

    @staticmethod
    def _is_data(value: Any) -> bool:
        if isinstance(value, Tensor):
            return bool(readable(value)) and 1 < value.numel() and _varies(value)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        return kind in ("f", "i", "u") and 1 < value.size <= _MOST_NUMBERS and _varies(value)

    def state(self) -> dict[str, Any]:
        """What tells whether something was written."""
        return {name: value._version if isinstance(value, Tensor) else float(value.sum())
                for name, value in self._held.items()}  # fmt: skip


class Batches:
    """An iterator over batches that notes what is in them."""

    def __init__(self, iterator: Any, loader: Any, notes: Notes) -> None:
        self._iterator, self._notes = iterator, notes
        self._before: list[Tensor] = []
        self._data: Any = _Data(loader)
        size = getattr(loader, "batch_size", None)
        notes.batch_size = size if isinstance(size, int) else 0
        try:
            notes.loader_length = len(loader)
        except TypeError:  # of an iterable dataset
            notes.loader_length = 0

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __next__(self) -> Any:
        if self._notes.closed:  # the program goes on with this iterator
            self._before, self._data = [], None
            return next(self._iterator)
        states = self._data.state()
        batch = next(self._iterator)
        with rushlight.no_grad(), _C.DisableTorchFunction():
            self._notes.fetched += 1
            for name, state in self._data.state().items():
                if states[name] != state:
                    self._notes.written[name] = self._notes.written.get(name, 0) + 1
            self._look_at([t.detach() for t in readable(batch)])
        return batch

    def _look_at(self, now: list[Tensor]) -> None:
        same = len(now) == len(self._before) and all(
            a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
            for a, b in zip(now, self._before, strict=True)
        )
        self._notes.repeated += bool(now) and same
        self._before = [t.clone() for t in now]
        for tensor in now:
            if tensor.dim() == 1 and not tensor.is_floating_point() and len(tensor) > 3:
                labels = tensor.tolist()
                self._notes.batches.append(frozenset(labels))
                self._notes.labels_now = labels
                break
