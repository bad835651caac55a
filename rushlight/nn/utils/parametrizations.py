"""Ready parametrizations: orthogonal matrices, weight norm and spectral norm."""

from __future__ import annotations

from typing import Any

from rushlight import _C, linalg
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn import functional as F
from rushlight.nn.init import _orthonormal_columns
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.weight_norm import norm_except, weight_from

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


@no_grad()
def _nearest_orthogonal(matrix):
    """The Q of QR, with a positive diagonal of R; for every matrix of a batch."""
    flat = matrix.reshape(-1, *matrix.shape[-2:])
    made = [_unitary(m) if m.is_complex() else _orthonormal_columns(m) for m in flat]
    return _C.stack(made).to(matrix.dtype).reshape(matrix.shape)


def _unitary(matrix):
    """The same for complex numbers, column by column (Gram and Schmidt, twice for accuracy)."""
    columns = []
    for k in range(matrix.shape[1]):
        v = matrix[:, k].clone().to(_C.complex128)
        for _ in range(2):
            for u in columns:
                v = v - u * _C.vdot(u, v)
        columns.append(v / v.norm())
    return _C.stack(columns, 1)


@no_grad()
def _inverse(matrix):
    """The inverse of one real square matrix, in float64."""
    q = _orthonormal_columns(matrix)
    return linalg.solve_triangular(q.t() @ matrix.double(), q.t().contiguous(), upper=True)


def _divide(matrix, right):
    """matrix^-1 @ right, differentiable: two steps of Newton's iteration around the inverse."""
    size = matrix.shape[-1]
    flat = matrix.detach().reshape(-1, size, size)
    found = []
    for m in flat:
        if m.is_complex():  # as a real matrix of twice the size
            m = _C.cat([_C.cat([m.real, -m.imag], 1), _C.cat([m.imag, m.real], 1)])
            inverse = _inverse(m)
            found.append(_C.complex(inverse[:size, :size], inverse[size:, :size]))
        else:
            found.append(_inverse(m))
    inverse = _C.stack(found).to(matrix.dtype).reshape(matrix.shape)
    # Each step squares the error, which is zero here: derivatives to the third order are right.
    for _ in range(2):
        inverse = 2 * inverse - inverse @ matrix @ inverse
    return inverse @ right


class _Orthogonal(Module):
    """An orthogonal (unitary) matrix as a function of free numbers.

    With trivialization the map is centred on a matrix `base`, which is what was assigned last.
    """

    def __init__(
        self, weight: Tensor, orthogonal_map: Any, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(
                "orthogonal: the householder map is for real matrices; use matrix_exp or cayley"
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        rows, columns = X.shape[-2:]
        transposed = rows < columns
        if transposed:
            X, rows, columns = X.mT, columns, rows
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            tau = 2 / (1 + (below * below).sum(-2))
            Q = linalg.householder_product(below, tau)
            # The diagonal of X holds signs.
            Q = Q * X.detach().diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        else:
            X = X.tril()
            if rows != columns:
                zeros = X.new_zeros(rows, rows - columns).expand(*X.shape[:-2], -1, -1)
                X = _C.cat([X, zeros], -1)
            A = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                Q = linalg.matrix_exp(A)
            else:
                one = _C.eye(rows, dtype=A.dtype, device=A.device)
                Q = _divide(one - A / 2, one + A / 2)
            if rows != columns:
                Q = Q[..., :columns]
        if getattr(self, "base", None) is not None:
            Q = self.base @ Q
        return Q.mT if transposed else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"orthogonal: a weight of shape {list(self.shape)} was expected, got "
                f"{list(Q.shape)}"
            )
        given = Q
        rows, columns = Q.shape[-2:]
        transposed = rows < columns
        if transposed:
            Q, rows, columns = Q.mT, columns, rows
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "orthogonal: a weight can be assigned to the maps matrix_exp and cayley only "
                    "with use_trivialization=True"
                )
            return self._reflections(Q, transposed)
        if rows != columns:
            Q = _C.cat([Q, Q.new_empty(*Q.shape[:-1], rows - columns).normal_()], -1)
        self.base = _nearest_orthogonal(Q)
        start = _C.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1)
        return start

    @staticmethod
    def _reflections(Q, transposed):
        """The vectors whose reflections give Q, with the signs of R's diagonal on theirs."""
        flat = [_reflect(m) for m in Q.reshape(-1, *Q.shape[-2:])]
        A = _C.stack(flat).reshape(Q.shape)
        return A.mT if transposed else A


