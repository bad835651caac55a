"""Old spellings of rushlight.amp for the CPU."""

from __future__ import annotations

from rushlight import _C
from rushlight.amp._old_spellings import DeviceAutocast, DeviceGradScaler
from rushlight.types import _dtype

__all__ = ["GradScaler", "autocast"]


class autocast(DeviceAutocast):
    """amp.autocast("cpu", ...)."""

    _of = "cpu"

    def __init__(
        self, enabled: bool = True, dtype: _dtype = _C.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(DeviceGradScaler):
    """amp.GradScaler("cpu", ...)."""

    _of = "cpu"
