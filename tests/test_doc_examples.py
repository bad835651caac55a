"""The examples of docstrings: each runs as it stands, and gives what it says, to the letter.

The text of an op's docstring comes from its row (codegen/docstrings.py). tools/docs_coverage.py
counts what is documented; here the count may not fall.
"""

import doctest
import importlib.util
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


def test_documentation_does_not_shrink(names):
    counted = coverage.count(names)
    for area, share in coverage.AT_LEAST.items():
        good, total = counted[area]
        assert good >= share * total, f"{area}: {good} of {total} are documented"


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
