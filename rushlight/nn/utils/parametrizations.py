"""Ready parametrizations: weight norm and spectral norm."""

from rushlight import _C
from rushlight.autograd import no_grad
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.weight_norm import norm_except, weight_from

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """weight = g * v / |v|, with one length g for each index of dim."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_from(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Trains length and direction of the weight apart; dim=None: one length for all of it."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def load_old_names(state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        # Files that the older nn.utils.weight_norm wrote.
        old_g, old_v = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if old_g in state_dict and old_v in state_dict:
            start = f"{prefix}parametrizations.{name}."
            state_dict[f"{start}original0"] = state_dict.pop(old_g)
            state_dict[f"{start}original1"] = state_dict.pop(old_v)

    module._register_load_state_dict_pre_hook(load_old_names)
    return module


class _SpectralNorm(Module):
    """weight divided by its largest singular value, which power iteration estimates."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(f"spectral_norm: dim {dim} is out of range for {weight.dim()} dims")
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}"
            )
        self.dim = dim % weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            height, width = matrix.shape
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_iteration(matrix, 15)

    def _as_matrix(self, weight):
        if self.dim:
            weight = weight.movedim(self.dim, 0)
        return weight.flatten(1)

    @no_grad()
    def _power_iteration(self, matrix, count):
        matrix = matrix.detach()
        for _ in range(count):
            self._u.copy_(F.normalize(_C.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(_C.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._power_iteration(matrix, self.n_power_iterations)
        # Copies: the next call writes over them, and backward needs these.
        u = self._u.clone(memory_format=_C.contiguous_format)
        v = self._v.clone(memory_format=_C.contiguous_format)
        sigma = _C.dot(u, _C.mv(matrix, v))
        return weight / sigma

    def right_inverse(self, value):
        return value  # as near as one gets without more work


def default_dim(module):
    """Where the outputs of a weight lie: transposed convolutions have them second."""
    transposed = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}
    return 1 if any(cls.__name__ in transposed for cls in type(module).__mro__) else 0


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides the weight by its largest singular value whenever it is read."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.Tensor):
        raise ValueError(
            f"spectral_norm: {type(module).__name__} has no parameter or buffer {name!r}"
        )
    dim = default_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
