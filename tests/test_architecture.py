"""docs/architecture.md walks two calls through the code: the files and functions are there."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "codegen"))

import generate  # noqa: E402

# A line of a walk: number, file, function, what it does.
STEP = re.compile(r"^ *(\d+)  (\S+) +(\S+)  +\S", re.M)
MOST_FILES = 9


def walks():
    """(first line, steps) of each fenced block in the section."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = re.search(r"^## The way of one call$(.*?)^## ", text, re.M | re.S).group(1)
    for block in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S):
        title, rest = block.split("\n", 1)
        yield title, STEP.findall(rest)


WALKS = list(walks())
STEPS = [(path, name) for _, steps in WALKS for _, path, name in steps]


@pytest.fixture(scope="module")
def generated():
    return generate.outputs(sorted((ROOT / "csrc" / "ops").glob("*/*.yaml")))


def test_calls_are_walked():
    titles = [title for title, _ in WALKS]
    assert [t.split(",")[0] for t in titles] == ["x * y", "conv2d of images on a GPU"]


@pytest.mark.parametrize(("title", "steps"), WALKS, ids=[title for title, _ in WALKS])
def test_a_call_passes_few_files(title, steps):
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert 0 < len({path for _, path, _ in steps}) <= MOST_FILES


@pytest.mark.parametrize(("path", "name"), STEPS)
def test_a_step_is_where_the_page_says(path, name, generated):
    if path.startswith("generated/"):
        text = generated[path.removeprefix("generated/")]
    else:
        text = (ROOT / "csrc" / path).read_text()
    assert re.search(rf"\b{re.escape(name)}\b\s*[({{<;:]", text), f"{name} is not in {path}"
