"""The built site, in Chromium: pages render, search finds, the console stays empty; and all links
within it lead somewhere. Needs `make docs`, so `make test-site` runs it (RUSHLIGHT_SITE)."""

import functools
import http.server
import os
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import pytest

SITE = Path(__file__).resolve().parent.parent / "build" / "docs"

pytestmark = pytest.mark.skipif(
    not os.environ.get("RUSHLIGHT_SITE"), reason="RUSHLIGHT_SITE is not set: see `make test-site`"
)
needs_chromium = pytest.mark.skipif(browser.find() is None, reason="there is no Chromium")


class Server(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    """Sphinx's search reads pages, which browsers forbid to pages that are files."""
    handler = functools.partial(Server, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def chromium():
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with browser.Browser(flags=(rules,)) as page:
        yield page


def go(page, url):
    page.errors.clear()
    page.requests.clear()
    page.call("Page.navigate", url=url)
    page.wait(f"location.href === '{url}' && document.readyState === 'complete'")
    page.frame()


PAGES = {
    "index.html": "import rushlight as torch",
    "guides/install.html": "wheel",
    "tour.html": "loss 0.",
    "tutorials/digits.html": "accuracy on the held-out digits: 9",
    "tutorials/char_gpt.html": "There was once",
    "tutorials/time_series.html": "root mean square error",
    "tutorials/translation.html": "right in every letter",
    "tutorials/diffusion.html": "read as what was asked for",
    "tutorials/reinforcement.html": "the pole stands for",
    "tutorials/transfer.html": "All keys matched",
    "tutorials/tabular.html": "mean error",
    "benchmarks/pictures.html": "no slower",
    "guides/porting.html": "PyTorch",
    "reference/rushlight.nn.html": "Linear(in_features",
    "reference/rushlight.linalg.html": "inv(",
    "guides/compatibility.html": "tier 1",
    "benchmarks/index.html": "results",
    "guides/architecture.html": "csrc",
    "decisions/index.html": "decided",
    "guides/glossary.html": "op",
    "project/changelog.html": "Unreleased",
    "faq.html": "ShapeError: matmul: inner sizes differ",
}


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
def test_pages_render(name, chromium, address):
    go(chromium, f"{address}/{name}")
    assert PAGES[name].lower() in chromium.run("document.querySelector('main').innerText").lower()
    assert chromium.run("document.querySelector('h1').getBoundingClientRect().height") > 10
    broken = "[...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
    assert chromium.run(broken) == []
    assert chromium.errors == []
    assert all(url.startswith((address, "data:")) for url in chromium.requests)


@needs_chromium
@pytest.mark.parametrize("word, page", [("LSTM", "rushlight.nn"), ("broadcast", "tour")])
def test_search_finds(word, page, chromium, address):
    go(chromium, f"{address}/search.html?q={word}")
    chromium.wait(f"[...document.querySelectorAll('.search a')].some((a) => /{page}/.test(a.href))")
    assert chromium.errors == []


@needs_chromium
def test_light_and_dark(chromium, address):
    go(chromium, f"{address}/index.html")
    colours = []
    for theme in ("light", "dark"):
        chromium.run(f"document.documentElement.dataset.theme = '{theme}'")
        chromium.frame()
        colours.append(chromium.run("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] == "rgb(255, 255, 255)" != colours[1]


class Links(HTMLParser):
    """The ids of a page, and where its links and pictures lead."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name"):
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(value)


def test_links_lead_somewhere():
    pages = {path: Links(path) for path in SITE.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 200
    broken = set()
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ids = pages[goal].ids if goal in pages and parts.fragment else None
            if not goal.is_file() or (ids is not None and unquote(parts.fragment) not in ids):
                broken.add((path.relative_to(SITE).as_posix(), target))
    assert not broken
