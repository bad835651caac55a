"""Operators that move, cut, join and make elements."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.onnx._writer import Call, translates

_LAST = 2**63 - 1


@translates("view", "reshape", "_unsafe_view")
def _reshape(c: Call) -> str:
    name = "size" if "size" in c.args else "shape"
    if name not in c.args:
        c.refuse("view(dtype) is not written")
    shape = c.numbers(name)
    if shape.count(-1) == 0 and None in c.result_shape():
        # A size that the trace left fixed, and that is the dynamic one all the same.
        free = [i for i, size in enumerate(c.result_shape()) if size is None]
        fixed = [i for i in free if isinstance(shape[i], int)]
        if fixed:
            c.refuse(f"the size {shape[fixed[0]]} in it was a number of the example")
    return c.emit("Reshape", c.tensor("self"), c.w.int_tensor(shape), allowzero=_zero(shape))


def _zero(shape: list[Any]) -> int | None:
    """ONNX takes a 0 for "as before", unless it is told otherwise."""
    return 1 if 0 in shape else None


@translates("view_as", "reshape_as", "expand_as")
def _like_other(c: Call) -> str:
    kind = "Expand" if c.op == "expand_as" else "Reshape"
    return c.emit(kind, c.tensor("self"), c.emit("Shape", c.tensor("other")))


@translates("flatten")
def _flatten(c: Call) -> str:
    rank = c.rank("self")
    if rank == 0:
        return c.emit("Reshape", c.tensor("self"), c.constant([1]))
    first = c.dim("start_dim", default=0)
    last = c.dim("end_dim", default=-1)
    before = [c.size_of("self", d) for d in range(first)]
    after = [c.size_of("self", d) for d in range(last + 1, rank)]
    middle: list[int | str] = [-1]
    sizes = c.shape("self")
    if not any(isinstance(n, str) for n in (*before, *after)) and None not in sizes:
        middle = [c.result().shape[first]]
    shape = [*before, *middle, *after]
    return c.emit("Reshape", c.tensor("self"), c.w.int_tensor(shape), allowzero=_zero(shape))


@translates("unflatten")
def _unflatten(c: Call) -> str:
    dim, rank = c.dim(), c.rank("self")
    shape = [c.size_of("self", d) for d in range(dim)]
    shape += c.numbers("sizes")
    shape += [c.size_of("self", d) for d in range(dim + 1, rank)]
    return c.emit("Reshape", c.tensor("self"), c.w.int_tensor(shape))


def _transposed(c: Call, order: list[int]) -> str:
    return c.emit("Transpose", c.tensor("self"), perm=order)


@translates("permute")
def _permute(c: Call) -> str:
    rank = c.rank("self")
    return _transposed(c, [d % rank for d in c.ints("dims")])


@translates("transpose", "swapaxes", "swapdims", "t", "numpy_T", "T", "mT", "adjoint", "matrix_H")
def _transpose(c: Call) -> str:
    rank = c.rank("self")
    order = list(range(rank))
    if c.op in ("numpy_T", "T"):
        return _transposed(c, order[::-1])
    if c.op in ("t", "mT", "adjoint", "matrix_H"):
        if rank < 2:
            return c.tensor("self")
        a, b = rank - 2, rank - 1
    else:
        names = [n for n in ("dim0", "axis0") if n in c.args] or ["dim0"]
        a, b = c.dim(names[0]), c.dim(names[0].replace("0", "1"))
    if rank == 0:
        return c.tensor("self")
    order[a], order[b] = order[b], order[a]
    return _transposed(c, order)


@translates("movedim", "moveaxis")
def _movedim(c: Call) -> str:
    rank = c.rank("self")
    source = [d % rank for d in c.ints("source")]
    target = [d % rank for d in c.ints("destination")]
    order = [d for d in range(rank) if d not in source]
    for to, dim in sorted(zip(target, source, strict=True)):
        order.insert(to, dim)
    return _transposed(c, order)


@translates("squeeze")
def _squeeze(c: Call) -> str:
    shape = c.shape("self")
    if not shape:
        return c.tensor("self")
    dims = [d % len(shape) for d in c.ints("dim")] if c.has("dim") else range(len(shape))
    gone = [d for d in dims if shape[d] == 1]
    return c.emit("Squeeze", c.tensor("self"), c.constant(gone)) if gone else c.tensor("self")


@translates("unsqueeze")
def _unsqueeze(c: Call) -> str:
    dim = c.get("dim") % (c.rank("self") + 1)
    return c.emit("Unsqueeze", c.tensor("self"), c.constant([dim]))


@translates("expand", "broadcast_to")
def _expand(c: Call) -> str:
    # ONNX's Expand leaves a size as it is where 1 is asked for.
    shape = [1 if n == -1 else n for n in c.numbers("size" if "size" in c.args else "shape")]
    return c.emit("Expand", c.tensor("self"), c.w.int_tensor(shape))


@translates("repeat", "tile")
def _repeat(c: Call) -> str:
    repeats = c.numbers("repeats" if "repeats" in c.args else "dims")
    rank = c.rank("self")
    x = c.tensor("self")
    if len(repeats) > rank:
        x = c.emit("Unsqueeze", x, c.constant(list(range(len(repeats) - rank))))
    repeats = [1] * (rank - len(repeats)) + repeats
    return c.emit("Tile", x, c.w.int_tensor(repeats))


# ---- joining and cutting


def _all(c: Call, name: str) -> list[str]:
    """A list of tensors, in the result's dtype."""
    dtype = c.result().dtype
    return [c.cast(c.name_of(p), c.example(p).dtype, dtype) for p in c.args[name]]


