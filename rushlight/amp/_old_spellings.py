"""What cpu.amp and cuda.amp share: names from before amp took the device as an argument."""

from __future__ import annotations

import warnings

from rushlight.amp.autocast_mode import autocast
from rushlight.amp.grad_scaler import GradScaler
from rushlight.types import _dtype


class DeviceAutocast(autocast):
    """amp.autocast for the device that a derived class names."""

    _of: str

    def __init__(self, enabled: bool, dtype: _dtype, cache_enabled: bool) -> None:
        warnings.warn(f"{self._of}.amp.autocast(...) is deprecated; "
                      f"write amp.autocast('{self._of}', ...)",
                      FutureWarning, stacklevel=3)  # fmt: skip
        super().__init__(self._of, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class DeviceGradScaler(GradScaler):
    """amp.GradScaler for the device that a derived class names."""

    _of: str

    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True) -> None:  # fmt: skip
        warnings.warn(f"{self._of}.amp.GradScaler(...) is deprecated; "
                      f"write amp.GradScaler('{self._of}', ...)",
                      FutureWarning, stacklevel=2)  # fmt: skip
        options = (init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        super().__init__(self._of, *options)
