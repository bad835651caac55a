r"""Writes the stubs of modules whose names a type checker cannot find in their source.

    python codegen/public_stubs.py --package rushlight --core <its _C*.so> \
        --core-stub <the stub of _C> --out build/generated

Names that are loaded when first used, made in a loop or taken out again exist only at run time, so
the package is asked: it is imported with the core that was just built, and each public name becomes
an import from the module that defines it. Only what no source shows is written out.
"""

import argparse
import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import warnings
from pathlib import Path
from types import ModuleType

from generate import write

PACKAGE = Path(__file__).resolve().parent.parent / "rushlight"
VARIABLES = ("TypeVar", "ParamSpec")  # what makes type variables
MADE_IN_A_LOOP = ("rushlight.array_api", "rushlight.array_api.fft")
# What lines of our own may use; of a module's own imports those that its definitions name are kept.
VOCABULARY = """import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

from rushlight._C import Generator, Size, Tensor, UntypedStorage
from rushlight._C import device, dtype, layout, memory_format
from rushlight.types import Device, Number, _dtype
"""


class BuiltFinder:
    """Finds rushlight._C, and the modules that were generated, where they were built, which need
    not be the package's folder."""

    def __init__(self, path, generated):
        self.path, self.generated = path, generated

    def find_spec(self, name, path=None, target=None):
        if name == "rushlight._places":
            places = [str(self.generated / "rushlight")]
            return importlib.machinery.PathFinder.find_spec(name, places)
        if name != "rushlight._C":
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, str(self.path))
        return importlib.util.spec_from_file_location(name, str(self.path), loader=loader)


class Source:
    """What the text of a module shows without running it."""

    def __init__(self, path):
        self.names, self.definitions, self.imports = set(), {}, []
        self.overloads = {}  # name -> its definitions under @overload
        self.annotated = set()  # variables with a type
        self.type_variables = {}  # name -> its assignment
        self._read(ast.parse(Path(path).read_text()).body)

    def _read(self, statements):
        for node in statements:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.names.add(node.name)
                if "overload" in [ast.unparse(d) for d in node.decorator_list]:
                    self.overloads.setdefault(node.name, []).append(node)
                else:
                    self.definitions[node.name] = node
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.imports.append(node)
                self.names |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found = {t.id for t in targets if isinstance(t, ast.Name)}
                self.names |= found
                if isinstance(node, ast.AnnAssign):
                    self.annotated |= found
                elif isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in VARIABLES:
                    self.type_variables |= dict.fromkeys(found, node)
            elif isinstance(node, ast.If | ast.Try):
                self._read([*node.body, *node.orelse])

    def needs_others(self):
        """Does it import what is neither Python's nor ours?"""
        roots = {
            name.partition(".")[0]
            for node in self.imports
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else
                         [alias.name for alias in node.names])
        }  # fmt: skip
        return not roots <= {"rushlight", *sys.stdlib_module_names}


def stubbed():
    """The modules to describe: the package itself, those whose functions are made in a loop,
    and those packages below that answer to more names than they bind and define no classes;
    a class is described best by its own source."""
    modules = ["rushlight", *MADE_IN_A_LOOP]
    for path in sorted(PACKAGE.rglob("__init__.py")):
        parts = path.parent.relative_to(PACKAGE.parent).parts
        source = Source(path)
        classes = [n for n in source.definitions.values() if isinstance(n, ast.ClassDef)]
        is_private = any(part.startswith("_") for part in parts)
        is_open = bool({"__getattr__", "fill"} & source.names) and len(parts) > 1
        if is_open and not classes and not is_private and not source.needs_others():
            modules.append(".".join(parts))
    return modules


_sources = {}


def source_of(module):
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    if module not in _sources:
        _sources[module] = Source(path) if path.endswith(".py") else None
    return _sources[module]


def shown_in(module, name):
    """Does a type checker find the name there?"""
    source = source_of(module)
    return source is not None and name in source.names


