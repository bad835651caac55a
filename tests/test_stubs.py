"""The stubs tell type checkers what there is at run time: no name less, no name more."""

import ast
import importlib
import inspect
import operator
import warnings
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import _C

PACKAGE = Path(rl.__file__).parent
CORE = PACKAGE / "_C" / "__init__.pyi"


def names_of(statements):
    """Name -> its definitions."""
    found = {}
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign):
            found.setdefault(node.target.id, []).append(node)
    return found


@pytest.fixture(scope="module")
def core():
    return names_of(ast.parse(CORE.read_text()).body)


@pytest.fixture(scope="module")
def tensor(core):
    return names_of(core["Tensor"][0].body)


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_names_of_the_core(core):
    assert public(core) == public(vars(_C))


def test_attributes_of_tensor(tensor):
    there = {name for name in dir(rl.Tensor) if hasattr(rl.Tensor, name)}
    assert public(tensor) == public(there)
    special = {name for name in tensor if name.startswith("__")}
    assert special <= there
    operators = {name for name in dir(operator) if name.startswith("__")}
    # del x[0] is there to raise a TypeError that says why.
    assert operators & set(vars(rl.Tensor)) - {"__doc__", "__delitem__"} <= special


def parameters_of(node):
    """Those that have a place, in order, and those that only have a name."""
    args = node.args
    return [a.arg for a in (*args.posonlyargs, *args.args)], {a.arg for a in args.kwonlyargs}


def test_parameters_are_those_at_run_time(core, tensor):
    """Of what has one signature; overloads are told in full by the stub only."""
    compared = 0
    for names, owner in ((core, _C), (tensor, rl.Tensor)):
        for name, (node, *others) in names.items():
            found = inspect.getattr_static(owner, name, None)
            is_alone = not others and isinstance(node, ast.FunctionDef)
            if not is_alone or name.startswith("_") or not inspect.isroutine(found):
                continue
            signature = inspect.signature(found).parameters.values()
            kinds = {p.kind for p in signature}
            if inspect.Parameter.VAR_POSITIONAL in kinds:
                continue
            by_place, by_name = parameters_of(node)
            shown = [p.name for p in signature if p.kind is not p.KEYWORD_ONLY]
            if owner is rl.Tensor:  # self, whatever the function calls it
                by_place, shown = by_place[1:], shown[1:]
            assert by_place == shown, name
            assert by_name == {p.name for p in signature if p.kind is p.KEYWORD_ONLY}, name
            compared += 1
    assert compared > 700


def test_every_op_has_a_docstring(core, tensor):
    by_hand = {name for name, nodes in tensor.items() if name.startswith("_")}
    for name, nodes in (core | tensor).items():
        for node in nodes:
            if (
                isinstance(node, ast.FunctionDef)
                and not node.decorator_list
                and name not in by_hand
            ):
                assert ast.get_docstring(node) or name.startswith("_"), name


def test_named_results(core):
    """max(x, dim) returns return_types.max, whose fields a type checker knows."""
    text = (PACKAGE / "return_types.pyi").read_text()
    classes = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.ClassDef)}
    assert {"max", "sort", "topk", "linalg_svd", "slogdet"} <= set(classes)
    for name, node in classes.items():
        fields = [line.target.id for line in node.body if isinstance(line, ast.AnnAssign)]
        made = getattr(rl.return_types, name)
        assert fields == list(getattr(made, "__match_args__", None) or made._names)


STUBBED = sorted(
    path.parent if path.name == "__init__.pyi" else path.with_suffix("")
    for path in PACKAGE.rglob("*.pyi")
    if path not in (CORE, PACKAGE / "return_types.pyi")
)


@pytest.mark.parametrize("path", STUBBED, ids=lambda path: str(path.relative_to(PACKAGE.parent)))
def test_names_of_modules(path):
    """Every public name that can be got is exported by the stub, and the other way round."""
    module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).parts))
    source = path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
    listed = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = [name for name in listed if not hasattr(module, name)]
        names = getattr(module, "__all__", None) if module is not rl else None
        names = public(dir(module)) if names is None else names
        wanted = {name for name in names if is_shown(module, name)}
    assert not missing
    assert wanted <= set(listed)


def is_shown(module, name):
    """Submodules of packages are there once they are imported, to Python as to type checkers."""
    value = getattr(module, name, None)
    if inspect.ismodule(value) and module is not rl:
        return False
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "rushlight")
    return hasattr(module, name) and str(home).partition(".")[0] in ("rushlight", "builtins")


def test_the_package_says_that_it_has_types():
    assert (PACKAGE / "py.typed").exists()
