"""A report in a browser: it draws, zooms, searches, and stays quick with many events."""

import random
import re

import browser
import pytest
from report_page import PEAKS, parts, trained_profile

from rushlight.profiler import _report, report
from rushlight.profiler._report_data import Columns

pytestmark = pytest.mark.skipif(browser.find() is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(trained_profile(), path, peaks=PEAKS)
    return path


def synthetic(path, page, count):
    """A page with so many events, on the pattern of another."""
    data, _ = parts(page)
    columns = Columns()
    numbers = random.Random(3)
    depth = [i % 4 for i in range(count)]
    columns.add("start", "f64", [float(i // 4 * 4 + i % 4 * 0.1) for i in range(count)])
    columns.add("duration", "f64", [3.9 - 0.9 * d for d in depth])
    for name, kind, values in (
        ("name", "u32", (numbers.randrange(len(data["names"])) for _ in range(count))),
        ("thread", "u16", bytes(2 * count)),
        ("depth", "u16", depth),
        ("module", "u32", bytes(4 * count)),
        ("source", "u32", bytes(4 * count)),
        ("kind", "u8", bytes(count)),
        ("flops", "f64", bytes(8 * count)),
        ("bytes", "f64", bytes(8 * count)),
        ("children", "u32", bytes(4 * count)),
    ):
        columns.add(name, kind, values)
    data |= {"threads": [{"label": "one", "depth": 4}], "layout": columns.layout, "memory": None,
             "end": float(count)}  # fmt: skip
    path.write_text(_report._page(data, columns, "many"))


TIMELINE = "document.querySelector('#view canvas')"
# How many pixels of a canvas are painted.
PAINTED = """(() => {
  const c = document.querySelector('#view canvas');
  const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  let n = 0;
  for (let i = 3; i < p.length; i += 4) n += p[i] > 0;
  return n / (p.length / 4);
})()"""


VIEWS = ["Timeline", "Flame graph", "Memory", "Modules", "Ops", "Lines", "Roofline"]


def texts(chromium, selector):
    return chromium.run(
        f"[...document.querySelectorAll({selector!r})].map((node) => node.textContent)"
    )


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as opened:
        yield opened


def test_every_view_draws(chromium, page):
    for theme in ("light", "dark"):
        chromium.open(page, f"?{theme}#theme={theme}")
        assert chromium.run("document.documentElement.dataset.theme") == theme
        assert "is bound by" in chromium.run("document.querySelector('.headline').textContent")
        titles = texts(chromium, "#tabs button")
        assert titles == VIEWS
        for number, title in enumerate(titles, 1):
            chromium.key(str(number))
            chromium.frame()
            chromium.frame()
            if title in ("Modules", "Ops", "Lines"):
                assert chromium.run("document.querySelectorAll('#view tbody tr').length") >= 2
            else:
                assert chromium.run(PAINTED) > 0.02, title
    assert chromium.errors == []
    assert all(url.startswith("file:") for url in chromium.requests)


def test_zoom_move_and_search(chromium, page, tmp_path):
    # Of fixed times: an event that another process held up could fill the page by itself.
    synthetic(tmp_path / "fixed.html", page, 4000)
    chromium.open(tmp_path / "fixed.html", "?zoom")
    box = chromium.run(f"(() => {{ const b = {TIMELINE}.getBoundingClientRect();"
                       "return [b.x, b.y, b.width, b.height]; })()")  # fmt: skip
    span = "report.range.to - report.range.from"
    all_of_it = chromium.run(span)
    x, y = box[0] + box[2] / 4, box[1] + 100
    at = "report.range.from + (report.range.to - report.range.from) / 4"
    before = chromium.run(at)
    chromium.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    assert chromium.run(span) < 0.8 * all_of_it
    assert chromium.run(at) == pytest.approx(before, abs=1e-3 * all_of_it)  # stays under the mouse
    start = chromium.run("report.range.from")
    chromium.mouse("mousePressed", x, y, button="left", clickCount=1)
    chromium.mouse("mouseMoved", x - 80, y, button="left", buttons=1)
    chromium.mouse("mouseReleased", x - 80, y, button="left", clickCount=1)
    assert chromium.run("report.range.from") > start
    chromium.run(f"{TIMELINE}.focus()")
    chromium.key("f")
    assert chromium.run(span) == pytest.approx(all_of_it)
    chromium.key("/")
    for letter in "linear":
        chromium.key(letter)
    assert re.match(r"\d+ events match", texts(chromium, "#found")[0])
    chromium.key("Enter")
    assert chromium.run(span) < all_of_it
    assert "linear" in chromium.run("document.querySelector('.details h2').textContent").lower()
    chromium.key("Escape")
    assert chromium.run("document.getElementById('found').textContent") == ""
    assert chromium.errors == []


def test_tooltips_and_sorting(chromium, page):
    chromium.open(page, "?tips")
    chromium.frame()
    place = chromium.run(f"""(() => {{
      const b = {TIMELINE}.getBoundingClientRect(), t = report.timeline;
      const i = t.order[t.offsets[0]];
      const middle = t.start[i] + t.duration[i] / 2;
      return [b.x + middle / report.range.most * b.width, b.y + 22 + 44 + 8 + 22 + 8];
    }})()""")
    chromium.mouse("mouseMoved", *place)
    assert chromium.run("document.getElementById('tip').hidden") is False
    assert "ProfilerStep" in chromium.run("document.getElementById('tip').textContent")
    chromium.key("5")
    chromium.run("document.querySelectorAll('#view th button')[0].click()")
    names = texts(chromium, "#view tbody td:first-child")
    assert names == sorted(names, key=str.lower) and len(names) > 2
    assert texts(chromium, "#view th[aria-sort=ascending]") == ["op ↑"]
    chromium.key("t")
    assert chromium.errors == []


@pytest.mark.slow
def test_a_million_events_stay_fluid(chromium, page, tmp_path):
    synthetic(tmp_path / "many.html", page, 1_000_000)
    assert (tmp_path / "many.html").stat().st_size < 20_000_000
    chromium.open(tmp_path / "many.html")
    assert chromium.run("report.timeline.count") == 1_000_000
    # Counted, because a clock on a busy machine says little: rectangles per picture.
    marks = chromium.run("""(() => {
      const context = document.querySelector('#view canvas').getContext('2d');
      const fill = context.fillRect.bind(context);
      let n = 0;
      context.fillRect = (...a) => { n++; fill(...a); };
      report.view.canvas.paint();
      return n;
    })()""")
    assert 100 < marks < 30_000
    for _ in range(6):
        chromium.run("report.range.zoom(0.1, 500000)")
        chromium.frame()
    assert chromium.run("report.range.to - report.range.from") < 2 and chromium.errors == []