@translates("cat", "concat", "concatenate")
def _cat(c: Call) -> str:
    rank = c.result().dim()
    kept = [p for p in c.args["tensors"] if c.example(p).dim() == rank]  # torch.empty(0) may stand
    dtype = c.result().dtype
    parts = [c.cast(c.name_of(p), c.example(p).dtype, dtype) for p in kept]
    return c.emit("Concat", *parts, axis=c.get("dim", 0) % rank)


@translates("stack")
def _stack(c: Call) -> str:
    dim = c.get("dim", 0) % c.result().dim()
    where = c.constant([dim])
    parts = [c.emit("Unsqueeze", part, where) for part in _all(c, "tensors")]
    return c.emit("Concat", *parts, axis=dim)


@translates("split", "chunk", "unsafe_split", "unsafe_chunk", "split_with_sizes", "tensor_split")
def _split(c: Call) -> list[list[str]]:
    dim, numbers = c.dim(), c.results[0]
    sizes = [c.w.shapes[n][dim] for n in numbers]
    if len(numbers) == 1:
        return [[c.tensor("self")]]
    if None in sizes:
        c.refuse("it cuts a dim whose size is dynamic")
    given = c.constant(sizes)
    return [c.emit("Split", c.tensor("self"), given, outputs=len(numbers), axis=dim)]


@translates("unbind")
def _unbind(c: Call) -> list[list[str]]:
    dim, count = c.dim(), len(c.results[0])
    if c.shape("self")[dim] is None:
        c.refuse("it takes a dim apart whose size is dynamic")
    x = c.tensor("self")
    return [[c.emit("Gather", x, c.constant(i), axis=dim) for i in range(count)]]


@translates("slice", "narrow")
def _slice(c: Call) -> str:
    dim = c.dim()
    start = (c.numbers("start") or [0])[0]
    if c.op == "narrow":
        length = c.numbers("length")[0]
        if isinstance(start, int) and isinstance(length, int):
            end: int | str = start + length
        else:
            end = c.emit("Add", c.w.int_tensor([start]), c.w.int_tensor([length]))
    else:
        end = (c.numbers("end") or [_LAST])[0]
        size = c.shape("self")[dim]
        if isinstance(end, int) and size is None and c.example("self").shape[dim] == end:
            c.refuse(f"its end {end} was the size in the example, which is dynamic")
    return c.emit(
        "Slice", c.tensor("self"), c.w.int_tensor([start]), c.w.int_tensor([end]),
        c.constant([dim]), c.constant([c.get("step", 1)]),
    )  # fmt: skip


