"""Activations and norms over quantized tensors: computed in floats, in steps of their own."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import _C, Tensor, nn
from rushlight._quantized.tensor import QuantizedTensor, Quantizer, quantized
from rushlight.ao.nn.quantized._state import Named
from rushlight.ao.nn.quantized._weights import checked_input, result_steps
from rushlight.nn import functional as F


class _Own(Named):
    """Results in steps that are kept as numbers, which state dicts do not have."""

    scale: Any
    zero_point: Any

    def _keep_steps(self, scale: Any, zero_point: Any) -> None:
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """What the module makes of the numbers, in its own steps."""
        x = checked_input(type(self).__name__, input)
        steps = Quantizer(x.dtype, float(self.scale), int(self.zero_point))
        return quantized(self._of(x.dequantize()), steps)

    def _of(self, x: Tensor) -> Tensor:
        return super().forward(x)  # type: ignore[misc]


class _Kept(_Own):
    """Results in steps that are buffers."""

    def _keep_steps(self, scale: Any, zero_point: Any) -> None:
        put: Any = self
        put.register_buffer("scale", _C.tensor(float(scale)))
        put.register_buffer("zero_point", _C.tensor(int(zero_point), dtype=_C.int64))


class ELU(_Own, nn.ELU):
    """nn.ELU over quantized tensors."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> ELU:
        """In place of an ELU that was observed."""
        return cls(*result_steps(mod), mod.alpha)


class Hardswish(_Kept, nn.Hardswish):
    """nn.Hardswish over quantized tensors."""

    def __init__(
        self, scale: float, zero_point: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """In place of a Hardswish that was observed."""
        return cls(*result_steps(mod))


class LeakyReLU(_Kept, nn.LeakyReLU):
    """nn.LeakyReLU over quantized tensors."""

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(negative_slope)
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> LeakyReLU:
        """In place of a LeakyReLU that was observed."""
        return cls(*result_steps(mod), mod.negative_slope)


class Sigmoid(_Own, nn.Sigmoid):
    """nn.Sigmoid over quantized tensors."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self._keep_steps(output_scale, output_zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Sigmoid:
        """In place of a Sigmoid that was observed."""
        return cls(*result_steps(mod))


class Softmax(_Own, nn.Softmax):
    """nn.Softmax over quantized tensors."""

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(dim)
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Softmax:
        """In place of a Softmax that was observed."""
        return cls(mod.dim, *result_steps(mod))


class PReLU(_Own, nn.Module):
    """nn.PReLU over quantized tensors; its weight is quantized, too."""

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self._keep_steps(output_scale, output_zero_point)
        self.set_weight(_C.rand(num_parameters))

    def set_weight(self, w: Tensor) -> None:
        """Takes floats, or a quantized weight."""
        if not isinstance(w, QuantizedTensor):
            made: Any = rushlight.quantize_per_tensor(w.detach().float(), 1.0, 0, rushlight.quint8)
            w = made
        self.weight = w

    def _of(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.weight.dequantize())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> PReLU:
        """In place of a PReLU that was observed."""
        made = cls(*result_steps(mod), mod.num_parameters)
        weight: Any = rushlight.quantize_per_tensor_dynamic(
            mod.weight.detach().float(), rushlight.quint8, False
        )
        made.set_weight(weight)
        return made


class ReLU6(nn.ReLU6):
    """nn.ReLU6, which keeps the steps of what it is given."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """In place of a ReLU6."""
        return cls(mod.inplace)


class Dropout(nn.Dropout):
    """nn.Dropout in a quantized model, which is not trained: its input."""

    def forward(self, input: Tensor) -> Tensor:
        """Its input."""
        return input

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """In place of a Dropout."""
        return cls(mod.p, mod.inplace)


class LayerNorm(_Kept, nn.LayerNorm):
    """nn.LayerNorm over quantized tensors."""

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine)
        self.weight, self.bias = weight, bias
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> LayerNorm:
        """In place of a LayerNorm that was observed."""
        about = (mod.normalized_shape, mod.weight, mod.bias)
        return cls(*about, *result_steps(mod), mod.eps, mod.elementwise_affine)


class GroupNorm(_Kept, nn.GroupNorm):
    """nn.GroupNorm over quantized tensors."""

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float,
        zero_point: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> GroupNorm:
        """In place of a GroupNorm that was observed."""
        about = (mod.num_groups, mod.num_channels, mod.weight, mod.bias)
        return cls(*about, *result_steps(mod), mod.eps, mod.affine)


class _InstanceNorm(_Kept):
    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        plain: Any = super()
        plain.__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self._keep_steps(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> nn.Module:
        """In place of an instance norm that was observed."""
        about = (mod.num_features, mod.weight, mod.bias)
        made: Any = cls(*about, *result_steps(mod), mod.eps, affine=mod.affine)
        return made


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """nn.InstanceNorm1d over quantized tensors."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """nn.InstanceNorm2d over quantized tensors."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """nn.InstanceNorm3d over quantized tensors."""


class _BatchNorm(_Kept):
    _with_relu = False

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        plain: Any = super()
        plain.__init__(num_features, eps, momentum)
        self._keep_steps(1.0, 0)

    def _of(self, x: Tensor) -> Tensor:
        norm: Any = self  # it is never trained: what it has learnt is all that counts
        y = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0,
                         norm.eps)  # fmt: skip
        return y.relu() if self._with_relu else y

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> nn.Module:
        """In place of a batch norm that was observed (and the ReLU behind it)."""
        inner = mod[0] if isinstance(mod, nn.Sequential) else mod
        made: Any = cls(inner.num_features, inner.eps)
        scale, zero = result_steps(mod)  # of one element, as in PyTorch's files
        made.scale, made.zero_point = _C.tensor([scale]), _C.tensor([zero], dtype=_C.int64)
        made.weight, made.bias = inner.weight, inner.bias
        made.running_mean, made.running_var = inner.running_mean, inner.running_var
        return made


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """nn.BatchNorm2d over quantized tensors."""


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """nn.BatchNorm3d over quantized tensors."""


class BNReLU2d(BatchNorm2d):
    """A BatchNorm2d and a ReLU over quantized tensors."""

    _with_relu = True


class BNReLU3d(BatchNorm3d):
    """A BatchNorm3d and a ReLU over quantized tensors."""

    _with_relu = True
