"""Lays the pages of the site into one folder for Sphinx: stage.py FOLDER

The pages of the repository stay plain files whose links work there. Here they are copied under the
names that the site gives them, and their links follow: a page leads to its copy, another file of
the repository to its source as the site shows it (`source:path`, see conf.py).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import plots
import reference

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
PROJECT = "CHANGELOG CODE_OF_CONDUCT CONTRIBUTING SECURITY".split()
FENCE = re.compile(r"^( *)(`{3,})[^`].*?^\1\2$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!`)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
CODE = re.compile(r"(`[^`\n]+`)")


def places() -> dict[str, str]:
    """Where a file of the repository stands on the site, by its path from the root."""
    found = {
        "README.md": "index.md",
        "docs/README.md": "index.md",
        "docs/decisions/README.md": "decisions/index.md",
        "benchmarks/README.md": "benchmarks/index.md",
        "examples/README.md": "examples.md",
        "tests/README.md": "project/tests.md",
    }
    found |= {f"{name}.md": f"project/{name.lower()}.md" for name in PROJECT}
    for pattern, to in (
        ("docs/*.md", "guides"),
        ("docs/decisions/*.md", "decisions"),
        ("benchmarks/results/*.md", "benchmarks/results"),
        ("benchmarks/results/*.png", "benchmarks/results"),
    ):
        for path in sorted(ROOT.glob(pattern)):
            found.setdefault(path.relative_to(ROOT).as_posix(), f"{to}/{path.name}")
    for path in sorted(SITE.rglob("*.md")):
        found[path.relative_to(ROOT).as_posix()] = path.relative_to(SITE).as_posix()
    return found


def parts_of(text: str) -> Iterator[tuple[bool, str]]:
    """(whether it is code, text) for the parts of a page."""
    at = 0
    for fence in FENCE.finditer(text):
        yield False, text[at : fence.start()]
        yield True, fence[0]
        at = fence.end()
    yield False, text[at:]


def target_on_site(target: str, page: Path, place: str, known: dict[str, str]) -> str | None:
    """What a link says on the site; None where only its text is of use."""
    path, hash_, anchor = target.partition("#")
    if re.match(r"\w+:", target) or not path:
        return target
    goal = (page.parent / path).resolve().relative_to(ROOT).as_posix()
    goal = next((p for p in (goal, f"{goal}/README.md") if p in known), goal)
    if goal in known:
        to = os.path.relpath(known[goal], os.path.dirname(place) or ".")
        return f"{to}{hash_}{anchor}" if known[goal] != "index.md" else to
    return f"source:{goal}" if (ROOT / goal).is_file() else None


def with_links_of_the_site(text: str, page: Path, place: str, known: dict[str, str]) -> str:
    def follow(match: re.Match[str]) -> str:
        words, target, title = match.groups()
        to = target_on_site(target, page, place, known)
        return words if to is None else f"[{words}]({to}{title})"

    def outside_code(part: str) -> str:
        # Inline code may stand in a link's text, so it is hidden while links are sought.
        spans = CODE.findall(part)
        hidden = CODE.sub("\x00", part)
        moved = LINK.sub(follow, hidden)  # which keeps the order of spans
        left = iter(spans)
        return re.sub("\x00", lambda _: next(left), moved)

    return "".join(part if code else outside_code(part) for code, part in parts_of(text))


# Pages that list others in a table of links: Sphinx wants to hear of them too.
LISTS = {"decisions/index.md": "decisions/*.md", "benchmarks/index.md": "benchmarks/results/*.md"}


def with_list(text: str, place: str, known: dict[str, str]) -> str:
    pages = [p for p in known.values() if fnmatch(p, LISTS[place]) and p != place]
    names = [os.path.relpath(p, os.path.dirname(place)).removesuffix(".md") for p in pages]
    if place == "benchmarks/index.md":  # plots.py makes it
        names.append("pictures")
        text = text.replace("\n", "\n\n[In pictures](pictures.md).\n", 1)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n" + "\n".join(sorted(names)) + "\n```\n"


def write(path: Path, text: str) -> None:
    """Leaves a file alone that is as it should be, so that Sphinx reads only what changed."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stage(folder: Path) -> None:
    known = places()
    wanted = set()
    for name, place in known.items():
        page, to = ROOT / name, folder / place
        if place == "index.md" and page.parent != SITE:
            continue
        wanted.add(to)
        if page.suffix == ".md":
            text = with_links_of_the_site(page.read_text(), page, place, known)
            write(to, with_list(text, place, known) if place in LISTS else text)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(page, to)
    for place, text in (reference.pages() | plots.pages()).items():
        wanted.add(folder / place)
        write(folder / place, text)
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


if __name__ == "__main__":
    stage(Path(sys.argv[1]).resolve())
