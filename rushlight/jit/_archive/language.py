"""The names that code of archives uses: operators of `torch.`, `ops.prim.`, casts."""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

from rushlight import _C
from rushlight.jit._archive.casts import (
    annotate,
    get_attribute,
    unchecked_cast,
    uninitialized,
)
from rushlight.jit._archive.objects import Items, is_plain_class
from rushlight.jit._archive.types import named_tuple_class
from rushlight.jit._script import builtin
from rushlight.jit._script import types as t
from rushlight.jit._script.calls import NoFit, overloads
from rushlight.jit._script.errors import Refusal, refuse
from rushlight.jit._script.expr import Written
from rushlight.jit._script.values import NONE, Val, static, type_of

__all__ = ["scope_of", "setting"]

# Numbers that stand for dtypes, layouts and memory formats in the code.
_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
    "qint8 quint8 qint32 bfloat16"
).split()
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")

_METHODS = frozenset(
    """append extend insert pop remove clear copy reverse sort index count keys values items get
    update setdefault join split strip lstrip rstrip upper lower replace startswith endswith find
    splitlines isdigit isalpha title capitalize""".split()
)


def setting(kind, v):
    """A number as the dtype, layout or memory format that it stands for."""
    if not (v.known and isinstance(v.obj, int) and not isinstance(v.obj, bool)):
        return v
    names = {"DType": _DTYPES, "MemoryFormat": _FORMATS, "Layout": ("strided",)}[kind]
    name = names[v.obj] if 0 <= v.obj < len(names) else None
    found = getattr(_C, name, None) if name else None
    if found is None:
        refuse(f"the number {v.obj} stands for no {kind.lower()} that is here")
    return static(found)


def _has_tensor(v):
    if v.items is not None:
        return any(map(_has_tensor, v.items))
    found = type_of(v)
    return found is not None and ("Tensor" in str(found))


class Operator(Written):
    """torch.name: an operator of the table, or what TorchScript does with numbers, text, lists."""

    def __init__(self, name: str) -> None:
        self.name, self.__name__ = name, f"torch.{name}"
        super().__init__(self._call)

    def _call(self, c, *args, **kwargs):
        special = _SPECIAL.get(self.name)
        if special is not None:
            return special(c, *args, **kwargs)
        if args and self.name in _METHODS:
            kind = type_of(args[0])
            if kind is not None and kind.kind in ("str", "List", "Dict"):
                owner = args[0] if args[0].type is not None else c.as_val(args[0])
                return c.call_method(owner, self.name, list(args[1:]), kwargs)
        if not any(map(_has_tensor, (*args, *kwargs.values()))):
            found = _plain(c, self.name, args, kwargs)
            if found is not None:
                return found
        return _op(c, self.name, list(args), kwargs)


def _op(c, name, args, kwargs):
    rows = overloads(name) if name.isidentifier() else []
    if not rows:
        function = _function(name)
        if function is None:
            return unknown(c, f"torch.{name}")
        return c.program.call_function(c, function, args, kwargs)
    reasons: list[str] = []
    forms = [form for row in rows if (form := _form(row, args, kwargs, reasons)) is not None]
    for loose in (False, True):
        for row, given, named in forms:
            mark, out = len(c.locals), list(c.out)
            try:
                bound = c.bound(row, given, named, False, loose)
            except (NoFit, Refusal) as why:
                del c.locals[mark:]
                c.out[:] = out
                reasons.append(str(why))
                continue
            return c.called_op(name, row, bound)
    refuse(f"torch.{name}: {reasons[-1] if reasons else 'no form of it fits'}")


def _form(row, args, kwargs, reasons):
    """(row, arguments by position, by name) for one overload; None where there are too many."""
    specs = row[6]
    if len(args) > len(specs):
        reasons.append(f"it takes {len(specs)} arguments")
        return None
    given, named, kinds = [], dict(kwargs), {s[0]: s[1] for s in specs}
    for v, spec in zip(args, specs, strict=False):
        v = setting(spec[1], v) if spec[1] in ("DType", "MemoryFormat", "Layout") else v
        if spec[3]:  # by name only
            named[spec[0]] = v
        else:
            given.append(v)
    for key, v in list(named.items()):
        if kinds.get(key) in ("DType", "MemoryFormat", "Layout"):
            named[key] = setting(kinds[key], v)
        elif key in ("layout", "pin_memory", "non_blocking") and key not in kinds and v.known:
            del named[key]
    return row, given, named


