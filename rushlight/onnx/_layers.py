"""Convolutions, pools, norms, attention and recurrent layers."""

from __future__ import annotations

import math
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.onnx._writer import Call, translates


@translates("conv1d", "conv2d", "conv3d")
def _conv(c: Call) -> str:
    n = int(c.op[4])
    x, single = c.tensor("input"), c.rank("input") == n + 1
    if single:
        x = c.emit("Unsqueeze", x, c.constant([0]))
    padding: Any = c.args.get("padding", 0)
    if isinstance(padding, str):
        pads = None if padding == "same" else [0] * 2 * n
        kernel = c.example("weight").shape[2:]
        if pads is None:
            total = [d * (k - 1) for d, k in zip(_each(c, "dilation", n), kernel, strict=True)]
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = _each(c, "padding", n) * 2
    found = c.emit(
        "Conv", x, c.tensor("weight"), c.optional("bias"), strides=_each(c, "stride", n),
        pads=pads, dilations=_each(c, "dilation", n), group=c.get("groups", 1),
    )  # fmt: skip
    return c.emit("Squeeze", found, c.constant([0])) if single else found


def _each(c: Call, name: str, n: int, default: int = 1) -> list[int]:
    """One number per spatial dim."""
    found = c.ints(name) if c.has(name) else [default]
    return found * n if len(found) == 1 else found


