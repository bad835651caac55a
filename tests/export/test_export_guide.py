"""The Python blocks of docs/export.md run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def test_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 3
    names = {"__name__": "guide"}
    for number, block in enumerate(blocks):
        exec(compile(block, str(tmp_path / f"example{number}.py"), "exec"), names)
    assert (tmp_path / "model.rush").exists()
