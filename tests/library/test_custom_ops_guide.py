"""The Python blocks of docs/custom_ops.md run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "custom_ops.md"


def test_the_guide_runs():
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 2
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    names["lib"]._destroy()
