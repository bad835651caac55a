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
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (?:\w+=\S+ )?(\w+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


# Numbers that the README says in words, read from what they are about.
README = " ".join((ROOT / "README.md").read_text().split())
COUNTS = (
    "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
)
PARTS = " whole half third quarter fifth sixth seventh eighth ninth tenth eleventh twelfth".split(
    " "
)


def test_the_number_of_examples():
    said = re.search(r"(\w+) programs to start from", README)[1]
    assert COUNTS.index(said) == len(list((ROOT / "examples").glob("*.py")))


def test_the_time_of_tiny_calls():
    said = re.search(r"tiny tensor costs \[?an? (\w+)", README)
    results = (ROOT / "benchmarks" / "results" / "tiny.md").read_text()
    measured = float(re.search(r"numpy's time, ([\d.]+) of torch's", results)[1])
    assert PARTS.index(said[1]) == round(1 / measured)


def test_the_models_of_table_1():
    threads, models = re.search(r"on (\w+) threads all (\w+) models", README).groups()
    results = (ROOT / "benchmarks" / "results" / "table1.md").read_text()
    section = re.search(rf"## {COUNTS.index(threads)} thread.*?\n\n(.*?)\n\n", results, re.DOTALL)[
        1
    ]
    rows = [line.split("|") for line in section.splitlines()[2:]]
    assert len(rows) == COUNTS.index(models)
    ratio = section.splitlines()[0].split("|").index(" ratio ")
    assert all(float(r) > 1 for row in rows for r in row[ratio].split("/")), rows
