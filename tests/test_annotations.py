"""Public functions and methods say the types of their arguments and of what they return."""

import ast
import importlib
import inspect
import pkgutil
import sys
import typing
import warnings
from functools import cache
from pathlib import Path

import pytest

import rushlight as rl
from rushlight._annotations import own_annotations

PACKAGE = Path(rl.__file__).parent
# Methods with two underscores that programs call by themselves, or write in subclasses.
SPECIAL = frozenset(["__init__", "__new__", "__call__", "__enter__", "__exit__", "__getitem__",
                     "__setitem__", "__len__", "__iter__", "__contains__", "__repr__"])  # fmt: skip


def public_modules():
    yield rl
    for found in pkgutil.walk_packages(rl.__path__, "rushlight.", onerror=lambda name: None):
        parts = found.name.split(".")
        if any(part.startswith("_") for part in parts):
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError:  # needs a package that is not here (tensorboard)
            continue


def functions_of(found):
    """A function itself; of a class the public methods that it and its bases define."""
    if inspect.isfunction(found):
        yield inspect.unwrap(found)
    elif isinstance(found, type):
        for base in found.__mro__:
            for name, value in vars(base).items():
                if name.startswith("_") and name not in SPECIAL:
                    continue
                value = getattr(value, "__func__", value)
                value = value.fget if isinstance(value, property) else value
                if inspect.isfunction(value):
                    yield inspect.unwrap(value)


def is_ours(function):
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(PACKAGE)


@cache
def public_functions():
    """All that can be reached by public names."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in public_modules():
            for name in getattr(module, "__all__", None) or dir(module):
                value = getattr(module, name, None)
                if not name.startswith("_"):
                    for function in functions_of(value):
                        if is_ours(function) and function.__name__ != "<lambda>":
                            found[id(function)] = function
    return list(found.values())


def is_annotated(function):
    parameters = list(inspect.signature(function).parameters.values())
    # Only the first parameter of a method needs no type, and a static method has none.
    if "." in function.__qualname__ and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    given = function.__annotations__
    return "return" in given and all(p.name in given for p in parameters)


def test_public_functions_are_annotated():
    assert len(public_functions()) > 2000
    lacking = []
    for function in public_functions():
        if not is_annotated(function):
            code = function.__code__
            lacking.append(f"{code.co_filename}:{code.co_firstlineno} {function.__qualname__}")
    assert not lacking, "\n".join(sorted(lacking))


# Results that are what users' objects are: of a module's forward, of a function that was passed, of
# a file, of a state dict, of a Node, of what fx runs. Lower the numbers when there are fewer.
MOST_ANY = 90
MOST_ANY_IN_STUBS = 2


def is_any(annotation):
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text in ("Any", "Iterator[Any]", "list[Any]", "object")


def test_few_functions_return_anything():
    found = [
        f"{function.__module__}.{function.__qualname__}"
        for function in public_functions()
        if is_any(function.__annotations__.get("return", "Any"))
        # The stub tells the types of methods that are loaded when first called.
        and not function.__qualname__.startswith("Tensor.")
    ]
    assert len(found) <= MOST_ANY, f"{len(found)} functions:\n" + "\n".join(sorted(found))


def functions_of_stubs():
    """(file, definition) of the public functions and methods that generated stubs spell out."""
    for path in PACKAGE.rglob("*.pyi"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield path.relative_to(PACKAGE), node


def test_functions_in_stubs_are_annotated():
    lacking, any_returned = [], []
    for path, node in functions_of_stubs():
        args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        lacking += [
            f"{path}: {node.name}({arg.arg})"
            for arg in args
            if arg.annotation is None and arg.arg not in ("self", "cls")
        ]
        if node.returns is None:
            lacking.append(f"{path}: {node.name}")
        elif is_any(ast.unparse(node.returns)):
            any_returned.append(f"{path}: {node.name}")
    assert not lacking, "\n".join(lacking)
    assert len(any_returned) <= MOST_ANY_IN_STUBS, "\n".join(any_returned)


def test_annotations_can_be_read_at_run_time():
    """Tools build command lines and configurations from get_type_hints of constructors."""
    unreadable = []
    for function in public_functions():
        if function.__name__ == "__init__":
            try:
                typing.get_type_hints(function)
            except NameError as error:
                unreadable.append(f"{function.__module__}.{function.__qualname__}: {error}")
    assert not unreadable, "\n".join(unreadable)


def test_a_class_has_its_own_annotations_and_not_its_bases():
    class Base:
        a: int

    class Derived(Base):
        b: str

    class Plain(Derived):
        pass

    def function(x: float) -> None: ...

    found = [own_annotations(of) for of in (Base, Derived, Plain, function)]
    assert found == [{"a": int}, {"b": str}, {}, {"x": float, "return": None}]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 evaluates annotations late")
def test_annotations_that_name_what_is_not_there_are_text():
    space = {}
    exec("class Late:\n    x: Absent\ndef late(y: Absent): ...\n", space)
    assert own_annotations(space["Late"]) == {"x": "Absent"}
    assert own_annotations(space["late"]) == {"y": "Absent"}
