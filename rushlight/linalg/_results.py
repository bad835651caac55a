"""What the functions of linear algebra share: named results, out=, batches, errors."""

from operator import itemgetter

from rushlight import _C
from rushlight._functions.out import write_outs
from rushlight.functional import broadcast_shapes


def named(name, fields):
    """A tuple class with named items, found as rushlight.return_types.<name>."""
    space = {"__slots__": (), "__module__": "rushlight.return_types", "_names": tuple(fields)}
    space |= {field: property(itemgetter(i)) for i, field in enumerate(fields)}
    made = type(name, (_Named,), space)
    _C._return_types[name] = made
    return made


class _Named(tuple):
    __slots__ = ()
    _names = ()

    def __repr__(self) -> str:
        items = ",\n".join(f"{n}={x!r}" for n, x in zip(self._names, self, strict=True))
        return f"rushlight.return_types.{type(self).__name__}(\n{items})"

    def __reduce__(self):
        return type(self), (tuple(self),)


class LinAlgError(RuntimeError):
    """A matrix for which the asked-for factor or solution does not exist."""


def check_info(info, op, failure):
    """Raises for the first matrix whose info is not 0; in `failure` a # stands for it."""
    found = _C._first_failure(info)
    if found == 0:
        return
    place, code = divmod(found, 1 << 32)
    where = f"(batch element {place}): " if info.ndim or place else ""
    if code >= 1 << 31:  # a negative one
        raise LinAlgError(f"{op}: {where}the input holds inf or nan")
    raise LinAlgError(f"{op}: {where}{failure.replace('#', str(code))}")


def with_out(op, result, out):
    """The named results, or those in ``out`` after they were written there."""
    return result if out is None else type(result)(write_outs(op, result, out))


def tracked(*tensors):
    """Whether somebody may want derivatives of what is computed from these tensors."""
    wanted = _C.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return wanted or _C._dual_level() > 0


def same_batch(op, A, B, dims_a=2, dims_b=2):
    """A and B with their batch dimensions broadcast."""
    a, b = A.shape[: A.ndim - dims_a], B.shape[: B.ndim - dims_b]
    if a == b:
        return A, B
    try:
        batch = broadcast_shapes(a, b)
    except RuntimeError:
        raise _C.ShapeError(f"{op}: the batch dimensions do not broadcast: shapes are "
                            f"{list(A.shape)} and {list(B.shape)}") from None  # fmt: skip
    return A.expand(*batch, *A.shape[A.ndim - dims_a :]), B.expand(
        *batch, *B.shape[B.ndim - dims_b :]
    )


def need_matrices(op, **tensors):
    """Raises unless the tensors have at least two dimensions."""
    for name, t in tensors.items():
        if t.ndim < 2:
            raise _C.ShapeError(f"{op}: {name} must have at least 2 dimensions, got shape "
                                f"{list(t.shape)}")  # fmt: skip


def is_vector_rhs(A, B):
    """Whether B is a vector, or a batch of vectors, for the matrices A."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


NOT_POSITIVE = (
    "the input is not positive definite: the leading minor of order # is not positive. Is it "
    "symmetric, with no zero or negative eigenvalue? Adding a small multiple of the identity "
    "often helps"
)
SINGULAR = "the matrix is singular: element # on the diagonal of U is zero"
NOT_CONVERGED = "the algorithm did not converge (#): is the matrix extremely ill-conditioned?"
