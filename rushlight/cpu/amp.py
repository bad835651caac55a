"""Old spellings of rushlight.amp for the CPU."""

import warnings

from rushlight import _C, amp

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """amp.autocast("cpu", ...)."""

    def __init__(self, enabled=True, dtype=_C.bfloat16, cache_enabled=True):
        warnings.warn("cpu.amp.autocast(...) is deprecated; write amp.autocast('cpu', ...)",
                      FutureWarning, stacklevel=2)  # fmt: skip
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """amp.GradScaler("cpu", ...)."""

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        warnings.warn("cpu.amp.GradScaler(...) is deprecated; write amp.GradScaler('cpu', ...)",
                      FutureWarning, stacklevel=2)  # fmt: skip
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
