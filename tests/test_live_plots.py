"""Curves and histograms that are drawn while a loop runs."""

import io
import math
import subprocess
import sys
import types
import xml.etree.ElementTree

import pytest

import rushlight as rl
from rushlight.utils.live import Plot


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_text_shows_the_course_of_a_curve():
    plot = Plot("run", file=io.StringIO())
    for i in range(200):
        plot.add(loss=rl.tensor(1 / (i + 1)), up=i)
    lines = plot.text(60).split("\n")
    assert lines[0] == "run" and lines[1] == "loss: 0.005"
    loss, up = lines[2:8], lines[9:15]
    assert loss[0].split()[0] == "1" and loss[-1].split()[0] == "0.005"
    # A rising line goes from the lower left to the upper right; braille begins at U+2800.
    filled = [[i for i, c in enumerate(row[10:]) if c > "\u2800"] for row in up]
    assert max(filled[0]) > 45 and min(filled[-1]) == 0 and min(filled[0]) > max(filled[-1])
    # 1/n falls at once, then stays low.
    low = [i for i, c in enumerate(loss[-1][10:]) if c > "\u2800"]
    assert len(low) > 40


def test_terminals_are_redrawn_in_place_and_files_written_once():
    screen = Terminal()
    with Plot(every=0, file=screen) as plot:
        plot.add(loss=1.0)
        first = screen.getvalue()
        plot.add(loss=0.5)
    rows = first.count("\n")
    assert "\x1b[2K" in first and f"\x1b[{rows}A" in screen.getvalue()[len(first) :]
    log = io.StringIO()
    with Plot(every=0, file=log) as plot:
        for i in range(50):
            plot.add(loss=i)
        assert log.getvalue() == ""
    assert log.getvalue().count("loss:") == 1 and "\x1b" not in log.getvalue()
    plot.close()
    with pytest.raises(RuntimeError, match="closed"):
        plot.add(loss=1)


def test_histograms_nan_and_bad_values():
    plot = Plot(file=io.StringIO())
    plot.histogram("w", rl.tensor([0.0, 0.0, 1.0, math.nan, math.inf]))
    counts, low, high = plot._histograms["w"]
    assert (sum(counts), counts[0], counts[-1], low, high) == (3, 2, 1, 0.0, 1.0)
    plot.histogram("none", rl.empty(0))
    plot.add(loss=math.nan)
    plot.add(loss=2)
    assert "█" in str(plot) and "loss: 2" in str(plot)
    page = plot._repr_html_()
    xml.etree.ElementTree.fromstring(page.replace("<br>", "<br/>"))
    assert page.count("<rect") == 40 and "nan" not in page
    for bad in ("x", None, rl.ones(2)):
        with pytest.raises((TypeError, RuntimeError)):
            plot.add(loss=bad)
    evil = Plot("<script>", file=io.StringIO())
    evil.add(**{"<b>": 1})
    assert "<script>" not in evil._repr_html_() and "<b>:" not in evil._repr_html_()


def test_memory_is_bounded():
    plot = Plot(every=1e9, file=io.StringIO())
    for i in range(20000):
        plot.add(loss=i)
    curve = plot._curves["loss"]
    assert len(curve.values) <= 4096 and curve.steps[-1] > 19000 and curve.last == 19999


def test_notebooks_update_one_display(monkeypatch):
    shown = []

    class Handle:
        def update(self, what):
            shown.append(("update", what))

    def display(what, display_id=False):
        shown.append(("display", what))
        return Handle()

    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: kernel
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display, ipython.display.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    with Plot(every=0) as plot:
        plot.add(loss=1)
        plot.add(loss=2)
    assert [what for what, _ in shown] == ["display", "update", "update"]
    assert "<polyline" in shown[-1][1]


def test_nothing_is_loaded_and_the_end_of_a_program_draws():
    code = (
        "import sys, rushlight\n"
        "assert 'rushlight.utils.live' not in sys.modules\n"
        "from rushlight.utils.live import Plot\n"
        "plot = Plot('at the end')\n"
        "plot.add(loss=1.5)\n"
        "assert not {'IPython', 'matplotlib', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "at the end" in done.stderr and "loss: 1.5" in done.stderr