def unknown(c: Any, name: str) -> Val:
    """An operator that is not known raises where the program reaches it."""
    text = f"the operator {name} is not known here"
    raised = {"raise": "NotImplementedError", "message": {"is": text}}
    c.emit(**{"if": {"is": True}, "then": [raised], "else": []})
    return c.builtin("tensor", static(0), NONE, NONE, static(False))


def _function(name):
    """A function of nn.functional, whose source is compiled in, or None."""
    from rushlight.nn import functional

    found = getattr(functional, name, None)
    return found if isinstance(found, FunctionType) else None


def _plain(c, name, args, kwargs):
    """Numbers, text, lists and dicts; None where it is none of these."""
    functions = {
        "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "exp": math.exp,
        "log": math.log, "log2": math.log2, "round": round, "abs": abs, "Int": int, "Float": float,
        "Bool": bool, "str": str, "sum": sum, "sorted": sorted, "any": any, "all": all,
    }  # fmt: skip
    if not args:
        return None
    if name in functions:
        handler = builtin.find(functions[name])
        if handler is not None:
            return handler(c, *args)
    if name in ("min", "max"):
        return builtin.find(min if name == "min" else max)(c, *args)
    return None


# Names with a meaning of their own ----------------------------------------------------------------


def _len(c, v):
    return builtin.find(len)(c, v)


def _size(c, v, dim=None):
    return c.builtin("shape", v) if dim is None else c.builtin("size", v, dim)


def _dim(c, v):
    return c.builtin("dim", v)


def _format(c, text, *args):
    return c.format_method(text, list(args), {})


def _set_item(c, box, key, v):
    box = box if box.type is not None else c.as_val(box)
    if box.type.kind == "Dict":
        return c.builtin("set_key", box, key, v)
    return c.builtin("set", box, key, v)


def _convolution(c, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                 *settings):  # fmt: skip
    """What traces have: all kinds in one."""
    if not (transposed.known and padding.known):
        refuse("torch._convolution: its form is not known before the program runs")
    n = len(padding.obj)
    if transposed.obj:
        return c.op(f"conv_transpose{n}d", x, weight, bias, stride, padding, output_padding,
                    groups, dilation)  # fmt: skip
    return c.op(f"conv{n}d", x, weight, bias, stride, padding, dilation, groups)


def _slice(c, v, *args):
    """Of a tensor (dim, start, end, step), or of a list or a string."""
    if v.type == t.TENSOR:
        dim, start, end, step = (args + (static(0), NONE, NONE, static(1))[len(args) :])[:4]
        return c.op("slice", v, dim, start, end, step)
    start, end, step = (args + (NONE, NONE, static(1))[len(args) :])[:3]
    v = v if v.type is not None else c.as_val(v)
    return c.builtin("slice_str" if v.type == t.STR else "slice_list", v, start, end, step)


def _tensor(c, value, dtype=NONE, device=NONE, requires_grad=None):
    return c.builtin("tensor", value, setting("DType", dtype), device,
                     static(False) if requires_grad is None else requires_grad)  # fmt: skip


def _to(c, v, *args, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=None,
        copy=None, memory_format=None):  # fmt: skip
    """x.to in its forms: a dtype, a device, both, or another tensor; flags at the end."""
    given: dict[str, Any] = {"dtype": dtype, "device": device}
    for a in args:
        kind = type_of(a)
        if kind == t.TENSOR:
            given["dtype"], given["device"] = c.builtin("dtype", a), c.builtin("device", a)
        elif kind == t.DEVICE or kind == t.STR:
            given["device"] = a
        elif kind == t.DTYPE or (kind == t.INT and given["dtype"] is None):
            given["dtype"] = setting("DType", a)
    if given["dtype"] is not None:
        given["dtype"] = setting("DType", given["dtype"])
    named = {k: x for k, x in given.items() if x is not None and not x.is_none()}
    if not named:
        return v
    return c.tensor_method(v, "to", [], named)


def _zeros_like(name):
    def call(c, v, dtype=NONE, layout=NONE, device=NONE, pin_memory=NONE, memory_format=NONE):
        return c.op(name, v, dtype=setting("DType", dtype), device=device)

    return call


def _index(c, v, indices):
    return c.op("index", v, indices)


def _numel(c, v):
    return c.builtin("numel", v)


def _copy(c, v):
    return v


def _expand_as(c, v, other):
    return c.op("expand", v, c.builtin("shape", other))


