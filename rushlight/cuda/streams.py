"""Streams (queues of work on a GPU) and events (points in them)."""

from __future__ import annotations

from typing import Any, Literal

from rushlight import _C
from rushlight._C import _cuda
from rushlight.cuda._devices import _index
from rushlight.types import Device, Self


class Stream:
    """A queue of work on a GPU. Work in one stream runs in order, that of several side by side.

    Arguments:
        device: the GPU; None is the current one.
        priority: 0, or -1 to -3 for more urgent work; other numbers count as the nearest of these.

    Example:
        >>> not rl.cuda.is_available() or rl.Stream(priority=-1).device.type == "cuda"
        True
    """

    def __init__(self, device: Device = None, priority: int = 0, **given: Any) -> None:
        key = given.pop("_key", None)
        if given:
            raise TypeError(f"Stream: unexpected argument '{next(iter(given))}'")
        self._key = key or _cuda.new_stream(_index(device), priority)

    @property
    def device(self) -> _C.device:
        """The GPU of the stream."""
        return _C.device("cuda", self._key[0])

    @property
    def device_index(self) -> int:
        return self._key[0]

    @property
    def stream_id(self) -> int:
        return self._key[1]

    @property
    def device_type(self) -> int:
        return 1

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, as an int."""
        return _cuda.stream_handle(self._key)

    @property
    def priority(self) -> int:
        return _cuda.stream_priority(self._key)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority; lower numbers go first."""
        return 0, -3

    def query(self) -> bool:
        """Is everything queued so far done?"""
        return _cuda.stream_query(self._key)

    def synchronize(self) -> None:
        """Waits until everything queued so far is done."""
        _cuda.stream_synchronize(self._key)

    def wait_event(self, event: Event) -> None:
        """Later work of this stream waits for the event."""
        event._event.make_wait(self._key)

    def wait_stream(self, stream: Stream) -> None:
        """Later work of this stream waits for what the other one has queued so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Puts an event behind what is queued so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<rushlight.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self) -> Self:
        self._contexts = [*getattr(self, "_contexts", []), StreamContext(self)]
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *error: object) -> Literal[False]:
        self._contexts.pop().__exit__(*error)
        return False


class ExternalStream(Stream):
    """A stream that somebody else made, by the driver's handle; they keep it alive.

    Arguments:
        stream_ptr: the handle (cudaStream_t), as an int.
        device: its GPU; None is the current one.

    Example:
        >>> if rl.cuda.is_available():
        ...     made = rl.cuda.Stream()
        ...     same = rl.cuda.ExternalStream(made.cuda_stream).cuda_stream == made.cuda_stream
        ... else:
        ...     same = True
        >>> same
        True
    """

    def __init__(self, stream_ptr: Any, device: Device = None) -> None:
        super().__init__(_key=_cuda.external_stream(_index(device), stream_ptr))


class Event:
    """A point in a stream's work, to wait for or to measure time between.

    Arguments:
        enable_timing: whether elapsed_time can be asked for.
        blocking: whether a thread that waits sleeps, and does not spin.
        interprocess: whether other processes may use the event.
        external: inside a captured graph, whether the replays record it and wait for it, and not
            the capture.

    Example:
        >>> event = rl.Event(enable_timing=True)
        >>> event.query()  # nothing was recorded yet
        True
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self._event = _cuda.Event(enable_timing, interprocess, blocking, external)
        self._timing = enable_timing

    def record(self, stream: Stream | None = None) -> None:
        """Marks the point behind what the stream (the current one) has queued so far."""
        stream = current_stream() if stream is None else stream
        self._event.record(stream._key)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of the stream (the current one) waits for the point."""
        self._event.make_wait((current_stream() if stream is None else stream)._key)

    def query(self) -> bool:
        """Is the point passed? True if nothing was recorded."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits for the point."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to a later one; both need enable_timing=True."""
        return self._event.elapsed_time(end_event._event)

    @property
    def cuda_event(self) -> int:
        """The driver's handle, as an int; 0 before the first record."""
        return self._event.handle()

    @property
    def device(self) -> _C.device | None:
        index = self._event.device()
        return None if index < 0 else _C.device("cuda", index)

    def __repr__(self) -> str:
        return f"<rushlight.cuda.Event {self.cuda_event:#x}>"


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that this thread's ops on a GPU go to.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> streams = [rl.cuda.current_stream(i) for i in range(rl.cuda.device_count())]
        >>> all(stream.device.type == "cuda" for stream in streams)
        True
    """
    return Stream(_key=_cuda.current_stream(_index(device)))


def default_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that ops go to unless another one is chosen.

    Arguments:
        device: which GPU; None is the current one.

    Example:
        >>> streams = [rl.cuda.default_stream(i) for i in range(rl.cuda.device_count())]
        >>> [stream.device_index for stream in streams] == list(range(rl.cuda.device_count()))
        True
    """
    return Stream(_key=_cuda.default_stream(_index(device)))


