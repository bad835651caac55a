"""What libraries of a GPU need besides the tensors of a call, for plan.

cuDNN and cuBLAS choose an algorithm by the shapes, and with it how much memory they work in: no
formula tells. So each call is tried on the GPU, with tensors of its shapes and any values.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, NamedTuple

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map

__all__ = ["Peak", "Workspaces", "chosen_gpu", "raised_peak"]

# Ops that a library computes and that draw no random numbers.
_OPS = {
    "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::conv_transpose1d",
    "aten::conv_transpose2d", "aten::conv_transpose3d", "aten::convolution_input_grad",
    "aten::convolution_weight_grad", "aten::linear", "aten::mm", "aten::addmm", "aten::bmm",
    "aten::baddbmm", "aten::matmul",
}  # fmt: skip


def chosen_gpu(device: Any) -> Any:
    """The GPU that is asked, or None: nobody is."""
    if device is None:
        return None
    device = rushlight.device(device)
    if device.type == "cpu":
        return None  # oneDNN's workspaces are small
    if device.type != "cuda" or not rushlight.cuda.is_available():
        raise ValueError(f"plan: device must be a GPU of this machine, or None, not {device}")
    return device


def _described(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.stride(), value.dtype)
    return tuple(map(_described, value)) if isinstance(value, list | tuple) else repr(value)


class Workspaces(TorchDispatchMode):
    """Of a step on the meta device: which calls of libraries it makes, and what each needs."""

    def __init__(self, device: Any, cast: Any) -> None:
        super().__init__()
        self.device, self.cast = device, cast
        self.calls: list[tuple[str, int]] = []  # (op, bytes), in order
        self._known: dict[Any, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = "aten::" + str(func).split(".")[1].removeprefix("_")
        if name in _OPS:
            key = (name, _described(args), _described(tuple(sorted(kwargs.items()))))
            if key not in self._known:
                self._known[key] = self._tried(name, func, args, kwargs)
            self.calls.append((name, self._known[key]))
        return func(*args, **kwargs)

    def _tried(self, name: str, func: Any, args: Any, kwargs: Any) -> int:
        """Bytes that the call takes on the GPU at its peak, its result included."""

        def there(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return _C.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                    device=self.device)  # fmt: skip

        def arranged(value: Tensor) -> Tensor:
            """As convolutions on GPUs leave their results (config.automatic_layout)."""
            if value.dim() not in (4, 5) or value.dtype == rushlight.float64:
                return there(value)
            last = rushlight.channels_last if value.dim() == 4 else rushlight.channels_last_3d
            return _C.empty(value.shape, dtype=value.dtype, device=self.device, memory_format=last)

        activations = 0 if "conv" not in name or not _C._automatic_layout() else 1
        if name == "aten::convolution_weight_grad":
            activations *= 2
        cuda = rushlight.cuda
        enabled = self.cast is not None
        try:
            with rushlight.no_grad(), rushlight.autocast("cuda", self.cast, enabled=enabled):
                named, rest = tree_map(there, (kwargs, args[activations:]))
                given = [*map(arranged, args[:activations]), *rest]
                func(*given, **named)  # an algorithm is chosen, which may take more
                cuda.reset_peak_memory_stats(self.device)
                before = cuda.memory_allocated(self.device)
                func(*given, **named)
                peak = cuda.max_memory_allocated(self.device)
        except rushlight.OutOfMemoryError:
            return 0
        return peak - before


def _outermost(prof: Any) -> list[Any]:
    """The events of such calls that no other op made."""
    found = []
    for event in prof.events():
        if event.name not in _OPS:
            continue
        parent = event.cpu_parent
        while parent is not None and not parent.name.startswith("aten::"):
            parent = parent.cpu_parent
        if parent is None:
            found.append(event)
    return sorted(found, key=lambda e: e.time_range.start)


class Peak(NamedTuple):
    """When a step's memory is highest, how high, and what a library has of it."""

    time: float
    bytes: int
    workspace: int = 0


def raised_peak(prof: Any, calls: Sequence[tuple[str, int]]) -> Peak:
    """The peak of a step whose calls of libraries take as much as was found out."""
    history = prof.events().memory
    time, peak = history.peak("meta")
    events = _outermost(prof)
    if [e.name for e in events] != [name for name, _ in calls]:  # it went another way this time
        return Peak(time, peak)
    level, times, levels = history.before.get("meta", 0), [0.0], [history.before.get("meta", 0)]
    for at, device, change, _ in history.changes:
        if device == "meta":
            level += change
            times.append(at)
            levels.append(level)
    best = Peak(time, peak)
    for event, (_, taken) in zip(events, calls, strict=True):
        before = max(0, bisect.bisect_left(times, event.time_range.start) - 1)
        last = bisect.bisect_right(times, event.time_range.end)
        here = max(levels[before:last])  # the call's tensors, as the meta device has them
        there = levels[before] + taken
        if there > max(here, best.bytes):
            best = Peak(event.time_range.end, there, there - here)
    return best