def is_made(found, home):
    """Is it a function that the module makes by calling another, and so has no `def` to show?"""
    source = source_of(home[0])
    imported = {a.asname or a.name for node in source.imports for a in node.names}
    shown = source.definitions.keys() | source.overloads.keys() | imported | source.annotated
    return inspect.isfunction(found) and home[1] not in shown


def home_of(found, name, asking):
    """(module, name) of the definition of a function or class; None when no source shows it."""
    plain = inspect.unwrap(found) if callable(found) else found
    own = getattr(plain, "__name__", None) or name
    core = vars(sys.modules["rushlight._C"])
    for candidate in (name, own):
        if core.get(candidate) is plain:
            return "rushlight._C", candidate
    home = getattr(plain, "__module__", None)
    if isinstance(home, str) and home != asking and shown_in(home, own):
        return home, own
    for module in sorted(sys.modules, key=len):
        is_candidate = module.startswith("rushlight.") and not module.startswith(
            "rushlight.as_torch"
        )
        if is_candidate and module != asking and shown_in(module, name):
            if vars(sys.modules[module]).get(name) is found:
                return module, name
    return None


def value_line(name, found):
    """A name that is no function, by the type of its value."""
    if found is None:
        return f"{name}: None\n"
    if isinstance(found, type):
        # FloatTensor and its like make tensors, and are classes for isinstance only.
        return f"{name}: builtins.type[{'Tensor' if name.endswith('Tensor') else 'Any'}]\n"
    if type(found).__module__ == "builtins":  # spelled out: float is a dtype here
        return f"{name}: builtins.{type(found).__name__}\n"
    kinds = (kind.__name__ for kind in type(found).__mro__)
    return f"{name}: {next((k for k in kinds if shown_in('rushlight._C', k)), 'Any')}\n"


def shown_annotation(annotation):
    if annotation is inspect.Parameter.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def function_stub(name, found):
    """A function that is made at run time, as its signature tells it."""
    signature = inspect.signature(found)
    parts, star = [], False
    for parameter in signature.parameters.values():
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{mark}{parameter.name}: {shown_annotation(parameter.annotation)}{default}")
    doc = (inspect.getdoc(found) or "").partition("\n")[0]
    returns = shown_annotation(signature.return_annotation)
    return f'def {name}({", ".join(parts)}) -> {returns}:\n    """{doc}"""\n'


def own_stub(node):
    """A definition of the module itself without its body."""
    doc = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        kept = [own_node(n) for n in node.body if isinstance(n, ast.FunctionDef | ast.AnnAssign)]
        node = ast.ClassDef(node.name, node.bases, node.keywords, [doc_node(doc), *kept], [])
        return ast.unparse(ast.fix_missing_locations(node)) + "\n"
    return ast.unparse(ast.fix_missing_locations(own_node(node))) + "\n"


def doc_node(doc):
    return ast.Expr(ast.Constant(doc if doc else ...))


def own_node(node):
    if isinstance(node, ast.AnnAssign):
        return node
    kept = [d for d in node.decorator_list if isinstance(d, ast.Name)]
    kept = [d for d in kept if d.id in ("property", "staticmethod", "classmethod", "overload")]
    doc = ast.get_docstring(node) or ""
    return ast.FunctionDef(node.name, node.args, [doc_node(doc)], kept, node.returns)


def own_variable(source, name):
    """A type variable that definitions of the module name."""
    return ast.unparse(source.type_variables[name]) + "\n"


def names_in(text):
    """The names that a text reads."""
    names = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Load)}


def public_names(module):
    listed = getattr(module, "__all__", None)
    if listed is None or module.__name__ == "rushlight":
        listed = [n for n in dir(module) if not n.startswith("_")] + ["__version__", "_C"]
    found = {}
    for name in sorted(set(listed)):
        try:
            found[name] = getattr(module, name)
        except (AttributeError, ImportError):  # a name that is there to say that it is not
            continue
    return found


def is_foreign(found):
    """Modules and functions of others that the module imports for itself."""
    home = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] not in ("rushlight", "builtins")


