"""The README's example runs and learns what its comment says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_example(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    w, b = map(float, capsys.readouterr().out.split()[-2:])
    assert (w, b) == pytest.approx((3.0, 0.5), abs=1e-3)
