"""GPU storages in messages: the memory stays where it is, and both sides use it.

Note [Who holds GPU memory]
The sender's allocator must not use a block again while another process reads it. Each storage that
was sent has a record in shared memory: how many messages with it are under way, and how often each
process holds it. The sender keeps the storage until all of that is zero. A process that ended, by
whatever way, holds nothing: records name processes by their number and the time of their start.
The memory itself is counted by the kernel, so that a receiver may go on when the sender has ended.
"""

import functools
import os
import threading
import weakref
from multiprocessing import context
from multiprocessing.reduction import DupFd

from rushlight import _C
from rushlight._C import _cuda

_IN_FLIGHT = 0
_SLOTS = range(2, 128, 2)  # of a record: a process, and how often it holds the storage
_START_SHIFT = 22  # numbers of processes are below 2^22

_lock = threading.Lock()
_sent = {}  # address -> (storage, record)


@functools.lru_cache(maxsize=256)
def _mark_of(pid):
    return _read_mark(pid)


def _read_mark(pid):
    """A process as one number: its own, and when it started; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    if fields[0] in (b"Z", b"X"):
        return 0
    return int(fields[19]) << _START_SHIFT | pid


def _is_alive(mark, known):
    if mark not in known:
        known[mark] = _read_mark(mark & (1 << _START_SHIFT) - 1) == mark
    return known[mark]


def _holders(record, known):
    """How many messages and processes hold the storage; those that ended are struck out. `known`
    says of which processes it was seen already whether they live."""
    numbers = record.tolist()
    held = numbers[_IN_FLIGHT]
    for i in _SLOTS:
        mark, count = numbers[i], numbers[i + 1]
        if mark and count and not _is_alive(mark, known):
            _cuda.cell_add(record, i + 1, -count)
            _cuda.cell_swap(record, i, mark, 0)
        else:
            held += count
    return held


def _slot_of_this_process(record):
    mark = _mark_of(os.getpid())
    for i in _SLOTS:
        here = int(record[i])
        if here == mark or (here == 0 and _cuda.cell_swap(record, i, 0, mark)):
            return i + 1
    raise RuntimeError(
        f"a GPU tensor is held by {len(_SLOTS)} processes already, more than can be counted"
    )


def collect():
    """Lets go of what no other process holds any more. Called with every message, whenever somebody
    asks how much memory is in use, and before an allocation fails."""
    if not _sent:
        return
    known = {}
    with _lock:
        done = [key for key, (_, record) in _sent.items() if _holders(record, known) <= 0]
        dropped = [_sent.pop(key) for key in done]
    del dropped  # outside of the lock: the memory goes back to the allocator


_cuda.collect_with(collect)


def reduce(storage, carrier):
    """A GPU storage as a message."""
    if _cuda.is_received(storage):
        raise RuntimeError(
            "a CUDA tensor that was received from another process cannot be sent on to a third "
            "one: send a clone()"
        )
    collect()
    place = _cuda.share(storage)
    key = storage.data_ptr()
    with _lock:
        kept = _sent.get(key)
        if kept is None:
            record = _C.zeros(128, dtype=_C.int64)
            record.share_memory_()
            kept = _sent[key] = (storage, record)
    record = kept[1]
    _cuda.cell_add(record, _IN_FLIGHT, 1)
    pieces = []
    for serial, start, nbytes, descriptor in place[-1]:
        slot, travels = -1, None
        if carrier is not None:
            slot = carrier.slot_for(("cuda", serial), descriptor)
        if slot >= 0:
            carrier.own(descriptor)  # (one that was there before is closed unused)
        else:
            travels = _by_other_means(serial, descriptor)
        pieces.append((serial, start, nbytes, slot, travels))
    if carrier is not None:
        carrier.on_cancel(functools.partial(_cuda.cell_add, record, _IN_FLIGHT, -1))
    return rebuild, (place[:-1], tuple(pieces), record)


def _by_other_means(serial, descriptor):
    """A descriptor in a message that carries bytes only: a child that is being started inherits it,
    others fetch it from a thread of the standard module."""
    child = context.get_spawning_popen()
    if child is None:
        try:
            return DupFd(descriptor)  # keeps a duplicate
        finally:
            os.close(descriptor)
    # One for each piece, open until the child's object goes.
    known = child.__dict__.setdefault("_rushlight_pieces", {})
    if serial in known:
        os.close(descriptor)
    else:
        known[serial] = DupFd(descriptor)
        weakref.finalize(child, os.close, descriptor)
    return known[serial]


def rebuild(place, pieces, record):
    """The storage that another process sent."""
    from rushlight.multiprocessing.reductions import taken_descriptor

    process, memory_range = place[0], place[1]
    found, opened = [], []
    try:
        for serial, start, nbytes, slot, travels in pieces:
            descriptor = -1
            if not _cuda.has_piece(process, memory_range, serial):
                descriptor = travels.detach() if travels is not None else taken_descriptor(slot)
                if travels is not None:
                    opened.append(descriptor)
            found.append((serial, start, nbytes, descriptor))
        holder = _slot_of_this_process(record)
        released = functools.partial(_cuda.cell_add, record, holder, -1)
        _cuda.cell_add(record, holder, 1)
        try:
            storage = _cuda.receive((*place, tuple(found)), released)
        except BaseException:
            released()
            raise
    finally:
        for descriptor in opened:
            os.close(descriptor)
        _cuda.cell_add(record, _IN_FLIGHT, -1)
    return storage