@translates("select")
def _select(c: Call) -> str:
    dim, index = c.dim(), c.numbers("index")[0]
    if isinstance(index, str):
        index = c.emit("Squeeze", index, c.constant([0]))
    else:
        index = c.constant(index)
    return c.emit("Gather", c.tensor("self"), index, axis=dim)


@translates("index_select")
def _index_select(c: Call) -> str:
    return c.emit("Gather", c.tensor("self"), c.tensor("index"), axis=c.dim())


@translates("repeat_interleave")
def _repeat_interleave(c: Call) -> str:
    if not c.has("dim") or c.is_tensor("repeats"):
        c.refuse("only one number of repeats along a dim is written")
    dim, rank, repeats = c.dim(), c.rank("self"), c.get("repeats")
    wide = c.emit("Unsqueeze", c.tensor("self"), c.constant([dim + 1]))
    counts = [1] * (rank + 1)
    counts[dim + 1] = repeats
    shape = [c.size_of("self", d) for d in range(rank)]
    shape[dim] = -1
    return c.emit("Reshape", c.emit("Tile", wide, c.constant(counts)), c.w.int_tensor(shape))


@translates("gather")
def _gather(c: Call) -> str:
    return c.emit("GatherElements", c.tensor("self"), c.tensor("index"), axis=c.dim())


@translates("scatter")
def _scatter(c: Call) -> str:
    if c.has("reduce"):
        c.refuse("scatter that reduces is not written")
    name = "src" if c.is_tensor("src") else "value"
    updates = c.as_dtype(name, c.dtype("self"))
    if name == "value":
        updates = c.emit("Expand", updates, c.emit("Shape", c.tensor("index")))
    return c.emit("ScatterElements", c.tensor("self"), c.tensor("index"), updates, axis=c.dim())


@translates("index")
def _index(c: Call) -> str:
    places = c.args["indices"]
    given = [i for i, place in enumerate(places) if place is not None]
    if any(c.example(places[i]).dtype in (_C.bool, _C.uint8) for i in given):
        return _mask(c, places, given)
    if len(given) == 1:
        return c.emit("Gather", c.tensor("self"), c.name_of(places[given[0]]), axis=given[0])
    if given != list(range(given[0], given[0] + len(given))):
        c.refuse("indices with a slice between them are not written")
    # The indexed dims come first, GatherND takes tuples of indices, and the result moves back.
    rank, first = c.rank("self"), given[0]
    order = given + [d for d in range(rank) if d not in given]
    x = c.tensor("self")
    if order != list(range(rank)):
        x = c.emit("Transpose", x, perm=order)
    tensors = [c.example(places[i]) for i in given]
    shape = _C.broadcast_tensors(*tensors)[0] if hasattr(_C, "broadcast_tensors") else None
    index_rank = max(t.dim() for t in tensors) if shape is None else shape.dim()
    names = [c.cast(c.name_of(places[i]), c.example(places[i]).dtype, _C.int64) for i in given]
    total = names[0]
    for name in names[1:]:
        total = c.emit("Add", total, c.emit("Mul", name, c.constant(0)))
    whole = c.emit("Shape", total)
    last = c.constant([index_rank])
    parts = [c.emit("Unsqueeze", c.emit("Expand", name, whole), last) for name in names]
    found = c.emit("GatherND", x, c.emit("Concat", *parts, axis=-1))
    if first:
        moved = list(range(index_rank, index_rank + first)) + list(range(index_rank))
        found = c.emit("Transpose", found, perm=moved + list(range(index_rank + first,
                       index_rank + rank - len(given))))  # fmt: skip
    return found


def _mask(c: Call, places: list[Any], given: list[int]) -> str:
    if len(given) > 1 or given[0] != 0:
        c.refuse("a mask beside other indices is not written")
    mask = c.name_of(places[0])
    where = c.emit("Transpose", c.emit("NonZero", mask), perm=[1, 0])
    return c.emit("GatherND", c.tensor("self"), where)


@translates("flip")
def _flip(c: Call) -> str:
    dims = [d % c.rank("self") for d in c.ints("dims")]
    ends = c.constant([-_LAST] * len(dims))
    starts, steps = c.constant([-1] * len(dims)), c.constant([-1] * len(dims))
    return c.emit("Slice", c.tensor("self"), starts, ends, c.constant(dims), steps)


