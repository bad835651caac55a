"""The memory of GPUs."""

from rushlight._missing import names_missing_from
from rushlight.cuda import empty_cache as empty_cache
from rushlight.cuda import max_memory_allocated as max_memory_allocated
from rushlight.cuda import max_memory_reserved as max_memory_reserved
from rushlight.cuda import mem_get_info as mem_get_info
from rushlight.cuda import memory_allocated as memory_allocated
from rushlight.cuda import memory_reserved as memory_reserved
from rushlight.cuda import memory_snapshot as memory_snapshot
from rushlight.cuda import memory_stats as memory_stats
from rushlight.cuda import memory_summary as memory_summary
from rushlight.cuda import reset_peak_memory_stats as reset_peak_memory_stats


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


__getattr__ = names_missing_from(__name__)
