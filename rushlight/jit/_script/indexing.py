"""Items of tensors, lists, tuples, dicts, strings and modules."""

from __future__ import annotations

import ast

from rushlight.jit._script import types as t
from rushlight.jit._script.conditions import Conditions
from rushlight.jit._script.errors import refuse
from rushlight.jit._script.values import NONE, Val, describe, pack, static, type_of


class Indexing(Conditions):
    """x[...], to read and to assign to."""

    def expr_Subscript(self, node):
        v = self.opened(self.expr(node.value))
        if v.type is None and v.items is None and v.known and isinstance(v.obj, type | object):
            found = self.static_item(v, node)
            if found is not None:
                return found
            v = self.opened(v) if not isinstance(v.obj, dict) else self.as_val(v)
        if v.type == t.TENSOR:
            return self.tensor_index(v, self.indices(node.slice))
        if v.type is not None and v.type.kind == "Object":
            return self.needs(v, "__getitem__", self.expr(node.slice))
        between = self.with_slice(node.slice)
        if isinstance(between, ast.Slice):
            return self.sliced(v, between)
        index = self.expr(between)
        if v.items is not None:
            if index.known:
                if not isinstance(index.obj, int) or not -len(v.items) <= index.obj < len(v.items):
                    refuse(f"the index {index.obj!r} is out of range for {describe(v)}")
                return v.items[index.obj]
            if v.display == "tuple" and len({str(type_of(i)) for i in v.items}) != 1:
                refuse(
                    "the index of a tuple must be a number that stands in the program", "use a list"
                )
            v = self.as_val(pack(v.items, "list"))
        if v.type.kind == "Tuple":
            n = len(v.type.items)
            if not index.known or not isinstance(index.obj, int):
                if n and all(i == v.type.items[0] for i in v.type.items):
                    return self.builtin("get", self.as_val(v, t.List(v.type.items[0])), index)
                refuse(
                    "the index of a tuple must be a number that stands in the program", "use a list"
                )
            if not -n <= index.obj < n:
                refuse(f"the index {index.obj} is out of range for {v.type}")
            return self.tuple_item(v, index.obj % n)
        if v.type.kind == "List":
            return self.builtin("get", v, index)
        if v.type.kind == "Dict":
            return self.builtin("get_key", v, index)
        if v.type == t.STR:
            return self.builtin("get_str", v, index)
        hint = "check that it is not None first" if v.type.optional else None
        refuse(f"{v.type} has no items", hint)

    def static_item(self, v, node):
        """An item of a Python object: a ModuleList, a dict of constants, a type like List[int]."""
        from rushlight.nn import Module

        if isinstance(v.obj, Module):
            if isinstance(node.slice, ast.Slice):
                bounds = [
                    None if p is None else self.expr(p)
                    for p in (node.slice.lower, node.slice.upper, node.slice.step)
                ]
                return static(v.obj[slice(*(None if b is None else b.obj for b in bounds))])
            index = self.expr(node.slice)
            if not index.known:
                refuse(
                    "modules are picked by a number or a name that stands in the program",
                    "loop over them",
                )
            return static(v.obj[index.obj])
        if isinstance(v.obj, dict):
            index = self.expr(node.slice)
            if index.known and (v.display != "dict"):
                if index.obj not in v.obj:
                    refuse(f"the key {index.obj!r} is not there")
                return self.lifted(v.obj[index.obj])
            if v.display != "dict" and len(v.obj) == 1 and t.of_object(v.obj) is None:
                return self.only_object(v, index)
            return None
        if isinstance(v.obj, tuple | list | str):
            return None
        index = self.expr(node.slice)
        if not index.known:
            refuse(f"{describe(v)}[...] is not known")
        return static(v.obj[index.obj])

    def only_object(self, v, index):
        """Of a dict with one Python object in it, under a key that the program computes: that one,
        once the key was found to be its own."""
        ((key, obj),) = v.obj.items()
        self.builtin("get_key", self.as_val(static({key: True})), index)
        return static(obj)

    def sliced(self, v, node):
        parts = [NONE if p is None else self.expr(p) for p in (node.lower, node.upper, node.step)]
        if v.known and v.type is None and v.items is None:
            v = self.opened(v)
        if v.items is not None:
            if all(p.known for p in parts):
                return pack(v.items[slice(*(p.obj for p in parts))], v.display)
            v = self.as_val(pack(v.items, "list"))
        if v.known and v.type == t.STR and all(p.known for p in parts):
            return static(v.obj[slice(*(p.obj for p in parts))])
        if v.type.kind == "Tuple":
            if not all(p.known for p in parts):
                refuse("the bounds of a slice of a tuple must stand in the program")
            return pack(self.unpacked(v, None)[slice(*(p.obj for p in parts))])
        name = "slice_str" if v.type == t.STR else "slice_list" if v.type.kind == "List" else None
        if name is None:
            refuse(f"{v.type} cannot be sliced")
        return self.builtin(name, v, *parts)

    def indices(self, node):
        """What stands between the brackets of a tensor, one entry per part."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found = []
        for part in map(self.with_slice, parts):
            if isinstance(part, ast.Slice):
                found.append(
                    [
                        NONE if p is None else self.expr(p)
                        for p in (part.lower, part.upper, part.step)
                    ]
                )
                continue
            v = self.opened(self.expr(part))
            if not isinstance(node, ast.Tuple) and v.items is not None and v.display == "tuple":
                found += v.items
            else:
                found.append(v)
        return found

    def with_slice(self, node):
        """`slice(1, None)`, as code that a program wrote has it, as `1:`; else the node itself."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)) or node.keywords:
            return node
        f = self.expr(node.func)
        if not (f.known and f.obj is slice and 1 <= len(node.args) <= 3):
            return node
        args = [None if isinstance(a, ast.Constant) and a.value is None else a for a in node.args]
        args = [None, *args] if len(args) == 1 else args
        return ast.copy_location(ast.Slice(*args, *[None] * (3 - len(args))), node)

    def tensor_index(self, v, parts):
        """A view by numbers, slices and None, then a look-up by tensors."""
        view, tensors = self.viewed(v, parts)
        if tensors:
            return self.op("index", view, pack(tensors, "list"))
        return view if view is not v else self.op("alias", v)

    def viewed(self, v, parts):
        """(the view, an index or None per dimension; [] where no tensor is among the indices)."""
        dots = next(
            (
                i
                for i, p in enumerate(parts)
                if isinstance(p, Val) and p.known and p.obj is Ellipsis
            ),
            None,
        )
        front, back = (parts, []) if dots is None else (parts[:dots], parts[dots + 1 :])
        tensors = []
        for p in front:
            v = self.one_index(v, p, len(tensors), tensors)
        # After ..., dimensions are counted from the end: each index but None stands for one.
        dim = -sum(1 for p in back if isinstance(p, list) or not p.is_none())
        found_back = []
        for p in back:
            # None gives a dimension that lies before `dim`; a number takes one away.
            is_none = isinstance(p, Val) and p.is_none()
            v = self.one_index(v, p, dim - 1 if is_none else dim, found_back)
            dim += 0 if is_none else 1
        if any(x is not NONE for x in found_back):
            refuse("tensors as indices after ... are not there in programs", "write the slices out")
        return v, tensors if any(x is not NONE for x in tensors) else []

    def one_index(self, v, p, dim, tensors):
        """v[..., p, ...] at a dimension; notes in `tensors` what stays there."""
        if isinstance(p, list):
            tensors.append(NONE)
            if all(b.is_none() for b in p):
                return v
            return self.op(
                "slice", v, static(dim), p[0], p[1], static(1) if p[2].is_none() else p[2]
            )
        if p.is_none():
            tensors.append(NONE)
            return self.op("unsqueeze", v, static(dim))
        kind = type_of(p)
        if kind == t.INT:
            return self.op("select", v, static(dim), p)
        if kind is not None and kind.kind == "List":
            p, kind = (
                self.builtin("tensor", p, NONE, self.builtin("device", v), static(False)),
                t.TENSOR,
            )
        if kind != t.TENSOR:
            refuse(f"a tensor cannot be indexed with {describe(p)}")
        tensors.append(p)
        return v

    def assign_index(self, v, parts, value):
        """v[parts] = value"""
        view, tensors = self.viewed(v, parts)
        if tensors:
            value = self.as_val(value)
            if value.type != t.TENSOR:
                value = self.op(
                    "full",
                    self.pack_list([]),
                    value,
                    dtype=self.builtin("dtype", v),
                    device=self.builtin("device", v),
                )
            self.op("index_put_", view, pack(tensors, "list"), value)
            return
        value = self.as_val(value)
        if value.type == t.TENSOR:
            self.op("copy_", view, value)
        else:
            self.op("fill_", view, value)

    def pack_list(self, items):
        return pack(items, "list")
