"""Methods and attributes of tensors, strings, lists, dicts."""

from __future__ import annotations

import inspect

from rushlight import _C
from rushlight.jit._script import types as t
from rushlight.jit._script.calls import Limits, overloads
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.objects import Objects
from rushlight.jit._script.values import Listing, Val, describe, static

_ASKS = {  # methods of tensors without arguments, that are builtins
    "dim": "dim", "ndimension": "dim", "numel": "numel", "nelement": "numel",
    "element_size": "element_size", "storage_offset": "storage_offset",
    "is_floating_point": "is_floating_point", "is_complex": "is_complex", "item": "number_tensor",
}  # fmt: skip
_ATTRIBUTES = {
    "shape": "shape", "dtype": "dtype", "device": "device", "ndim": "dim", "layout": "layout",
    "requires_grad": "requires_grad", "is_cuda": "is_cuda", "is_cpu": "is_cpu",
    "is_meta": "is_meta", "itemsize": "element_size",
}  # fmt: skip
# Names, defaults and builtins of methods; a default of None is None.
_STR = {
    "upper": (), "lower": (), "title": (), "capitalize": (), "isdigit": (), "isalpha": (),
    "isalnum": (), "isspace": (), "isupper": (), "islower": (), "splitlines": (),
    "strip": (None,), "lstrip": (None,), "rstrip": (None,), "join": (..., ), "startswith": (...,),
    "endswith": (...,), "find": (...,), "rfind": (...,), "count": (...,), "zfill": (...,),
    "split": (None, -1), "replace": (..., ..., -1), "ljust": (..., " "), "rjust": (..., " "),
    "center": (..., " "),
}  # fmt: skip
_LIST = {
    "append": (...,), "extend": (...,), "insert": (..., ...), "pop": (-1,), "remove": (...,),
    "clear": (), "copy": (), "reverse": (), "index": (...,), "count": (...,),
}  # fmt: skip
_DICT = {
    "keys": (), "values": (), "items": (), "update": (...,), "clear": (), "copy": (),
    "setdefault": (..., ...),
}  # fmt: skip
_RENAMED = {
    ("str", "count"): "count_str", ("list", "index"): "index_list", ("list", "count"): "count_list",
    ("dict", "clear"): "clear_dict", ("dict", "copy"): "copy_dict",
}  # fmt: skip

_CHANGES = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add".split()
)
_TRUE, _CUDA = static(True), static("cuda")
_WITHOUT = {  # methods of tensors, and why programs have none of them
    **dict.fromkeys(
        "to_sparse to_sparse_csr to_sparse_csc to_sparse_coo to_sparse_bsr to_sparse_bsc".split(),
        "they have dense tensors only; make the sparse one outside",
    ),
    **dict.fromkeys(
        "untyped_storage storage data_ptr share_memory_ numpy".split(),
        "they do not look at the memory of tensors; leave it to Python with @jit.ignore",
    ),
    **dict.fromkeys("register_hook retain_grad".split(), "gradients are asked for outside of them"),
}


