"""Memory of GPUs: how much is in use, and giving it back."""

from rushlight._C import _cuda
from rushlight._missing import names_missing_from
from rushlight.cuda._devices import _index, is_available


def _counters(device):
    return _cuda.memory_counters(_index(device))


def _counter(name, device):
    return _counters(device)[name] if is_available() else 0


def memory_allocated(device=None):
    """Bytes that live tensors hold; 0 without a GPU."""
    return _counter("allocated", device)


def max_memory_allocated(device=None):
    """The most bytes that live tensors held since the peaks were reset."""
    return _counter("peak_allocated", device)


def memory_reserved(device=None):
    """Bytes that the allocator has from the driver, in use or cached."""
    return _counter("reserved", device)


def max_memory_reserved(device=None):
    """The most bytes that the allocator had from the driver since the peaks were reset."""
    return _counter("peak_reserved", device)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def memory_stats_as_nested_dict(device=None):
    """The allocator's counters with PyTorch's names, as dicts of dicts."""
    if not is_available():
        return {}
    c = _counters(device)

    def levels(now, peak, gained=0, lost=0):
        counts = {"current": now, "peak": peak, "allocated": gained, "freed": lost}
        return {"all": counts, "large_pool": counts, "small_pool": dict.fromkeys(counts, 0)}

    segments = c["driver_allocations"] - c["driver_frees"]
    cached = c["reserved"] - c["allocated"]
    return {
        "allocated_bytes": levels(
            c["allocated"], c["peak_allocated"], c["total_allocated"], c["total_freed"]
        ),
        "requested_bytes": levels(c["requested"], c["peak_requested"]),
        "reserved_bytes": levels(c["reserved"], c["peak_reserved"]),
        "active_bytes": levels(c["allocated"], c["peak_allocated"]),
        "inactive_split_bytes": levels(cached, cached),
        "allocation": levels(c["live_blocks"], c["peak_blocks"], c["allocations"], c["frees"]),
        "active": levels(c["live_blocks"], c["peak_blocks"], c["allocations"], c["frees"]),
        "segment": levels(segments, segments, c["driver_allocations"], c["driver_frees"]),
        "num_alloc_retries": c["retries"],
        "num_ooms": c["out_of_memory"],
        "num_device_alloc": c["driver_allocations"],
        "num_device_free": c["driver_frees"],
    }


def memory_stats(device=None):
    """The allocator's counters with PyTorch's names, such as "allocated_bytes.all.peak"."""

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


def memory_summary(device=None, abbreviated=False):
    """A table of the allocator's counters."""
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


def reset_peak_memory_stats(device=None):
    """Starts the peaks anew."""
    if is_available():
        _cuda.reset_peaks(_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None):
    """Starts the totals anew."""
    if is_available():
        _cuda.reset_totals(_index(device))


def memory_snapshot(mempool_id=None):
    """A list of the allocator's segments. Not kept: empty."""
    return []


def _record_memory_history(*args, **kwargs):
    """Histories of memory are not recorded."""


def _snapshot(device=None):
    """The history of memory: empty."""
    return {"segments": [], "device_traces": []}


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Writes the history of memory: an empty one."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def empty_cache():
    """Gives cached memory back to the driver, for other programs to use."""
    _cuda.empty_cache()


def mem_get_info(device=None):
    """Free and total bytes of a GPU, as the driver counts them."""
    return _cuda.memory_info(_index(device))


def set_per_process_memory_fraction(fraction, device=None):
    """Lets this process reserve at most a fraction of a GPU's memory."""
    _cuda.set_memory_fraction(_index(device), float(fraction))


def get_per_process_memory_fraction(device=None):
    """The fraction set by set_per_process_memory_fraction."""
    return _cuda.memory_fraction(_index(device))


def caching_allocator_enable(value=True):
    """Off: every tensor's memory comes from the driver and goes back to it. Only while no tensor is
    on a GPU."""
    _cuda.set_caching(bool(value))


__getattr__ = names_missing_from(__name__)
