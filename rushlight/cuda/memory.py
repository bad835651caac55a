"""Memory of GPUs: how much is in use, and giving it back."""

from __future__ import annotations

import re
import struct
import sys
import time
from typing import Any

from rushlight import _C
from rushlight._C import _cuda
from rushlight._names.missing import names_missing_from
from rushlight.cuda._devices import _index, device_count, is_available
from rushlight.cuda._pluggable import (
    CUDAPluggableAllocator as CUDAPluggableAllocator,
)
from rushlight.cuda._pluggable import (
    backend_name,
)
from rushlight.cuda._pluggable import (
    change_current_allocator as change_current_allocator,
)
from rushlight.types import Device


def _collect_sent():
    """Frees memory that was sent to other processes and that none of them holds any more."""
    sharing = sys.modules.get("rushlight.multiprocessing._cuda_sharing")
    if sharing is not None:
        sharing.collect()


def _counters(device):
    _collect_sent()
    return _cuda.memory_counters(_index(device))


def _level(name, which, device):
    """The current (0) or highest (1) bytes of a counter."""
    return _counters(device)[name][0][which] if is_available() else 0


def _counter(name, device):
    return _counters(device)[name] if is_available() else 0


def memory_allocated(device: Device = None) -> int:
    """Bytes that live tensors hold; 0 without a GPU.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.memory_allocated(device=None) >= 0
        True
    """
    return _level("allocated", 0, device)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that live tensors held since the peaks were reset.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.max_memory_allocated(device=None) >= 0
        True
    """
    return _level("allocated", 1, device)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the allocator has from the driver, in use or cached; 0 without a GPU.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.memory_reserved(device=None) >= 0
        True
    """
    return _counter("reserved", device)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that the allocator had from the driver since the peaks were reset.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.max_memory_reserved(device=None) >= 0
        True
    """
    return _counter("peak_reserved", device)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


_COUNTS = ("current", "peak", "allocated", "freed")
_POOLS = ("all", "large_pool", "small_pool")


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """The allocator's counters with PyTorch's names, as dicts of dicts; empty without a GPU.

    Blocks up to 1 MiB count as the small pool; they come from the same memory as the others.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> counts = rl.cuda.memory_stats_as_nested_dict(device=None)
        >>> counts == {} or counts["allocated_bytes"]["all"]["current"] >= 0
        True
    """
    if not is_available():
        return {}
    c = _counters(device)

    def pools(counts):
        return {
            pool: dict(zip(_COUNTS, stat, strict=True))
            for pool, stat in zip(_POOLS, counts, strict=True)
        }

    def whole(*counts):  # what has no size classes
        return pools([counts, counts, (0, 0, 0, 0)])

    gained, lost = c["driver_allocations"], c["driver_frees"]
    cached = c["reserved"] - c["allocated"][0][0]
    none = dict.fromkeys(_COUNTS, 0)
    return {
        "allocation": pools(c["blocks"]),
        "segment": whole(gained - lost, gained, gained, lost),
        "active": pools(c["blocks"]),
        "inactive_split": whole(*(none.values())),
        "allocated_bytes": pools(c["allocated"]),
        "reserved_bytes": whole(c["reserved"], c["peak_reserved"], c["peak_reserved"],
                                c["peak_reserved"] - c["reserved"]),
        "active_bytes": pools(c["allocated"]),
        "inactive_split_bytes": whole(cached, cached, 0, 0),
        "requested_bytes": pools(c["requested"]),
        "oversize_allocations": dict(none),
        "oversize_segments": dict(none),
        "max_split_size": -1,
        "num_alloc_retries": c["retries"],
        "num_ooms": c["out_of_memory"],
        "num_sync_all_streams": 0,
        "num_device_alloc": gained,
        "num_device_free": lost,
    }  # fmt: skip


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's counters with PyTorch's names; empty without a GPU.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.memory_stats(device=None).get("allocated_bytes.all.peak", 0) >= 0
        True
    """

    def flat(prefix, value):
        if not isinstance(value, dict):
            yield prefix, value
            return
        for name, inner in value.items():
            yield from flat(f"{prefix}.{name}" if prefix else name, inner)

    return dict(sorted(flat("", memory_stats_as_nested_dict(device))))


