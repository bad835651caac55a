"""The Python blocks of docs/programs.md run, one after the other, and print what the page says."""

import io
import json
import re
import zipfile
from pathlib import Path

import rushlight as rl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) >= 3
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    shown = re.search(r"^```\n(def forward.*?)^```$", text, re.M | re.S).group(1)
    assert capsys.readouterr().out.strip() == shown.strip()
    assert (tmp_path / "model.rush").exists()


def test_the_guide_lists_the_keys_of_the_format():
    page = PAGE.read_text()
    data = rl.jit.trace(rl.nn.Linear(2, 2), rl.ones(1, 2)).save_to_buffer()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        program = json.loads(archive.read("program.json"))
    method = program["methods"][0]
    for part in (program, program["state"][0], method, method["body"][0]):
        for key in part:
            assert f"`{key}`" in page, key
