"""Sums, extremes, sorting, products of matrices."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.onnx._writer import Call, is_integer, translates


def _dims(c: Call, name: str = "dim") -> list[int]:
    """The dims that go; all of them where none is named."""
    rank = c.rank("self")
    found = c.ints(name) if c.has(name) else []
    return [d % max(rank, 1) for d in found] or list(range(rank))


def _reduced(c: Call, kind: str, x: str, dims: list[int] | None = None) -> str:
    where = c.constant(_dims(c) if dims is None else dims)
    return c.emit(kind, x, where, keepdims=int(bool(c.get("keepdim", False))))


@translates("sum", "mean", "prod", "amax", "amin", "logsumexp")
def _reduce(c: Call) -> str:
    kind = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "amax": "ReduceMax",
            "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp"}[c.op]  # fmt: skip
    x = c.as_dtype("self", c.result().dtype)
    return x if c.rank("self") == 0 else _reduced(c, kind, x)


@translates("any", "all")
def _any(c: Call) -> str:
    x = c.cast(c.as_dtype("self", _C.bool), _C.bool, _C.int32)
    if c.rank("self"):
        x = _reduced(c, "ReduceMax" if c.op == "any" else "ReduceMin", x)
    return c.cast(x, _C.int32, c.result().dtype)


@translates("max", "min")
def _max(c: Call) -> Any:
    if c.is_tensor("other"):
        dtype = c.result().dtype
        kind = "Max" if c.op == "max" else "Min"
        return c.emit(kind, c.as_dtype("self", dtype), c.as_dtype("other", dtype))
    kind = "ReduceMax" if c.op == "max" else "ReduceMin"
    x = c.tensor("self")
    if not c.has("dim"):
        return _reduced(c, kind, x)
    dim, keep = c.dim(), int(bool(c.get("keepdim", False)))
    values = c.emit(kind, x, c.constant([dim]), keepdims=keep)
    if not c.used(1):
        return [values, ""]
    return [values, c.emit(f"Arg{c.op.title()}", x, axis=dim, keepdims=keep)]


@translates("argmax", "argmin")
def _argmax(c: Call) -> str:
    kind = "ArgMax" if c.op == "argmax" else "ArgMin"
    if c.has("dim"):
        keep = int(bool(c.get("keepdim", False)))
        return c.emit(kind, c.tensor("self"), axis=c.dim(), keepdims=keep)
    flat = c.emit("Reshape", c.tensor("self"), c.constant([-1]))
    return c.emit(kind, flat, axis=0, keepdims=0)


@translates("var", "std")
def _var(c: Call) -> str:
    dims, x, dtype = _dims(c), c.tensor("self"), c.dtype("self")
    shape = c.shape("self")
    where = c.constant(dims)
    mean = c.emit("ReduceMean", x, where, keepdims=1)
    off = c.emit("Sub", x, mean)
    total = _reduced(c, "ReduceSum", c.emit("Mul", off, off), dims)
    correction = c.get("correction", 1 if c.get("unbiased", True) else 0)
    if any(shape[d] is None for d in dims):
        sizes = c.emit("Gather", c.emit("Shape", x), where)
        count = c.cast(c.emit("ReduceProd", sizes, keepdims=0), _C.int64, dtype)
        count = c.emit("Sub", count, c.constant(correction, dtype))
    else:
        number = 1
        for d in dims:
            number *= shape[d] or 0
        count = c.constant(max(number - correction, 0), dtype)
    found = c.emit("Div", total, count)
    return c.emit("Sqrt", found) if c.op == "std" else found


@translates("_vector_norm", "norm", "linalg_vector_norm", "frobenius_norm")
def _norm(c: Call) -> str:
    order = c.get("ord", c.get("p", 2))
    kind = {1: "ReduceL1", 2: "ReduceL2"}.get(order)
    x = c.as_dtype("self", c.result().dtype)
    if kind is None:
        if order == float("inf"):
            return _reduced(c, "ReduceMax", c.emit("Abs", x))
        c.refuse(f"the norm of order {order} is not written")
    return _reduced(c, kind, x)


@translates("cumsum")
def _cumsum(c: Call) -> str:
    x = c.as_dtype("self", c.result().dtype)
    return c.emit("CumSum", x, c.constant(c.dim()))


@translates("diff")
def _diff(c: Call) -> str:
    dim, dtype = c.dim("dim", default=-1), c.result().dtype
    there = [name for name in ("prepend", "self", "append") if c.has(name)]
    parts = [c.as_dtype(name, dtype) for name in there]
    x = parts[0] if len(parts) == 1 else c.emit("Concat", *parts, axis=dim)
    if dtype == _C.bool:
        c.refuse("it is of bools")
    where, one = c.constant([dim]), c.constant([1])
    for _ in range(c.get("n", 1)):
        later = c.emit("Slice", x, one, c.constant([2**63 - 1]), where)
        x = c.emit("Sub", later, c.emit("Slice", x, c.constant([0]), c.constant([-1]), where))
    return x


@translates("topk", "sort")
def _topk(c: Call) -> list[str]:
    dim = c.dim("dim", default=-1)
    if c.op == "topk":
        count = c.w.int_tensor(c.numbers("k"))
        largest = c.get("largest", True)
    else:
        size = c.size_of("self", dim)
        count = size if isinstance(size, str) else c.constant([size])
        largest = c.get("descending", False)
    return c.emit("TopK", c.tensor("self"), count, outputs=2, axis=dim, largest=int(largest),
                  sorted=1)  # fmt: skip


# ---- products


@translates("matmul", "mm", "bmm", "mv", "dot")
def _matmul(c: Call) -> str:
    second = next(n for n in ("other", "mat2", "vec", "tensor") if n in c.args)
    dtype = c.result().dtype
    return c.emit("MatMul", c.as_dtype("self", dtype), c.as_dtype(second, dtype))


@translates("addmm", "baddbmm", "addbmm")
def _addmm(c: Call) -> str:
    if c.op == "addbmm":
        c.refuse("it is not written")
    names = ("mat1", "mat2") if c.op == "addmm" else ("batch1", "batch2")
    product = c.emit("MatMul", *(c.tensor(n) for n in names))
    dtype = c.result().dtype
    if (alpha := c.get("alpha", 1)) != 1:
        product = c.emit("Mul", product, c.constant(alpha, dtype))
    bias = c.tensor("self" if "self" in c.args else "input")
    if (beta := c.get("beta", 1)) != 1:
        bias = c.emit("Mul", bias, c.constant(beta, dtype))
    return c.emit("Add", product, bias)


@translates("outer", "ger")
def _outer(c: Call) -> str:
    second = "vec2" if "vec2" in c.args else "other"
    column = c.emit("Unsqueeze", c.tensor("self"), c.constant([1]))
    return c.emit("Mul", column, c.emit("Unsqueeze", c.tensor(second), c.constant([0])))


@translates("_einsum", "einsum")
def _einsum(c: Call) -> str:
    equation = c.get("equation").replace(" ", "")
    if "." in equation and any(ch.isupper() for ch in equation):
        c.refuse("capital letters beside an ellipsis are not written")
    dtype = c.result().dtype
    if is_integer(dtype):
        c.refuse("einsum of integers is not written")
    parts = [c.name_of(p) for p in c.args["tensors"]]
    return c.emit("Einsum", *parts, equation=equation)


@translates("_tensordot")
def _tensordot(c: Call) -> str:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    ours = [next(letters) for _ in range(c.rank("self"))]
    theirs = [next(letters) for _ in range(c.rank("other"))]
    pairs = list(zip(c.ints("dims_self"), c.ints("dims_other"), strict=True))
    for a, b in pairs:
        theirs[b] = ours[a]
    summed = {ours[a] for a, _ in pairs}
    left = [letter for letter in ours + theirs if letter not in summed]
    equation = f"{''.join(ours)},{''.join(theirs)}->{''.join(left)}"
    return c.emit("Einsum", c.tensor("self"), c.tensor("other"), equation=equation)


@translates("linear", "_linear_relu")
def _linear(c: Call) -> str:
    x, weight = c.tensor("input"), c.tensor("weight")
    if c.rank("weight") == 1:
        found = c.emit("MatMul", x, weight)
    elif c.rank("input") == 2:
        found = c.emit("Gemm", x, weight, c.optional("bias"), transB=1)
        return c.emit("Relu", found) if c.op == "_linear_relu" else found
    else:
        found = c.emit("MatMul", x, c.emit("Transpose", weight, perm=[1, 0]))
    if c.has("bias"):
        found = c.emit("Add", found, c.tensor("bias"))
    return c.emit("Relu", found) if c.op == "_linear_relu" else found
