"""What the README shows and links to is there: its program runs, its links lead somewhere."""

import re
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]


def test_the_first_program(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert float(capsys.readouterr().out.split()[-1]) < 1e-3
    assert set(rushlight.load("sine.pt")) == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (?:\w+=\S+ )?(\w+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
