"""Memory for batches. In the main process it is ordinary; a worker's is shared and used again.

A worker keeps the blocks of shared memory that its batches were in. A block that only the worker
still holds, because the main process has dropped every tensor over it, takes the next batch: no
memory is asked for and no page touched for the first time, batch after batch.
"""

import rushlight
from rushlight import _C

__all__ = ["SharedBuffers", "room_for_stack", "rows"]

# Tensors up to this size travel inside the message itself.
SMALL = 4096
# Blocks that a worker remembers. Beyond that the main process keeps batches, and owns them alone.
_MOST_BLOCKS = 64
_FREE_BLOCKS = 16

# The SharedBuffers of this process, in a worker.
shared = None


class SharedBuffers:
    """Blocks of shared memory that are used again."""

    def __init__(self):
        self._blocks = []

    def _free(self):
        free = []
        for block in self._blocks:
            holders = _C._shared_holders(block)
            if holders == 1:
                free.append(block)
            elif holders == 0:  # the main process has forked: no telling who still reads it
                self._blocks = [b for b in self._blocks if b is not block]
        return free

    def storage(self, nbytes):
        """A block of at least so many bytes that nobody else uses."""
        free = self._free()
        fitting = [b for b in free if nbytes <= b.nbytes() <= 2 * nbytes + 65536]
        if fitting:
            best = min(fitting, key=len)
            # The one used last comes last, so that what is dropped first is what nobody needs.
            self._blocks = [b for b in self._blocks if b is not best]
        else:
            best = _C._shared_empty(nbytes)
            if len(free) > _FREE_BLOCKS or len(self._blocks) >= _MOST_BLOCKS:
                dropped = free[0] if free else self._blocks[0]
                self._blocks = [b for b in self._blocks if b is not dropped]
        self._blocks.append(best)
        return best

    def empty(self, shape, dtype, strides=None):
        """A tensor in such a block; contiguous, or with the strides of a dense tensor."""
        count = 1
        for size in shape:
            count *= size
        if strides is None:
            strides, step = [], 1
            for size in reversed(shape):
                strides.append(step)
                step *= max(size, 1)
            strides.reverse()
        storage = self.storage(max(count * dtype.itemsize, 1))
        return _C._tensor_from_storage(storage, dtype, 0, shape, strides)

    def copy(self, tensor):
        """A copy in such a block, in the same layout."""
        meta = rushlight.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        strides = rushlight.empty_like(meta).stride()  # as dense as the layout allows
        return self.empty(tuple(tensor.shape), tensor.dtype, strides).copy_(tensor)


def _goes_to_buffer(tensor, nbytes):
    return (
        shared is not None
        and nbytes > SMALL
        and type(tensor) is rushlight.Tensor
        and tensor.device.type == "cpu"
        and not tensor.requires_grad
    )


def room_for_stack(tensors):
    """A shared tensor into which these can be stacked, or None where a fresh one is as good."""
    if shared is None:
        return None
    first = tensors[0]
    if not _goes_to_buffer(first, len(tensors) * first.nbytes):
        return None
    dtype, shape = first.dtype, first.shape
    for tensor in tensors:
        if type(tensor) is not rushlight.Tensor or tensor.dtype != dtype or tensor.shape != shape:
            return None
        if tensor.requires_grad:
            return None
    return shared.empty((len(tensors), *shape), dtype)


def rows(tensor, index):
    """The rows of a tensor at given indices."""
    count = index.numel()
    row = tensor.nbytes // max(tensor.shape[0], 1)
    if not _goes_to_buffer(tensor, count * row):
        return tensor[index]
    out = shared.empty((count, *tensor.shape[1:]), tensor.dtype)
    return rushlight.index_select(tensor, 0, index, out=out)
