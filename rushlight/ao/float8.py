"""Linear layers that multiply in float8, scaled by what the tensors at hand hold.

    rushlight.ao.float8.convert_to_float8_training(model)

Numbers of eight bits reach from 2^-9 to 448 (float8_e4m3fn) or from 2^-16 to 57344 (float8_e5m2,
for gradients). So each tensor is multiplied by a scale that brings its largest number to the upper
end, and the product is divided by both scales. Weights and gradients themselves stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rushlight import _C, Tensor
from rushlight.ao._exchange import StoredLinear, copied_bias, exchange_linears, rows_of
from rushlight.autograd import Function
from rushlight.nn import Linear, Module

__all__ = [
    "Float8Linear",
    "Float8WeightLinear",
    "convert_to_float8_training",
    "quantize_float8_",
    "to_float8",
]

_SMALLEST = 1e-12  # a tensor of zeros has a scale, too


def to_float8(x: Tensor, dtype: Any = None, dim: int | None = None) -> tuple[Tensor, Tensor]:
    """x in float8 and the float32 factor that gives it back: of the whole tensor or, with dim, one
    for all numbers along it."""
    return _scaled(x.detach(), dtype, dim)


def _scaled(x: Tensor, dtype: Any, dim: int | None) -> tuple[Tensor, Tensor]:
    dtype = _C.float8_e4m3fn if dtype is None else dtype
    limit = _C.finfo(dtype).max
    wide = x.float()
    dims = list(range(x.dim())) if dim is None else [dim]
    if x.numel():
        largest = wide.abs().amax(dims, keepdim=dim is not None)
    else:
        largest = wide.sum(dims, keepdim=dim is not None)  # of nothing: zeros
    scale = limit / largest.clamp(min=_SMALLEST)
    return (wide * scale).clamp(-limit, limit).to(dtype), scale.reciprocal()


def _product(
    a: Tensor, b: Tensor, by_rows: bool, out_dtype: Any, a_dtype: Any = None, fast: bool = False
) -> Tensor:
    """a @ b of matrices of any floating type, through float8."""
    left, left_scale = to_float8(a, a_dtype, 1 if by_rows else None)
    # The second factor lies with its columns end to end, as GPUs want it.
    right, right_scale = to_float8(b.t().contiguous(), None, 1 if by_rows else None)
    return _C._scaled_mm(
        left.contiguous(), right.t(), left_scale, right_scale.t() if by_rows else right_scale,
        out_dtype=out_dtype, use_fast_accum=fast,
    )  # fmt: skip


class _LinearThroughFloat8(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, by_rows: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.by_rows = by_rows
        return _product(x, weight.t(), by_rows, x.dtype, fast=True)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        gradient = grad.contiguous()
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = _product(gradient, weight, ctx.by_rows, x.dtype, _C.float8_e5m2)
        if ctx.needs_input_grad[1]:
            of_weight = _product(gradient.t(), x, ctx.by_rows, weight.dtype, _C.float8_e5m2)
        return of_x, of_weight, None


class Float8Linear(Linear):
    """A Linear that multiplies in float8, forward and backward, with scales found at each call.

    recipe: "tensorwise", one scale for a tensor, or "rowwise", one for each row and column, which
    is more exact and costs a little more.
    """

    def __init__(self, *args: Any, recipe: str = "tensorwise", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recipe = _known(recipe)

    @classmethod
    def from_float(cls, linear: Linear, recipe: str = "tensorwise") -> Float8Linear:
        """The layer over the parameters of a Linear, which both share."""
        with _C.device("meta"):
            made = cls(linear.in_features, linear.out_features, recipe=recipe, bias=False)
        made.weight, made.bias = linear.weight, linear.bias
        made.training = linear.training
        return made

    def forward(self, input: Tensor) -> Tensor:
        rows = rows_of(self, input)
        out = _LinearThroughFloat8.apply(rows, self.weight, self.recipe == "rowwise")
        out = out.reshape(*input.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, recipe={self.recipe}"


class Float8WeightLinear(StoredLinear):
    """A Linear for inference whose weight is stored in float8; inputs are scaled at each call."""

    weight: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> None:
        super().__init__(weight.shape, bias, weight=weight, scale=scale)

    @classmethod
    def from_float(cls, linear: Linear, recipe: str = "rowwise") -> Float8WeightLinear:
        """The layer with the weights of a Linear, rounded to float8."""
        weight, scale = to_float8(linear.weight, None, 1 if _known(recipe) == "rowwise" else None)
        return cls(weight, scale, copied_bias(linear))

    def forward(self, input: Tensor) -> Tensor:
        by_rows = self.scale.dim() == 2
        # Not to_float8, which detaches: backward through the product has to raise.
        rows, scale = _scaled(rows_of(self, input), None, 1 if by_rows else None)
        out = _C._scaled_mm(
            rows, self.weight.t(), scale, self.scale.t() if by_rows else self.scale,
            bias=self.bias, out_dtype=input.dtype, use_fast_accum=True,
        )  # fmt: skip
        return out.reshape(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        recipe = "rowwise" if self.scale.dim() == 2 else "tensorwise"
        return f"{super().extra_repr()}, recipe={recipe}"

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        weight, scale = self.weight, self.scale
        super()._apply(fn, recurse)
        # half() and to(bfloat16) mean what is computed in, neither the weight nor its scale.
        self.weight = weight.to(self.weight.device)
        self.scale = scale.to(self.scale.device)
        return self


def _known(recipe: str) -> str:
    if recipe not in ("tensorwise", "rowwise"):
        raise ValueError(f'float8: recipe must be "tensorwise" or "rowwise", got {recipe!r}')
    return recipe


def convert_to_float8_training(
    module: Module,
    *,
    module_filter_fn: Callable[[Module, str], bool] | None = None,
    recipe: str = "tensorwise",
) -> Module:
    """Exchanges the Linear layers of a model for Float8Linear, which share their parameters.

    module_filter_fn(layer, name) says which. The last layer of a model, and layers with fewer than
    a thousand features, gain little and lose digits.
    """
    make = partial(Float8Linear.from_float, recipe=recipe)
    return exchange_linears(module, make, module_filter_fn)


def quantize_float8_(
    model: Module,
    filter_fn: Callable[[Module, str], bool] | None = None,
    recipe: str = "rowwise",
) -> Module:
    """Exchanges the Linear layers of a model for Float8WeightLinear, for inference."""
    return exchange_linears(model, partial(Float8WeightLinear.from_float, recipe=recipe), filter_fn)