def set_stream(stream: Stream) -> None:
    """Sends this thread's ops to a stream from now on; `with stream(...)` is better.

    Arguments:
        stream: a Stream; None changes nothing.

    Example:
        >>> rl.cuda.set_stream(rl.cuda.current_stream() if rl.cuda.is_available() else None)
        >>> rl.cuda.is_current_stream_capturing()
        False
    """
    if stream is not None:
        _cuda.set_stream(stream._key)


class StreamContext:
    """Sends ops to a stream inside a with block, and makes its GPU the current one.

    Arguments:
        stream: a Stream; None changes nothing.

    Example:
        >>> side = rl.cuda.Stream() if rl.cuda.is_available() else None
        >>> with rl.cuda.StreamContext(side):
        ...     x = rl.ones(2, device="cuda" if side else "cpu") + 1
        >>> if side:
        ...     side.synchronize()
        >>> x.tolist()
        [2.0, 2.0]
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            index = self.stream.device_index
            self._before = _cuda.current_device(), _cuda.current_stream(index)
            _cuda.set_device(index)
            _cuda.set_stream(self.stream._key)

    def __exit__(self, *error: object) -> Literal[False]:
        if self.stream is not None:
            index, key = self._before
            _cuda.set_stream(key)
            _cuda.set_device(index)
        return False


def stream(stream: Stream | None) -> StreamContext:
    """`with stream(s):` sends the ops inside to s. None: no change.

    Work of several streams runs side by side: what another stream reads has to be waited for.

    Arguments:
        stream: a Stream or None.

    Example:
        >>> side = rl.cuda.Stream() if rl.cuda.is_available() else None
        >>> with rl.cuda.stream(side):
        ...     x = rl.ones(2, device="cuda" if side else "cpu") + 1
        >>> if side:
        ...     rl.cuda.current_stream().wait_stream(side)
        >>> (x * 2).tolist()
        [4.0, 4.0]
    """
    return StreamContext(stream)


_SYNC_MODES = ("default", "warn", "error")


def coalescing_stats() -> dict[str, Any]:
    """What became of kernels that were kept back to be queued together (docs/cuda.md).

    ``batched_kernels`` and ``library_calls`` (of cuDNN and cuBLAS) were queued as nodes of graphs,
    in ``graph_launches`` calls; ``single_kernels`` were launched one by one after all, because
    their order was new; ``graphs`` are kept, ``refused_graphs`` were not launched by the driver.
    ``engaged`` says whether the GPU waits for the host now, ``off`` why nothing is kept back (None:
    it may be).

    Example:
        >>> rl.cuda.coalescing_stats()["batched_kernels"] >= 0
        True
    """
    return _cuda.batch_stats()


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens when an op makes the host wait for the GPU.

    Arguments:
        debug_mode: "default" (nothing), "warn" or "error"; or 0, 1, 2.

    Example:
        >>> rl.cuda.set_sync_debug_mode("warn")
        >>> rl.cuda.get_sync_debug_mode()
        1
        >>> rl.cuda.set_sync_debug_mode("default")
    """
    if debug_mode in _SYNC_MODES:
        debug_mode = _SYNC_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"set_sync_debug_mode: expected one of {_SYNC_MODES} or 0, 1, 2, got {debug_mode!r}"
        )
    _cuda.set_sync_debug(debug_mode)


def get_sync_debug_mode() -> int:
    """The mode set by set_sync_debug_mode, as a number: 0 nothing, 1 a warning, 2 an error.

    Example:
        >>> rl.cuda.get_sync_debug_mode()
        0
    """
    return _cuda.sync_debug()