@translates("roll")
def _roll(c: Call) -> str:
    found, dims = c.tensor("self"), c.ints("dims")
    if not dims:
        c.refuse("roll without dims is not written")
    for shift, dim in zip(c.ints("shifts"), dims, strict=True):
        if shift == 0:
            continue
        at, axis = c.constant([-shift]), c.constant([dim % c.rank("self")])
        tail = c.emit("Slice", found, at, c.constant([_LAST]), axis)
        head = c.emit("Slice", found, c.constant([0]), at, axis)
        found = c.emit("Concat", tail, head, axis=dim % c.rank("self"))
    return found


@translates("constant_pad_nd", "_pad_from_inside")
def _pad(c: Call) -> str:
    name = "pad" if "pad" in c.args else "padding"
    pairs = c.ints(name)
    rank = c.rank("self")
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pairs) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pairs[2 * i], pairs[2 * i + 1]
    mode = ["reflect", "edge"][c.get("mode")] if c.has("mode") else "constant"
    value = c.as_dtype("value", c.dtype("self")) if mode == "constant" and c.has("value") else None
    return c.emit("Pad", c.tensor("self"), c.constant(begins + ends), value, mode=mode)


@translates("tril", "triu")
def _triangle(c: Call) -> str:
    x, dtype = c.tensor("self"), c.dtype("self")
    as_int = dtype == _C.bool
    if as_int:
        x = c.cast(x, dtype, _C.int64)
    found = c.emit("Trilu", x, c.constant(c.get("diagonal", 0)), upper=int(c.op == "triu"))
    return c.cast(found, _C.int64, dtype) if as_int else found


# ---- new tensors


def _filled(c: Call, shape: str, value: Any) -> str:
    one = c.w.proto(_C.tensor([value], dtype=c.result().dtype), "value")
    return c.emit("ConstantOfShape", shape, value=one)


@translates("zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty")
def _full(c: Call) -> str:
    value = 1 if c.op.endswith("ones") else 0
    if c.op.endswith("full"):
        if c.is_tensor("fill_value"):
            c.refuse("a fill_value that is a tensor is not written")
        value = c.get("fill_value")
    return _filled(c, c.w.int_tensor(c.numbers("size")), value)


@translates("zeros_like", "ones_like", "full_like", "empty_like")
def _full_like(c: Call) -> str:
    value = c.get("fill_value") if c.op == "full_like" else int(c.op == "ones_like")
    return _filled(c, c.emit("Shape", c.tensor("self" if "self" in c.args else "input")), value)


@translates("arange")
def _arange(c: Call) -> str:
    dtype = c.result().dtype
    parts = []
    for name, default in (("start", 0), ("end", None), ("step", 1)):
        found = c.args.get(name)
        number: Any = c.numbers(name)[0] if isinstance(found, dict) and "sizes" in found else None
        if isinstance(number, str):
            scalar = c.emit("Squeeze", number, c.constant([0]))
            parts.append(c.cast(scalar, _C.int64, dtype))
        else:
            parts.append(c.constant(c.get(name, default), dtype))
    return c.emit("Range", *parts)


@translates("eye", "linspace", "hann_window", "scalar_tensor", "tensor")
def _known(c: Call) -> str:
    """What depends on numbers only."""
    return c.constant(c.result())


@translates("fill", "fill_", "zero_", "copy", "copy_")
def _overwritten(c: Call) -> str:
    shape = c.emit("Shape", c.tensor("self"))
    if c.op.startswith("zero"):
        return _filled(c, shape, 0)
    value = c.as_dtype("src" if c.op.startswith("copy") else "value", c.dtype("self"))
    return c.emit("Expand", value, shape)


@translates("one_hot")
def _one_hot(c: Call) -> str:
    classes = c.result().shape[-1]
    dtype = c.result().dtype
    values = c.constant(_C.tensor([0, 1], dtype=dtype))
    return c.emit("OneHot", c.tensor("self"), c.constant(classes), values, axis=-1)