def _list(c, v):
    return builtin.find(list)(c, v) if v.type is None or v.type.kind != "List" else (
        c.builtin("copy", v))  # fmt: skip


def _written(name):
    """A function of attention.py in the place of an operator."""

    def call(c, *args, **kwargs):
        from rushlight.jit._archive import attention

        return c.program.call_function(c, getattr(attention, name), list(args), kwargs)

    return call


def _functional(name):
    """A function of nn.functional in the place of an operator."""

    def call(c, *args, **kwargs):
        return c.program.call_function(c, _function(name), list(args), kwargs)

    return call


def _reduction(v):
    return static(("none", "mean", "sum")[v.obj]) if v.known else v


def _cross_entropy(c, x, target, weight=NONE, reduction=None, ignore_index=None, smoothing=None):
    named = {"weight": weight, "ignore_index": ignore_index, "label_smoothing": smoothing}
    named["reduction"] = None if reduction is None else _reduction(reduction)
    given = {k: v for k, v in named.items() if v is not None}
    return _functional("cross_entropy")(c, x, target, **given)


def _nll_loss(c, x, target, weight=NONE, reduction=None, ignore_index=None):
    named = {"weight": weight, "ignore_index": ignore_index}
    named["reduction"] = None if reduction is None else _reduction(reduction)
    given = {k: v for k, v in named.items() if v is not None}
    return _functional("nll_loss")(c, x, target, **given)


def _loss(name):
    def call(c, x, target, reduction=None):
        named = {} if reduction is None else {"reduction": _reduction(reduction)}
        return _functional(name)(c, x, target, **named)

    return call


def _upsample(mode, has_corners):
    def call(c, x, size, *rest):
        corners, scales = (rest[0], rest[1:]) if has_corners else (NONE, rest)
        named = {"mode": static(mode), "align_corners": corners}
        scale = scales[0] if scales else NONE
        named["size" if scale.is_none() or not size.is_none() else "scale_factor"] = (
            scale if size.is_none() else size
        )
        return _functional("interpolate")(c, x, **named)

    return call


def _derive_index(c, index, start, step):
    return c.binary("Add", start, c.binary("Mult", index, step))


def _einsum(c, text, tensors, path=NONE):
    return c.op("_einsum", text, tensors)


_SPECIAL: dict[str, Any] = {
    # Nothing that a program computes depends on who else casts; its operators follow autocast.
    "is_autocast_enabled": lambda c, *args: static(False),
    "is_autocast_cpu_enabled": lambda c, *args: static(False),
    "_native_multi_head_attention": _written("native_multi_head_attention"),
    "_transformer_encoder_layer_fwd": _written("transformer_encoder_layer_fwd"),
    "is_grad_enabled": lambda c: c.builtin("is_grad_enabled"),
    "len": _len, "size": _size, "dim": _dim, "format": _format, "_set_item": _set_item,
    "_convolution": _convolution, "slice": _slice, "tensor": _tensor, "to": _to, "numel": _numel,
    "list": _list, "zeros_like": _zeros_like("zeros_like"), "ones_like": _zeros_like("ones_like"),
    "empty_like": _zeros_like("empty_like"), "rand_like": _zeros_like("rand_like"),
    "randn_like": _zeros_like("randn_like"), "lift_fresh": _copy, "alias": _copy,
    "expand_as": _expand_as, "einsum": _einsum, "__derive_index": _derive_index,
    "__range_length": lambda c, a, b, step: c.builtin("range_length", a, b, step),
    "cross_entropy_loss": _cross_entropy, "nll_loss": _nll_loss, "nll_loss_nd": _nll_loss,
    "mse_loss": _loss("mse_loss"), "l1_loss": _loss("l1_loss"),
    "upsample_nearest1d": _upsample("nearest", False),
    "upsample_nearest2d": _upsample("nearest", False),
    "upsample_nearest3d": _upsample("nearest", False),
    "upsample_linear1d": _upsample("linear", True),
    "upsample_bilinear2d": _upsample("bilinear", True),
    "upsample_bicubic2d": _upsample("bicubic", True),
    "upsample_trilinear3d": _upsample("trilinear", True),
    "detach": lambda c, v: c.op("detach", v),
    "NumToTensor": lambda c, v: v,
    "ScalarImplicit": lambda c, v: c.builtin("number_tensor", v),
    "is_floating_point": lambda c, v: c.builtin("is_floating_point", v),
    "is_complex": lambda c, v: c.builtin("is_complex", v),
    "item": lambda c, v: c.builtin("number_tensor", v),
    "warn": lambda c, *args, **kwargs: NONE,
    "Int": lambda c, v: builtin.find(int)(c, v),
    "Float": lambda c, v: builtin.find(float)(c, v),
    "Bool": lambda c, v: builtin.find(bool)(c, v),
    "device": lambda c, v: c.make_device(v),
}  # fmt: skip


