"""Attention layers and transformers that run alike with PyTorch and with Rushlight.

Every function takes the library as its first argument. make_attention_oracle.py runs them with
PyTorch and records what they return; tests/nn/test_transformer.py compares.
"""

import math

import numpy as np

# name -> (options of the module, how it is called)
ATTENTION = {
    "self": ({}, {"kind": "self"}),
    "self_fast": ({}, {"kind": "self", "need_weights": False}),
    "self_batch_first": ({"batch_first": True}, {"kind": "self", "need_weights": False}),
    "self_no_bias": ({"bias": False}, {"kind": "self"}),
    "memory": ({}, {"kind": "memory", "need_weights": False}),
    "memory_batch_first": ({"batch_first": True}, {"kind": "memory"}),
    "three": ({}, {"kind": "three"}),
    "other_widths": ({"kdim": 3, "vdim": 5}, {"kind": "three"}),
    "other_widths_fast": (
        {"kdim": 3, "vdim": 5, "bias": False, "batch_first": True},
        {"kind": "three", "need_weights": False},
    ),
    "bias_kv": ({"add_bias_kv": True}, {"kind": "three", "padding": "bool"}),
    "zero_attn": ({"add_zero_attn": True}, {"kind": "self", "mask": "float"}),
    "both_added": (
        {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
        {"kind": "memory", "mask": "bool", "padding": "bool", "need_weights": False},
    ),
    "mask_bool": ({}, {"kind": "self", "mask": "bool"}),
    "mask_float_fast": ({}, {"kind": "three", "mask": "float", "need_weights": False}),
    "mask_3d": ({}, {"kind": "three", "mask": "bool", "mask_3d": True}),
    "mask_3d_fast": (
        {"batch_first": True},
        {"kind": "self", "mask": "float", "mask_3d": True, "need_weights": False},
    ),
    "padding_bool": ({}, {"kind": "self", "padding": "bool", "need_weights": False}),
    "padding_float": ({}, {"kind": "memory", "padding": "float"}),
    "mask_and_padding": (
        {"batch_first": True},
        {"kind": "three", "mask": "bool", "padding": "bool", "need_weights": False},
    ),
    "mixed_kinds": ({}, {"kind": "three", "mask": "float", "padding": "bool"}),
    "every_head": ({}, {"kind": "self", "average_attn_weights": False, "weights_grad": True}),
    "weights_grad": ({}, {"kind": "three", "mask": "bool", "weights_grad": True}),
    "causal": ({}, {"kind": "self", "mask": "causal", "is_causal": True, "need_weights": False}),
    "causal_weights": ({}, {"kind": "self", "mask": "causal", "is_causal": True}),
    "unbatched": ({}, {"kind": "three", "batch": None, "padding": "bool"}),
    "unbatched_fast": (
        {"batch_first": True},
        {"kind": "self", "batch": None, "mask": "bool", "mask_3d": True, "need_weights": False},
    ),
}

# name -> (options of the module, masks)
TRANSFORMERS = {
    "plain": ({}, {}),
    "batch_first": ({"batch_first": True, "activation": "gelu"}, {"tgt_mask": "float"}),
    "norm_first": ({"norm_first": True}, {"tgt_mask": "bool", "src_padding": True}),
    "no_bias": ({"bias": False, "layer_norm_eps": 0.01}, {"memory_mask": True}),
    "padded": ({"batch_first": True}, {"src_padding": True, "tgt_padding": True}),
    "unbatched": ({"norm_first": True}, {"batch": None, "src_mask": True, "tgt_mask": "float"}),
}


def _random(seed):
    """One source for both sides: the libraries' own numbers differ."""
    state = np.random.RandomState(seed)
    return lambda *shape: np.round(state.randn(*shape), 3)


def _tensor(lib, values, grad=False):
    out = lib.tensor(np.asarray(values))
    return out.requires_grad_() if grad else out


def _fill(lib, module, draw):
    with lib.no_grad():
        for _, p in sorted(module.named_parameters()):
            p.copy_(_tensor(lib, 0.5 * draw(*p.shape)))


def _hidden(draw, shape):
    """Which keys nobody looks at; the first one is always seen."""
    hidden = draw(*shape) > 0.5
    hidden[..., 0] = False
    return hidden


def _listed(t):
    return None if t is None else [float(f"{x:.10g}") for x in t.detach().reshape(-1).tolist()]


def _prints(lib, tensors, draw):
    """One number for each gradient that meets all of its elements."""
    out = []
    for t in tensors:
        if t is None:
            out.append(None)
            continue
        value = float((t * _tensor(lib, draw(*t.shape))).sum())
        assert math.isfinite(value)
        out.append(float(f"{value:.10g}"))
    return out


def attention(lib, name):
    """The output, the weights and the gradients of one case."""
    options, how = ATTENTION[name]
    draw = _random(len(name))
    heads, width, batch, queries = 2, 6, how.get("batch", 3), 4
    keys = queries if how["kind"] == "self" else 5
    module = lib.nn.MultiheadAttention(width, heads, dtype=lib.float64, **options)
    _fill(lib, module, draw)

    def made(length, features):
        if batch is None:
            return _tensor(lib, draw(length, features), True)
        first = options.get("batch_first", False)
        shape = (batch, length, features) if first else (length, batch, features)
        return _tensor(lib, draw(*shape), True)

    q = made(queries, width)
    k = q if how["kind"] == "self" else made(keys, options.get("kdim", width))
    v = made(keys, options.get("vdim", width)) if how["kind"] == "three" else k
    call = {n: how[n] for n in ("need_weights", "average_attn_weights", "is_causal") if n in how}
    if kind := how.get("mask"):
        shape = ((batch or 1) * heads, queries, keys) if how.get("mask_3d") else (queries, keys)
        hidden = np.triu(np.ones(shape, bool), 1) if kind == "causal" else _hidden(draw, shape)
        mask = hidden if kind != "float" else np.where(hidden, -np.inf, draw(*shape))
        call["attn_mask"] = _tensor(lib, mask)
    if kind := how.get("padding"):
        hidden = _hidden(draw, (keys,) if batch is None else (batch, keys))
        call["key_padding_mask"] = _tensor(
            lib, hidden if kind == "bool" else np.where(hidden, -np.inf, 0.25)
        )
    out, weights = module(q, k, v, **call)
    loss = (out * _tensor(lib, draw(*out.shape))).sum()
    if how.get("weights_grad"):
        loss = loss + (weights * _tensor(lib, draw(*weights.shape))).sum()
    loss.backward()
    leaves = [q, k, v, *(p for _, p in sorted(module.named_parameters()))]
    return {
        "out": _listed(out),
        "weights": _listed(weights),
        "shape": list(out.shape),
        "grads": _prints(lib, [x.grad for x in leaves], draw),
        "names": list(module.state_dict()),
    }


def transformer(lib, name):
    """The output, in training and evaluation, and the gradients of one case."""
    options, masks = TRANSFORMERS[name]
    draw = _random(len(name))
    batch, sources, targets, width = masks.get("batch", 2), 5, 3, 4
    module = lib.nn.Transformer(width, 2, 2, 1, 6, 0.0, dtype=lib.float64, **options)
    _fill(lib, module, draw)

    def made(length):
        if batch is None:
            return _tensor(lib, draw(length, width), True)
        shape = (batch, length, width) if options.get("batch_first") else (length, batch, width)
        return _tensor(lib, draw(*shape), True)

    src, tgt = made(sources), made(targets)
    call = {}
    if kind := masks.get("tgt_mask"):
        causal = module.generate_square_subsequent_mask(targets, dtype=lib.float64)
        call["tgt_mask"] = causal if kind == "float" else causal < 0
    if masks.get("src_mask"):
        call["src_mask"] = _tensor(lib, _hidden(draw, (sources, sources)))
    if masks.get("memory_mask"):
        call["memory_mask"] = _tensor(lib, draw(targets, sources))
    if masks.get("src_padding"):
        hidden = _tensor(lib, _hidden(draw, (batch, sources)))
        call["src_key_padding_mask"] = call["memory_key_padding_mask"] = hidden
    if masks.get("tgt_padding"):
        call["tgt_key_padding_mask"] = _tensor(lib, _hidden(draw, (batch, targets)))
    out = module(src, tgt, **call)
    (out * _tensor(lib, draw(*out.shape))).sum().backward()
    leaves = [src, tgt, *(p for _, p in sorted(module.named_parameters()))]
    return {
        "out": _listed(out),
        "grads": _prints(lib, [x.grad for x in leaves], draw),
        "names": list(module.state_dict()),
        "eval": _listed(module.eval()(src, tgt, **call)),
    }
