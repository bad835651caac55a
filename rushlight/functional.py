"""Functions over tensors that are written in Python, and the methods that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, lgamma, log, prod
from typing import Any, Literal, TypeAlias, overload

from rushlight import _C
from rushlight._autocast import autocast_policy
from rushlight._C import Size, Tensor
from rushlight._functions.out import write_out
from rushlight._names.publish import publish
from rushlight.types import _dtype

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "combinations", "cross",
    "einsum", "meshgrid", "nonzero", "norm", "split", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
]  # fmt: skip


@overload
def nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False
) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, out: None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@overload
def nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: bool
) -> Tensor | tuple[Tensor, ...]: ...
def nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """The coordinates of the elements that are not zero: one row each, or one tensor per dim.

    Arguments:
        input: a tensor.
        out: a tensor to write the result into.
        as_tuple: return one tensor per dim, as indexing takes them.

    Example:
        >>> x = rl.tensor([[0, 1], [2, 0]])
        >>> rl.nonzero(x)
        tensor([[0, 1],
                [1, 0]])
        >>> rl.nonzero(x, as_tuple=True)
        (tensor([0, 1]), tensor([1, 0]))
    """
    if not as_tuple:
        return _C.nonzero(input, out=out)
    if out is not None:
        raise TypeError("nonzero: out= needs as_tuple=False")
    return _C.where(input)


def _asked_for(results, return_inverse, return_counts):
    output, inverse, counts = results
    if return_inverse and return_counts:
        return output, inverse, counts
    if return_inverse:
        return output, inverse
    return (output, counts) if return_counts else output


# One, two or three tensors, by what is asked for.
_Unique: TypeAlias = Tensor | tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]


@overload
def unique(input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False,
           return_counts: Literal[False] = False,
           dim: int | None = None) -> Tensor: ...  # fmt: skip
@overload
def unique(input: Tensor, sorted: bool = True, *, return_inverse: Literal[True],
           return_counts: Literal[False] = False,
           dim: int | None = None) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False, *,
           return_counts: Literal[True],
           dim: int | None = None) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(input: Tensor, sorted: bool = True, *, return_inverse: Literal[True],
           return_counts: Literal[True],
           dim: int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
@overload
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False,
           return_counts: bool = False, dim: int | None = None) -> _Unique: ...  # fmt: skip
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> _Unique:
    """The distinct elements (or slices along dim) in order, with what else was asked for.

    Arguments:
        input: a tensor.
        sorted: accepted; the result is always sorted.
        return_inverse: also where each element of the input is in the result.
        return_counts: also how often each occurs.
        dim: compare slices along this dim; None compares elements.

    Example:
        >>> x = rl.tensor([3, 1, 3, 2])
        >>> rl.unique(x)
        tensor([1, 2, 3])
        >>> rl.unique(x, return_inverse=True, return_counts=True)
        (tensor([1, 2, 3]), tensor([2, 0, 2, 1]), tensor([1, 1, 2]))
    """
    if dim is None:
        results: tuple[Tensor, Tensor, Tensor] = _C._unique2(
            input, sorted, return_inverse, return_counts
        )
    else:
        results = _C._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(results, return_inverse, return_counts)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> _Unique: ...
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> _Unique:
    """The input without repetitions of the element (or slice) before it.

    Arguments:
        input: a tensor.
        return_inverse: also where each element of the input is in the result.
        return_counts: also how long each run is.
        dim: compare slices along this dim; None compares elements.

    Example:
        >>> rl.unique_consecutive(rl.tensor([1, 1, 2, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 2, 1]))
    """
    results = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(results, return_inverse, return_counts)


def _nonzero_method(self: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The coordinates of the elements that are not zero: one row each, or one tensor per dim.

    Arguments:
        as_tuple: return one tensor per dim, as indexing takes them.

    Example:
        >>> x = rl.tensor([[0, 1], [2, 0]])
        >>> x.nonzero()
        tensor([[0, 1],
                [1, 0]])
        >>> x[x.nonzero(as_tuple=True)]
        tensor([1, 2])
    """
    return nonzero(self, as_tuple=as_tuple)


_nonzero_method.__name__ = "nonzero"
Tensor.nonzero = _nonzero_method  # type: ignore[assignment, method-assign]
Tensor.unique = unique  # type: ignore[assignment, method-assign]
Tensor.unique_consecutive = unique_consecutive  # type: ignore[assignment, method-assign]


