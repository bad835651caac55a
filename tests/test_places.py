"""The rows say where an op is public (`python:`), and it is there."""

import inspect
import pkgutil
import sys
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType

import pytest

import rushlight as rl
from rushlight import _C

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "codegen"))

import emit_places  # noqa: E402
from schema import load_all  # noqa: E402

ROWS = load_all((ROOT / "csrc" / "ops").rglob("*.yaml"))
PLACES = {(place, public, op) for row in ROWS for place, public, op in row.places}
THROUGH = sorted({(row.name, public) for row in ROWS for public in row.through})


def names_in(code):
    """The names that a function reads, those of the functions inside it too."""
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def functions_of(value):
    """A function itself; of a class, its methods; of a table of functions, these."""
    if isinstance(value, dict):
        return list(value.values())
    return list(vars(value).values()) if isinstance(value, type) else [value]


def reached(value):
    """Names of ops that a function calls, or the functions of the package that it calls."""
    found, seen, left = set(), set(), functions_of(value)
    while left:
        function = left.pop()
        if inspect.isbuiltin(function):
            found.add(function.__name__)
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        left += [cell.cell_contents for cell in function.__closure__ or ()]
        names = names_in(function.__code__)
        found |= names & vars(_C).keys()
        for used in (function.__globals__.get(name) for name in names):
            is_ours = getattr(used, "__module__", "").startswith("rushlight")
            if isinstance(used, dict) or (is_ours and isinstance(used, FunctionType)):
                left += functions_of(used)
    return found


@pytest.mark.parametrize(("op", "public"), THROUGH, ids=[f"{o}-{p}" for o, p in THROUGH])
def test_private_ops_are_public_through_functions_that_call_them(op, public):
    place, _, name = f"rushlight.{public}".rpartition(".")
    assert op in reached(getattr(pkgutil.resolve_name(place), name))  # it may be imported late


def test_what_is_not_called_is_not_reached():
    assert "_svd" not in reached(rl.linalg.qr)
    assert "_max_pool3d_with_indices" not in reached(rl.nn.functional.avg_pool2d)


def test_ops_are_where_their_rows_say():
    for place, public, op in PLACES:
        if place == "top":
            assert hasattr(rl, public), public
        elif place != "private":
            found = getattr(attrgetter(place)(rl), public)
            assert inspect.unwrap(found) is getattr(_C, op), f"{place}.{public}"


@pytest.mark.parametrize("place", emit_places.PACKAGES)
def test_packages_export_what_the_rows_say(place):
    names = {public for p, public, _ in PLACES if p == place}
    names |= {p.removeprefix(f"{place}.") for _, p in THROUGH if p.rpartition(".")[0] == place}
    module = getattr(rl, place)
    assert names <= set(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in names:
        assert getattr(module, name).__module__ == f"rushlight.{place}"
