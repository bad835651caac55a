"""Modules that follow one another, made one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import nn
from rushlight._quantized import named
from rushlight.ao.nn import intrinsic
from rushlight.nn import Identity, Module
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_modules",
           "fuse_modules_qat"]  # fmt: skip

_WITH_RELU: dict[type, Any] = {
    nn.Conv1d: intrinsic.ConvReLU1d,
    nn.Conv2d: intrinsic.ConvReLU2d,
    nn.Conv3d: intrinsic.ConvReLU3d,
    nn.Linear: intrinsic.LinearReLU,
    nn.BatchNorm2d: intrinsic.BNReLU2d,
    nn.BatchNorm3d: intrinsic.BNReLU3d,
}
_NORMS = {nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d, nn.Conv3d: nn.BatchNorm3d,
          nn.Linear: nn.BatchNorm1d}  # fmt: skip
# For models that will be trained: without and with a ReLU.
_WITH_NORM: dict[type, tuple[Any, Any]] = {
    nn.Conv1d: (intrinsic.ConvBn1d, intrinsic.ConvBnReLU1d),
    nn.Conv2d: (intrinsic.ConvBn2d, intrinsic.ConvBnReLU2d),
    nn.Conv3d: (intrinsic.ConvBn3d, intrinsic.ConvBnReLU3d),
    nn.Linear: (intrinsic.LinearBn1d, None),
}


def fuse_conv_bn(is_qat: bool, conv: Module, bn: Module) -> Module:
    """A convolution with the batch norm behind it: worked into its weight, or, to be trained, in
    one module."""
    return fuse_known_modules([conv, bn], is_qat)[0]


def fuse_conv_bn_relu(is_qat: bool, conv: Module, bn: Module, relu: nn.ReLU) -> Module:
    """The same with a ReLU behind both."""
    return fuse_known_modules([conv, bn, relu], is_qat)[0]


def fuse_linear_bn(is_qat: bool, linear: Module, bn: Module) -> Module:
    """A linear layer with the batch norm behind it."""
    return fuse_known_modules([linear, bn], is_qat)[0]


def _folded(first: Any, bn: Any) -> Module:
    if first.training or bn.training:
        raise NotImplementedError(
            "fuse_modules: a batch norm is worked into the weight before it in models that are "
            "evaluated only: call eval() first, or fuse_modules_qat for a model to be trained"
        )
    fold = fuse_linear_bn_eval if isinstance(first, nn.Linear) else fuse_conv_bn_eval
    return fold(first, bn)


def _joined_norm(first: Any, bn: Any, rest: list[Any]) -> Any:
    """The module for training of what begins with a layer and its norm; None: there is none."""
    if not (first.training and bn.training):
        raise AssertionError("fuse_modules_qat: the modules must be in training mode: call train()")
    if not (bn.affine and bn.track_running_stats):
        raise AssertionError(
            "fuse_modules_qat: a batch norm is joined with its weight and running statistics; it "
            "needs affine=True and track_running_stats=True"
        )
    plain, with_relu = _WITH_NORM[type(first)]
    if rest and isinstance(rest[0], nn.ReLU):
        return with_relu and with_relu(first, bn, rest.pop(0))
    return plain(first, bn)


def fuse_known_modules(
    mod_list: Sequence[Module], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Module]:
    """What stands in place of the modules: the joined one, and identities."""
    rest: list[Any] = list(mod_list)
    first = rest.pop(0)
    kinds = " ".join(type(m).__name__ for m in mod_list)
    made: Any = first
    if rest and isinstance(rest[0], _NORMS.get(type(first), ())):
        bn = rest.pop(0)
        made = _joined_norm(first, bn, rest) if is_qat else _folded(first, bn)
    if rest and isinstance(rest[0], nn.ReLU) and type(made) in _WITH_RELU:
        made = _WITH_RELU[type(made)](made, rest.pop(0))
    if made is None or rest or len(mod_list) < 2:
        raise NotImplementedError(f"fuse_modules: there is no joined module for {kinds}")
    made.train(first.training)
    if hasattr(first, "qconfig"):
        made.qconfig = first.qconfig
    return [made, *(Identity() for _ in mod_list[1:])]


def _fusing(name: str, is_qat: bool, doc: str) -> Callable[..., Module]:
    @named(name, doc)
    def fuse(
        model: Module,
        modules_to_fuse: Sequence[Any],
        inplace: bool = False,
        fuser_func: Callable[..., list[Module]] = fuse_known_modules,
        fuse_custom_config_dict: Any = None,
    ) -> Module:
        made = model if inplace else copy.deepcopy(model)
        is_one = all(isinstance(item, str) for item in modules_to_fuse)
        for names in [modules_to_fuse] if is_one else modules_to_fuse:
            joined = fuser_func([made.get_submodule(n) for n in names], is_qat)
            for path, module in zip(names, joined, strict=True):
                parent, _, own = path.rpartition(".")
                setattr(made.get_submodule(parent), own, module)
        return made

    return fuse


fuse_modules = _fusing(
    "fuse_modules",
    False,
    "The model with the named modules joined: convolution or linear, batch norm, ReLU.",
)
fuse_modules_qat = _fusing(
    "fuse_modules_qat",
    True,
    "The same for models that will be trained: batch norms stay, beside the layer before them.",
)
