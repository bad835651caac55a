"""The examples of docstrings: each runs as it stands, and gives what it says, to the letter.

The text of an op's docstring comes from its row (codegen/docstrings.py). tools/docs_coverage.py
says what a documented name is; here every public one has to be.
"""

import doctest
import importlib.util
import inspect
import pydoc
import re
import warnings
from pathlib import Path

import pytest

import rushlight as rl

ROOT = Path(__file__).resolve().parent.parent


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = load_tool("docs_coverage")


@pytest.fixture(scope="module")
def names():
    return list(coverage.public())


def failures(examples):
    """What examples give instead of what they say."""
    parser, said = doctest.DocTestParser(), []
    runner = doctest.DocTestRunner(verbose=False)
    for name, text in examples:
        rl.manual_seed(0)
        warnings.simplefilter("ignore")  # deprecated and young names are public, too
        test = parser.get_doctest(text, coverage.example_names(), name, None, 0)
        runner.run(test, out=said.append)
    return "".join(said)


def test_examples_give_what_they_say(names):
    examples = {text: name for name, text in coverage.examples(names)}
    assert len(examples) > 900
    assert not failures((name, text) for text, name in examples.items())


def test_a_wrong_example_is_found():
    assert "Got:\n    tensor([2])" in failures([("f", ">>> rl.tensor([1]) + 1\ntensor([3])\n")])


def test_every_public_name_is_documented(names):
    said = {name: coverage.faults(name, value) for name, value in names}
    assert len(said) > 2000 and not {name: fault for name, fault in said.items() if fault}


def of_integers(function, doc):
    """The dtype that a function of the table gives for integers, or RuntimeError."""
    args = []
    for p in coverage.parameters(function):
        kind = re.search(rf"(?m)^    {p.name} \((.*?)\)", doc)[1]
        if p.default is p.empty and p.kind is not p.KEYWORD_ONLY:
            args.append(rl.ones(2, 2, dtype=rl.int64) if kind.startswith("Tensor") else 1)
    try:
        return function(*args).dtype
    except RuntimeError:
        return RuntimeError


def test_returns_says_what_integers_become(names):
    """Most of these sentences follow from kernels (docstrings.pointwise_result)."""
    checked, wrong = 0, {}
    for name, function in names:
        doc = inspect.getdoc(function) or ""
        said = re.search(r"Returns:\n +Tensor: of the \w+ shape(.*dtype|, float64)", doc)
        if not (said and inspect.isbuiltin(function)) or "if neither bound is given" in doc:
            continue
        found = of_integers(function, doc)
        expected = rl.float32 if "the default dtype" in said[1] else rl.int64
        if "float64" in said[1]:
            expected = rl.float64
        elif re.search(r"for integers( and bools)?\.|for integer tensors\.", doc):
            expected = RuntimeError
        checked += 1
        if found is not expected:
            wrong[name] = f"{found}, it should be {expected}"
    assert checked > 80 and not wrong


def test_out_is_told_as_several_tensors_where_it_is(names):
    for name, function in names:
        out = {p.name: p for p in coverage.parameters(function)}.get("out")
        said = out and re.search(r"(?m)^    out: (.*)", inspect.getdoc(function) or "")
        if said:
            assert ("Sequence" in str(out.annotation)) == said[1].startswith("tensors"), name


def test_methods_that_are_loaded_later_name_where_they_are_told():
    methods = {name: inspect.getattr_static(rl.Tensor, name) for name in dir(rl.Tensor)}
    said = {name: getattr(method, "__doc__", None) or "" for name, method in methods.items()}
    found = {name: re.fullmatch(r"See ([\w.]+)\.", text) for name, text in said.items()}
    places = {name: place[1] for name, place in found.items() if place}
    assert len(places) > 35 and all(pydoc.locate(place).__doc__ for place in places.values())
    # A public one sends nobody to a place that the reference does not have.
    assert not [n for n, place in places.items() if "._" in place and not n.startswith("_")]


CASES = {
    "def f(x, scale=1):\n    '''Scales x.'''\n": "arguments are not described: x, scale",
    "def scale_up(x):\n    '''Scale x up.'''\n": "the summary says what the name says",
    "def f(x):\n    '''Takes the root of numbers.\n\n    Arguments:\n        x: y.\n    '''\n":
        "no example",
    "def f(x, n=1):\n    '''The powers of numbers.\n\n    Arguments:\n        x, n: y.\n\n"
    "    Example:\n        >>> f(2)\n        2\n    '''\n": "the example shows only defaults",
    "def f(x, n=1):\n    '''The powers of numbers.\n\n    Arguments:\n        x, n: y.\n\n"
    "    Example:\n        >>> g(2, n=1)\n        2\n    '''\n": "the example does not call it",
}  # fmt: skip


@pytest.mark.parametrize("source", CASES)
def test_what_counts_as_documented(source):
    made = {}
    exec(source, made)
    (function,) = (v for k, v in made.items() if not k.startswith("__"))
    assert CASES[source] in coverage.faults(function.__name__, function)
