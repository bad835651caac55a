"""What goes between the main process and a worker, and how a batch is pickled for the way."""

import io
import pickle
import socket
import struct
from multiprocessing.reduction import ForkingPickler

import rushlight
from rushlight import _C
from rushlight.multiprocessing.reductions import Carrier, reduce_storage, reduce_tensor
from rushlight.utils.data._utils import buffers

_LENGTH = struct.Struct("!Q")
_LARGE_ARRAY = 65536


def _bytes_of(storage):
    return _C.UntypedStorage, (bytes(storage),)


def _array_from(tensor, dtype, shape):
    return tensor.numpy().view(dtype).reshape(shape)


class BatchPickler(ForkingPickler):
    """Small tensors go as bytes, large ones and arrays through the worker's shared buffers."""

    def reducer_override(self, obj):
        kind = type(obj)
        if kind is rushlight.Tensor:
            return self._tensor(obj)
        if kind is _C.UntypedStorage:
            small = obj.nbytes() <= buffers.SMALL and not obj.is_shared()
            return _bytes_of(obj) if small else reduce_storage(obj)
        if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
            return self._array(obj)
        return NotImplemented

    def _tensor(self, tensor):
        storage = tensor.untyped_storage()
        if tensor.requires_grad or tensor.device.type != "cpu" or storage.is_shared():
            return reduce_tensor(tensor)
        if storage.nbytes() > buffers.SMALL:
            tensor = buffers.shared.copy(tensor)
        return tensor.__reduce_ex__(2)

    def _array(self, array):
        if array.dtype.hasobject or array.nbytes < _LARGE_ARRAY or not array.flags.c_contiguous:
            return NotImplemented
        flat = _C.frombuffer(array.reshape(-1).view("u1").data, dtype=_C.uint8)
        return _array_from, (buffers.shared.copy(flat), array.dtype, array.shape)


def pack_batch(obj):
    """A message of a worker: its bytes, and the Carrier with its descriptors."""
    buffer = io.BytesIO()
    with Carrier() as carrier:
        BatchPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
    return buffer.getbuffer(), carrier


class Outbox:
    """Messages to a worker. Sending never waits: a worker that is itself waiting to be read from
    would wait for ever."""

    def __init__(self, connection):
        self._connection = connection
        self._waiting = bytearray()

    def post(self, obj):
        data = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
        self._waiting += _LENGTH.pack(len(data)) + data
        return self.flush()

    def flush(self):
        """Sends what the socket takes now. True when nothing is left."""
        if not self._waiting:
            return True
        end = self._connection._socket()
        try:
            while self._waiting:
                sent = end.send(self._waiting, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                del self._waiting[:sent]
        except (BlockingIOError, InterruptedError):
            return False
        except (BrokenPipeError, ConnectionResetError):
            self._waiting.clear()  # the worker is gone; whoever reads from it will notice
        finally:
            end.detach()
        return True
