"""The pages in Markdown: links lead somewhere, files they name exist, numbers they quote are those
that were measured, and the language is plain. The templates of issues are what they should be."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

import rushlight

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ".github benchmarks codegen cmake csrc docs examples rushlight tests tools".split()


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quotes = load_tool("check_quotes")
PAGES = list(quotes.pages())
DECISIONS = [p for p in PAGES if p.parent.name == "decisions" and p.name != "README.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def without_code(text):
    """A page's text without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page):
    """What the headings of a page are called in links, as GitHub makes it of their text."""
    names = []
    for heading in re.findall(r"^#+ +(.*?) *$", without_code(page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return set(names) | {f"{name}-{i}" for name in names for i in range(1, names.count(name))}


# ---- links ----


def broken_links(page):
    text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            yield target


@each_page
def test_links_lead_somewhere(page):
    assert not list(broken_links(page))


def test_broken_links_are_found(tmp_path):
    (tmp_path / "b.md").write_text("# One\n\n## Two words, `code`\n\n## One\n")
    page = tmp_path / "a.md"
    page.write_text(
        "[x](b.md#one) [x](b.md#two-words-code) [x](b.md#one-1) [x](b.md) [x](https://x.org)"
        '[x](c.md) [x](b.md#three) [x](#four) [1](d.md "row") `[x](e.md)`\n```\n[x](f.md)\n```\n'
    )
    assert list(broken_links(page)) == ["c.md", "b.md#three", "#four", "d.md"]


@pytest.mark.parametrize("folder", ["docs", "docs/decisions"])
def test_the_index_lists_every_page(folder):
    index = ROOT / folder / "README.md"
    listed = set(re.findall(r"\]\(([^)#\s]+\.md)\)", index.read_text()))
    assert not {p.name for p in index.parent.glob("*.md")} - listed - {"README.md"}


def test_the_site_lists_every_page():
    """Sphinx would only say so in `make docs`, which needs a network."""
    site = ROOT / "docs" / "site"
    text = "".join(path.read_text() for path in site.rglob("*.md"))
    blocks = re.findall(r"(?ms)^```\{toctree\}$(.*?)^```$", text)
    listed = {line.split("/")[-1] for line in " ".join(blocks).split()}
    pages = [*(ROOT / "docs").glob("*.md"), *site.rglob("*.md")]
    assert {path.stem for path in pages} - listed <= {"README", "index"}


def test_every_benchmark_is_listed():
    page = (ROOT / "benchmarks" / "README.md").read_text()
    listed = set(re.findall(r"^\| `(\w+\.py)`", page, re.MULTILINE))
    assert not {p.name for p in (ROOT / "benchmarks").glob("bench_*.py")} - listed


# ---- snippets; other tests run those of the pages that need more than the package ----

GUIDES = """autograd data distributions doctor func multiprocessing nested nn numerics optim porting
quantization saving sparse site/index"""
# Where the others are run.
ELSEWHERE = {
    "adding_an_op": "test_adding_an_op.py", "compile": "compiler/test_compile.py",
    "custom_ops": "library/test_custom_ops_guide.py",
    "distributed": "distributed/test_distributed_guides.py",
    "export": "export/test_export_guide.py", "fx": "fx/test_graphs.py",
    "onnx": "onnx_export/test_export.py", "profiler": "profiler/test_output.py",
    "programs": "jit/test_guide.py", "rpc": "distributed/test_distributed_guides.py",
}  # fmt: skip


def snippets(page):
    return re.findall(r"(?ms)^```python$\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text())


def test_no_page_with_snippets_is_forgotten():
    docs = ROOT / "docs"
    pages = {p.relative_to(docs).with_suffix("").as_posix() for p in docs.rglob("*.md")}
    assert {p for p in pages if snippets(p)} == {*GUIDES.split(), *ELSEWHERE, "config", "cuda"}
    for page, test in ELSEWHERE.items():
        name = page.rpartition("/")[2]
        assert f"{name}.md" in (text := (ROOT / "tests" / test).read_text()) or f'"{name}"' in text


@pytest.mark.parametrize("guide", GUIDES.split())
def test_snippets_of_guides_run(guide, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("".join(snippets(guide)))
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    assert program.stat().st_size and done.returncode == 0, done.stderr


def test_snippets_about_settings():
    """The second one is for those who add a setting, and names two that do not exist."""
    use, add = snippets("config")
    with rushlight.config.patch():
        exec(use, {})
        compile(add, "config.md", "exec")


def test_snippets_about_gpus():
    first, graphs = snippets("cuda")
    compile(graphs, "cuda.md", "exec")
    if rushlight.cuda.is_available():
        model, criterion = rushlight.nn.Linear(8, 2).cuda(), rushlight.nn.CrossEntropyLoss()
        batch = (rushlight.ones(4, 8).cuda(), rushlight.zeros(4).long().cuda())
        optimizer = rushlight.optim.SGD(model.parameters(), lr=0.1)
        space = {"model": model, "criterion": criterion, "optimizer": optimizer,
                 "batches": [batch], "static_input": batch[0].clone(),
                 "static_target": batch[1].clone()}  # fmt: skip
        criterion(model(batch[0]), batch[1]).backward()  # what a graph records has run before
        exec(first, space)
        exec(graphs, space)
    else:
        with pytest.raises(RuntimeError, match="CUDA"):
            exec(first, {})


# ---- files ----

A_FILE = re.compile(r"[\w.<>*\-/]+\.(h|cpp|cu|py|pyi|md|yaml|yml|cmake|sh|json)|\w+/[\w/]+\.\*")
A_FOLDER = re.compile(r"(csrc|docs|tools|tests|rushlight|benchmarks|codegen|cpu|cuda|ops)/[\w/]*")
MADE_BY_A_BUILD = re.compile(r"<build>|rushlight/(lib|_C)\b|ops/(<\w+>_ops|ops)\.h")


@cache
def files():
    found = [*ROOT.iterdir(), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    return [p.relative_to(ROOT).as_posix() for p in found]


def named_files(text):
    """What stands in backticks and looks like a path. What a build makes is not looked for, nor
    what an example has the reader write (docs/adding_an_op.md)."""
    for name in re.findall(r"`([^`\s]+)`(?!, a new file)", without_code(text)):
        if A_FILE.fullmatch(name) or A_FOLDER.fullmatch(name):
            if not MADE_BY_A_BUILD.match(name):
                yield name.rstrip("/")


def exists(path):
    """From the root, from csrc, or below any folder: `graph_task.cpp` is found where it lies."""
    parts = re.split(r"<\w+>|\*", path)
    pattern = re.compile("(^|/)" + "[^/]*".join(re.escape(part) for part in parts) + "$")
    return any(pattern.search(name) for name in files())


NAMING = [ROOT / "CONTRIBUTING.md", *(p for p in PAGES if p.parent.name in ("docs", "decisions"))]


@pytest.mark.parametrize("page", NAMING, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    assert not [path for path in named_files(page.read_text()) if not exists(path)]


def test_files_are_looked_for():
    text = "`tests/README.md`, `tools/none.sh`, `csrc/ops/`, `a.b`, `x + y`, `core/*_none.h`"
    found = {path: exists(path) for path in named_files(text)}
    assert [p for p, there in found.items() if there] == ["tests/README.md", "csrc/ops"]
    assert [p for p, there in found.items() if not there] == ["tools/none.sh", "core/*_none.h"]
    for page in ("glossary", "architecture"):
        assert len(list(named_files((ROOT / "docs" / f"{page}.md").read_text()))) > 20


# ---- numbers ----


@each_page
def test_quoted_numbers_are_those_of_the_results(page):
    assert not list(quotes.faults(page))


def test_wrong_quotes_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(quotes, "ROOT", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.md").write_text(
        "## 1 thread\n\n| x | 1.5 ±2% | 0.30 |\n\n"
        "## 2 threads\n\n| x | 1.2 | 0.25 |\n| y | 7 | 8 |\n\nGeometric mean: 0.27.\n"
    )

    def found(quote):
        (tmp_path / "page.md").write_text(quote)
        return list(quotes.faults(tmp_path / "page.md"))

    assert not found('[0.30](results/a.md "1 thread > x"), [7 and 8](results/a.md "y")')
    assert not found('[0.27](results/a.md "Geometric mean"), [a.md](results/a.md)')
    assert "not in" in found('[0.31](results/a.md "1 thread > x")')[0]
    assert "2 lines fit" in found('[0.30](results/a.md "x")')[0]
    assert "0 lines fit" in found('[0.30](results/a.md "z")')[0]
    assert "names no row" in found("[0.30](results/a.md)")[0]
    assert "no such file" in found('[0.30](results/b.md "x")')[0]


@pytest.mark.parametrize("page", ["README.md", "docs/performance.md"])
def test_there_are_quotes(page):
    found = quotes.LINK.findall((ROOT / page).read_text())
    assert len([title for _, _, title in found if title]) >= 3


# ---- language ----

UNITS = (
    "batch|block|byte|call|case|channel|class|column|core|device|dim|dtype|element|epoch|family|file"
    "|gradient|image|iteration|kernel|layer|line|loop|machine|message|model|module|name|node|number"
    "|op|operation|page|pair|pass|place|process|program|Python|region|row|run|sample|second"
    "|side|step|stream|table|tensor|thread|token|type|word|worker"
)
DISTRIBUTIVE = re.compile(
    r"\b(once|one \.?\w+|(?:two|three|four) \w+s|seconds|samples|images|tokens|operations|steps"
    r"|seeds|[\d.,]+ ?(?:ns|us|ms|s|bits?|bytes|(?:nano|micro|milli)?seconds)"
    rf"|nanoseconds|microseconds|milliseconds) an? ({UNITS})\b",
    re.IGNORECASE,
)
SOURCES = [
    p
    for d in ("benchmarks", "codegen", "examples", "tools")
    for p in sorted((ROOT / d).glob("*.py"))
]


@pytest.mark.parametrize("page", [*PAGES, *SOURCES], ids=lambda p: str(p.relative_to(ROOT)))
def test_per_is_written_where_it_is_meant(page):
    """Not "one table a device": "one table per device"."""
    assert not [m[0] for m in DISTRIBUTIVE.finditer(" ".join(page.read_text().split()))]


def test_the_distributive_article_is_found():
    assert DISTRIBUTIVE.search("one bit a dtype") and DISTRIBUTIVE.search("once a call")
    assert DISTRIBUTIVE.search("5 us an op") and DISTRIBUTIVE.search("samples a second")
    assert not DISTRIBUTIVE.search("one bit per dtype; a call that happens once")


# ---- decisions, changes, templates ----


@pytest.mark.parametrize("page", DECISIONS, ids=lambda p: p.stem)
def test_a_decision_says_what_was_measured(page):
    text = page.read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["Context", "Options", "What was measured", "Decision", "Consequences"]
    measured = " ".join(text.split("## What was measured")[1].split("## ")[0].split())
    assert re.search(r"`benchmarks/\w+\.py`", measured) or "reasoned, not measured" in measured


def test_the_changelog_knows_the_version():
    settings = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.*)"', settings, re.MULTILINE)[1]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", version]


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_there_are_issue_forms():
    assert {p.stem for p in FORMS} == {"bug", "config", "missing_or_different", "slower"}


@pytest.mark.parametrize("path", [p for p in FORMS if p.stem != "config"], ids=lambda p: p.stem)
def test_issue_forms(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) and {"program", "version"} <= set(ids)
    for field in fields:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes")
        assert field["attributes"]["label"]


ADDRESS = re.compile(r"[\w.]+@\w+\.[a-z]+\b|/(?:home|root|work)/\w+")


def test_no_page_names_an_address_or_a_folder_of_ours():
    pages = [*PAGES, *FORMS]
    found = {str(p.relative_to(ROOT)): ADDRESS.findall(p.read_text()) for p in pages}
    assert not {page: names for page, names in found.items() if names}