def _reflect(matrix):
    a = matrix.double().clone()
    result = _C.zeros_like(a)
    rows, columns = a.shape
    for k in range(columns):
        x = a[k:, k].clone()
        length = x.norm()
        # Away from cancellation; then R_kk = sign * length.
        sign = -1.0 if float(x[0]) >= 0 else 1.0
        top = x[0] - sign * length
        if k == rows - 1 or float(top) == 0:  # nothing below: no reflection, v = e_k
            # I - 2 e e^T turns the sign of R_kk.
            result[k, k] = -1.0 if float(x[0]) >= 0 else 1.0
            a[k, k:] = -a[k, k:]
            continue
        v = x / top
        v[0] = 1.0
        a[k:, k:] -= (2 / v.dot(v)) * _C.outer(v, v @ a[k:, k:])
        result[k + 1 :, k] = v[1:]
        result[k, k] = sign
    return result.to(matrix.dtype)


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:  # fmt: skip
    """Keeps a matrix (or the matrices of a batch) orthogonal while it is trained.

    Arguments:
        module: the module.
        name: of its parameter.
        orthogonal_map: 'matrix_exp' or 'cayley', of a skew-symmetric matrix, or 'householder', a
            product of reflections; None is the first for square and complex matrices, the last
            for others.
        use_trivialization: keep the point where it began, which trains better.

    Example:
        >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="cayley")
        >>> rl.allclose(layer.weight @ layer.weight.T, rl.eye(3), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}")
    if weight.dim() < 2:
        raise ValueError(
            f"orthogonal: expects a matrix or a batch of matrices, got {weight.dim()} dims"
        )
    if orthogonal_map is None:
        square = weight.shape[-1] == weight.shape[-2] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            "orthogonal: orthogonal_map must be 'matrix_exp', 'cayley' or 'householder', got "
            f"{orthogonal_map!r}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


class _WeightNorm(Module):
    """weight = g * v / |v|, with one length g for each index of dim."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_from(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> Any:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Trains length and direction of the weight apart; dim=None: one length for all of it.

    Arguments:
        module: the module.
        name: of its parameter.
        dim: lengths are taken over all other dims; None is one length for all.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3), dim=None)
        >>> layer.parametrizations.weight.original0.shape
        rushlight.Size([])
    """
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

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
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

    def forward(self, weight: Tensor) -> Tensor:
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

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # as near as one gets without more work


def default_dim(module: Module) -> int:
    """Where the outputs of a weight lie: transposed convolutions have them second."""
    transposed = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}
    return 1 if any(cls.__name__ in transposed for cls in type(module).__mro__) else 0


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1,
                  eps: float = 1e-12, dim: int | None = None) -> Module:  # fmt: skip
    """Divides the weight by its largest singular value whenever it is read.

    Arguments:
        module: the module.
        name: of its parameter.
        n_power_iterations: steps of the power method per read while training.
        eps: a small number that keeps a divisor away from zero.
        dim: the dim of the outputs; None is 0, or 1 for transposed convolutions.

    Example:
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3), n_power_iterations=5)
        >>> abs(rl.linalg.norm(layer.weight, 2).item() - 1) < 0.01
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, _C.Tensor):
        raise ValueError(
            f"spectral_norm: {type(module).__name__} has no parameter or buffer {name!r}"
        )
    dim = default_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
