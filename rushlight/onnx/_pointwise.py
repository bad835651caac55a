"""Pointwise operators."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight.onnx._writer import SQRT_HALF, TRANSLATIONS, Call, is_integer, translates

_UNARY = {
    "abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "floor": "Floor", "ceil": "Ceil", "sign": "Sign", "sigmoid": "Sigmoid",
    "tanh": "Tanh", "relu": "Relu", "reciprocal": "Reciprocal", "softsign": "Softsign",
    "hardswish": "HardSwish", "mish": "Mish",
}  # fmt: skip


def _floating(c: Call, name: str = "self") -> str:
    """The operand in the result's dtype."""
    return c.as_dtype(name, c.result().dtype)


def _unary(kind: str) -> Any:
    def write(c: Call) -> str:
        whole = kind in ("Floor", "Ceil") and is_integer(c.dtype("self"))
        return c.tensor("self") if whole else c.emit(kind, _floating(c))

    return write


for _name, _kind in _UNARY.items():
    TRANSLATIONS[_name] = _unary(_kind)


@translates("round")
def _round(c: Call) -> str:
    if c.get("decimals", 0):
        c.refuse("decimals is not written")
    return c.tensor("self") if is_integer(c.dtype("self")) else c.emit("Round", c.tensor("self"))


@translates("isnan")
def _isnan(c: Call) -> str:
    return c.emit("IsNaN", c.tensor("self"))


@translates("isinf")
def _isinf(c: Call) -> str:
    return c.emit("IsInf", c.tensor("self"))


@translates("rsqrt")
def _rsqrt(c: Call) -> str:
    return c.emit("Reciprocal", c.emit("Sqrt", _floating(c)))


@translates("square")
def _square(c: Call) -> str:
    x = c.tensor("self")
    return c.emit("Mul", x, x)


@translates("exp2", "expm1", "log1p", "log2", "log10")
def _shifted(c: Call) -> str:
    x, dtype = _floating(c), c.result().dtype
    one = c.constant(1, dtype)
    if c.op == "exp2":
        return c.emit("Exp", c.emit("Mul", x, c.constant(math.log(2), dtype)))
    if c.op == "expm1":
        return c.emit("Sub", c.emit("Exp", x), one)
    if c.op == "log1p":
        return c.emit("Log", c.emit("Add", x, one))
    base = math.log(2 if c.op == "log2" else 10)
    return c.emit("Div", c.emit("Log", x), c.constant(base, dtype))


@translates("silu")
def _silu(c: Call) -> str:
    x = c.tensor("self")
    return c.emit("Mul", x, c.emit("Sigmoid", x))


@translates("gelu")
def _gelu(c: Call) -> str:
    x, dtype = c.tensor("self"), c.dtype("self")
    half, one = c.constant(0.5, dtype), c.constant(1.0, dtype)
    if c.get("approximate", "none") == "tanh":
        cube = c.emit("Mul", c.emit("Mul", x, x), x)
        inner = c.emit("Add", x, c.emit("Mul", cube, c.constant(0.044715, dtype)))
        inner = c.emit("Mul", inner, c.constant(math.sqrt(2 / math.pi), dtype))
        inner = c.emit("Tanh", inner)
    else:
        inner = c.emit("Erf", c.emit("Mul", x, c.constant(SQRT_HALF, dtype)))
    return c.emit("Mul", c.emit("Mul", x, half), c.emit("Add", inner, one))


@translates("leaky_relu")
def _leaky_relu(c: Call) -> str:
    return c.emit("LeakyRelu", c.tensor("self" if "self" in c.args else "input"),
                  alpha=float(c.get("negative_slope", 0.01)))  # fmt: skip


@translates("elu", "celu", "selu")
def _elu(c: Call) -> str:
    x = c.tensor("self")
    if c.op == "selu":
        return c.emit("Selu", x)
    alpha = float(c.get("alpha", 1.0))
    if c.op == "celu":
        return c.emit("Celu", x, alpha=alpha)
    if c.get("input_scale", 1) != 1:
        c.refuse("input_scale is not written")
    found = c.emit("Elu", x, alpha=alpha)
    scale = c.get("scale", 1)
    return found if scale == 1 else c.emit("Mul", found, c.constant(scale, c.dtype("self")))


@translates("hardsigmoid")
def _hardsigmoid(c: Call) -> str:
    return c.emit("HardSigmoid", c.tensor("self"), alpha=1 / 6, beta=0.5)


@translates("softplus")
def _softplus(c: Call) -> str:
    x, dtype, beta = c.tensor("self"), c.dtype("self"), c.get("beta", 1)
    if beta == 1:
        return c.emit("Softplus", x)
    factor = c.constant(beta, dtype)
    return c.emit("Div", c.emit("Softplus", c.emit("Mul", x, factor)), factor)


