"""The older spectral norm: a hook computes the weight before each forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn import functional as F
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils._pre_hooks import remove_hook

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

    _M = TypeVar("_M", bound=Module)

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: it holds the settings; <name>_orig, <name>_u and <name>_v lie in the module."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with dim first and the other dims joined."""
        if self.dim:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by its largest singular value."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                plain = matrix.detach()
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(_C.mv(plain.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(_C.mv(plain, v), dim=0, eps=self.eps))
                # The next call writes over them; backward needs these.
                u, v = u.clone(), v.clone()
        return weight / _C.dot(u, _C.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Makes the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @classmethod
    def apply(
        cls, module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Moves the weight away and registers the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, cls) and hook.name == name:
                raise RuntimeError(f"spectral_norm: {name!r} of this module has one already")
        hook = cls(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm: the parameter {name!r} is None")
        with no_grad():
            matrix = hook.reshape_weight_to_matrix(weight)
            height, width = matrix.shape
            u = F.normalize(matrix.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(matrix.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute, so that nothing trains it and deepcopy can follow.
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        return hook


def spectral_norm(module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> _M:  # fmt: skip
    """Divides the weight by its largest singular value. Prefer nn.utils.parametrizations'.

    Arguments:
        module: the module.
        name: of its parameter.
        n_power_iterations: steps of the power method per call while training.
        eps: a small number that keeps a divisor away from zero.
        dim: the dim of the outputs; None is 0, or 1 for transposed convolutions.

    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3), n_power_iterations=20)
        >>> out = layer(rl.zeros(1, 2))
        >>> abs(rl.linalg.norm(layer.weight, 2).item() - 1) < 0.01
        True
    """
    if dim is None:
        from rushlight.nn.utils.parametrizations import default_dim

        dim = default_dim(module)
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Undoes spectral_norm; the weight keeps its normalised value.

    Arguments:
        module: the module.
        name: of its parameter.

    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3), name="weight")
        >>> sorted(dict(nn.utils.remove_spectral_norm(layer, name="weight").named_parameters()))
        ['bias', 'weight']
    """
    return remove_hook(module, name, SpectralNorm, "spectral norm")
