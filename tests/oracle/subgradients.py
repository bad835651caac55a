"""Points where a function has a kink, a tie or a pole: PyTorch's choice of a gradient there.

Each case is (expression over `t`, the library, and the tensors x, y; x; y or None). The gradients
of the sum of the result, weighted by 1, 2, 3, ..., are recorded for x and y.
"""

INF, NAN = float("inf"), float("nan")
KINKS = [-1.0, -0.0, 0.0, 1.0, 2.0]
TIES = [2.0, 1.0, 2.0, 2.0, 0.0]
UNARY = [
    "abs", "sign", "sgn", "relu", "floor", "ceil", "round", "trunc", "frac", "sqrt", "rsqrt",
    "square", "reciprocal", "log", "log1p", "asin", "acos", "acosh", "atanh", "sinc", "logit",
    "erfinv", "lgamma", "i0", "nan_to_num", "sigmoid", "tanh", "angle", "positive",
    "deg2rad", "exp2", "log2", "log10",
]  # fmt: skip
ACTIVATIONS = [
    "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "gelu", "softplus",
    "logsigmoid", "hardsigmoid", "hardswish", "softsign", "tanhshrink", "softshrink", "hardshrink",
]  # fmt: skip
EDGES = [-3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0]

CASES = []
CASES += [(f"t.{n}(x)", KINKS, None) for n in UNARY]
CASES += [(f"t.nn.functional.{n}(x)", EDGES, None) for n in ACTIVATIONS]
CASES += [
    (f"t.{n}(x, y)", TIES, [2.0, 2.0, 2.0, 1.0, 0.0])
    for n in ("maximum", "minimum", "fmax", "fmin", "max", "min", "atan2", "hypot", "copysign",
              "xlogy", "fmod", "remainder", "logaddexp", "dist")
]  # fmt: skip
CASES += [("t.atan2(x, y)", [0.0, 0.0], [0.0, -1.0]), ("t.hypot(x, y)", [0.0, 0.0], [0.0, 1.0])]
CASES += [("t.fmax(x, y)", [NAN, 1.0, NAN], [1.0, NAN, NAN])]
CASES += [("t.maximum(x, y)", [NAN, 1.0, NAN], [1.0, NAN, NAN])]
CASES += [
    (f"t.pow(x, {e})", [0.0, 1.0, 2.0], None) for e in (0, 0.5, 1, 2, 3, -1)
] + [("t.pow(x, y)", [0.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0]),
     ("t.pow(2.0, x)", [0.0, 1.0], None), ("t.pow(0.0, x)", [0.0, 1.0, 2.0], None),
     ("t.xlogy(x, y)", [0.0, 0.0, 1.0], [0.0, 1.0, 2.0])]  # fmt: skip
CASES += [
    (f"t.clamp(x, {a})", [-1.0, 0.0, 0.5, 1.0, 2.0], None)
    for a in ("0, 1", "min=0", "max=1", "1, 0")
]
CASES += [("t.clamp(x, y, y + 1)", [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0])]
CASES += [("t.clamp(x, y)", [0.0, 1.0, 2.0], [1.0, 1.0, 1.0])]
CASES += [("t.threshold(x, 0.0, 5.0)", KINKS, None), ("t.prelu(x, y)", KINKS, [0.25])]
CASES += [
    (f"x.{n}()", TIES, None)
    for n in ("max", "min", "amax", "amin", "median", "nanmedian", "prod", "std", "var", "norm",
              "sum", "mean")
]  # fmt: skip
CASES += [
    (f"x.{n}", TIES, None)
    for n in ("max(0).values", "min(0).values", "amax(0)", "amin(0)", "median(0).values",
              "nanmedian(0).values", "mode(0).values", "kthvalue(2, 0).values",
              "topk(2, largest=False).values",
              "sort().values", "sort(descending=True).values", "msort()", "cummax(0).values",
              "cummin(0).values", "cumprod(0)", "cumsum(0)", "logcumsumexp(0)", "logsumexp(0)",
              "softmax(0)", "log_softmax(0)", "aminmax().max", "aminmax().min", "quantile(0.5)",
              "quantile(0.3)")
]  # fmt: skip
CASES += [("x.prod()", z, None) for z in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0])]
CASES += [("x.cumprod(0)", z, None) for z in ([2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 1.0])]
CASES += [
    (f"t.linalg.vector_norm(x, {p})", z, None)
    for p in (0, 0.5, 1, 2, 3, "float('inf')", "float('-inf')")
    for z in ([0.0, 0.0], [2.0, -2.0, 0.0])
]
CASES += [(f"x.norm({p})", [0.0, 0.0, 0.0], None) for p in (1, 2, 3)]
CASES += [("t.dist(x, y)", [1.0, 2.0], [1.0, 2.0]), ("x.std()", [1.0, 1.0, 1.0], None)]
CASES += [("x.std(unbiased=False)", [3.0], None), ("x.logsumexp(0)", [-INF, -INF], None)]
CASES += [("t.softmax(x, 0)", [-INF, 0.0], None), ("t.where(x > 0, x, x * 0)", KINKS, None)]
CASES += [("t.scatter_reduce(x, 0, t.tensor([0, 0, 1, 1, 1]), y, 'amax')", TIES, TIES)]
CASES += [("t.scatter_reduce(x, 0, t.tensor([0, 0, 1, 1, 1]), y, 'amin')", TIES, TIES)]
CASES += [
    (
        "t.scatter_reduce(x, 0, t.tensor([0, 0, 1, 1, 1]), y, 'prod')",
        [1.0, 0.0, 2.0, 3.0, 4.0],
        [0.0, 2.0, 0.0, 0.0, 1.0],
    )
]
COMPLEX = [
    (f"t.{n}(x)", [0j, 1j, -1 + 0j, 2 - 1j], None)
    for n in ("abs", "sgn", "angle", "sqrt", "log", "reciprocal", "square")
]
CASES += COMPLEX


def name_of(case):
    return f"{case[0]} at {case[1]}" + ("" if case[2] is None else f", {case[2]}")


def gradients(t, case):
    """[gradient of x, of y]: nested lists of numbers as text, or None where there is none."""
    text, x, y = case
    dtype = t.complex128 if any(isinstance(v, complex) for v in x) else t.float64
    tensors = [None if v is None else t.tensor(v, dtype=dtype).requires_grad_() for v in (x, y)]
    out = eval(text, {"t": t, "x": tensors[0], "y": tensors[1], "float": float})
    weights = t.arange(1, out.numel() + 1).reshape(out.shape).to(out.dtype)
    free = [v for v in tensors if v is not None]
    grads = t.autograd.grad(out, free, weights, allow_unused=True)
    return [None if g is None else [repr(v) for v in (g + 0).reshape(-1).tolist()] for g in grads]
