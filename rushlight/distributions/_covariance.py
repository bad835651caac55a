"""What distributions with a covariance share: it is given as itself, as its inverse, or as its
lower factor."""

from rushlight import _C, linalg
from rushlight.distributions.utils import lazy_property


def _precision_to_scale_tril(P):
    """L with L L^T = P^-1, without inverting P."""
    Lf = linalg.cholesky(_C.flip(P, (-2, -1)))
    L_inv = _C.flip(Lf, (-2, -1)).mT
    eye = _C.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(L_inv, eye, upper=False)


def _inverse_from_factor(L):
    """(L L^T)^-1."""
    eye = _C.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape)
    half = linalg.solve_triangular(L, eye, upper=False)
    return half.mT @ half


class CovarianceParameter:
    """covariance_matrix, precision_matrix or scale_tril: one is given, the others follow from the
    factor L, `_unbroadcasted_scale_tril`."""

    @staticmethod
    def _one_of(title, **given):
        """The name and the value of the one that was given."""
        found = {name: value for name, value in given.items() if value is not None}
        if len(found) != 1:
            raise ValueError(
                f"{title}: give exactly one of covariance_matrix, precision_matrix and scale_tril, "
                f"got {list(found) or 'none'}"
            )
        ((name, matrix),) = found.items()
        if matrix.dim() < 2:
            raise ValueError(f"{title}: {name} must have at least two dimensions")
        return name, matrix

    def _keep_factor(self, name, matrix):
        if name == "covariance_matrix":
            matrix = linalg.cholesky(matrix)
        elif name == "precision_matrix":
            matrix = _precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = matrix

    def _expand_matrix(self, matrix):
        size = self._event_shape[-1]
        return matrix.expand((*self._batch_shape, size, size))

    @lazy_property
    def scale_tril(self):
        return self._expand_matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        L = self._unbroadcasted_scale_tril
        return self._expand_matrix(L @ L.mT)

    @lazy_property
    def precision_matrix(self):
        return self._expand_matrix(_inverse_from_factor(self._unbroadcasted_scale_tril))
