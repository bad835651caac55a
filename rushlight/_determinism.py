"""Settings about repeatable results.

Rushlight's CPU operators give the same bits in every run with the same number of threads, so these
settings change nothing on the CPU. They are kept, so that a program finds what it set, and so that
operators of other devices can ask.
"""

from rushlight._C import ArgumentTypeError

_MODES = {"default": 0, "warn": 1, "error": 2}
_mode = 0  # one of the numbers above


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for repeatable results: an operator that has none raises (or warns, with warn_only)."""
    if not isinstance(mode, bool):
        raise ArgumentTypeError(f"use_deterministic_algorithms: mode must be a bool, not {mode!r}")
    global _mode
    _mode = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled():
    """Whether use_deterministic_algorithms(True) was asked for."""
    return _mode != 0


def is_deterministic_algorithms_warn_only_enabled():
    """Whether an operator without repeatable results should only warn."""
    return _mode == 1


def set_deterministic_debug_mode(debug_mode):
    """The same setting as a word or a number: 'default' (0), 'warn' (1) or 'error' (2)."""
    number = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        raise RuntimeError("set_deterministic_debug_mode: expected 'default', 'warn', 'error' or "
                           f"0, 1, 2, got {debug_mode!r}")  # fmt: skip
    global _mode
    _mode = int(number)


def get_deterministic_debug_mode():
    """0: default, 1: warn, 2: error."""
    return _mode
