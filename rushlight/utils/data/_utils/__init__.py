"""The loader's parts: collation, fetching, seeding, workers and what goes between processes."""

from rushlight.utils.data._utils import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
