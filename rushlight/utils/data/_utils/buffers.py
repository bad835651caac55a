"""Memory for batches. In the main process it is ordinary; a worker's is shared and used again."""

__all__ = ["room_for_stack"]

# Set in a worker process: an object with empty(shape, dtype).
shared = None


def room_for_stack(tensors):
    """A shared tensor into which these can be stacked, or None where a fresh one is as good."""
    return None


def rows(tensor, index):
    """The rows of a tensor at given indices."""
    return tensor[index]
