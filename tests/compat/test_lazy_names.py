"""Names of the package that are loaded when first used: the table, and how names are found."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._names.lazy_table import MODULE_OF, SUBMODULES

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "rushlight"


def test_the_table_is_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "lazy_names.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(MODULE_OF))
def test_a_name_is_in_the_module_that_the_table_names(name):
    """One look into the table, one into the module's own names: no chain of __getattr__s."""
    module = importlib.import_module(MODULE_OF[name])
    if MODULE_OF[name].startswith("rushlight._functions"):
        assert name in vars(module)
    assert getattr(rl, name) is getattr(module, name)


def test_listed_names_can_be_had():
    listed = dir(rl)
    assert {*MODULE_OF, *SUBMODULES} <= {*listed}
    for name in listed:
        assert hasattr(rl, name), name


def test_a_star_imports_what_is_there_from_the_start():
    code = (
        "import rushlight\n"
        "public = {n for n in vars(rushlight) if n[0] != '_'}\n"
        "space = {}\n"
        "exec('from rushlight import *', space)\n"
        "assert public == set(space) - {'__builtins__'}\n"
        "assert {'tensor', 'nan', 'no_grad', 'quantile', 'hann_window', 'save'} <= public\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_shows_the_package():
    import pydoc

    text = pydoc.render_doc(rl._functions.statistics, renderer=pydoc.plaintext)
    assert "cov(" in text and "histogramdd(" in text


def functions_of(folder):
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name, path.name


@pytest.mark.parametrize("folder", ["_functions", "_tensor"])
def test_no_function_is_defined_twice(folder):
    seen = {}
    for name, path in functions_of(PACKAGE / folder):
        helper = name.startswith("_") and name not in MODULE_OF  # private to its file
        if name == "_grad_dtype":  # a property and its setter
            continue
        assert (path if helper else "") + name not in seen, f"{name} is in {path} and before"
        seen[(path if helper else "") + name] = path


def test_files_are_named_by_topic():
    leftovers = "_more _rare _tensor_more _private_ops _private_functions _public _api _core_names"
    assert not [n for n in leftovers.split() if (PACKAGE / f"{n}.py").exists()]
    assert not (PACKAGE / "cuda" / "_other.py").exists()


def test_importing_loads_no_table_of_absent_names():
    code = (
        "import sys, rushlight\n"
        "late = ['absent_names', 'lazy', 'lazy_table', 'core', 'no_device']\n"
        "assert not [n for n in late if f'rushlight._names.{n}' in sys.modules]\n"
        "assert 'rushlight.testing._comparison' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
