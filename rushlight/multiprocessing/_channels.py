"""Pipes and queues whose messages carry file descriptors; see Note [How a descriptor travels]."""

import array
import errno
import io
import os
import pickle
import socket
import struct
import threading
import time
from multiprocessing import connection, queues, reduction
from multiprocessing.reduction import ForkingPickler

from rushlight.multiprocessing.reductions import Carrier, Delivery

_LENGTH = struct.Struct("!Q")
_MOST_DESCRIPTORS = 253
_PATIENCE = 60  # seconds to wait while too many descriptors are under way


def pack(obj):
    """The pickled object, and the Carrier with its descriptors."""
    buffer = io.BytesIO()
    with Carrier() as carrier:
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
    return buffer.getbuffer(), carrier


def unpack(data, descriptors):
    with Delivery(descriptors):
        return pickle.loads(data)


class SharingConnection(connection.Connection):
    """One end of a socket pair. Each message is its length, with the descriptors attached to it,
    and its bytes."""

    def __init__(self, handle, readable=True, writable=True):
        super().__init__(handle, readable, writable)
        # Descriptors between a read of bytes and the unpickling that follows in the same thread.
        self._arrived = threading.local()

    def send(self, obj):
        """Sends a picklable object."""
        self._check_closed()
        self._check_writable()
        data, carrier = pack(obj)
        self.send_packed(data, carrier)

    def send_packed(self, data, carrier):
        try:
            self._write(data, carrier.descriptors)
        except BaseException:
            carrier.cancel()
            raise

    def recv(self):
        """Receives an object, waiting for it."""
        self._check_closed()
        self._check_readable()
        data = self._recv_bytes()
        return unpack(data.getbuffer(), self.take_arrived())

    def take_arrived(self):
        """The descriptors of the message that this thread read last."""
        arrived = getattr(self._arrived, "descriptors", ())
        self._arrived.descriptors = ()
        return arrived

    # What Connection's send_bytes and recv_bytes are made of.
    def _send_bytes(self, buf):
        carrier = _pending.take()
        if carrier is None:
            self._write(buf, ())
        else:
            self.send_packed(buf, carrier)

    def _recv_bytes(self, maxsize=None):
        size, descriptors = self._read_length()
        for old in self.take_arrived():
            os.close(old)
        self._arrived.descriptors = descriptors
        if maxsize is not None and size > maxsize:
            return None
        return self._recv(size)

    def _socket(self):
        self._check_closed()  # a socket of descriptor None would be a new one
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=self._handle)

    def _write(self, data, descriptors):
        head = _LENGTH.pack(len(data))
        if not descriptors:
            if len(data) <= 16384:
                self._send(head + bytes(data))
            else:
                self._send(head)
                self._send(data)
            return
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        small = len(data) <= 16384
        first = head + bytes(data) if small else head
        end = self._socket()
        try:
            sent = _send_with_descriptors(end, first, ancillary)
        finally:
            end.detach()
        if sent < len(first):
            self._send(first[sent:])
        if not small:
            self._send(data)

    def _read_length(self):
        end = self._socket()
        try:
            room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
            head, ancillary, _, _ = end.recvmsg(_LENGTH.size, room, socket.MSG_CMSG_CLOEXEC)
        finally:
            end.detach()
        if not head:
            raise EOFError
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if len(head) < _LENGTH.size:
            head += self._recv(_LENGTH.size - len(head)).getvalue()
        return _LENGTH.unpack(head)[0], descriptors.tolist()


def _send_with_descriptors(end, data, ancillary):
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return end.sendmsg([data], ancillary)
        except OSError as error:
            # As many descriptors as ulimit -n allows are in messages that nobody has read yet.
            if error.errno != errno.ETOOMANYREFS or time.monotonic() > deadline:
                raise
            time.sleep(0.001)


def _reduce_connection(conn):
    return _rebuild_connection, (reduction.DupFd(conn.fileno()), conn.readable, conn.writable)


def _rebuild_connection(descriptor, readable, writable):
    return SharingConnection(descriptor.detach(), readable, writable)


ForkingPickler.register(SharingConnection, _reduce_connection)


def pipe(duplex=True):
    """Two connected ends; with duplex=False the first only reads, the second only writes."""
    first, second = socket.socketpair()
    ends = first.detach(), second.detach()
    return (
        SharingConnection(ends[0], readable=True, writable=duplex),
        SharingConnection(ends[1], readable=duplex, writable=True),
    )


class _Pending(threading.local):
    """The carrier between the pickling of a parcel and the write that follows in the same thread.

    A queue's feeder thread pickles an object and then writes the bytes, by the standard module's
    code. So the object is put in as a Parcel, and this brings its descriptors to the write.
    """

    carrier = None

    def take(self):
        found, self.carrier = self.carrier, None
        return found


_pending = _Pending()


class Parcel:
    """An object on its way through a queue."""

    def __init__(self, obj):
        self._obj = obj

    def __reduce__(self):
        data, _pending.carrier = pack(self._obj)
        return _open_parcel, (bytes(data),)


class _Opened:
    def __init__(self, data):
        self.data = data


def _open_parcel(data):
    return _Opened(data)


class _SharingQueue:
    """Put over the standard queues: their pipe is a socket, and objects go in as parcels."""

    def __init__(self, maxsize=0, *, ctx):
        super().__init__(maxsize, ctx=ctx)
        self._reader.close()
        self._writer.close()
        self._reader, self._writer = pipe(duplex=False)
        self._reset(after_fork=False)

    def _reset(self, after_fork=False):
        super()._reset(after_fork)
        self._recv_bytes = self._receive

    def _receive(self):
        data = self._reader.recv_bytes()
        self._reader._arrived.kept = self._reader.take_arrived()
        return data

    def put(self, obj, block=True, timeout=None):
        super().put(Parcel(obj), block, timeout)

    def get(self, block=True, timeout=None):
        opened = super().get(block, timeout)
        return unpack(opened.data, self._reader._arrived.kept)


class Queue(_SharingQueue, queues.Queue):
    """A queue between processes; tensors go through shared memory."""


class JoinableQueue(_SharingQueue, queues.JoinableQueue):
    """A queue that knows when all that was put in is done."""


class SimpleQueue(queues.SimpleQueue):
    """A pipe with locks; tensors go through shared memory."""

    def __init__(self, *, ctx):
        super().__init__(ctx=ctx)
        self._reader.close()
        self._writer.close()
        self._reader, self._writer = pipe(duplex=False)
        self._poll = self._reader.poll

    def get(self):
        with self._rlock:
            data = self._reader._recv_bytes()
            descriptors = self._reader.take_arrived()
        return unpack(data.getbuffer(), descriptors)

    def put(self, obj):
        data, carrier = pack(obj)
        with self._wlock:
            self._writer.send_packed(data, carrier)