@translates("logsigmoid", "log_sigmoid")
def _logsigmoid(c: Call) -> str:
    name = "self" if "self" in c.args else "input"
    return c.emit("Neg", c.emit("Softplus", c.emit("Neg", c.tensor(name))))


@translates("prelu")
def _prelu(c: Call) -> str:
    slope = c.tensor("weight")
    rank = c.rank("self")
    if c.example("weight").numel() > 1 and rank > 2:
        shape = c.constant([-1] + [1] * (rank - 2))
        slope = c.emit("Reshape", slope, shape)
    return c.emit("PRelu", c.tensor("self"), slope)


@translates("relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "clip")
def _clamp(c: Call) -> str:
    dtype = c.result().dtype
    found = c.as_dtype("self", dtype)
    if c.op == "relu6":
        low, high = c.constant(0, dtype), c.constant(6, dtype)
        return c.emit("Clip", found, low, high)
    names = ("min_val", "max_val") if c.op == "hardtanh" else ("min", "max")
    for name, kind in zip(names, ("Max", "Min"), strict=True):
        if c.has(name):
            found = c.emit(kind, found, c.as_dtype(name, dtype))
    return found


@translates("threshold")
def _threshold(c: Call) -> str:
    x, dtype = c.tensor("self"), c.dtype("self")
    above = c.emit("Greater", x, c.constant(c.get("threshold"), dtype))
    return c.emit("Where", above, x, c.constant(c.get("value"), dtype))


@translates("glu", "_glu")
def _glu(c: Call) -> str:
    if c.has("gate"):
        return c.emit("Mul", c.tensor("self"), c.emit("Sigmoid", c.tensor("gate")))
    first, second = c.emit("Split", c.tensor("self"), outputs=2, num_outputs=2,
                           axis=c.dim("dim", default=-1))  # fmt: skip
    return c.emit("Mul", first, c.emit("Sigmoid", second))


@translates("tanhshrink", "trunc", "isfinite", "hardshrink", "softshrink", "nan_to_num")
def _composed(c: Call) -> str:
    x, dtype = c.tensor("self"), c.dtype("self")
    zero = c.constant(0, dtype)
    if c.op == "tanhshrink":
        return c.emit("Sub", x, c.emit("Tanh", x))
    if c.op == "trunc":
        return c.emit("Mul", c.emit("Sign", x), c.emit("Floor", c.emit("Abs", x)))
    if c.op in ("isfinite", "nan_to_num"):
        bad, infinite = c.emit("IsNaN", x), c.emit("IsInf", x)
        if c.op == "isfinite":
            return c.emit("Not", c.emit("Or", bad, infinite))
        if any(c.has(name) for name in ("nan", "posinf", "neginf")):
            c.refuse("its values are not written")
        info = _C.finfo(dtype)
        bounds = c.constant(info.min, dtype), c.constant(info.max, dtype)
        return c.emit("Clip", c.emit("Where", bad, zero, x), *bounds)
    lambd = c.constant(c.get("lambd", 0.5), dtype)
    outside = c.emit("Greater", c.emit("Abs", x), lambd)
    if c.op == "softshrink":
        x = c.emit("Sub", x, c.emit("Mul", c.emit("Sign", x), lambd))
    return c.emit("Where", outside, x, zero)


@translates("hypot")
def _hypot(c: Call) -> str:
    dtype = c.result().dtype
    a, b = c.as_dtype("self", dtype), c.as_dtype("other", dtype)
    return c.emit("Sqrt", c.emit("Add", c.emit("Mul", a, a), c.emit("Mul", b, b)))


# ---- two operands


def _common(c: Call, first: str = "self", second: str = "other") -> Any:
    """The dtype in which two operands meet."""
    operands = [c.example(n) if c.is_tensor(n) else c.get(n) for n in (first, second)]
    return _C.result_type(*operands)


def _scaled(c: Call, name: str, dtype: Any) -> str:
    found = c.as_dtype(name, dtype)
    alpha = c.get("alpha", 1)
    return found if alpha == 1 else c.emit("Mul", found, c.constant(alpha, dtype))


@translates("add", "sub", "rsub")
def _add(c: Call) -> str:
    dtype = c.result().dtype
    a, b = c.as_dtype("self", dtype), _scaled(c, "other", dtype)
    if dtype == _C.bool:
        return c.emit("Or", a, b)
    if c.op == "rsub":
        a, b = c.as_dtype("other", dtype), _scaled(c, "self", dtype)
    return c.emit("Add" if c.op == "add" else "Sub", a, b)


@translates("mul", "multiply", "maximum", "minimum")
def _mul(c: Call) -> str:
    dtype = c.result().dtype
    kind = {"maximum": "Max", "minimum": "Min"}.get(c.op, "Mul")
    if dtype == _C.bool:
        kind = "Or" if kind == "Max" else "And"
    return c.emit(kind, c.as_dtype("self", dtype), c.as_dtype("other", dtype))


@translates("div", "true_divide", "divide", "floor_divide")
def _div(c: Call) -> str:
    dtype = c.result().dtype
    a, b = c.as_dtype("self", dtype), c.as_dtype("other", dtype)
    rounding = "floor" if c.op == "floor_divide" else c.get("rounding_mode")
    if rounding == "floor" and is_integer(dtype):
        wide = _C.float64  # ONNX divides ints towards zero
        quotient = c.emit("Div", c.cast(a, dtype, wide), c.cast(b, dtype, wide))
        return c.cast(c.emit("Floor", quotient), wide, dtype)
    found = c.emit("Div", a, b)
    if rounding is None or is_integer(dtype):
        return found
    if rounding == "floor":
        return c.emit("Floor", found)
    return c.emit("Mul", c.emit("Sign", found), c.emit("Floor", c.emit("Abs", found)))


@translates("remainder", "fmod")
def _remainder(c: Call) -> str:
    dtype = c.result().dtype
    a, b = c.as_dtype("self", dtype), c.as_dtype("other", dtype)
    if c.op == "fmod":
        return c.emit("Mod", a, b, fmod=1)
    if is_integer(dtype):
        return c.emit("Mod", a, b)
    return c.emit("Sub", a, c.emit("Mul", c.emit("Floor", c.emit("Div", a, b)), b))


@translates("pow")
def _pow(c: Call) -> str:
    dtype = c.result().dtype
    return c.emit("Pow", c.as_dtype("self", dtype), c.as_dtype("exponent", dtype))


_COMPARISONS = {"eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                "ge": "GreaterOrEqual"}  # fmt: skip


@translates(*_COMPARISONS)
def _compare(c: Call) -> str:
    dtype = _common(c)
    if dtype == _C.bool and c.op not in ("eq", "ne"):
        dtype = _C.int32
    found = c.emit(_COMPARISONS[c.op], c.as_dtype("self", dtype), c.as_dtype("other", dtype))
    return c.emit("Not", found) if c.op == "ne" else found


@translates("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
            "__and__", "__or__", "__xor__")  # fmt: skip
def _logic(c: Call) -> str:
    kind = {"and": "And", "or": "Or", "xor": "Xor"}[c.op.strip("_").rpartition("_")[2]]
    dtype = _C.bool if c.op.startswith("logical") else c.result().dtype
    if dtype != _C.bool:
        kind = f"Bitwise{kind}"
    return c.emit(kind, c.as_dtype("self", dtype), c.as_dtype("other", dtype))


@translates("logical_not", "bitwise_not")
def _not(c: Call) -> str:
    if c.dtype("self") != _C.bool and c.op == "bitwise_not":
        return c.emit("BitwiseNot", c.tensor("self"))
    return c.emit("Not", c.as_dtype("self", _C.bool))


@translates("where")
def _where(c: Call) -> str:
    if "self" not in c.args:
        c.refuse("where(condition) gives as many results as there are true elements")
    dtype = c.result().dtype
    condition = c.as_dtype("condition", _C.bool)
    return c.emit("Where", condition, c.as_dtype("self", dtype), c.as_dtype("other", dtype))


@translates("masked_fill")
def _masked_fill(c: Call) -> str:
    dtype = c.result().dtype
    return c.emit("Where", c.as_dtype("mask", _C.bool), c.as_dtype("value", dtype),
                  c.tensor("self"))  # fmt: skip


@translates("addcmul", "addcdiv")
def _addcmul(c: Call) -> str:
    dtype = c.result().dtype
    kind = "Mul" if c.op == "addcmul" else "Div"
    product = c.emit(kind, c.as_dtype("tensor1", dtype), c.as_dtype("tensor2", dtype))
    if (value := c.get("value", 1)) != 1:
        product = c.emit("Mul", product, c.constant(value, dtype))
    return c.emit("Add", c.as_dtype("self", dtype), product)


@translates("lerp")
def _lerp(c: Call) -> str:
    dtype = c.result().dtype
    start, end = c.as_dtype("self", dtype), c.as_dtype("end", dtype)
    return c.emit(
        "Add", start, c.emit("Mul", c.as_dtype("weight", dtype), c.emit("Sub", end, start))
    )


# ---- dtypes

_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8",
    "bool": "bool",
}  # fmt: skip


@translates("to", "type_as", "_to_copy", *_CASTS)
def _to(c: Call) -> str:
    return c.cast(c.tensor("self"), c.dtype("self"), c.result().dtype)


@translates("clone", "contiguous", "detach", "alias", "view_as_real", "dropout", "requires_grad_",
            "lift_fresh", "positive", "resolve_conj", "resolve_neg")  # fmt: skip
def _same(c: Call) -> str:
    if c.op == "view_as_real":
        c.refuse("complex numbers are not written")
    if c.op == "dropout" and (c.get("train") or c.get("training")):
        c.refuse("dropout that drops; call eval() first")
    return c.tensor("self" if "self" in c.args else "input")
