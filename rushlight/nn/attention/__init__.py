"""Which kernel attention uses, and masks that know what they are."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Names of kernels in programs that choose one."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_chosen = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
]


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[Any]:
    """Takes note of the wish. There is one kernel per device, which serves all cases."""
    global _chosen
    wanted = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(wanted, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in wanted):
        raise AssertionError(
            f"sdpa_kernel: expects an SDPBackend or a list of them, got {backends!r}"
        )
    before, _chosen = _chosen, list(dict.fromkeys(wanted))
    try:
        yield {}
    finally:
        _chosen = before


def _cur_sdpa_kernel_backends(with_priority=False):
    return list(_chosen)
