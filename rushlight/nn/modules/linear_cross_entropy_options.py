"""How linear_cross_entropy cuts its scores into chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rushlight import _C

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_FLOATS = (_C.float16, _C.bfloat16, _C.float32, _C.float64)


def _factor(method):
    """2 of "aspect_ratio:2"; None where the method is no such thing."""
    name, colon, factor = method.partition(":")
    if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
        return None
    return int(factor or 1)


@dataclass
class LinearCrossEntropyOptions:
    """Options of nn.functional.linear_cross_entropy, by PyTorch's names.

    Arguments:
        allow_retain_graph: changes nothing here: backward may always run twice.
        batch_chunk_size: rows per chunk. None, with chunking_method None: all rows are one chunk.
        chunking_method: "auto" leaves the size to the library; "aspect_ratio" makes a chunk's
            scores about as large as the input, "aspect_ratio:N" N times smaller.
        acc_policy, acc_dtype: checked, but chunks of half types always add up in float32 here.

    Example:
        >>> nn.LinearCrossEntropyOptions(batch_chunk_size=128).batch_chunk_size
        128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: _C.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"LinearCrossEntropyOptions: acc_policy must be one of {_POLICIES}, got "
                f"{self.acc_policy!r}"
            )
        method = self.chunking_method
        if method not in (None, "auto") and _factor(method) is None:
            raise ValueError(
                "LinearCrossEntropyOptions: chunking_method must be 'auto', 'aspect_ratio', "
                f"'aspect_ratio:N' with N at least 1, or None, got {method!r}"
            )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(
                f"LinearCrossEntropyOptions: batch_chunk_size must be a positive int or None, got "
                f"{size!r}"
            )
        if self.acc_dtype is not None and self.acc_dtype not in _FLOATS:
            raise ValueError(
                "LinearCrossEntropyOptions: acc_dtype must be float16, bfloat16, float32, float64 "
                f"or None, got {self.acc_dtype!r}"
            )

    def _chunk_size(self, rows: int, features: int, classes: int, dtype: _C.dtype) -> int:
        """Rows per chunk for a call of these sizes; 0 where the library is to choose."""
        halves = (_C.float16, _C.bfloat16)
        widens = dtype in halves and self.acc_dtype is _C.float32
        if not (self.acc_dtype is None or self.acc_dtype == dtype or widens):
            raise RuntimeError(
                "linear_cross_entropy: acc_dtype must be the input's dtype, or float32 for float16 "
                f"and bfloat16; got {self.acc_dtype} for {dtype}"
            )
        size, method = self.batch_chunk_size, self.chunking_method
        if method is None:
            return size or max(rows, 1)
        if method == "auto":
            return size or 0
        wider = -(-classes // max(features, 1))  # how much wider the scores are than the input
        share = -(-rows // max(wider, 1))
        rounded = 1 << max(share - 1, 0).bit_length()
        found = max(1, min(rounded // (_factor(method) or 1), rows))
        if size is not None and size != found:
            raise ValueError(
                f"linear_cross_entropy: batch_chunk_size={size} and chunking_method={method!r}, "
                f"which gives {found}, do not agree; pass one of them"
            )
        return found
