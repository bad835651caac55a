"""Names, order and defaults of parameters, against oracle/signatures.json."""

import ast
import json
import re
from pathlib import Path

import pytest
from ops import rows
from ops.sample import (
    FUNC,
    TESTS,
    Inputs,
    assert_same,
    collected,
    dtypes_of,
    lookup,
    result_dtypes,
    run,
    table_rows,
)

import rushlight as rl

SIGNATURES = json.loads((Path(__file__).parent / "oracle" / "signatures.json").read_text())
ROWS = [r for r in collected(rows.ROWS) if r.name in SIGNATURES]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_arguments_may_be_named(row):
    for i, names in enumerate(SIGNATURES[row.name]["calls"]):
        dtype = next((d for d in dtypes_of(row) if result_dtypes(row, i, d)), None)
        if not names or dtype is None:
            continue
        inputs = Inputs(row, i, dtype)
        args, kwargs = inputs.tensors()
        got = lookup(row.name)(**dict(zip(names, args, strict=False)), **kwargs)
        if row.values:
            assert_same(got, run(row, *inputs.tensors()), f"{row.name}({', '.join(names)})")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_forms_exist(row):
    known, short = SIGNATURES[row.name]["forms"], row.name.split(".")[-1]
    assert "f" not in known or lookup(row.name) is not None, f"no function {row.name}"
    assert "m" not in known or hasattr(rl.Tensor, short), f"no method {short}"
    assert "i" not in known or hasattr(rl.Tensor, short + "_"), f"no in-place {short}_"


def table_entries():
    """(base name, [(name, kind, default)]) of every entry of the op table."""
    for file in sorted((TESTS.parent / "csrc" / "ops").rglob("*.yaml")):
        pattern = r"""func:\s*['"]?([\w.]+)\((.*?)\)\s*->"""
        for name, arguments in re.findall(pattern, file.read_text()):
            if name.endswith("_first"):
                continue  # old spellings, which PyTorch accepts but does not list
            yield name.split(".")[0], parse(arguments)


INTERNAL = {re.search(FUNC, r)[1].split(".")[0] for r in table_rows() if "forms: internal" in r}


def parse(arguments):
    kind, found = "p", []
    for part in re.split(r",\s*(?![^\[(]*[\])])", arguments):
        if part.strip() == "*":
            kind = "k"
        elif part.strip():
            left, _, default = part.partition("=")
            found.append((left.split()[-1], kind, default.strip() or "required"))
    return found


# PyTorch's schemas leave out what its Python layer adds: requires_grad to every factory (they have
# pin_memory), and the arguments of methods that are bound by hand.
BOUND_BY_HAND = {"cpu": {"memory_format"}}


def visible(name, ours):
    names = {n for n, _, _ in ours}
    added = {"out"} | BOUND_BY_HAND.get(name, set())
    if "pin_memory" in names:
        added.add("requires_grad")
    return [(n, kind) for n, kind, _ in ours if n not in added]


def same_order(ours, theirs):
    """Only positional arguments have an order."""
    return ours == [n for n in theirs if n in ours]


def known_to_pytorch(name):
    """What PyTorch's table says of an op that users call; skips the others."""
    if name in INTERNAL or name.startswith("_"):
        pytest.skip("an op for other ops: its arguments are ours to choose")
    known = SIGNATURES.get(name)
    if not known or not known["overloads"]:
        pytest.skip("PyTorch has no op of this name")
    return known


@pytest.mark.parametrize("name, ours", list(table_entries()))
def test_table_follows_pytorch(name, ours):
    known = known_to_pytorch(name)
    ours = [("self" if n == "input" else n, kind) for n, kind in visible(name, ours)]
    names, positional = [n for n, _ in ours], [n for n, kind in ours if kind == "p"]
    lists = [[a[0] for a in o] for o in known["overloads"] + [known["python"] or []]]
    lists = [["self" if n == "input" else n for n in x] for x in lists]
    fits = [x for x in lists if set(names) <= set(x) and same_order(positional, x)]
    assert fits, f"{name}({', '.join(names)}); PyTorch: {lists}"


# The same default in two spellings. PyTorch's schemas number dtypes and memory formats.
SAME_DEFAULT = {
    ("pin_memory", "None"): False,
    ("dtype", "4"): None,  # int64, which these ops choose by themselves
    ("memory_format", "0"): "contiguous_format",
}


def default_value(name, text):
    try:
        return SAME_DEFAULT.get((name, text), ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


# PyTorch's schema says 1, the mean, and torch.ctc_loss takes 0, none (nn/test_ctc.py).
SCHEMA_IS_WRONG = {("ctc_loss", "reduction")}


def default_faults(name, ours, theirs):
    """Arguments whose default differs from that of one of PyTorch's overloads."""
    known = {("self" if n == "input" else n): d for n, _, d in theirs}
    for n, _, default in ours:
        other = known["self" if n == "input" else n]
        if other == "required" or (name, n) in SCHEMA_IS_WRONG:
            continue  # we may be more generous: PyTorch has an overload without it, or none
        if default == "required":
            # Then another entry of ours must be the call without it.
            if not any(n not in [a[0] for a in entry] for entry in entries_of(name)):
                yield n, default, other
        elif not same_default(default_value(n, default), default_value(n, other)):
            yield n, default, other


def same_default(ours, theirs):
    """One number stands for a list of it: a stride of 1 for [1, 1]."""
    return ours == theirs or (isinstance(theirs, list) and theirs == [ours] * len(theirs))


def entries_of(name):
    return [ours for other, ours in table_entries() if other == name]


@pytest.mark.parametrize("name, ours", list(table_entries()))
def test_defaults_follow_pytorch(name, ours):
    known = known_to_pytorch(name)
    seen = {n for n, _ in visible(name, ours)}
    ours = [a for a in ours if a[0] in seen]
    names = {"self" if n == "input" else n for n in seen}
    fits = [
        o
        for o in known["overloads"] + [known["python"] or []]
        if names <= {"self" if a[0] == "input" else a[0] for a in o}
    ]
    assert fits
    faults = [list(default_faults(name, ours, o)) for o in fits]
    assert [] in faults, f"{name}: (argument, ours, PyTorch's): {min(faults, key=len)}"


def test_the_check_of_defaults_sees_faults():
    ours = [("self", "p", "required"), ("dim", "p", "0"), ("keepdim", "p", "False")]
    assert not list(default_faults("cumsum", ours, ours))
    other = [("self", "p", "required"), ("dim", "p", "-1"), ("keepdim", "p", "False")]
    assert list(default_faults("cumsum", ours, other)) == [("dim", "0", "-1")]


def test_the_parser_of_the_table():
    assert parse("Tensor self, int[1]? dim=None, *, bool keepdim=False, int[] s=[1, 2]") == [
        ("self", "p", "required"), ("dim", "p", "None"),
        ("keepdim", "k", "False"), ("s", "k", "[1, 2]"),
    ]  # fmt: skip
