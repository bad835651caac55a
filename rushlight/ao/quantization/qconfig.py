"""QConfig: which observers a module gets, for its results and for its weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight
from rushlight.ao.quantization.fake_quantize import (
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_weight_fake_quant,
)
from rushlight.ao.quantization.observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    PlaceholderObserver,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)

__all__ = [
    "QConfig",
    "default_dynamic_qconfig",
    "default_per_channel_qconfig",
    "default_qat_qconfig",
    "default_qconfig",
    "float16_dynamic_qconfig",
    "float_qparams_weight_only_qconfig",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


class QConfig(NamedTuple):
    """Classes (or with_args of them) that are called for each module."""

    activation: Any
    weight: Any


default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=rushlight.float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=rushlight.float16),
)
# For embeddings: each row in steps of its own, whose zero lies between integers.
float_qparams_weight_only_qconfig = QConfig(PlaceholderObserver, default_float_qparams_observer)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)

# Whether results have seven bits, which 8-bit products of older processors need, and whether
# weights are quantized by channel.
_BACKENDS = {
    "x86": (True, True),
    "fbgemm": (True, True),
    "qnnpack": (False, False),
    "onednn": (False, True),
}


def _backend(name: str, backend: str) -> tuple[bool, bool]:
    if backend not in _BACKENDS:
        known = ", ".join(_BACKENDS)
        raise ValueError(f"{name}: backend must be one of {known}, got {backend!r}")
    return _BACKENDS[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The observers for models that are quantized after training."""
    reduce_range, by_channel = _backend("get_default_qconfig", backend)
    weight = default_per_channel_weight_observer if by_channel else default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=reduce_range), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The fake quantizers for models that are trained with it."""
    reduce_range, by_channel = _backend("get_default_qat_qconfig", backend)
    activation = FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver,
        quant_min=0,
        quant_max=255,
        reduce_range=reduce_range,
    )
    by_tensor = default_fused_wt_fake_quant
    return QConfig(activation, default_fused_per_channel_wt_fake_quant if by_channel else by_tensor)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two configurations make the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(repr(a) == repr(b) for a, b in zip(q1, q2, strict=True))
