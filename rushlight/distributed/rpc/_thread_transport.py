"""Calls between simulated ranks, which are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rushlight.distributed.rpc._messages import Message

_lock = threading.Lock()
_rooms: dict[str, dict[int, Any]] = {}  # the workers that meet, by the name of their meeting


class ThreadTransport:
    """Hands messages to the other worker's ``receive`` directly."""

    def __init__(self, worker: Any, room: str) -> None:
        self._worker, self._room = worker, room
        with _lock:
            self._workers = _rooms.setdefault(room, {})
            self._workers[worker.me.id] = worker

    def start(self) -> None:
        """Calls are taken from the start."""

    def send(self, to: int, message: Message, came: Callable[[Any, Any], None]) -> None:
        """Calls ``came(reply, None)`` or ``came(None, error)``, once."""
        other = self._workers.get(to)
        if other is None:
            name = self._worker.workers[to].name
            came(None, RuntimeError(f"rpc: {name} is gone: it has left the simulation"))
            return
        other.receive(self._worker.me.id, message, lambda reply: came(reply, None))

    def close(self) -> None:
        with _lock:
            self._workers.pop(self._worker.me.id, None)
            if not self._workers:
                _rooms.pop(self._room, None)
