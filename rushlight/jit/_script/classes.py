"""Classes of the user and their attributes; enumerations.

A class has the attributes that its __init__ assigns, with the types that they have when all of them
are there. Until then they are variables of __init__, so branches and loops that assign them follow
the rules of variables; from there on `self` is an object.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import textwrap
import typing
import weakref

from rushlight import _C
from rushlight._annotations import own_annotations
from rushlight.jit._script.errors import ScriptError, refuse
from rushlight.jit._script.source import Source, is_ignored

_types: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # class -> its type
_scripted: weakref.WeakSet = weakref.WeakSet()  # those that were given to jit.script
_enums: dict[str, type] = {}  # types, as text, of enumerations
_under_way: list[type] = []
_PYTHON_CLASS = type


class MakeObject(ast.expr):
    """In the tree of an __init__: the object, of the variables that are its attributes."""

    _fields = ()


def is_user_class(cls):
    """A class whose objects programs may have, as far as one can tell without compiling it."""
    from rushlight.nn import Module

    homes = ("builtins", "rushlight", "typing")
    if not isinstance(cls, type) or cls.__module__.split(".")[0] in homes:
        return False
    others = (Module, _C.Tensor, tuple, list, dict, set, str, int, float, BaseException, enum.Enum)
    return not issubclass(cls, others) and not getattr(cls, "_is_protocol", False)


def compares(type):
    """The class among the parts of a type whose objects have an == of their own, or None."""
    if type is None:
        return None
    if type.kind == "Object" and not isinstance(type.python, _PYTHON_CLASS):
        return None
    if type.kind == "Object":
        return None if type.python.__eq__ is object.__eq__ else type.python
    return next((found for found in map(compares, type.items) if found is not None), None)


# Enumerations -------------------------------------------------------------------------------------


def is_enum_member(obj):
    """An item of an Enum that is no number and no string itself."""
    return isinstance(obj, enum.Enum) and not isinstance(obj, int | float | str)


def is_enum(type):
    return str(type) in _enums


def enum_type(cls):
    """Items of enumerations are pairs of name and value in programs."""
    from rushlight.jit._script import types as t
    from rushlight.jit._values import remember_enum

    for base, plain in ((int, t.INT), (str, t.STR), (float, t.FLOAT)):
        if issubclass(cls, base):
            return plain
    kinds = {t.of_object(item.value) for item in cls}
    if len(kinds) != 1 or not kinds <= {t.INT, t.FLOAT, t.STR}:
        refuse(f"the values of the Enum {cls.__name__} must be all ints, all floats or all strings")
    found = t.T("Tuple", (t.STR, kinds.pop()), ("name", "value"), cls.__name__)
    _enums[str(found)] = cls
    remember_enum(cls)
    return found


# Constructors -------------------------------------------------------------------------------------


def _stored(nodes, me):
    """The attributes of self that statements assign, in order of their first one."""
    found = {}

    class Finder(ast.NodeVisitor):
        def visit_Attribute(self, node):
            self.generic_visit(node)
            of_me = isinstance(node.value, ast.Name) and node.value.id == me
            if of_me and isinstance(node.ctx, ast.Store):
                found.setdefault(node.attr)

    for node in nodes:
        Finder().visit(node)
    return list(found)


class _AsVariables(ast.NodeTransformer):
    """self.x as a variable of this name."""

    def __init__(self, me, fields):
        self.me, self.fields = me, fields

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        of_me = isinstance(node.value, ast.Name) and node.value.id == self.me
        if not of_me or node.attr not in self.fields:
            return node
        return ast.copy_location(ast.Name(f"{self.me}.{node.attr}", node.ctx), node)


class _ReturnsSelf(ast.NodeTransformer):
    def __init__(self, me):
        self.me = me

    def visit_Return(self, node):
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            return node
        return ast.copy_location(ast.Return(ast.Name(self.me, ast.Load())), node)


def constructing(tree, me, fields):
    """The body of an __init__, so that it makes the object where its attributes are there, and
    returns it."""
    body, end = tree.body, 0
    while end < len(body) and len(_stored(body[:end], me)) < len(fields):
        end += 1
    first = [_AsVariables(me, fields).visit(node) for node in body[:end]]
    made = ast.Assign([ast.Name(me, ast.Store())], MakeObject())
    new = [*first, made, *body[end:], ast.Return(None)]
    for node in new:
        if not hasattr(node, "lineno"):
            ast.copy_location(node, first[-1] if first else tree)
    return [_ReturnsSelf(me).visit(ast.fix_missing_locations(node)) for node in new]


class Constructor(Source):
    """The __init__ of a class as a function that returns the object."""

    def __init__(self, cls):
        if dataclasses.is_dataclass(cls) and _is_generated(cls.__init__):
            self._of_dataclass(cls)
        else:
            super().__init__(cls.__init__, cls, library=False)
        self.constructs, self.name = cls, f"{cls.__name__}.__init__"
        arguments = self.tree.args
        if not (arguments.posonlyargs or arguments.args):
            refuse(f"{self.name} has no parameter for the object", "write self first")
        me = (arguments.posonlyargs or arguments.args).pop(0).arg
        self.me, self.parameters = me, self.parameters[1:]
        self.hints = {k: v for k, v in self.hints.items() if k not in (me, "return")}
        self.fields = _stored(self.tree.body, me)
        declared = [ast.copy_location(node, self.tree) for node in self._declared(cls)]
        body = [*declared, *constructing(self.tree, me, self.fields)]
        self.tree.body = [ast.fix_missing_locations(node) for node in body]
        self.local_names = {me, *(f"{me}.{name}" for name in self.fields), *self.local_names}

    def _declared(self, cls):
        """Annotations of attributes that stand in the class."""
        for name, hint in own_annotations(cls).items():
            if name in self.fields and "ClassVar" not in str(hint):
                target = ast.Name(f"{self.me}.{name}", ast.Store())
                note = ast.parse(hint, mode="eval").body if isinstance(hint, str) else None
                if note is None:
                    alias = f"{self.me}.{name}: annotation"
                    self.scope[alias] = hint
                    note = ast.Name(alias, ast.Load())
                yield ast.AnnAssign(target, note, None, 1)

    def _of_dataclass(self, cls):
        """Its parameters are its fields; what Python's dataclass writes has no source."""
        self.fn, self.owner, self.library = cls.__init__, cls, False
        try:
            lines, self.first_line = inspect.getsourcelines(cls)
            self.file = inspect.getsourcefile(cls)
        except (OSError, TypeError):  # written by a program, or of a module that is not kept
            lines, self.first_line, self.file = [""], 1, f"<dataclass {cls.__name__}>"
        self.indent = len(lines[0]) - len(lines[0].lstrip(" \t"))
        self.scope = {**vars(__import__("builtins")), **cls.__init__.__globals__}
        self.scope[cls.__name__] = cls
        parameters, body, only, self.hints, self.field_defaults = [], [], [], {}, {}
        for field in dataclasses.fields(cls):
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            (only if field.kw_only else parameters).append(field.name)
            if not field.init:
                refuse(f"the field '{field.name}' of {cls.__name__} is no parameter (init=False)")
            self.hints[field.name] = field.type
            body.append(f"    self.{field.name} = {field.name}")
            if default is not dataclasses.MISSING:
                self.field_defaults[field.name] = default
        if hasattr(cls, "__post_init__"):
            body.append("    self.__post_init__()")
        star = ", ".join(["self", *parameters, *(["*", *only] if only else [])])
        written = f"def __init__({star}):\n" + "\n".join(body or ["    pass"])
        self.tree = ast.parse(textwrap.dedent(written)).body[0]
        for node in ast.walk(self.tree):
            if hasattr(node, "lineno"):
                node.lineno = 1
        self.parameters = ["self", *parameters, *only]
        self.local_names = set()


