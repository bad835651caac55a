"""Compiles the methods of an archive's module."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight import _C
from rushlight._C import Tensor
from rushlight.jit._archive.language import scope_of
from rushlight.jit._archive.modules import ArchivedModule, module_of
from rushlight.jit._archive.objects import constructor
from rushlight.jit._archive.reader import Archive
from rushlight.jit._archive.syntax import Code, Function
from rushlight.jit._archive.types import type_from
from rushlight.jit._script import types as t
from rushlight.jit._script.errors import Refusal, ScriptError, refuse
from rushlight.jit._script.expr import Written
from rushlight.jit._script.program import Program
from rushlight.jit._script.values import Val, pack, static
from rushlight.jit._scripted import RecursiveScriptModule

__all__ = ["load_archive"]


class ArchiveProgram(Program):
    """A program whose functions come from an archive."""

    def __init__(self, root, rows, aliases, code):
        super().__init__(root, rows, aliases)
        self.code_of = code

    def call_archived(self, caller, function, args, kwargs, ours=None):
        """Calls a function of the archive with values; where it cannot be compiled and is one of
        nn.functional, `ours`, the one of that name here."""
        if ours is None:
            return self._call_archived(caller, function, args, kwargs)
        mark, out, under_way = len(caller.locals), list(caller.out), list(self.under_way)
        try:
            return self._call_archived(caller, function, args, kwargs)
        except (Refusal, ScriptError):
            del caller.locals[mark:]
            caller.out[:], self.under_way[:] = out, under_way
            return self.call_function(caller, ours, list(args), kwargs)

    def _call_archived(self, caller, function, args, kwargs):
        if isinstance(function, Exception):
            refuse(str(function))
        given = self.arguments(function, list(args), kwargs)
        for name, node in function.annotations.items():
            v = given.get(name)
            kind = type_from(node, self.code_of)
            # An empty list or a None has the type that is written; numbers become what is asked.
            if kind is not None and v is not None and (
                (v.items is not None and not v.items) or (kind == t.FLOAT and v.type == t.INT)
            ):  # fmt: skip
                given[name] = caller.as_val(v, kind)
        return self.call_library(caller, function, given)

    def make_tuple(self, caller, qualified, args):
        """A NamedTuple of the archive."""
        cls = self.code_of.find(qualified)
        kinds = [type_from(node, self.code_of) for node in cls.hints.values()]
        if None in kinds or len(kinds) != len(args):
            refuse(f"the NamedTuple {cls.name} has a type that programs have not")
        kind = t.T("Tuple", kinds, tuple(cls.hints), cls.name)
        operands = [caller.as_type(v, k)[0] for v, k in zip(args, kinds, strict=True)]
        to = caller.local(kind)
        caller.emit(make=operands, to=to)
        return Val(kind, to)

    def make_object(self, caller, cls, args):
        """An object of a class of the archive."""
        source = constructor(cls)
        return self.call_library(caller, source, self.arguments(source, list(args), {}))

    def archived_method(self, v, cls, name):
        """A method of such an object."""
        method = cls.methods.get(name)
        if method is None:
            refuse(f"{cls.name} has no attribute '{name}'")

        def call(caller, *args, **kwargs):
            return self.call_archived(caller, method, [v, *args], kwargs)

        return Val(obj=Written(call))

    def module_attribute(self, module, name):
        cls = module._class
        if cls is not None and name in cls.methods:
            method = cls.methods[name]

            def call(caller, *args, **kwargs):
                return self.call_archived(caller, method, [static(module), *args], kwargs)

            return Val(obj=Written(call))
        value = module.__dict__.get(name)
        if isinstance(value, list) and value and all(isinstance(v, Tensor) for v in value):
            return pack([self.tensor(v) for v in value], "list")
        if cls is not None and name in cls.constants:
            return static(cls.constants[name])
        # What PyTorch's own modules never write to decides which of their branches there are.
        settled = module._qualified.startswith("__torch__.torch.nn.") and name in module.__dict__
        if settled and name != "training" and name not in cls.assigned:
            return static(value)
        return super().module_attribute(module, name)

    def call_module(self, caller, module, method, args, kwargs):
        return caller.call(self.module_attribute(module, method), args, kwargs)

    @staticmethod
    def is_library(module):
        return False

    def hint(self, module, name):
        cls = module._class
        node = cls.hints.get(name) if cls is not None else None
        return type_from(node, self.code_of), False

    def add(self, name, function):
        """A method that can be called from outside."""
        params = []
        for a in function.parameters[1:]:
            kind = type_from(function.annotations[a], self.code_of)
            if kind is None:
                refuse(f"the parameter '{a}' of {name} is of a type that programs have not")
            params.append((a, kind, None))
        env = {function.parameters[0]: static(self.root)}
        defaults = function.__defaults__
        self.function((function, name), function, params, env, _C, method=name)
        function.__defaults__ = defaults


def _methods(module: ArchivedModule) -> dict[str, Any]:
    """Methods of the root: those whose first parameter is the module, `forward` first."""
    found = dict(module._class.methods) if module._class else {}
    names = sorted(found, key=lambda name: (name != "forward", name))
    return {name: found[name] for name in names}


def _compiled(module, rows, aliases, code, constants):
    """(code, what went wrong with each method, the program)."""
    program = ArchiveProgram(module, rows, aliases, code)
    code.scope.update(scope_of(program, constants))
    problems: dict[str, str] = {}
    for name, function in _methods(module).items():
        before = len(program.functions)
        made = dict(program.made)
        try:
            if isinstance(function, Exception):
                raise function
            if isinstance(function, Function) and function.parameters:
                program.add(name, function)
        except (Refusal, ScriptError, RecursionError) as why:
            del program.functions[before:]
            program.made, program.under_way = made, []
            problems[name] = str(why).removeprefix("script: ") or type(why).__name__
    try:
        return program.code(), problems, program
    except RuntimeError as why:  # the verifier's word is the last
        program.functions, program.attributes, program.constants = [], [], []
        problems.update(dict.fromkeys(_methods(module), str(why)))
        return program.code(), problems, program


class _ArchiveModule(RecursiveScriptModule):
    """The module of an archive. Methods that are not known say why when they are asked for."""

    _problems: dict[str, str] = {}  # noqa: RUF012 -- each object has its own

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if "forward" not in self._code.inputs:
            _refuse(self.original_name, "forward", self._problems)
        return super().forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self._problems:
            _refuse(self.original_name, name, self._problems)
        return super().__getattr__(name)


def _refuse(name, method, problems) -> NoReturn:
    why = problems.get(method, "the archive has no such method")
    raise NotImplementedError(
        f"{name}.{method}: the weights of this TorchScript archive are here (state_dict()), its "
        f"program is not: {why}"
    )


def load_archive(source: Any, map_location: Any, extra_files: dict[str, Any] | None) -> Any:
    """The module of an archive that PyTorch's jit.save wrote."""
    from rushlight.jit._trace import _state_of

    archive = Archive(source, map_location)
    code = Code(archive)
    root = module_of(archive.load("data"), code)
    constants = archive.load("constants")
    for name in extra_files or ():
        found = archive.extra(name)
        if found is not None:
            extra_files[name] = found  # type: ignore[index]
    rows, aliases = _state_of(root)
    compiled, problems, program = _compiled(
        root, rows, aliases, code, constants if isinstance(constants, list | tuple) else ()
    )
    names = [(name, part._get_name()) for name, part in root.named_modules() if name]
    title = root._get_name()
    made = _ArchiveModule(compiled, [row[1] for row in program.rows], title, names)
    object.__setattr__(made, "_problems", problems)
    for name, part in root.named_modules():
        made.get_submodule(name).training = part.training
    return made
