"""The older weight norm: a hook computes the weight before each forward."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight._C import Tensor
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.nn.utils._pre_hooks import remove_hook

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except(tensor: Tensor, dim: int) -> Tensor:
    """The 2-norm over all dims but one, kept as dims of size 1; dim -1: over all, a 0-d tensor."""
    if dim == -1:
        return tensor.norm()
    dims = [i for i in range(tensor.dim()) if i != dim % tensor.dim()]
    if not dims:
        return tensor.abs()
    return tensor.norm(2, dims, keepdim=True)


def weight_from(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """g * v / |v|."""
    return v * (g / norm_except(v, dim))


class WeightNorm:
    """The hook: it holds the names, the module holds <name>_g and <name>_v."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight of the present length and direction."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return weight_from(v, g, self.dim)

    @classmethod
    def apply(cls, module: Module, name: str, dim: int) -> WeightNorm:
        """Splits the weight and registers the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, cls) and hook.name == name:
                raise RuntimeError(f"weight_norm: {name!r} of this module has one already")
        hook = cls(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "weight_norm: the parameter has no shape yet; run the lazy module once before"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except(weight, hook.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Makes the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: _M, name: str = "weight", dim: int = 0) -> _M:
    """Trains length and direction of the weight apart. Prefer nn.utils.parametrizations'.

    Arguments:
        module: the module.
        name: of its parameter.
        dim: lengths are taken over all other dims; None is one length for all.

    Example:
        >>> layer = nn.utils.weight_norm(nn.Linear(2, 3), dim=0)
        >>> layer.weight_g.shape, layer.weight_v.shape
        (rushlight.Size([3, 1]), rushlight.Size([3, 2]))
    """
    warnings.warn(
        "nn.utils.weight_norm is deprecated, use nn.utils.parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Undoes weight_norm; the weight keeps its value.

    Arguments:
        module: the module.
        name: of its parameter.

    Example:
        >>> layer = nn.utils.weight_norm(nn.Linear(2, 3), name="weight")
        >>> [name for name, _ in nn.utils.remove_weight_norm(layer,
        ...     name="weight").named_parameters()]
        ['bias', 'weight']
    """
    return remove_hook(module, name, WeightNorm, "weight norm")
