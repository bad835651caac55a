"""Observers: modules that look at what passes and choose scales and zero points for it."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NoReturn

import rushlight
from rushlight import Tensor
from rushlight._quantized.schemes import QuantizationScheme, storage_dtype
from rushlight._quantized.schemes import bounds as dtype_bounds
from rushlight.nn import Module

__all__ = [
    "FixedQParamsObserver",
    "HistogramObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "RecordingObserver",
    "UniformQuantizationObserverBase",
    "default_dynamic_quant_observer",
    "default_float_qparams_observer",
    "default_histogram_observer",
    "default_observer",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_weight_observer",
    "get_observer_state_dict",
    "load_observer_state_dict",
]

_EPS = 2.0**-23


class _PartialWrapper:
    """A class with some of its arguments; with_args adds more."""

    def __init__(self, made: partial) -> None:
        self.p = made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{self.p!r}{{}}"

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """The same with more arguments."""
        return _PartialWrapper(partial(self.p, **kwargs))

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """with_args, where the arguments are called when the observer is made."""
        return self.with_args(**{name: make() for name, make in kwargs.items()})


class WithArguments(Module):
    """A module whose class can be given arguments before it is called, for a QConfig."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """The class with these arguments."""
        return _PartialWrapper(partial(cls, **kwargs))


class ObserverBase(WithArguments):
    """What all observers have: a dtype, forward(x) that looks, calculate_qparams()."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point for what was seen."""
        raise NotImplementedError

    @classmethod
    def with_callable_args(cls, **kwargs: Any) -> _PartialWrapper:
        """with_args, where the arguments are called when the observer is made."""
        return cls.with_args().with_callable_args(**kwargs)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers whose steps are all of one size."""

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        dtype: Any = None,
        qscheme: QuantizationScheme | None = None,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(rushlight.quint8 if dtype is None else dtype, is_dynamic)
        self.qscheme = rushlight.per_tensor_affine if qscheme is None else qscheme
        self.reduce_range = reduce_range
        self.register_buffer("eps", rushlight.tensor([eps]))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        low, high = self._range(quant_min, quant_max)
        self.quant_min, self.quant_max = low, high

    def _range(self, quant_min: int | None, quant_max: int | None) -> tuple[int, int]:
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise ValueError(
                    f"{type(self).__name__}: quant_min must not be larger than quant_max, got "
                    f"{quant_min} and {quant_max}"
                )
            if not quant_min <= 0 <= quant_max:
                raise ValueError(
                    f"{type(self).__name__}: 0 must be among the steps, from quant_min to "
                    f"quant_max; got {quant_min} and {quant_max}"
                )
            low, high = quant_min, quant_max
        else:
            low, high = dtype_bounds(storage_dtype(type(self).__name__, self.dtype))
        if self.reduce_range and (low, high) in ((0, 255), (-128, 127)):
            low, high = (0, 127) if low == 0 else (-64, 63)
        return low, high

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point, or one of each for every channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def _is_symmetric(self) -> bool:
        return self.qscheme.name.endswith("symmetric")

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """For numbers from low to high, which 0 is always among."""
        if low.numel() == 0 or bool((low > high).any()):
            warnings.warn(
                "calculate_qparams: the observer has seen nothing yet; run data through the model "
                "first. The scale is 1.", stacklevel=3,
            )  # fmt: skip
            one = rushlight.ones(1)
            return one, rushlight.zeros(1, dtype=rushlight.int64)
        steps = float(self.quant_max - self.quant_min)
        if self.qscheme is rushlight.per_channel_affine_float_qparams:
            scale = (high - low) / steps
            scale = rushlight.where(scale > self.eps, scale, 1.0)
            return scale.reshape(-1), (-low / scale).reshape(-1)
        low, high = low.clamp(max=0), high.clamp(min=0)
        if self._is_symmetric():
            scale = rushlight.maximum(rushlight.maximum(-low, high) / (steps / 2), self.eps)
            zero = rushlight.zeros_like(scale, dtype=rushlight.int64)
            if self.dtype == rushlight.quint8:
                middle = (self.quant_min + self.quant_max) // 2
                zero.fill_(middle if self.has_customized_qrange else 128)
        else:
            scale = rushlight.maximum((high - low) / steps, self.eps)
            zero = self.quant_min - (low / scale).round().to(rushlight.int32)
            zero = zero.clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zero.reshape(-1)


def take_sizes(module: Module, state_dict: Any, prefix: str, names: tuple[str, ...]) -> None:
    """Buffers whose sizes the first call decides get those of a state dict."""
    for name in names:
        if prefix + name in state_dict:
            setattr(module, name, rushlight.empty_like(state_dict[prefix + name]))


class MinMaxObserver(UniformQuantizationObserverBase):
    """The smallest and the largest number that passed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.qscheme.name.startswith("per_tensor"):
            raise NotImplementedError(
                f"{type(self).__name__}: has one range and not one for each channel, got "
                f"{self.qscheme}: use PerChannelMinMaxObserver"
            )
        self.register_buffer("min_val", rushlight.tensor(float("inf")))
        self.register_buffer("max_val", rushlight.tensor(-float("inf")))

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return rushlight.minimum(self.min_val, low), rushlight.maximum(self.max_val, high)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks, and returns its input."""
        if x_orig.numel():
            low, high = x_orig.detach().float().aminmax()
            low, high = self._joined(low, high)
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(-float("inf"))

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.tolist()}, max_val={self.max_val.tolist()}"


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Moving averages of the smallest and the largest number of each call."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        self.averaging_constant = averaging_constant
        super().__init__(*args, **kwargs)

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        if float(self.min_val) == float("inf"):
            return low, high
        c = self.averaging_constant
        return self.min_val + c * (low - self.min_val), self.max_val + c * (high - self.max_val)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The smallest and the largest number of each channel."""

    def __init__(
        self, ch_axis: int = 0, dtype: Any = None, qscheme: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        qscheme = rushlight.per_channel_affine if qscheme is None else qscheme
        super().__init__(dtype, qscheme, *args, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", rushlight.empty(0))
        self.register_buffer("max_val", rushlight.empty(0))

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return rushlight.minimum(self.min_val, low), rushlight.maximum(self.max_val, high)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks, and returns its input."""
        if x_orig.numel():
            rows = x_orig.detach().float().movedim(self.ch_axis, 0).flatten(1)
            low, high = rows.amin(1), rows.amax(1)
            if self.min_val.numel():
                low, high = self._joined(low, high)
            self.min_val, self.max_val = low, high
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.min_val = self.max_val = rushlight.empty(0)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        take_sizes(self, state_dict, prefix, ("min_val", "max_val"))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Moving averages of the smallest and the largest number of each channel."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        self.averaging_constant = averaging_constant
        super().__init__(*args, **kwargs)

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        c = self.averaging_constant
        return self.min_val + c * (low - self.min_val), self.max_val + c * (high - self.max_val)


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts numbers in bins, and leaves out ends that cost more steps than they are worth: the
    range is cut while the squared error of what is rounded becomes smaller."""

    _STEP = 1e-5  # of the numbers that a try leaves out

    def __init__(self, bins: int = 2048, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bins = bins
        self.register_buffer("histogram", rushlight.zeros(bins))
        self.register_buffer("min_val", rushlight.tensor(float("inf")))
        self.register_buffer("max_val", rushlight.tensor(-float("inf")))
        self.dst_nbins = 2 ** (8 * storage_dtype("HistogramObserver", self.dtype).itemsize)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Counts, and returns its input."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().float()
        low, high = (float(v) for v in x.aminmax())
        seen = float(self.min_val) <= float(self.max_val)
        new_low, new_high = low, high
        if seen:
            new_low, new_high = min(low, float(self.min_val)), max(high, float(self.max_val))
        counts = rushlight.histc(x, self.bins, new_low, new_high)
        if seen:
            counts = counts + self._moved(new_low, new_high)
        self.histogram.copy_(counts)
        self.min_val.fill_(new_low)
        self.max_val.fill_(new_high)
        return x_orig

    def _moved(self, low: float, high: float) -> Tensor:
        """The counts so far in the bins of a wider range, spread evenly within each old bin."""
        old_low, old_high = float(self.min_val), float(self.max_val)
        if (old_low, old_high) == (low, high):
            return self.histogram
        if old_low == old_high:
            at = rushlight.full((1,), old_low)
            return rushlight.histc(at, self.bins, low, high) * self.histogram.sum()
        ends = rushlight.linspace(low, high, self.bins + 1, dtype=rushlight.float64)
        places = ((ends - old_low) / (old_high - old_low) * self.bins).clamp(0, self.bins)
        sums = rushlight.cat([rushlight.zeros(1), self.histogram.cumsum(0)]).double()
        below = places.floor().long().clamp(max=self.bins - 1)
        up_to = sums[below] + (sums[below + 1] - sums[below]) * (places - below)
        return up_to.diff().to(self.histogram.dtype)

    def _error(self, first: int, last: int) -> float:
        """The squared error when bins first to last are given all the steps."""
        width = (float(self.max_val) - float(self.min_val)) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0:
            return 0.0
        begin = (rushlight.arange(self.bins, dtype=rushlight.float64) - first) * width
        end = begin + width
        lower = (begin / step).floor().clamp(0, self.dst_nbins - 1)
        upper = (end / step).floor().clamp(0, self.dst_nbins - 1)
        density = self.histogram.double() / width
        half = step / 2

        def cubes(a: Any, b: Any) -> Any:
            return (b**3 - a**3) / 3

        parts = cubes(begin - (lower * step + half), half)  # in the step where the bin begins
        parts = parts + (upper - lower - 1) * cubes(-half, half)  # in those it covers
        parts = parts + cubes(-half, end - (upper * step + half))  # in the one where it ends
        return float((density * parts).sum())

    def _chosen_range(self) -> tuple[Tensor, Tensor]:
        sums = self.histogram.double().cumsum(0).tolist()
        total, least = sums[-1], float("inf")
        alpha, beta, first, last = 0.0, 1.0, 0, self.bins - 1
        while alpha < beta:
            left, right = first, last
            while left < last and sums[left] < (alpha + self._STEP) * total:
                left += 1
            while right > first and sums[right] > (beta - self._STEP) * total:
                right -= 1
            if left - first > last - right:  # the side where more bins go
                alpha, tried = alpha + self._STEP, (left, last)
            else:
                beta, tried = beta - self._STEP, (first, right)
            if tried == (first, last):
                continue
            error = self._error(*tried)
            if error > least:
                break
            least, (first, last) = error, tried
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the range that is worth its steps."""
        if float(self.min_val) > float(self.max_val):
            return self._calculate_qparams(self.min_val, self.max_val)
        return self._calculate_qparams(*self._chosen_range())

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.tolist()}, max_val={self.max_val.tolist()}"


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known, as those of a sigmoid."""

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = None, qscheme: Any = None,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(rushlight.quint8 if dtype is None else dtype, is_dynamic)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.qscheme = rushlight.per_tensor_affine if qscheme is None else qscheme
        self.register_buffer("scale", rushlight.tensor([float(scale)]))
        self.register_buffer("zero_point", rushlight.tensor([int(zero_point)]))

    def forward(self, X: Tensor) -> Tensor:
        """Returns its input."""
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The given ones."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Looks at nothing and remembers a dtype, for what is quantized as it comes."""

    def __init__(
        self, dtype: Any = None, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(rushlight.float32 if dtype is None else dtype, is_dynamic)
        self.custom_op = custom_op_name
        self.quant_min, self.quant_max = quant_min, quant_max
        self.qscheme = rushlight.per_tensor_affine if qscheme is None else qscheme

    def forward(self, x: Tensor) -> Tensor:
        """Returns its input."""
        return x

    def calculate_qparams(self) -> NoReturn:
        """There are none."""
        raise RuntimeError("calculate_qparams: a PlaceholderObserver has seen nothing")

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class NoopObserver(ObserverBase):
    """Looks at nothing."""

    def __init__(self, dtype: Any = None, custom_op_name: str = "") -> None:
        super().__init__(rushlight.float16 if dtype is None else dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """Returns its input."""
        return x

    def calculate_qparams(self) -> NoReturn:
        """There are none."""
        raise RuntimeError("calculate_qparams: a NoopObserver has seen nothing")


class RecordingObserver(ObserverBase):
    """Keeps a copy of everything that passes."""

    def __init__(self, dtype: Any = None) -> None:
        super().__init__(rushlight.quint8 if dtype is None else dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Keeps its input, and returns it."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> NoReturn:
        """There are none."""
        raise RuntimeError("calculate_qparams: a RecordingObserver keeps values and no range")

    def get_tensor_value(self) -> list[Tensor]:
        """What passed."""
        return self.tensor_val


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """The part of the state dict that belongs to observers."""
    return {k: v for k, v in mod.state_dict().items() if "activation_post_process" in k}


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Puts such a part back into a prepared model."""
    mod.load_state_dict(obs_dict, strict=False)


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(
    dtype=rushlight.qint8, qscheme=rushlight.per_tensor_symmetric
)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=rushlight.qint8, qscheme=rushlight.per_channel_symmetric
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=rushlight.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=rushlight.quint8, qscheme=rushlight.per_channel_affine_float_qparams, ch_axis=0
)
