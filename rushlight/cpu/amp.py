"""Old spellings of rushlight.amp for the CPU."""

from __future__ import annotations

import warnings

from rushlight import _C, amp
from rushlight.types import _dtype

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """amp.autocast("cpu", ...)."""

    def __init__(
        self, enabled: bool = True, dtype: _dtype = _C.bfloat16, cache_enabled: bool = True
    ) -> None:
        warnings.warn("cpu.amp.autocast(...) is deprecated; write amp.autocast('cpu', ...)",
                      FutureWarning, stacklevel=2)  # fmt: skip
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """amp.GradScaler("cpu", ...)."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn("cpu.amp.GradScaler(...) is deprecated; write amp.GradScaler('cpu', ...)",
                      FutureWarning, stacklevel=2)  # fmt: skip
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
