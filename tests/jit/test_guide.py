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
    for number, block in enumerate(blocks):
        path = tmp_path / f"example{number}.py"  # script reads the source from a file
        path.write_text(block)
        exec(compile(block, str(path), "exec"), names)
    shown = re.findall(r"^```\n((?:def forward|script:).*?)^```$", text, re.M | re.S)
    printed = re.sub(r'"[^"]*example\d+.py"', '"example.py"', capsys.readouterr().out)
    assert printed.strip() == "".join(shown).replace("return %4\n", "return %4\n\n").strip()
    assert (tmp_path / "model.rush").exists()


class Counts(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x, n: int = 2):
        for _ in range(n):
            self.count += 1
        if self.count > 3:
            return x + 1
        return x


def test_the_guide_lists_the_keys_of_the_format():
    page = PAGE.read_text()
    data = rl.jit.trace(rl.nn.Linear(2, 2), rl.ones(1, 2)).save_to_buffer()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        program = json.loads(archive.read("program.json"))
    method = program["methods"][0]
    scripted = rl.jit.script(Counts()).save_to_buffer()
    with zipfile.ZipFile(io.BytesIO(scripted)) as archive:
        script = json.loads(archive.read("program.json"))
    function = script["functions"][0]
    parts = (program, program["state"][0], method, method["body"][0], script, function)
    for part in (*parts, script["attributes"][0], *function["body"], *function["inputs"]):
        for key in part:
            assert f"`{key}`" in page, key
