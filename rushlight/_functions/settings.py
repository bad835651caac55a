"""Settings that a program makes for the whole process.

Rushlight's CPU operators give the same bits in every run with the same number of threads, so those
about repeatable results change nothing on the CPU. They are kept, so that a program finds what it
set, and so that operators of other devices can ask.
"""

from __future__ import annotations

from rushlight import _C

_MODES = {"default": 0, "warn": 1, "error": 2}
_mode = 0  # one of the numbers above
_matmul_precision = "highest"
_warn_always = False


__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_anomaly_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_warn_always",
    "use_deterministic_algorithms",
]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for repeatable results: an operator that has none raises (or warns, with warn_only).

    Arguments:
        mode: whether to ask for it.
        warn_only: warn instead of raising.

    Example:
        >>> rl.use_deterministic_algorithms(True, warn_only=True)
        >>> rl.are_deterministic_algorithms_enabled()
        True
        >>> rl.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise _C.ArgumentTypeError(
            f"use_deterministic_algorithms: mode must be a bool, not {mode!r}"
        )
    _set_mode((1 if warn_only else 2) if mode else 0)


def _set_mode(number):
    global _mode
    _mode = number
    _C._cuda.set_deterministic_algorithms(number != 0)  # cuDNN's engines


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms(True) was asked for.

    Example:
        >>> rl.are_deterministic_algorithms_enabled()
        False
    """
    return _mode != 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether an operator without repeatable results should only warn.

    Example:
        >>> rl.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """What `use_deterministic_algorithms` sets, as one word or number.

    Arguments:
        debug_mode: 'default' (0), 'warn' (1) or 'error' (2).

    Example:
        >>> rl.set_deterministic_debug_mode("warn")
        >>> rl.get_deterministic_debug_mode()
        1
        >>> rl.set_deterministic_debug_mode(0)
    """
    number = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        raise RuntimeError("set_deterministic_debug_mode: expected 'default', 'warn', 'error' or "
                           f"0, 1, 2, got {debug_mode!r}")  # fmt: skip
    _set_mode(int(number))


def get_deterministic_debug_mode() -> int:
    """What set_deterministic_debug_mode was told: 0 default, 1 warn, 2 error.

    Example:
        >>> rl.get_deterministic_debug_mode()
        0
    """
    return _mode


def set_float32_matmul_precision(precision: str) -> None:
    """How exact float32 matrix products must be: 'highest', 'high' or 'medium'.

    On the CPU all of them compute in full float32; on GPUs all but 'highest' use TF32.

    Arguments:
        precision: the word.

    Example:
        >>> rl.set_float32_matmul_precision("highest")
        >>> rl.get_float32_matmul_precision()
        'highest'
    """
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError("set_float32_matmul_precision: expected 'highest', 'high' or "
                           f"'medium', got {precision!r}")  # fmt: skip
    _matmul_precision = precision
    _C._cuda.set_matmul_tf32(precision != "highest")


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was told.

    Example:
        >>> rl.get_float32_matmul_precision()
        'highest'
    """
    return _matmul_precision


def set_default_tensor_type(t: type | str, /) -> None:
    """The old form of set_default_dtype."""
    from rushlight._tensor.legacy_types import dtype_of_typename

    _C.set_default_dtype(dtype_of_typename(t))


def is_warn_always_enabled() -> bool:
    """What set_warn_always was told.

    Example:
        >>> rl.is_warn_always_enabled()
        False
    """
    return _warn_always


def set_warn_always(b: bool, /) -> None:
    """Whether warnings of PyTorch's that come once should repeat; it is kept, and changes nothing.

    Arguments:
        b: yes or no.

    Example:
        >>> rl.set_warn_always(False)
        >>> rl.is_warn_always_enabled()
        False
    """
    global _warn_always
    _warn_always = bool(b)


def set_flush_denormal(mode: bool, /) -> bool:
    """Asks for tiny numbers to become zero; the answer False says that this is not supported.

    Arguments:
        mode: on or off.

    Example:
        >>> rl.set_flush_denormal(True)
        False
    """
    return False


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`autograd.set_detect_anomaly` for the rest of the program.

    Arguments:
        mode: whether errors of backward say where forward was, and NaNs raise.
        check_nan: look for NaNs.

    Example:
        >>> rl.set_anomaly_enabled(True, check_nan=False)
        >>> rl.is_anomaly_enabled(), rl.is_anomaly_check_nan_enabled()
        (True, False)
        >>> rl.set_anomaly_enabled(False, check_nan=True)
    """
    from rushlight.autograd import set_detect_anomaly

    set_detect_anomaly(mode, check_nan)