@translates("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(c: Call) -> str:
    n = int(c.op[14])
    if c.rank("input") != n + 2:
        c.refuse("its input must have a batch dim")
    return c.emit(
        "ConvTranspose", c.tensor("input"), c.tensor("weight"), c.optional("bias"),
        strides=_each(c, "stride", n), pads=_each(c, "padding", n, 0) * 2,
        output_padding=_each(c, "output_padding", n, 0), dilations=_each(c, "dilation", n),
        group=c.get("groups", 1),
    )  # fmt: skip


# ---- pools


def _pooled(c: Call, n: int, kind: str, **attributes: Any) -> str:
    x, single = c.tensor("self"), c.rank("self") == n + 1
    if single:
        x = c.emit("Unsqueeze", x, c.constant([0]))
    kernel = _each(c, "kernel_size", n)
    strides = c.ints("stride") if c.has("stride") else []
    found = c.emit(
        kind, x, kernel_shape=kernel, strides=(strides * n if len(strides) == 1 else strides)
        or kernel, pads=_each(c, "padding", n, 0) * 2,
        ceil_mode=int(bool(c.get("ceil_mode", False))), **attributes,
    )  # fmt: skip
    return c.emit("Squeeze", found, c.constant([0])) if single else found


@translates("max_pool1d", "max_pool2d", "max_pool3d", "_max_pool1d", "_max_pool2d", "_max_pool3d",
            "_max_pool2d_with_indices", "max_pool2d_with_indices")  # fmt: skip
def _max_pool(c: Call) -> Any:
    n = int(c.op.lstrip("_")[8])
    if len(c.results) > 1 and c.used(1):
        c.refuse("indices of pools are not written")
    found = _pooled(c, n, "MaxPool", dilations=_each(c, "dilation", n))
    return found if len(c.results) == 1 else [found, ""]


@translates("avg_pool1d", "_avg_pool1d", "_avg_pool2d", "_avg_pool3d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Call) -> str:
    if c.has("divisor_override"):
        c.refuse("divisor_override is not written")
    include = int(bool(c.get("count_include_pad", True)))
    return _pooled(c, int(c.op.lstrip("_")[8]), "AveragePool", count_include_pad=include)


@translates("adaptive_avg_pool1d", "_adaptive_avg_pool1d", "_adaptive_avg_pool2d",
            "_adaptive_avg_pool3d", "_adaptive_max_pool1d", "_adaptive_max_pool2d",
            "_adaptive_max_pool3d")  # fmt: skip
def _adaptive(c: Call) -> Any:
    is_max = "max" in c.op
    n = int(c.op[-2])
    sizes = c.ints("output_size")
    sizes = sizes * n if len(sizes) == 1 else sizes
    spatial = c.shape("self")[-n:]
    if is_max and len(c.results) > 1 and c.used(1):
        c.refuse("indices of pools are not written")
    x = c.tensor("self")
    if all(size == 1 for size in sizes):
        dims = c.constant(list(range(c.rank("self") - n, c.rank("self"))))
        found = c.emit("ReduceMax" if is_max else "ReduceMean", x, dims, keepdims=1)
    else:
        if None in spatial or any(s % o for s, o in zip(spatial, sizes, strict=True)):  # type: ignore
            c.refuse(f"an adaptive pool from {spatial} to {sizes}: only sizes that divide, or 1, "
                     "are written")  # fmt: skip
        kernel = [s // o for s, o in zip(spatial, sizes, strict=True)]  # type: ignore[operator]
        kind = "MaxPool" if is_max else "AveragePool"
        found = c.emit(kind, x, kernel_shape=kernel, strides=kernel)
    return [found, ""] if len(c.results) > 1 else found


@translates("_resample", "_resample_image")
def _resample(c: Call) -> str:
    rank, result = c.rank("self"), c.result()
    mode = c.get("mode")
    onnx_mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear",
                 "trilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
                 "nearest-exact": "nearest"}.get(mode)  # fmt: skip
    if onnx_mode is None:
        c.refuse(f"the mode {mode!r} is not written")
    dims = [c.dim()] if c.op == "_resample" else list(range(2, rank))
    corners = "align_corners" if c.get("align_corners") else "half_pixel"
    if mode == "nearest":
        corners = "asymmetric"
    scales = c.args.get("scale", c.args.get("scales"))
    scales = scales if isinstance(scales, list) else [scales]
    before = c.example("self").shape
    known = all(c.result_shape()[d] is not None for d in dims)
    attributes: dict[str, Any] = {
        "mode": onnx_mode, "coordinate_transformation_mode": corners,
        "nearest_mode": "round_prefer_floor" if mode == "nearest-exact" else "floor",
        "cubic_coeff_a": -0.75,
    }  # fmt: skip
    if known:
        sizes = [result.shape[d] for d in dims]
        return c.emit("Resize", c.tensor("self"), None, None, c.constant(sizes), axes=dims,
                      **attributes)  # fmt: skip
    factors = [float(s) if s else result.shape[d] / before[d]
               for s, d in zip(scales, dims, strict=True)]  # fmt: skip
    name = c.constant(_C.tensor(factors, dtype=_C.float32))
    return c.emit("Resize", c.tensor("self"), None, name, axes=dims, **attributes)


# ---- norms


@translates("batch_norm")
def _batch_norm(c: Call) -> str:
    if not c.has("running_mean"):
        return _norm_of_batch(c)
    if c.get("training"):
        c.refuse("batch norm that keeps the statistics of the batch; call eval() first")
    like = c.example("running_mean")
    weight = c.optional("weight") or c.constant(_ones(like))
    bias = c.optional("bias") or c.constant(_ones(like) * 0)
    return c.emit("BatchNormalization", c.tensor("input"), weight, bias, c.tensor("running_mean"),
                  c.tensor("running_var"), epsilon=c.get("eps", 1e-5))  # fmt: skip


def _norm_of_batch(c: Call) -> str:
    """By mean and variance of the input itself, which nobody keeps (weight standardisation)."""
    x, rank, dtype = c.tensor("input"), c.rank("input"), c.dtype("input")
    axes = c.constant([d for d in range(rank) if d != 1])
    centered = c.emit("Sub", x, c.emit("ReduceMean", x, axes, keepdims=1))
    variance = c.emit("ReduceMean", c.emit("Mul", centered, centered), axes, keepdims=1)
    eps = c.constant(c.get("eps", 1e-5), dtype)
    found = c.emit("Div", centered, c.emit("Sqrt", c.emit("Add", variance, eps)))
    along = c.constant([1, -1, *[1] * (rank - 2)])
    if c.has("weight"):
        found = c.emit("Mul", found, c.emit("Reshape", c.tensor("weight"), along))
    if c.has("bias"):
        found = c.emit("Add", found, c.emit("Reshape", c.tensor("bias"), along))
    return found


def _ones(like: Tensor) -> Tensor:
    return _C.ones(list(like.shape), dtype=like.dtype)


@translates("layer_norm")
def _layer_norm(c: Call) -> str:
    shape = c.ints("normalized_shape")
    dtype = c.dtype("input")
    weight = c.optional("weight") or c.constant(_C.ones(shape, dtype=dtype))
    return c.emit("LayerNormalization", c.tensor("input"), weight, c.optional("bias"),
                  axis=-len(shape), epsilon=c.get("eps", 1e-5))  # fmt: skip


@translates("rms_norm")
def _rms_norm(c: Call) -> str:
    x, dtype = c.tensor("input"), c.dtype("input")
    n = len(c.ints("normalized_shape"))
    eps = c.get("eps")
    eps = _C.finfo(dtype).eps if eps is None else eps
    mean = c.emit("ReduceMean", c.emit("Mul", x, x), c.constant(list(range(-n, 0))), keepdims=1)
    scale = c.emit("Sqrt", c.emit("Add", mean, c.constant(eps, dtype)))
    found = c.emit("Div", x, scale)
    return c.emit("Mul", found, c.tensor("weight")) if c.has("weight") else found


@translates("group_norm", "instance_norm")
def _group_norm(c: Call) -> str:
    x, dtype, rank = c.tensor("input"), c.dtype("input"), c.rank("input")
    channels = c.example("input").shape[1]
    if c.op == "instance_norm" and not c.get("use_input_stats", True):
        c.refuse("instance norm with running statistics is not written")
    groups = channels if c.op == "instance_norm" else c.get("num_groups")
    # Each group is a channel of InstanceNormalization.
    flat = c.emit("Reshape", x, c.constant([0, groups, -1]))
    scale, shift = _C.ones([groups], dtype=dtype), _C.zeros([groups], dtype=dtype)
    found = c.emit("InstanceNormalization", flat, c.constant(scale), c.constant(shift),
                   epsilon=c.get("eps", 1e-5))  # fmt: skip
    found = c.emit("Reshape", found, c.emit("Shape", x))
    wide = c.constant([channels] + [1] * (rank - 2))
    for name, kind in (("weight", "Mul"), ("bias", "Add")):
        if c.has(name):
            found = c.emit(kind, found, c.emit("Reshape", c.tensor(name), wide))
    return found


@translates("softmax", "log_softmax")
def _softmax(c: Call) -> str:
    dtype = c.result().dtype
    kind = "Softmax" if c.op == "softmax" else "LogSoftmax"
    name = "self" if "self" in c.args else "input"
    return c.emit(kind, c.as_dtype(name, dtype), axis=c.dim(of=name))


@translates("embedding")
def _embedding(c: Call) -> str:
    return c.emit("Gather", c.tensor("weight"), c.tensor("indices"), axis=0)


# ---- attention


def _attend(c: Call, q: str, k: str, v: str, width: int, dtype: Any, lengths: Any) -> list[str]:
    """Output and weights. lengths: makes the numbers of queries and keys, for is_causal."""
    scale = c.get("scale")
    scale = 1 / math.sqrt(width) if scale is None else scale
    rank_order = _swapped(c, k)
    scores = c.emit("MatMul", q, rank_order)
    scores = c.emit("Mul", scores, c.constant(scale, dtype))
    if c.get("is_causal"):
        queries, keys = lengths()
        shape = c.w.int_tensor([queries, keys])
        one = c.w.proto(_C.tensor([1.0], dtype=dtype), "value")
        allowed = c.emit("Trilu", c.emit("ConstantOfShape", shape, value=one), upper=0)
        allowed = c.emit("Cast", allowed, to=9)
        lowest = c.constant(float("-inf"), dtype)
        scores = c.emit("Where", allowed, scores, lowest)
    name = "attn_mask" if "attn_mask" in c.args else "mask"
    if c.has(name):
        mask = c.tensor(name)
        if c.dtype(name) == _C.bool:
            scores = c.emit("Where", mask, scores, c.constant(float("-inf"), dtype))
        else:
            scores = c.emit("Add", scores, c.cast(mask, c.dtype(name), dtype))
    weights = c.emit("Softmax", scores, axis=-1)
    return [c.emit("MatMul", weights, v), weights]


def _swapped(c: Call, name: str) -> str:
    return c.emit("Transpose", name, perm=c.key_order)  # type: ignore[attr-defined]


@translates("scaled_dot_product_attention", "_attention_with_weights")
def _attention(c: Call) -> Any:
    if c.get("dropout_p", 0.0):
        c.refuse("attention with dropout; call eval() first")
    rank, dtype = c.rank("query"), c.dtype("query")
    order = list(range(rank))
    order[-1], order[-2] = order[-2], order[-1]
    c.key_order = order  # type: ignore[attr-defined]
    q, k, v = (c.tensor(name) for name in ("query", "key", "value"))
    if c.get("enable_gqa") and c.example("query").shape[-3] != c.example("key").shape[-3]:
        repeat = c.example("query").shape[-3] // c.example("key").shape[-3]
        k, v = (_repeated_heads(c, name, place, repeat)
                for name, place in ((k, "key"), (v, "value")))  # fmt: skip

    def lengths() -> tuple[int | str, int | str]:
        return c.size_of("query", rank - 2), c.size_of("key", rank - 2)

    out, weights = _attend(c, q, k, v, c.example("query").shape[-1], dtype, lengths)
    if c.op == "scaled_dot_product_attention":
        return out
    if c.get("average"):
        weights = c.emit("ReduceMean", weights, c.constant([1]), keepdims=0)
    return [out, weights]


def _repeated_heads(c: Call, name: str, place: str, repeat: int) -> str:
    rank = c.rank(place)
    heads = c.example(place).shape[-3]
    wide = c.emit("Unsqueeze", name, c.constant([rank - 2]))
    tiled = c.emit("Tile", wide, c.constant([1] * (rank - 2) + [repeat, 1, 1]))
    shape = [c.size_of(place, d) for d in range(rank - 3)] + [heads * repeat]
    shape += [c.size_of(place, rank - 2), c.example(place).shape[-1]]
    return c.emit("Reshape", tiled, c.w.int_tensor(shape))


@translates("_self_attention")
def _self_attention(c: Call) -> str:
    if c.get("dropout_p", 0.0):
        c.refuse("attention with dropout; call eval() first")
    heads, dtype = c.get("heads"), c.dtype("qkv")
    width = c.example("qkv").shape[-1] // 3
    batch_first = c.get("batch_first")
    first, second = c.size_of("qkv", 0), c.size_of("qkv", 1)
    shape = c.w.int_tensor([first, second, 3, heads, width // heads])
    apart = c.emit("Reshape", c.tensor("qkv"), shape)
    # To (3, batch, heads, length, width of a head).
    order = [2, 0, 3, 1, 4] if batch_first else [2, 1, 3, 0, 4]
    apart = c.emit("Transpose", apart, perm=order)
    q, k, v = (c.emit("Gather", apart, c.constant(i), axis=0) for i in range(3))
    c.key_order = [0, 1, 3, 2]  # type: ignore[attr-defined]
    length = second if batch_first else first
    out, _ = _attend(c, q, k, v, width // heads, dtype, lambda: (length, length))
    out = c.emit("Transpose", out, perm=[0, 2, 1, 3] if batch_first else [2, 0, 1, 3])
    return c.emit("Reshape", out, c.w.int_tensor([first, second, width]))


# ---- recurrent layers

_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}  # ours are i f g o and r z n


def _gates(c: Call, tensor: Tensor, kind: str) -> Tensor:
    order = _GATES.get(kind)
    if order is None:
        return tensor
    parts = tensor.detach().chunk(len(order), 0)
    return _C.cat([parts[i] for i in order], 0)


@translates("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(c: Call) -> list[str]:
    kind = c.op.partition("_")[0]
    if "input" not in c.args:
        c.refuse("packed sequences are not written")
    if c.get("train") and c.get("dropout", 0.0):
        c.refuse("dropout between the layers; call eval() first")
    layers, both = c.get("num_layers", 1), bool(c.get("bidirectional"))
    directions = 2 if both else 1
    per = 4 if c.get("has_biases", True) else 2
    params = [c.example(place) for place in c.args["params"]]
    if len(params) != layers * directions * per:
        c.refuse("projections (proj_size) are not written")
    if c.rank("input") != 3:
        c.refuse("its input must have a batch dim")
    x = c.tensor("input")
    if c.get("batch_first"):
        x = c.emit("Transpose", x, perm=[1, 0, 2])
    states = _initial(c, kind, directions)
    finals: list[list[str]] = []
    for layer in range(layers):
        at = layer * directions * per
        x, *last = _layer(c, kind, x, params[at : at + directions * per], per, states, layer)
        finals.append(last)
    if c.get("batch_first"):
        x = c.emit("Transpose", x, perm=[1, 0, 2])
    count = 2 if kind == "lstm" else 1
    joined = [
        finals[0][i] if layers == 1 else c.emit("Concat", *(f[i] for f in finals), axis=0)
        for i in range(count)
    ]
    return [x, *joined]


def _initial(c: Call, kind: str, directions: int) -> list[str]:
    """The given first states: hidden, and for an LSTM the cells."""
    given = c.args.get("hx")
    given = given if isinstance(given, list) else [] if given is None else [given]
    return [c.name_of(place) for place in given]


def _layer(
    c: Call, kind: str, x: str, params: list[Tensor], per: int, states: list[str], layer: int
) -> list[str]:
    directions = len(params) // per
    groups = [params[d * per : (d + 1) * per] for d in range(directions)]
    w = _C.stack([_gates(c, g[0], kind) for g in groups])
    r = _C.stack([_gates(c, g[1], kind) for g in groups])
    bias = None
    if per == 4:
        rows = [_C.cat([_gates(c, g[2], kind), _gates(c, g[3], kind)], 0) for g in groups]
        bias = c.constant(_C.stack(rows))
    first: list[str | None] = []
    for state in states:
        at, to = c.constant([layer * directions]), c.constant([(layer + 1) * directions])
        first.append(c.emit("Slice", state, at, to, c.constant([0])))
    while len(first) < (2 if kind == "lstm" else 1):
        first.append(None)
    attributes: dict[str, Any] = {
        "hidden_size": r.shape[-1], "direction": "bidirectional" if directions == 2 else "forward",
    }  # fmt: skip
    if kind == "gru":
        attributes["linear_before_reset"] = 1
    if kind == "rnn":
        attributes["activations"] = ["Tanh" if c.op.endswith("tanh") else "Relu"] * directions
    out = c.emit(
        kind.upper(), x, c.constant(w), c.constant(r), bias, None, *first,
        outputs=3 if kind == "lstm" else 2, **attributes,
    )  # fmt: skip
    # (length, directions, batch, hidden) to (length, batch, directions * hidden).
    y = c.emit("Transpose", out[0], perm=[0, 2, 1, 3])
    return [c.emit("Reshape", y, c.constant([0, 0, -1])), *out[1:]]
