"""A lock between processes: a file that exists."""

from __future__ import annotations

import os
import time
from typing import Any

__all__ = ["FileBaton"]


class FileBaton:
    """Held by the process that made the file."""

    def __init__(
        self, lock_file_path: Any, wait_seconds: float = 0.1, warn_after_seconds: Any = None
    ) -> None:
        self.lock_file_path, self.wait_seconds = lock_file_path, wait_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool | None:
        """Makes the file; False when another process has."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Waits until the file is gone."""
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)

    def release(self) -> None:
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