def module_stub(module):
    source = source_of(module.__name__)
    imports, lines, written = {}, [], []
    for name, found in public_names(module).items():
        if is_foreign(found):
            continue
        if isinstance(found, ModuleType) and not getattr(found, "__file__", None):
            written.append(name)  # of names that are absent, made by _names/import_hook.py
            lines.append(f"{name}: ModuleType\n")
            continue
        if isinstance(found, ModuleType):
            home, _, own = found.__name__.rpartition(".")
            imports.setdefault(home, []).append((own, name))
            continue
        home = home_of(found, name, module.__name__) if callable(found) else None
        if home and not is_made(found, home):
            imports.setdefault(home[0], []).append((home[1], name))
            continue
        written.append(name)
        if name in source.definitions:
            shown = source.overloads.get(name) or [source.definitions[name]]
            lines += [own_stub(node) for node in shown]
        elif inspect.isroutine(found):
            lines.append(function_stub(name, found))
        else:
            lines.append(value_line(name, found))
    text = f'"""{inspect.getdoc(module)}"""\n\n'
    body = "".join(lines)
    variables = names_in(body) & source.type_variables.keys()
    body = "".join(own_variable(source, name) for name in sorted(variables)) + body
    exported = {name for names in imports.values() for _, name in names}
    used = names_in(body) - exported
    for node in [*ast.parse(VOCABULARY).body, *source.imports]:
        kept = [a for a in node.names if (a.asname or a.name).partition(".")[0] in used]
        if kept:
            node.names = kept
            used -= {a.asname or a.name for a in kept}
            text += ast.unparse(node) + "\n"
    for home, names in sorted(imports.items()):
        text += f"from {home} import (\n"
        text += "".join(f"    {own} as {name},\n" for own, name in names) + ")\n"
    # Without this list only `x as x` would be seen from outside, and not `sigmoid as expit`.
    listed = sorted([*exported, *written])
    text += "\n__all__ = [\n" + "".join(f"    {name!r},\n" for name in listed) + "]\n"
    return text + "\n" + body


def return_types_stub(core):
    """The named tuples that ops return, those of the core and those made in Python."""
    importlib.import_module("rushlight.linalg._old_names")
    text = '"""The named tuples that operators with several results return."""\n\n'
    text += "from typing import Any, NamedTuple\n\nfrom rushlight._C import Tensor\n\n"
    for name, made in sorted(core._return_types.items()):
        fields = getattr(made, "__match_args__", None) or made._names
        text += f"class {name}(NamedTuple):\n"
        text += "".join(f"    {field}: Tensor\n" for field in fields) + "\n"
        text += f"{name}_out = {name}\n\n"  # PyTorch has classes of their own for the out= forms
    return text + "def pytree_register_structseq(cls: Any) -> None: ...\n"


def path_of(module):
    """A module's stub, relative to the output folder; it may not be imported yet."""
    path = module.replace(".", "/")
    is_package = (PACKAGE.parent / path / "__init__.py").exists()
    return f"{path}/__init__.pyi" if is_package else f"{path}.pyi"


def outputs(core_stub):
    """Path relative to the output folder -> text."""
    _sources["rushlight._C"] = Source(core_stub)
    warnings.simplefilter("ignore")  # deprecated names are names, too
    core = importlib.import_module("rushlight._C")
    files = {path_of("rushlight.return_types"): return_types_stub(core)}
    modules = [importlib.import_module(name) for name in stubbed()]
    for module in modules:  # all that is lazy is there before the first definition is looked for
        public_names(module)
    return files | {path_of(module.__name__): module_stub(module) for module in modules}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, help="the folder of the package")
    parser.add_argument("--core", type=Path, help="the built module rushlight._C")
    parser.add_argument("--core-stub", type=Path, help="its stub")
    parser.add_argument("--out", type=Path, help="the folder to write to")
    parser.add_argument("--list", action="store_true", help="print the outputs, write nothing")
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(path_of(module) for module in ("rushlight.return_types", *stubbed())))
        return 0
    sys.path.insert(0, str(args.package.parent))
    sys.meta_path.insert(0, BuiltFinder(args.core, args.out))
    for path, text in outputs(args.core_stub).items():
        write(args.out / path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