def _is_generated(fn):
    """Whether a method was written by dataclass, and not by the user."""
    fn = inspect.unwrap(fn)  # (its __repr__ guards against recursion)
    code = getattr(fn, "__code__", None)
    # From Python 3.13 on __replace__ is a function of the module itself.
    return code is None or code.co_filename in ("<string>", dataclasses.__file__)


# Classes ------------------------------------------------------------------------------------------


def _check(cls):
    bases = [base for base in cls.__bases__ if base not in (object, typing.Generic)]
    if bases:
        refuse(
            f"{cls.__name__} derives from {bases[0].__name__}; classes of programs have no bases",
            "write the methods of both into one class, or hold an object of the other",
        )
    if cls.__new__ not in (object.__new__, typing.Generic.__new__):
        refuse(
            f"objects of the class {cls.__name__} cannot be made in a program (it has a __new__)"
        )


def class_type(cls):
    """The type of its objects: its attributes and their types, as __init__ gives them."""
    from rushlight.jit._script import types as t
    from rushlight.jit._script.program import Program

    if cls in _types:
        return _types[cls]
    if cls in _under_way:
        refuse(
            f"{cls.__name__} has an attribute or a parameter of __init__ of its own class, which "
            "programs cannot have",
            "keep the others in a list outside of it",
        )
    _check(cls)
    if cls.__init__ is object.__init__:
        return noted(cls, t.T("Object", (), (), cls.__name__, cls))
    _under_way.append(cls)
    try:
        source = constructor(cls)
        program = Program()
        arguments = source.tree.args
        params = [
            (a.arg, program.parameter_type(source, a), None)
            for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        return program.function((cls, "__init__"), source, params, {}, _C)[1]
    finally:
        _under_way.remove(cls)


def constructor(cls):
    """The source of its __init__."""
    try:
        return Constructor(cls)
    except (ScriptError, OSError, TypeError) as error:
        refuse(
            f"objects of the class {cls.__name__} cannot be made in a program "
            f"({str(error).removeprefix('script: ')})"
        )


def noted(cls, type):
    """Keeps the type of a class, from when its attributes are known."""
    from rushlight.jit._values import remember_class

    if not isinstance(cls, _PYTHON_CLASS):  # of an archive
        return type
    _types[cls] = type
    remember_class(cls, type.fields)
    return type


def type_of_scripted(cls):
    """The type of objects of a class that was given to jit.script; None for others."""
    return class_type(cls) if cls in _scripted else None


def script_class(cls):
    """Compiles a class with all its methods, for the errors; the class itself is what is used."""
    from rushlight.jit._script.program import Program

    if issubclass(cls, enum.Enum):
        enum_type(cls)
    if not is_user_class(cls):
        return cls
    _scripted.add(cls)
    own = class_type(cls)
    program = Program()
    for name, found in vars(cls).items():
        is_static = isinstance(found, staticmethod)
        functions = [found.__func__] if is_static else [found]
        if isinstance(found, property):
            functions = [f for f in (found.fget, found.fset) if f is not None]
        for fn in functions:
            if not inspect.isfunction(fn) or is_ignored(fn) in ("ignore", "unused"):
                continue
            if name == "__init__" or _is_generated(fn):
                continue
            program.add_method(fn, fn.__name__, receiver=None if is_static else (cls, own))
    return cls
