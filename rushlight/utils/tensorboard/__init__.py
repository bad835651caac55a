"""Logs for TensorBoard, written through the `tensorboard` package."""

try:
    import tensorboard as _tensorboard  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "utils.tensorboard: the tensorboard package is not installed; install it with "
        "`pip install tensorboard`"
    ) from _error

from rushlight._names.missing import names_missing_from
from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]

from tensorboard.summary.writer.record_writer import RecordWriter

__getattr__ = names_missing_from(__name__)
