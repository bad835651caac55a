"""The examples of the guides run; and importing the package loads none of this."""

import re
from pathlib import Path

import pytest
import scripts

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks():
    for name in ("data", "multiprocessing"):
        text = (DOCS / f"{name}.md").read_text()
        for i, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            yield pytest.param(block, id=f"{name} {i}")


@pytest.mark.parametrize("block", list(blocks()))
def test_examples_of_the_guides(block):
    scripts.run(block)


def test_loaded_when_first_used():
    out = scripts.run(
        """
import sys
import rushlight as torch

names = ("multiprocessing", "rushlight.utils.data", "rushlight.multiprocessing", "numpy")
assert not [n for n in names if n in sys.modules]
assert torch.utils.data.DataLoader and "rushlight.multiprocessing" not in sys.modules
assert torch.multiprocessing.Queue
assert "rushlight.nn" not in sys.modules
print("fine")
"""
    )
    assert out == "fine\n"
