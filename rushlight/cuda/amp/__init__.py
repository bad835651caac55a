"""Old spellings of rushlight.amp for GPUs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, overload

from rushlight import _C, amp
from rushlight.amp._old_spellings import DeviceAutocast, DeviceGradScaler
from rushlight.types import _F, _dtype

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(DeviceAutocast):
    """amp.autocast("cuda", ...)."""

    _of = "cuda"

    def __init__(
        self, enabled: bool = True, dtype: _dtype = _C.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(DeviceGradScaler):
    """amp.GradScaler("cuda", ...)."""

    _of = "cuda"


@overload
def custom_fwd(fwd: _F, *, cast_inputs: _dtype | None = None) -> _F: ...
@overload
def custom_fwd(fwd: None = None, *, cast_inputs: _dtype | None = None) -> Callable[[_F], _F]: ...
def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: _dtype | None = None
) -> Callable[..., Any]:
    """amp.custom_fwd(..., device_type="cuda")."""
    warnings.warn("cuda.amp.custom_fwd is deprecated; write amp.custom_fwd(device_type='cuda')",
                  FutureWarning, stacklevel=2)  # fmt: skip
    decorate = functools.partial(amp.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)
    return decorate if fwd is None else decorate(fwd)


def custom_bwd(bwd: _F) -> _F:
    """amp.custom_bwd(device_type="cuda")."""
    warnings.warn("cuda.amp.custom_bwd is deprecated; write amp.custom_bwd(device_type='cuda')",
                  FutureWarning, stacklevel=2)  # fmt: skip
    return amp.custom_bwd(bwd, device_type="cuda")