# ops.prim and its like ----------------------------------------------------------------------------

_PRIM: dict[str, Any] = {
    "dtype": lambda c, v: c.builtin("dtype", v),
    "device": lambda c, v: c.builtin("device", v),
    "layout": lambda c, v: c.builtin("layout", v),
    "requires_grad": lambda c, v: c.builtin("requires_grad", v),
    "is_cuda": lambda c, v: c.builtin("is_cuda", v),
    "is_cpu": lambda c, v: c.builtin("is_cpu", v),
    "is_meta": lambda c, v: c.builtin("is_meta", v),
    "is_nested": lambda c, v: static(False),
    "is_sparse": lambda c, v: static(False),
    "is_quantized": lambda c, v: static(False),
    "is_mkldnn": lambda c, v: static(False),
    "is_xpu": lambda c, v: static(False),
    "min": lambda c, *args: builtin.find(min)(c, *args),
    "max": lambda c, *args: builtin.find(max)(c, *args),
    "abs": lambda c, v: builtin.find(abs)(c, v),
    "NumToTensor": lambda c, v: c.builtin("tensor", v, NONE, NONE, static(False)),
    "data": lambda c, v: c.op("detach", v),
    "Print": lambda c, *args: builtin.find(print)(c, *args),
    "type": lambda c, v: c.builtin("device_type", v),
}  # fmt: skip


class _Table:
    """A namespace whose names are handlers."""

    def __init__(self, table, what):
        self._table, self._what = table, what

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__") and name not in self._table:
            raise AttributeError(name)
        handler = self._table.get(name)
        return Written(handler if handler is not None else _unknown(f"{self._what}.{name}"))


def _unknown(name):
    return lambda c, *args, **kwargs: unknown(c, name)


class _Torch:
    def __getattr__(self, name):
        return Operator(name)


class _Ops:
    """ops.prim, ops.aten, and operators of users (ops.torchvision.nms)."""

    prim = _Table(_PRIM, "ops.prim")
    aten = _Torch()

    def __getattr__(self, namespace):
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        return _Users(namespace)


class _Users:
    def __init__(self, namespace):
        self._namespace = namespace

    def __getattr__(self, name):
        full = f"{self._namespace}::{name}"

        def call(c, *args, **kwargs):
            rows = overloads(full)
            if not rows:
                return unknown(c, full)
            return c.call_op(full, rows, list(args), kwargs)

        return Written(call)


class _Names:
    """__torch__.a.b.c: functions and classes of the archive."""

    def __init__(self, program, path):
        self._program, self._path = program, path

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full = f"{self._path}.{name}"
        code = self._program.code_of
        found = code.find(full)
        if found is None:
            return _Names(self._program, full)
        if isinstance(found, Exception):
            raise found
        if is_plain_class(found):
            return Written(lambda c, *args: self._program.make_object(c, found, args))
        if getattr(found, "base", None) == "Enum":
            return Items(found)
        if named_tuple_class(full, code) is not None:
            return Written(lambda c, *args: self._program.make_tuple(c, full, args))
        program = self._program
        ours = _function(name) if "torch.nn.functional" in self._path else None
        return Written(
            lambda c, *args, **kwargs: program.call_archived(c, found, args, kwargs, ours)
        )


class _Constants:
    """CONSTANTS.c0 and so on."""

    def __init__(self, constants):
        for i, value in enumerate(constants):
            setattr(self, f"c{i}", value)


def scope_of(program: Any, constants: list[Any]) -> dict[str, Any]:
    """The names around every function of an archive."""
    return {
        "torch": _Torch(), "ops": _Ops(), "__torch__": _Names(program, "__torch__"),
        "CONSTANTS": _Constants(constants), "annotate": Written(annotate),
        "unchecked_cast": Written(unchecked_cast), "uninitialized": Written(uninitialized),
        "getattr": Written(get_attribute), "inf": math.inf, "nan": math.nan,
    }  # fmt: skip