def _tensors(args, op):
    """f(a, b) and f([a, b]) mean the same."""
    items = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"{op}: expected tensors, got {type(item).__name__}")
    return list(items)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to.

    Arguments:
        shapes: shapes or numbers.

    Example:
        >>> rl.broadcast_shapes((2, 1), (3,), 1)
        rushlight.Size([2, 3])
    """
    return _broadcast("broadcast_shapes", shapes)


def _broadcast(op, shapes):
    result = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if any(n < 0 for n in sizes):
            raise RuntimeError(f"{op}: sizes must not be negative, got {tuple(sizes)}")
        longer, shorter = (result, sizes) if len(result) >= len(sizes) else (sizes, result)
        joined = list(longer)
        for i in range(1, len(shorter) + 1):
            a, b = longer[-i], shorter[-i]
            if a != b and 1 not in (a, b):
                listed = [list(x) if not isinstance(x, int) else x for x in shapes]
                raise _C.ShapeError(f"{op}: shapes {listed} do not broadcast: sizes {a} "
                                    f"and {b} differ and neither is 1")  # fmt: skip
            joined[-i] = b if a == 1 else a
        result = joined
    return Size(result)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    Arguments:
        tensors: tensors whose shapes go together.

    Example:
        >>> a, b = rl.broadcast_tensors(rl.zeros(2, 1), rl.zeros(3))
        >>> a.shape, b.shape
        (rushlight.Size([2, 3]), rushlight.Size([2, 3]))
    """
    tensors = _tensors(tensors, "broadcast_tensors")
    shape = _broadcast("broadcast_tensors", [t.shape for t in tensors])
    return tuple(t.expand(shape) for t in tensors)


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: one tensor per axis, all of the grid's shape.

    Arguments:
        tensors: vectors.
        indexing: 'ij' (the first vector runs along the first dim) or 'xy' (along the second, as
            for pictures); None is 'ij', with a warning.

    Example:
        >>> x, y = rl.meshgrid(rl.tensor([1, 2]), rl.tensor([10, 20, 30]), indexing="ij")
        >>> x, y
        (tensor([[1, 1, 1],
                [2, 2, 2]]), tensor([[10, 20, 30],
                [10, 20, 30]]))
    """
    tensors = _tensors(tensors, "meshgrid")
    if not tensors:
        raise RuntimeError("meshgrid: expects at least one tensor")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    for t in tensors:
        if t.ndim > 1:
            raise RuntimeError(f"meshgrid: expects vectors or numbers, got shape {list(t.shape)}")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError("meshgrid: all tensors must have one dtype, "
                               f"got {tensors[0].dtype} and {t.dtype}")  # fmt: skip
    swap = indexing == "xy" and len(tensors) >= 2
    axes = [tensors[1], tensors[0], *tensors[2:]] if swap else tensors
    shape = [t.numel() for t in axes]
    grids = [
        t.reshape([-1 if k == i else 1 for k in range(len(axes))]).expand(shape)
        for i, t in enumerate(axes)
    ]
    if swap:
        grids = [grids[1], grids[0], *grids[2:]]
    return tuple(grids)


def _lifted(t, rank):
    if t.ndim == 0:
        t = t.reshape(1)
    if rank >= 2 and t.ndim == 1:
        t = t.unsqueeze(0)
    if rank >= 3 and t.ndim == 2:
        t = t.unsqueeze(-1)
    return t


def _at_least(tensors, rank, op):
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _lifted(tensors[0], rank)
    return tuple([_lifted(t, rank) for t in _tensors(tensors, op)])


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Tensors with at least one dim.

    Arguments:
        tensors: one or more tensors.

    Example:
        >>> rl.atleast_1d(rl.tensor(5))
        tensor([5])
    """
    return _at_least(tensors, 1, "atleast_1d")


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Tensors with at least two dims.

    Arguments:
        tensors: one or more tensors.

    Example:
        >>> rl.atleast_2d(rl.tensor([1, 2]))
        tensor([[1, 2]])
    """
    return _at_least(tensors, 2, "atleast_2d")


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """Tensors with at least three dims.

    Arguments:
        tensors: one or more tensors.

    Example:
        >>> rl.atleast_3d(rl.tensor([1, 2])).shape
        rushlight.Size([1, 2, 1])
    """
    return _at_least(tensors, 3, "atleast_3d")


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one, zeros elsewhere.

    Arguments:
        tensors: matrices; vectors count as rows, numbers as 1 by 1.

    Example:
        >>> rl.block_diag(rl.tensor([[1, 2]]), rl.tensor([[3], [4]]))
        tensor([[1, 2, 0],
                [0, 0, 3],
                [0, 0, 4]])
    """
    if not tensors:
        return _C.empty(1, 0)
    blocks = []
    for t in _tensors(tensors, "block_diag"):
        if t.ndim > 2:
            raise RuntimeError(f"block_diag: expects at most 2 dimensions, got {list(t.shape)}")
        blocks.append(atleast_2d(t))
    dtype = blocks[0].dtype
    for b in blocks[1:]:
        dtype = _C.promote_types(dtype, b.dtype)
    width, rows, left = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        right = width - left - b.shape[1]
        rows.append(_C.constant_pad_nd(b.to(dtype), (left, right)))
        left += b.shape[1]
    return _C.cat(rows, 0)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples with one element from each vector, as rows.

    Arguments:
        tensors: vectors.

    Example:
        >>> rl.cartesian_prod(rl.tensor([1, 2]), rl.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    tensors = _tensors(tensors, "cartesian_prod")
    if not tensors:
        raise RuntimeError("cartesian_prod: expects at least one tensor")
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"cartesian_prod: expects vectors, got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _C.stack([g.reshape(-1) for g in meshgrid(tensors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, as rows.

    Arguments:
        input: a vector.
        r: how many elements per choice.
        with_replacement: the same element may be chosen again.

    Example:
        >>> rl.combinations(rl.tensor([1, 2, 3]), r=2)
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
        >>> rl.combinations(rl.tensor([1, 2]), with_replacement=True)
        tensor([[1, 1],
                [1, 2],
                [2, 2]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"combinations: expects a vector, got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return input.new_empty(0)
    n = input.numel()
    if n == 0 or (r > n and not with_replacement):
        return input[_C.empty((0, r), dtype=_C.int64, device=input.device)]
    pool = n + r - 1 if with_replacement else n
    size = lgamma(pool + 1) - lgamma(r + 1) - lgamma(pool - r + 1) + log(r)
    if size > 40 * log(2):
        raise _C.OutOfMemoryError(f"combinations: {r} of {n} elements can be chosen in about "
                                  f"e^{size - log(r):.0f} ways, too many for memory")  # fmt: skip
    # A column after the other: each row is repeated for every element that may follow its last.
    step = 0 if with_replacement else 1
    chosen = _C.arange(n if with_replacement else n - r + 1, device=input.device).unsqueeze(1)
    for column in range(1, r):
        following = chosen[:, -1] + step
        counts = (n if with_replacement else n - r + 1 + column) - following
        row = _C.repeat_interleave(counts)
        place = _C.arange(row.numel(), device=input.device) - (counts.cumsum(0) - counts)[row]
        chosen = _C.cat([chosen[row], (following[row] + place).unsqueeze(1)], 1)
    return input[chosen]


Tensor.combinations = combinations  # type: ignore[assignment, method-assign]


def einsum(*args: Any) -> Tensor:
    """Sums of products in Einstein's notation: einsum("ij,jk->ik", a, b), or with lists of ints.

    Letters name dims: those that stand in several operands are multiplied, those missing behind
    the arrow summed; `...` stands for the rest. Without an arrow the result has the letters that
    occur once, in the order of the alphabet.

    Arguments:
        args: the equation, then the operands; or operands each followed by a list of dims.

    Example:
        >>> a, b = rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.eye(2)
        >>> rl.einsum("ij,jk->ik", a, b)
        tensor([[1., 2.],
                [3., 4.]])
        >>> rl.einsum("ii", a), rl.einsum("ij->j", a)
        (tensor(5.), tensor([4., 6.]))
    """
    if not args:
        raise ValueError("einsum: expects an equation and operands")
    if not isinstance(args[0], str):
        if len(args) < 2:
            raise ValueError(
                "einsum: expects operands, each followed by the list of its subscripts"
            )
        return _einsum_sublists(args)
    if len(args) < 2:
        raise ValueError("einsum: expects an equation and at least one operand")
    return _C._einsum(args[0], _tensors(args[1:], "einsum"))


def _einsum_sublists(args):
    def letters(sublist):
        names = []
        for i in sublist:
            if i is Ellipsis:
                names.append("...")
            elif isinstance(i, int) and 0 <= i < 52:
                names.append(chr(ord("A") + i) if i < 26 else chr(ord("a") + i - 26))
            else:
                raise ValueError(f"einsum: subscripts are ints from 0 to 51 or ..., got {i!r}")
        return "".join(names)

    operands, terms = args[0 : len(args) // 2 * 2 : 2], args[1::2]
    equation = ",".join(letters(t) for t in terms)
    if len(args) % 2:
        equation += "->" + letters(args[-1])
    return _C._einsum(equation, _tensors(operands, "einsum"))


def tensordot(a: Tensor, b: Tensor, dims: int = 2, out: Tensor | None = None) -> Tensor:
    """Contracts dims of a with dims of b: their number, or a list of dims for each.

    Arguments:
        a, b: tensors.
        dims: how many last dims of a meet first dims of b, or two lists of dims.
        out: a tensor to write the result into.

    Example:
        >>> rl.tensordot(rl.ones(2, 3, 4), rl.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
        rushlight.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.ndim else dims.item()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: dims must not be negative, got {dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot: dims={dims} exceeds the dimensions of shapes "
                               f"{list(a.shape)} and {list(b.shape)}")  # fmt: skip
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        try:
            dims_a, dims_b = [[d] if isinstance(d, int) else list(d) for d in dims]
        except ValueError:
            raise RuntimeError("tensordot: dims must be an int or a list of dims for each tensor, "
                               f"got {dims!r}") from None  # fmt: skip
    # A size of 1 stands for all of the other's elements: it is as if those were added up first.
    for i, j in zip(dims_a, dims_b, strict=False):
        if -a.ndim <= i < a.ndim and -b.ndim <= j < b.ndim and a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:
                b = b.sum(j, keepdim=True, dtype=b.dtype)
            elif b.shape[j] == 1:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
    return _C._tensordot(a, b, dims_a, dims_b, out=out)


def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of several matrices.

    The old form of linalg.multi_dot.

    Arguments:
        matrices: two or more.
        out: a tensor to write the result into.

    Example:
        >>> rl.chain_matmul(rl.ones(2, 5), rl.ones(5, 3), rl.ones(3, 1))
        tensor([[15.],
                [15.]])
    """
    matrices = _tensors(matrices, "chain_matmul")
    if not matrices:
        raise RuntimeError("chain_matmul: expects at least one matrix")
    if len(matrices) == 1:
        return write_out("chain_matmul", matrices[0], out)
    product = matrices[0]
    for m in matrices[1:-1]:
        product = _C.mm(product, m)
    return _C.mm(product, matrices[-1], out=out)


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
) -> Tensor:
    """The norm of a vector's elements, or the Frobenius norm of a matrix's.

    The old form of linalg.vector_norm and linalg.matrix_norm.

    Arguments:
        input: a tensor.
        p: the order: 'fro', 'nuc' or a number.
        dim: the dim or dims; None is all.
        keepdim: keep each reduced dim with size 1.
        out: a tensor to write the result into.
        dtype: dtype to convert to before.

    Example:
        >>> rl.norm(rl.tensor([3.0, 4.0])), rl.norm(rl.tensor([[3.0, 4.0]]), p=1, dim=1)
        (tensor(5.), tensor([7.]))
    """
    if isinstance(p, str):
        if p == "nuc":
            from rushlight import linalg

            return linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim,
                                      dtype=dtype, out=out)  # fmt: skip
        if p != "fro":
            raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        p = 2
    if p is None:
        p = 2
    return _C._vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


def _norm_method(
    self: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: _dtype | None = None,
) -> Tensor:
    """The norm of the elements along the given dims; see rushlight.norm.

    Arguments:
        p: the order: 'fro', 'nuc' or a number.
        dim: the dim or dims; None is all.
        keepdim: keep each reduced dim with size 1.
        dtype: dtype to convert to before.

    Example:
        >>> rl.tensor([3.0, 4.0]).norm(), rl.tensor([[3.0, 4.0]]).norm(p=1, dim=1)
        (tensor(5.), tensor([7.]))
    """
    return norm(self, p, dim, keepdim, dtype=dtype)


_norm_method.__name__ = "norm"
Tensor.norm = _norm_method  # type: ignore[method-assign]


@autocast_policy(cuda="widest")
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The product of vectors in space, along dim or the first dim of size 3.

    Arguments:
        input, other: vectors of 3 along dim.
        dim: the dim; None is the first of size 3. linalg.cross takes the last.
        out: a tensor to write the result into.

    Example:
        >>> rl.cross(rl.tensor([1.0, 0.0, 0.0]), rl.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    from rushlight import linalg

    if dim is None:
        if 3 not in input.shape:
            raise RuntimeError(f"cross: no dim of size 3 in shape {list(input.shape)}")
        dim = input.shape.index(3)
    return linalg.cross(input, other, dim=dim, out=out)


def _cross_method(self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The product of vectors in space; see rushlight.cross.

    Arguments:
        other: vectors of 3 along dim.
        dim: the dim; None is the first of size 3.

    Example:
        >>> rl.tensor([1.0, 0.0, 0.0]).cross(rl.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    return cross(self, other, dim)


_cross_method.__name__ = "cross"
Tensor.cross = _cross_method  # type: ignore[method-assign]


def split(
    tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Pieces of one size, or of the given sizes, along dim.

    Arguments:
        tensor: the tensor to cut.
        split_size_or_sections: the length of pieces, or a list of lengths.
        dim: the dim to work along; negative numbers count from the last one.

    Returns: a tuple of views.

    Example:
        >>> rl.split(rl.arange(5), 2), rl.split(rl.zeros(2, 4), [1, 3], dim=1)[1].shape
        ((tensor([0, 1]), tensor([2, 3]), tensor([4])), rushlight.Size([2, 3]))
    """
    return Tensor.split(tensor, split_size_or_sections, dim)


def unravel_index(indices: Tensor, shape: int | Sequence[int] | Size) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dim, of elements counted in row-major order.

    Arguments:
        indices: int64 positions.
        shape: the shape that was flattened.

    Example:
        >>> rl.unravel_index(rl.tensor([0, 5]), (2, 3))
        (tensor([0, 1]), tensor([0, 2]))
    """
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == _C.bool:
        raise _C.DTypeError(f"unravel_index: indices must be integers, got {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got {tuple(sizes)}")
    total = prod(sizes)
    indices = indices.to(_C.int64)
    if indices.numel() and not bool(((indices >= 0) & (indices < total)).all()):
        raise ValueError(f"unravel_index: an index lies outside of shape {tuple(sizes)} with "
                         f"{total} elements")  # fmt: skip
    found = []
    for n in reversed(sizes):
        found.append(indices % n)
        indices = indices // n
    return tuple(reversed(found))


@autocast_policy(cpu="float32", cuda="float32")
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Distances between all rows of x1 and all rows of x2.

    Arguments:
        x1: (..., P, M).
        x2: (..., R, M); leading dims broadcast.
        p: which norm.
        compute_mode: accepted; the way is chosen by size.

    Shape: (..., P, R).

    Example:
        >>> rl.cdist(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0], [0.0, 1.0]]), p=1.0)
        tensor([[7., 1.]])
    """
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
             "donot_use_mm_for_euclid_dist")  # fmt: skip
    if compute_mode not in modes:
        raise ValueError(f"cdist: compute_mode must be one of {modes}, got {compute_mode!r}")
    for name, x in (("x1", x1), ("x2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist: only floating tensors have distances, {name} is {x.dtype}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist: {name} needs at least 2 dimensions, got {list(x.shape)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError("cdist: rows must have equal lengths, got shapes "
                           f"{list(x1.shape)} and {list(x2.shape)}")  # fmt: skip
    if not p >= 0:
        raise RuntimeError(f"cdist: p must not be negative, got {p}")
    p = float(p)
    large = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and (compute_mode == modes[1] or (compute_mode == modes[0] and large)):
        squares = (x1 * x1).sum(-1, True) + (x2 * x2).sum(-1, True).mT
        squares = squares - 2 * (x1 @ x2.mT)
        # Where two points are one, the slope of the root is infinite; the gradient there is zero.
        same = squares <= 0
        return squares.masked_fill(same, 1).sqrt().masked_fill(same, 0)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if difference.shape[-1] == 0:  # points of a space without dimensions are all the same
        return difference.sum(-1)
    return _C._vector_norm(difference, inf if p == inf else p, -1)


# nonzero and split call one operator, which names itself.
publish(globals(), "", [name for name in __all__ if name not in ("nonzero", "split")])
