"""What a worker process knows about itself."""

from dataclasses import dataclass

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this is, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: object

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, ...)"


_worker_info = None


def get_worker_info():
    """The WorkerInfo in a worker process, None in the main process."""
    return _worker_info