def _size(n):
    for unit in ("B", "KiB", "MiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.2f} GiB"


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the allocator's counters, as text.

    Arguments:
        device: which GPU; None is the current one.
        abbreviated: leaves out blocks, segments, retries and failures.

    Example:
        >>> text = rl.cuda.memory_summary(abbreviated=True)
        >>> text.startswith("Memory of cuda:") == rl.cuda.is_available()
        True
    """
    if not is_available():
        return "no CUDA device is available"
    stats = memory_stats_as_nested_dict(device)
    index = _index(device)
    rows = [
        ("live tensors", "allocated_bytes"),
        ("asked for", "requested_bytes"),
        ("from the driver", "reserved_bytes"),
    ]
    lines = [f"Memory of cuda:{index}", f"{'':16}{'now':>14}{'peak':>14}{'in total':>14}"]
    for title, name in rows:
        counts = stats[name]["all"]
        cells = (counts["current"], counts["peak"], counts["allocated"])
        lines.append(f"{title:16}" + "".join(f"{_size(n):>14}" for n in cells))
    if not abbreviated:
        for title, name in (("blocks", "allocation"), ("segments", "segment")):
            counts = stats[name]["all"]
            cells = (counts["current"], counts["peak"], counts["allocated"])
            lines.append(f"{title:16}" + "".join(f"{n:>14,}" for n in cells))
        lines.append(f"{'retries':16}{stats['num_alloc_retries']:>14,}")
        lines.append(f"{'out of memory':16}{stats['num_ooms']:>14,}")
    return "\n".join(lines)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts the peaks anew: from here on the maxima are those of what comes.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.reset_peak_memory_stats(device=None)
        >>> rl.cuda.max_memory_allocated() >= rl.cuda.memory_allocated()
        True
    """
    if is_available():
        _cuda.reset_peaks(_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Starts the totals of memory_stats anew, those that only grow.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> rl.cuda.reset_accumulated_memory_stats(device=None) is None
        True
    """
    if is_available():
        _cuda.reset_totals(_index(device))


def _frames(source):
    """A source line ("train.py:12 in step: y = x + 1") as PyTorch's frames."""
    found = re.match(r"(.*?):(\d+)(?: in ([^:]*))?", source or "")
    if not found:
        return []
    name, line, function = found.groups()
    return [{"filename": name, "line": int(line), "name": function or ""}]


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The allocator's segments with their blocks, as PyTorch lists them; empty without a GPU.

    Blocks of a MiB and more have the line that made them as their one frame.

    Arguments:
        mempool_id: only segments of this pool, as CUDAGraph.pool() names it; None: all.
        include_traces: accepted; traces are no part of the list, cuda.memory._snapshot() has them.

    Example:
        >>> segments = rl.cuda.memory_snapshot(include_traces=False)
        >>> all("blocks" in segment for segment in segments)
        True
    """
    if not is_available() or not _cuda.is_initialized():
        return []
    segments = []
    _collect_sent()
    for s in _cuda.snapshot():
        if mempool_id is not None and s["segment_pool_id"] != tuple(mempool_id):
            continue
        used = [b for b in s["blocks"] if b["state"] != "inactive"]
        for b in s["blocks"]:
            b["frames"] = _frames(b.pop("source"))
        live = [b for b in used if b["state"] == "active_allocated"]
        segments.append({
            **s,
            "allocated_size": sum(b["size"] for b in live),
            "active_size": sum(b["size"] for b in used),
            "requested_size": sum(b["requested_size"] for b in live),
            "frames": [],
        })  # fmt: skip
    return sorted(segments, key=lambda s: (s["device"], s["address"]))


_MOST_ENTRIES = 1_000_000  # of a history, where the caller names no limit


def _record_memory_history(
    enabled="all",
    context="all",
    stacks="all",
    max_entries=None,
    device=None,
    clear_history=False,
    compile_context=False,
    global_record_annotations=False,
    skip_actions=None,
):
    """Keeps what is allocated and freed from now on, with the lines, for _snapshot; None ends it.

    The last max_entries are kept, a million by default. Each has the program's innermost line.
    `skip_actions` names what is left out: "alloc", "free_requested" or "free_completed"."""
    if enabled not in (None, "state", "all", True, False):
        raise ValueError(
            f"_record_memory_history: enabled must be None, 'state' or 'all', not {enabled!r}"
        )
    skipped = set(skip_actions or ())
    if isinstance(skip_actions, str) or not skipped <= {*_ACTIONS, *_OTHER_ACTIONS}:
        raise ValueError(
            f"_record_memory_history: skip_actions must be a list of actions ({', '.join(_ACTIONS)}"
            f"), not {skip_actions!r}"
        )
    _skipped_actions.clear()
    _skipped_actions.update(skipped)
    if enabled in (None, False):
        _C._memory_history_stop()
    elif enabled != "state" and (clear_history or _C._memory_history() is None):
        _C._memory_history_start(min(max_entries or _MOST_ENTRIES, 1 << 40))


_ACTIONS = ("alloc", "free_requested", "free_completed")
_OTHER_ACTIONS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot",
                  "oom")  # fmt: skip
_skipped_actions: set[str] = set()  # that snapshots leave out


def _device_traces():
    """What the history has of each GPU, in the words of PyTorch's visualiser."""
    traces = [[] for _ in range(device_count())]
    history = _C._memory_history()
    if history is None:
        return traces
    records, lines = history
    to_wall = time.time_ns() - time.monotonic_ns()
    for at, address, change, _, code, source in struct.iter_unpack("6q", records):
        kind, index = divmod(code, 256)
        if kind != _GPU or index >= len(traces):
            continue
        entry = {"addr": address, "size": abs(change), "stream": 0,
                 "time_us": (at + to_wall) // 1000, "frames": [], "compile_context": None,
                 "user_metadata": ""}  # fmt: skip
        if source in lines:
            file, line, function = lines[source]
            entry["frames"] = [{"filename": file, "line": line, "name": function}]
        for action in ("alloc",) if change >= 0 else ("free_requested", "free_completed"):
            if action not in _skipped_actions:
                traces[index].append({"action": action, **entry})
    return traces


def _snapshot(device=None, augment_with_fx_traces=False):
    """The state of memory and its history, as PyTorch's visualiser reads it."""
    index = None if device is None else _index(device)
    segments = [s for s in memory_snapshot() if index is None or s["device"] == index]
    return {"segments": segments, "device_traces": _device_traces(), "allocator_settings": {}}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes the state of memory as a pickle."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


_GPU = 1  # the number of the device type, see csrc/core/device.h
_given_out = {}  # blocks of caching_allocator_alloc, by address


def caching_allocator_alloc(size: int, device: Device = None, stream: Any = None) -> int:
    """Memory from the allocator for other libraries: its address.

    caching_allocator_delete frees it.

    Arguments:
        size: bytes.
        device: which GPU; None is the current one.
        stream: where it is used first: a Stream or the driver's handle; None is the current one.

    Example:
        >>> if rl.cuda.is_available():
        ...     address = rl.cuda.caching_allocator_alloc(1024, stream=rl.cuda.current_stream())
        ...     rl.cuda.caching_allocator_delete(address)
        >>> rl.cuda.memory_allocated() >= 0
        True
    """
    from rushlight.cuda.streams import ExternalStream, Stream, StreamContext

    if isinstance(stream, int):
        stream = ExternalStream(stream, device) if stream else None
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(
            "caching_allocator_alloc: the stream must be a Stream or its handle as an int, not "
            f"{type(stream).__name__}"
        )
    with StreamContext(stream):
        block = _C.empty(
            max(int(size), 1), dtype=_C.uint8, device=_C.device("cuda", _index(device))
        )
    _given_out[block.data_ptr()] = block
    return block.data_ptr()


def caching_allocator_delete(mem_ptr: Any) -> None:
    """Frees what caching_allocator_alloc gave; a RuntimeError for other addresses.

    Arguments:
        mem_ptr: the address.

    Example:
        >>> try:
        ...     rl.cuda.caching_allocator_delete(0)
        ... except RuntimeError as error:
        ...     print(error)
        caching_allocator_delete: 0x0 is not a block of caching_allocator_alloc
    """
    if _given_out.pop(mem_ptr, None) is None:
        raise RuntimeError(
            f"caching_allocator_delete: {mem_ptr:#x} is not a block of caching_allocator_alloc"
        )


def host_memory_stats() -> dict[str, Any]:
    """Counters of pinned host memory with PyTorch's names; empty without a GPU.

    Example:
        >>> rl.cuda.host_memory_stats().get("reserved_bytes.all.current", 0) >= 0
        True
    """
    if not is_available():
        return {}
    reserved, peak, gained, lost = _cuda.host_counters()
    return {
        "reserved_bytes.all.current": reserved,
        "reserved_bytes.all.peak": peak,
        "segment.all.current": gained - lost,
        "segment.all.allocated": gained,
        "segment.all.freed": lost,
        "num_host_alloc": gained,
        "num_host_free": lost,
    }


def empty_cache() -> None:
    """Gives cached memory back to the driver, for other programs to use.

    Example:
        >>> rl.cuda.empty_cache() is None
        True
    """
    _collect_sent()
    _cuda.empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a GPU, as the driver counts them.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> free, total = rl.cuda.mem_get_info(device=0) if rl.cuda.is_available() else (0, 0)
        >>> free <= total
        True
    """
    return _cuda.memory_info(_index(device))


def set_per_process_memory_fraction(fraction: Any, device: Device = None) -> None:
    """Lets this process reserve at most a fraction of a GPU's memory.

    Arguments:
        fraction: from 0 to 1.
        device: which GPU; None is the current one.

    Example:
        >>> if rl.cuda.is_available():
        ...     rl.cuda.set_per_process_memory_fraction(1.0, device=0)
        >>> rl.cuda.get_per_process_memory_fraction(device=0) if rl.cuda.is_available() else 1.0
        1.0
    """
    _cuda.set_memory_fraction(_index(device), float(fraction))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The fraction set by set_per_process_memory_fraction.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> share = rl.cuda.get_per_process_memory_fraction(0) if rl.cuda.is_available() else 1.0
        >>> 0 <= share <= 1
        True
    """
    return _cuda.memory_fraction(_index(device))


def caching_allocator_enable(value: bool = True) -> None:
    """Whether freed GPU memory is kept for the next tensor. Only while no tensor is on a GPU.

    Arguments:
        value: False: every tensor's memory comes from the driver and goes back to it.

    Example:
        >>> if rl.cuda.memory_allocated() == 0:
        ...     rl.cuda.caching_allocator_enable(value=True)
        >>> rl.config.cuda_caching_allocator
        True
    """
    _cuda.set_caching(bool(value))


def get_allocator_backend() -> str:
    """The allocator of GPU memory: "native", or "pluggable" after change_current_allocator.

    Example:
        >>> rl.cuda.get_allocator_backend()
        'native'
    """
    return backend_name()


def ipc_collect() -> None:
    """Frees memory that was sent to other processes and that none of them holds any more.

    Example:
        >>> rl.cuda.ipc_collect() is None
        True
    """
    _collect_sent()


__getattr__ = names_missing_from(__name__)