class Methods(Objects):
    """Attributes of values, and calls of their methods."""

    def attribute(self, v, name):
        """v.name"""
        if v.fields and name in v.fields:
            return v.items[v.fields.index(name)]
        if v.type is None or (v.known and v.type in (t.DTYPE,)):
            return self.static_attribute(v, name)
        if v.type == t.TENSOR:
            return self.tensor_attribute(v, name)
        if v.type.kind == "Object":
            return self.object_attribute(v, name)
        if v.type.fields and name in v.type.fields:
            return self.tuple_item(v, v.type.fields.index(name))
        if v.type == t.DEVICE and name in ("type", "index"):
            return static(getattr(v.obj, name)) if v.known else self.builtin(f"device_{name}", v)
        if v.type == t.DTYPE and name in ("is_floating_point", "is_complex"):
            return self.builtin(name.replace("_point", "") + "_dtype", v)
        if v.type.optional and self.source.library:
            return self.attribute(self.narrowed(v, t.without(v.type, (t.NONE,))), name)
        if v.type.optional:
            refuse(
                f"{v.type} may be None and has no '{name}'", "check it first: `if x is not None:`"
            )
        known = {"str": str, "List": list, "Dict": dict}.get(v.type.kind)
        if (known and hasattr(known, name)) or (v.type.fields and name in ("_asdict", "_replace")):
            method = Val(obj=name)
            method.owner = v
            return method
        if v.type == t.List(t.INT) and name == "numel":
            method = Val(obj=name)
            method.owner = v
            return method
        refuse(f"{v.type} has no attribute '{name}'")

    def static_attribute(self, v, name):
        from rushlight.nn import Module

        if v.items is not None:
            if name in ("append", "extend", "index", "count", "insert", "pop"):
                return self.attribute(self.as_val(v), name)
            refuse(f"{describe(v)} has no attribute '{name}'")
        if isinstance(v.obj, Module):
            return self.program.module_attribute(v.obj, name)
        if isinstance(v.obj, Limits):
            return v.obj.value(self, name)
        if isinstance(v.obj, dict) and v.display == "dict":
            return self.attribute(self.as_val(v, t.Dict(t.STR, t.TENSOR)), name)
        if not hasattr(v.obj, name):
            refuse(f"{describe(v)} has no attribute '{name}'")
        if isinstance(v.obj, _C.Tensor):
            return self.tensor_attribute(self.lifted(v.obj), name)
        found = getattr(v.obj, name)
        if isinstance(found, list | dict) and not found:
            declared = t.declared_in_init(type(v.obj), name)
            if declared is not None:
                return self.as_val(static(found), declared)
        if isinstance(v.obj, tuple | list | dict | str) and callable(found):
            method = Val(obj=name)
            method.owner = v
            return method
        return self.lifted(found)

    def tensor_attribute(self, v, name):
        if name in _ATTRIBUTES:
            return self.builtin(_ATTRIBUTES[name], v)
        if name in ("T", "mT", "H", "mH"):
            turned = (
                self.op("t", v)
                if name in ("T", "H")
                else self.op("transpose", v, static(-2), static(-1))
            )
            return self.op("conj", turned) if "H" in name else turned
        if name in ("real", "imag"):
            return self.op(name, v)
        if name == "data":
            return self.op("detach", v)
        if name == "is_sparse":
            return static(False)
        if name in ("grad", "grad_fn"):
            refuse(f"the attribute '{name}' of a tensor is not there in programs")
        if not hasattr(_C.Tensor, name):
            refuse(f"Tensor has no attribute '{name}'")
        method = Val(obj=name)
        method.owner = v
        return method

    def tuple_item(self, v, k):
        return self.result(v.type.items[k], do="item", args=[v.operand, {"is": k}])

    # Calls ----------------------------------------------------------------------------------------

    def call_method(self, owner, name, args, kwargs):
        if owner.known and isinstance(owner.obj, str) and name != "format":
            if all(a.known and a.type is not None for a in args) and not kwargs:
                return static(getattr(owner.obj, name)(*(a.obj for a in args)))
        if owner.type is None:
            return self.static_method(owner, name, args, kwargs)
        if owner.type == t.TENSOR:
            return self.tensor_method(owner, name, args, kwargs)
        if owner.type == t.STR and name == "format":
            return self.format_method(owner, args, kwargs)
        if owner.type.fields:
            return self.named_method(owner, name, kwargs)
        table, kind = {"str": (_STR, "str"), "List": (_LIST, "list"), "Dict": (_DICT, "dict")}[
            owner.type.kind
        ]
        if kind == "list" and name == "sort":
            return self.builtin("sort", owner, kwargs.get("reverse", static(False)))
        if kind == "list" and name == "numel":
            refuse("numel() of a shape is not there in programs", "multiply the sizes")
        if kind == "dict" and name in ("get", "pop"):
            return self.dict_method(owner, name, args)
        if name not in table and kind == "str":
            from rushlight.jit._script.text import METHODS

            if name in METHODS:
                return self.program.call_function(self, METHODS[name], [owner, *args], kwargs)
        if name not in table:
            refuse(f"the method '{name}' of {owner.type} is not there in programs")
        defaults = table[name]
        if kwargs:
            names = {"split": ("sep", "maxsplit"), "replace": ("old", "new", "count")}.get(name, ())
            for key, v in kwargs.items():
                if key not in names:
                    refuse(f"{name}() has no argument '{key}'")
                args = [*args, *(static(d) for d in defaults[len(args) : names.index(key)]), v]
        if len(args) > len(defaults) or any(d is ... for d in defaults[len(args) :]):
            refuse(f"{name}() takes {len(defaults)} arguments, here are {len(args)}")
        args = [*args, *(static(d) for d in defaults[len(args) :])]
        if (kind == "list" and name == "extend") or name == "join":
            args = [self.listed(args[0])]
        return self.builtin(_RENAMED.get((kind, name), name), owner, *args)

    def static_method(self, owner, name, args, kwargs):
        """A method of a Python object that is known now."""
        if name in _CHANGES and owner.items is None and owner.display != "dict":
            refuse(
                f"{describe(owner)} that is a constant of the program cannot be changed",
                "make it an attribute of the module, or copy it",
            )
        if isinstance(owner.obj, dict) and name == "get" and args[0].known:
            return self.lifted(owner.obj.get(args[0].obj, args[1].obj if len(args) > 1 else None))
        if isinstance(owner.obj, dict) and name == "get" and owner.display != "dict":
            default = args[1] if len(args) > 1 else static(None)
            return self.looked_up(owner.obj, args[0], lambda: default)
        if name in ("keys", "values", "items", "index", "count") and all(a.known for a in args):
            return self.lifted(
                list(getattr(owner.obj, name)())
                if not args
                else getattr(owner.obj, name)(*(a.obj for a in args))
            )
        return self.call_method(self.as_val(owner), name, args, kwargs)

    def looked_up(self, table, key, otherwise):
        """The value of a key that is known late, in a dict that is known now: by one comparison
        after the other."""
        if not table:
            return otherwise()
        (first, value), *rest = table.items()
        same = self.compared("Eq", key, static(first))
        return self.chosen(
            same, lambda: self.lifted(value), lambda: self.looked_up(dict(rest), key, otherwise)
        )

    def named_method(self, owner, name, kwargs):
        fields = owner.type.fields
        if name != "_replace":
            refuse(f"the method '{name}' of a NamedTuple is not there in programs")
        unknown = [k for k in kwargs if k not in fields]
        if unknown:
            refuse(f"{owner.type.cls} has no field '{unknown[0]}'")
        items = [kwargs.get(f) or self.tuple_item(owner, k) for k, f in enumerate(fields)]
        operands = [self.as_type(i, w)[0] for i, w in zip(items, owner.type.items, strict=True)]
        to = self.local(owner.type)
        self.emit(make=operands, to=to)
        return Val(owner.type, to)

    def dict_method(self, owner, name, args):
        if not 1 <= len(args) <= 2:
            refuse(f"{name}() takes a key and perhaps a default")
        if len(args) == 1 or (name == "get" and args[1].is_none()):
            return self.builtin("get_or_none" if name == "get" else "pop_key", owner, args[0])
        return self.builtin("get_or" if name == "get" else "pop_key_or", owner, *args)

    def tensor_method(self, owner, name, args, kwargs):
        if name in _ASKS and not args and not kwargs:
            return self.builtin(_ASKS[name], owner)
        special = getattr(self, f"tensor_{name}", None)
        if special is not None:
            return special(owner, *args, **kwargs)
        if name in _WITHOUT:
            refuse(f"{name}() is not there in programs: {_WITHOUT[name]}")
        rows = overloads(name)
        if any(row[2] for row in rows):
            return self.call_op(name, rows, [owner, *args], kwargs, is_method=True)
        found = getattr(_C.Tensor, name, None)
        if inspect.isfunction(found):
            return self.program.call_function(self, found, [owner, *args], kwargs)
        refuse(f"the method '{name}' of tensors is not there in programs")

    def tensor_size(self, owner, dim=None):
        return self.builtin("shape", owner) if dim is None else self.builtin("size", owner, dim)

    def tensor_stride(self, owner, dim=None):
        return (
            self.builtin("stride", owner) if dim is None else self.builtin("stride_of", owner, dim)
        )

    def tensor_is_contiguous(self, owner, memory_format=None):
        if memory_format is not None:
            refuse("is_contiguous() takes no memory format in programs")
        return self.builtin("is_contiguous", owner)

    def tensor_requires_grad_(self, owner, requires_grad=_TRUE):
        return self.builtin("set_requires_grad", owner, requires_grad)

    def tensor_get_device(self, owner):
        return self.as_val(self.builtin("device_index", self.builtin("device", owner)))

    def tensor_tolist(self, owner):
        return Listing(owner)

    def tensor_cpu(self, owner):
        return self.call_method(owner, "to", [static(_C.device("cpu"))], {})

    def tensor_cuda(self, owner, device=_CUDA):
        return self.call_method(owner, "to", [self.make_device(device)], {})

    def tensor_type(self, owner, dtype=None):
        if dtype is None or dtype.type != t.DTYPE:
            refuse("type() takes a dtype in programs")
        return self.call_method(owner, "to", [dtype], {})

    def tensor_backward(self, owner, *args, **kwargs):
        refuse("backward() is not there inside of programs", "call it on what the program returns")

    def tensor_numpy(self, owner, *args, **kwargs):
        refuse("numpy() is not there in programs, which run without Python", "keep it a tensor")

    # Formatting -----------------------------------------------------------------------------------

    def format_method(self, owner, args, kwargs):
        """'...'.format(...)"""
        import string

        if not owner.known:
            refuse("format() needs a string that stands in the program")
        pieces, number = [], 0
        for text, field, spec, conversion in string.Formatter().parse(owner.obj):
            if text:
                pieces.append(static(text))
            if field is None:
                continue
            if field == "":
                field, number = str(number), number + 1
            if field.isdigit():
                if int(field) >= len(args):
                    refuse(f"the format has a place for argument {field}, here are {len(args)}")
                v = args[int(field)]
            elif field in kwargs:
                v = kwargs[field]
            else:
                refuse(f"the format names '{field}', which is not given")
            pieces.append(self.formatted(v, spec or "", conversion))
        return self.concatenated(pieces)

    def formatted(self, v, spec, conversion=None):
        v = self.as_val(v) if v.type is None else v
        if conversion == "r":
            v = self.builtin("repr", v)
        elif conversion == "s":
            v = self.builtin("str", v)
        spec = static(spec) if isinstance(spec, str) else spec
        if spec.known and not spec.obj:
            return v
        return self.builtin("format", v, spec)

    def concatenated(self, pieces):
        if all(p.known and p.type is not None for p in pieces):
            return static("".join(str(p.obj) for p in pieces))
        return self.builtin("concat", *pieces)

    def percent(self, text, v):
        """'...' % v"""
        import re

        if not text.known:
            refuse("% needs a string that stands in the program")
        opened = self.opened(v)
        if opened.items is not None and opened.display == "tuple":
            values = list(opened.items)
        elif v.type is not None and v.type.kind == "Tuple":
            values = [self.tuple_item(v, k) for k in range(len(v.type.items))]
        else:
            values = [v]
        pieces, at = [], 0
        for m in re.finditer(r"%(%|[-+ 0#]*\d*(?:\.\d*)?[a-zA-Z])", text.obj):
            if m.start() > at:
                pieces.append(static(text.obj[at : m.start()]))
            at = m.end()
            if m.group(1) == "%":
                pieces.append(static("%"))
                continue
            if not values:
                refuse("not enough arguments for the format string")
            given = values.pop(0)
            given = self.as_val(given) if given.type is None else given
            pieces.append(
                given if m.group(1) == "s" else self.builtin("percent", given, static(m.group(1)))
            )
        if values:
            refuse("not all arguments are converted by the format string")
        if at < len(text.obj):
            pieces.append(static(text.obj[at:]))
        return self.concatenated(pieces)
