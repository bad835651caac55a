"""Modules that round as a quantized model will, while gradients pass: for training with it."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._functions.quantization import choose_ranges
from rushlight._quantized import named
from rushlight.ao.quantization.observer import (
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    WithArguments,
    take_sizes,
)
from rushlight.nn import Module

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
]


class FakeQuantizeBase(WithArguments):
    """Two switches: whether it looks, and whether it rounds."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", rushlight.tensor([1], dtype=rushlight.uint8))
        self.register_buffer("observer_enabled", rushlight.tensor([1], dtype=rushlight.uint8))

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Whether it rounds."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """From now on nothing is rounded."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Whether scale and zero point follow what passes."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """From now on scale and zero point stay."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Observes, and rounds to the steps that the observer chooses."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.is_dynamic = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        self.quant_min = self.activation_post_process.quant_min
        self.quant_max = self.activation_post_process.quant_max
        self.register_buffer("scale", rushlight.tensor([1.0]))
        self.register_buffer("zero_point", rushlight.tensor([0], dtype=rushlight.int32))
        self.dtype = self.activation_post_process.dtype
        self.qscheme = self.activation_post_process.qscheme
        self.ch_axis = getattr(self.activation_post_process, "ch_axis", -1)
        self.is_per_channel = self.qscheme.name.startswith("per_channel")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The observer's."""
        return self.activation_post_process.calculate_qparams()

    def _steps(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point to round to."""
        return self.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        """X, rounded."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero = self._steps()
            self.scale = scale.to(self.scale.device, rushlight.float32)
            self.zero_point = zero.to(self.zero_point.device, rushlight.int32)
        if self.fake_quant_enabled[0] != 1:
            return X
        if self.is_per_channel:
            return rushlight.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return rushlight.fake_quantize_per_tensor_affine(
            X, self.scale, self.zero_point, self.quant_min, self.quant_max
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        take_sizes(self, state_dict, prefix, ("scale", "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, qscheme={self.qscheme}"
        )


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to steps that are known."""

    def __init__(self, observer: Any = FixedQParamsObserver) -> None:
        super().__init__(observer=observer)
        self.scale, self.zero_point = self.activation_post_process.calculate_qparams()


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with moving averages. While it trains, symmetric steps are those of the side
    that needs the larger ones: there is one more integer below 0 than above."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)

    def _steps(self) -> tuple[Tensor, Tensor]:
        seen = self.activation_post_process
        low, high = seen.min_val.reshape(-1), seen.max_val.reshape(-1)
        return choose_ranges(
            low, high, self.quant_min, self.quant_max, self.qscheme.name.endswith("symmetric")
        )


def _switch(name: str) -> Any:
    @named(name, f"For model.apply: calls {name} of every fake quantizer.")
    def switch(mod: Module) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    return switch


disable_fake_quant = _switch("disable_fake_quant")
enable_fake_quant = _switch("enable_fake_quant")
disable_observer = _switch("disable_observer")
enable_observer = _switch("enable_observer")

_SYMMETRIC = {"dtype": rushlight.qint8, "qscheme": rushlight.per_tensor_symmetric}
_BY_CHANNEL = {"dtype": rushlight.qint8, "qscheme": rushlight.per_channel_symmetric}

default_fake_quant = FakeQuantize.with_args(quant_min=0, quant_max=255, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_SYMMETRIC
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, **_BY_CHANNEL
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=rushlight.quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_SYMMETRIC
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, **_BY_CHANNEL
)
