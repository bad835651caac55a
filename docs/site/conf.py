"""Settings of Sphinx for the site; `make docs` uses them on what stage.py laid out."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[2]

project = "Rushlight"
author = "The Rushlight developers"
copyright = author
release = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]

extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["**/.ipynb_checkpoints"]

myst_heading_anchors = 5
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_url_schemes = {"http": None, "https": None, "mailto": None, "source": None}

# Cells run once; their output is kept until the code of the page changes.
nb_execution_mode = "cache"
nb_execution_cache_path = os.environ.get("RUSHLIGHT_DOCS_CACHE", str(ROOT / "build/docs-cache"))
nb_execution_timeout = 600  # of a cell, on a busy machine
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = f"Rushlight {release}"
html_static_path = ["_static"]
html_logo = html_favicon = "_static/rushlight.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Rushlight"},
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    # Whole trees of pages beside every page took most of the time of a build.
    "navigation_depth": 2,
    "collapse_navigation": True,
    "secondary_sidebar_items": ["page-toc"],
    "use_edit_page_button": False,
    "navbar_align": "left",
}
# Annotations name classes as programs do (`Node`), and several modules may have one of that name.
suppress_warnings = ["ref.python"]
python_use_unqualified_type_names = True
highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

_shown: set[str] = set()  # files whose source the site shows


def show_sources(app: Any, doctree: nodes.document, docname: str) -> None:
    """Links to `source:path#L12` lead to a page with that file, which write_sources makes."""
    for link in doctree.findall(nodes.reference):
        target = link.get("refuri", "")
        if target.startswith("source:"):
            path, _, anchor = target.removeprefix("source:").partition("#")
            if not (ROOT / path).is_file():
                raise ValueError(f"{docname}: {target} is not a file of the repository")
            _shown.add(path)
            depth = "../" * docname.count("/")
            link["refuri"] = f"{depth}source/{path}.html" + (f"#{anchor}" if anchor else "")


def write_sources(app: Any, error: Exception | None) -> None:
    folder = Path(app.outdir, "source")
    before = {
        p.relative_to(folder).as_posix().removesuffix(".html") for p in folder.rglob("*.html")
    }
    paths = sorted(_shown | {path for path in before if (ROOT / path).is_file()})
    for path in paths if error is None else ():
        text = (ROOT / path).read_text()
        try:
            lexer = get_lexer_for_filename(path)
        except ClassNotFound:
            lexer = TextLexer()
        formatter = HtmlFormatter(
            full=True, title=path, linenos="inline", lineanchors="L", anchorlinenos=True
        )
        # pygments writes L-12; L12 is what people know from the hosts of repositories
        page = re.sub(r'"(#?)L-(\d+)"', r'"\1L\2"', highlight(text, lexer, formatter))
        to = folder / f"{path}.html"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(page)


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-resolved", show_sources)
    app.connect("build-finished", write_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
