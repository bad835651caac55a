"""Looking for the operation that made a NaN, or that fails in backward."""

from __future__ import annotations

import traceback
import warnings

from rushlight import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switches anomaly detection on or off: at once, or for a with block.

    Arguments:
        mode: whether to look.
        check_nan: raise when backward makes nan.

    Example:
        >>> with rl.autograd.set_detect_anomaly(True, check_nan=False):
        ...     rl.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _C._set_anomaly(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Inside, each operation remembers where it was called, and NaN is looked for.

    A NaN that first comes up in a recorded operation is reported by a warning, with its line. A
    gradient with NaN raises, and so does a backward function that fails; a warning then shows the
    stack of the forward call. ``check_nan=False`` leaves the search for NaN out. This is slow: use
    it to find a fault.

    Arguments:
        check_nan: raise when backward makes nan.

    Example:
        >>> x = rl.tensor([0.0], requires_grad=True)
        >>> try:
        ...     with rl.autograd.detect_anomaly(check_nan=True):
        ...         (x.sqrt() * 0).backward()
        ... except RuntimeError as error:
        ...     print(type(error).__name__)
        RuntimeError
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. It makes programs slow; use it to find "
                      "a fault.", stacklevel=2)  # fmt: skip

    def __enter__(self) -> None:
        _C._set_anomaly(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        _C._set_anomaly(self.prev, self.prev_check_nan)


def _stack():
    """The stack of the operation that is being called, as lines of text."""
    return traceback.format_stack()[:-1]


def _warn_of_call(node, lines):
    warnings.warn(
        f"Error detected in {node}. Traceback of forward call that caused the error:\n"
        + "".join(lines),
        stacklevel=2,
    )


def _users_frame():
    """The innermost frame that is not ours."""
    for frame in reversed(traceback.extract_stack()):
        if not _C._is_package_file(frame.filename):
            return frame
    return None


def _warn_of_nan(node):
    frame = _users_frame()
    where = f" at {frame.filename}:{frame.lineno}: {frame.line}" if frame else ""
    warnings.warn(f"NaN in forward: the operation of {node} returned NaN{where}", stacklevel=2)
