"""Checks that numbers which the pages quote from benchmarks/results stand there.

    python tools/check_quotes.py [page.md ...]      # default: every page of the repository

A quote is a link to a file of results whose text is the number and whose title names the row:

    [0.12](benchmarks/results/tiny.md "Geometric mean")
    [1.56](../../benchmarks/results/ablation.md "caching allocator off")
    [0.46](../benchmarks/results/attention.md "2 threads > sdpa causal, step")

The title is the first cell of a table's row (or its first cells, "1 | torch"), or the beginning of
a line of text, and has to fit exactly one line; where a file repeats its rows, the heading (or the
line above the table) stands before a ">". Every number of the link's text has to stand in that
line. A link to results without a number in its text, such as [tiny.md](...), quotes nothing.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^\]\[]+)\]\(([^)\s]*results/[^)\s]+\.md)(?:\s+\"([^\"]*)\")?\)")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")


def sections(text):
    """(headings, line) for each line: the last line with a #, and the one above the table."""
    headings = ["", ""]
    lines = [line.strip() for line in text.splitlines()]
    for i, line in enumerate(lines):
        if line.startswith("#"):
            headings = [line.lstrip("# "), ""]
        elif line.startswith("|") and i > 1 and not lines[i - 1]:
            headings[1] = lines[i - 2]
        yield tuple(headings), line


def rows(text, title):
    """What the lines of a file of results that a title names say beyond it."""
    section, _, row = title.rpartition(" > ")
    for headings, line in sections(text):
        if not any(heading.startswith(section) for heading in headings):
            continue
        if line.startswith("|"):
            cells = line.strip("| ").replace("`", "") + " | "
            if cells.startswith(row + " | "):
                yield cells.removeprefix(row + " | ")
        elif row and line.startswith(row):
            yield line.removeprefix(row)


def faults(page):
    """What is wrong with the quotes of a page, one line of text for each."""
    for text, target, title in LINK.findall(page.read_text()):
        quoted = NUMBER.findall(text)
        if not quoted or text.endswith(".md"):
            continue
        where = f"{page.relative_to(ROOT)}: [{text}]({target})"
        if not title:
            yield f"{where} names no row"
            continue
        source = (page.parent / target).resolve()
        if not source.exists():
            yield f"{where}: there is no such file"
            continue
        found = list(rows(source.read_text(), title))
        if len(found) != 1:
            yield f'{where}: {len(found)} lines fit "{title}"'
        elif missing := [n for n in quoted if n not in NUMBER.findall(found[0])]:
            yield f"{where}: {', '.join(missing)} not in: {found[0]}"


def pages():
    yield from sorted(ROOT.glob("*.md"))
    for folder in (".github", "benchmarks", "docs", "examples", "tests"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def main(names):
    chosen = [Path(name).resolve() for name in names] or list(pages())
    wrong = [fault for page in chosen for fault in faults(page)]
    print("\n".join(wrong) or f"The quotes of {len(chosen)} pages agree with the results")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
