"""Which kernel attention uses, and masks that know what they are."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rushlight import _C

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Ways of computing attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


# The bits of device/nn/attention.h. OVERRIDEABLE is for devices that others add: there are none.
_BITS = {
    SDPBackend.MATH: 1,
    SDPBackend.FLASH_ATTENTION: 2,
    SDPBackend.EFFICIENT_ATTENTION: 4,
    SDPBackend.CUDNN_ATTENTION: 8,
}
_order = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
]


@contextlib.contextmanager
def sdpa_kernel(
    backends: SDPBackend | list[SDPBackend], set_priority: bool = False
) -> Iterator[dict[str, Any]]:
    """Which ways of computing attention are allowed in the with block.

    FLASH_ATTENTION and EFFICIENT_ATTENTION are our own kernels, CUDNN_ATTENTION is cuDNN's (GPUs,
    half precision, no mask, no dropout), MATH is composed of ops. Of those that are allowed and
    take the arguments the fastest is used; where there is none, attention raises. `set_priority`
    changes nothing.
    """
    global _order
    wanted = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(wanted, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in wanted):
        raise AssertionError(
            f"sdpa_kernel: expects an SDPBackend or a list of them, got {backends!r}"
        )
    before = _C._attention_backends(), _order
    _order = list(dict.fromkeys(wanted))
    _C._set_attention_backends(sum(_BITS.get(b, 0) for b in _order))
    try:
        yield {}
    finally:
        _C._set_attention_backends(before[0])
        _order = before[1]


def _cur_sdpa_kernel_backends(with_priority=False):
    allowed = _C._attention_backends()
    return [b for b in _order if _BITS.get(b, 0) & allowed]
