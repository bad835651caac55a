"""report: the verdict finds what was planted, the page holds all of it and asks for nothing."""

import base64
import re
import shutil
import subprocess
import time
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from report_page import FLAGS, PEAKS, loop, mlp, parts, trained_profile

import rushlight as rl
from rushlight.profiler import _report, profile, record_function, report, schedule
from rushlight.profiler._breakdown import break_down
from rushlight.profiler._peaks import Peaks
from rushlight.profiler._report_data import Columns, Strings
from rushlight.utils.data import DataLoader, Dataset

LOGIC = Path(__file__).parent / "page_logic.js"
PAGE = Path(_report.__file__).parent / "page"


def titles(prof):
    return [f.title for f in report(prof, peaks=PEAKS).findings]


@pytest.fixture(scope="module")
def trained():
    return trained_profile()


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(trained, path, peaks=PEAKS, title="A <title> & more")
    return path


# ---- where the time went


@pytest.mark.parametrize("peaks", [None, Peaks(*PEAKS)])
def test_kinds_add_up_to_the_time(trained, peaks):
    times = break_down(trained.events(), peaks)
    assert sum(times.times.values()) == pytest.approx(times.total, rel=1e-6)
    assert len(times.steps) == 4 and times.total > 0


def test_self_times_and_gaps_are_the_wall_time():
    model, x = mlp(256), rl.randn(64, 256)
    for _ in range(2):
        model(x).sum().backward()
    with profile() as prof:
        model(x).sum().backward()
    events = prof.events()
    begin = min(e.time_range.start for e in events)
    end = max(e.time_range.end for e in events)
    own = sum(e.self_cpu_time_total for e in events)
    tops = sorted((e.time_range.start, e.time_range.end) for e in events if e.cpu_parent is None)
    gaps = sum(b[0] - a[1] for a, b in pairwise(tops))
    assert own + gaps == pytest.approx(end - begin, rel=0.01)


def test_a_nested_range_in_the_middle_counts_once():
    with profile(with_flops=True) as prof:
        with record_function("outer"):
            x = rl.ones(1000)
            with record_function("inner"):
                time.sleep(0.01)
                x + 1
    times = break_down(prof.events(), Peaks(*PEAKS))
    assert times.times["python"] >= 9_000
    assert sum(times.times.values()) == pytest.approx(times.total, rel=1e-6)


def test_an_empty_profile():
    with profile() as prof:
        pass
    verdict = report(prof)
    assert "Nothing" in str(verdict) and verdict.findings == []


# ---- the verdict


class Slow(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        time.sleep(0.002)
        return rl.zeros(64)


def test_a_slow_dataset_is_blamed():
    prof = loop(DataLoader(Slow(), batch_size=8), mlp())
    verdict = report(prof, peaks=PEAKS)
    assert "data loading" in verdict.headline and verdict.shares["loader"] > 0.5
    first = verdict.findings[0]
    assert "waits for data" in first.title and "num_workers=" in first.advice and first.gain > 1.5
    assert first.line.endswith(": loop")


def test_python_in_the_loop_is_blamed():
    verdict = report(loop([rl.zeros(8, 64)] * 8, mlp(), lambda *_: time.sleep(0.01)), peaks=PEAKS)
    assert "host" in verdict.headline
    assert any("Python runs between" in f.title and f.gain > 2 for f in verdict.findings)


def test_doubles_are_blamed():
    model = mlp(256).double()
    found = titles(loop([rl.randn(256, 256, dtype=rl.float64)] * 8, model))
    assert any("float64" in title for title in found)
    with profile(record_shapes=True, with_flops=True) as prof:
        for _ in range(4):
            rl.ones(1 << 20) * 0.5  # numbers of Python are doubles, and no data
    assert not any("float64" in f.title for f in report(prof, peaks=(1e11, 1e10)).findings)


def test_memory_that_grows_is_blamed_on_its_line():
    kept = []
    prof = loop([rl.randn(64, 64)] * 8, mlp(), lambda n, x, loss: kept.append(x * 2))
    (finding,) = [f for f in report(prof, peaks=PEAKS).findings if "grows" in f.title]
    assert "<lambda>" in finding.line


def test_memory_that_stays_level_is_not(trained):
    assert not any("grows" in title for title in titles(trained))


def test_copies_are_blamed():
    x = rl.zeros(1 << 20)
    with profile(**FLAGS) as prof:
        for _ in range(5):
            x.clone()
            x.to(rl.float64)
    assert any("Copies" in title for title in titles(prof))


def test_gradients_that_nobody_uses_are_told_of():
    model, x = mlp(), rl.randn(8, 64)
    with profile(**FLAGS) as prof:
        for _ in range(3):
            model(x)
    assert any("nobody asks for" in title for title in titles(prof))
    with profile(**FLAGS) as prof, rl.no_grad():
        for _ in range(3):
            model(x)
    assert not any("nobody asks for" in title for title in titles(prof))


def test_gains_are_possible(trained):
    for finding in report(trained, peaks=PEAKS).findings:
        assert 1 <= finding.gain <= 50 and finding.title in str(finding)


def test_peaks_are_measured():
    from rushlight.profiler._peaks import measure_peaks

    peaks = measure_peaks()
    assert peaks.flops > 1e8 and peaks.bytes > 1e7 and measure_peaks() is peaks


# ---- the page


def test_the_page_needs_no_network(page):
    text = page.read_text()
    assert not re.search(r"(src|href)\s*=", text.split("<script")[0])
    assert not re.search(r"https?://|\bfetch\(|XMLHttpRequest|import\(", text)
    assert "A &lt;title&gt; &amp; more" in text


def test_the_page_has_all_events(page, trained):
    data, columns = parts(page)
    events = [e for e in trained.events() if e.name != "[memory]"]
    assert list(columns["start"]) == [e.time_range.start for e in events]
    assert [data["names"][i] for i in columns["name"]] == [e.trace_name for e in events]
    assert [data["sources"][i] or None for i in columns["source"]] == [e.source for e in events]
    rows = {}
    for i in range(len(events)):  # in a row, nothing overlaps
        row = (columns["thread"][i], columns["depth"][i])
        assert rows.get(row, 0) <= columns["start"][i]
        rows[row] = columns["start"][i] + columns["duration"][i]
        assert columns["depth"][i] < data["threads"][columns["thread"][i]]["depth"]


def test_the_page_has_all_memory(page, trained):
    data, columns = parts(page)
    history = trained.events().memory
    (device,) = data["memory"]["devices"]
    assert sum(device["before"]) == history.before["cpu"]
    level = most = sum(device["before"])
    for change in columns["cpu.change"]:
        level += change
        most = max(most, level)
    assert most == history.peak("cpu")[1]
    assert len(columns["cpu.block_size"]) == len([b for b in history.blocks if b.device == "cpu"])


def test_tables_add_up(page, trained):
    data, _ = parts(page)
    tables = {table["title"]: table for table in data["tables"]}
    assert list(tables) == ["Modules", "Ops", "Lines"]
    times = break_down(trained.events(), Peaks(*PEAKS))
    kinds = times.kind_of
    own = sum(
        e.self_cpu_time_total
        for e in trained.events()
        if e.id in kinds and not (e.is_user_annotation or e.is_python_function)
    )
    assert sum(row[3] for row in tables["Ops"]["rows"]) == pytest.approx(own)
    assert sum(row[2] for row in tables["Lines"]["rows"]) == pytest.approx(own)
    modules = {row[0]: row for row in tables["Modules"]["rows"]}
    assert set(modules) == {"Sequential", "0", "1", "2"}
    # The outermost has all, forward and backward.
    for column in (3, 4, 7):
        inner = sum(modules[m][column] for m in "012")
        assert modules["Sequential"][column] >= inner * 0.999 > 0
    for table in tables.values():
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_the_flame_graph_holds_its_children(page):
    data, _ = parts(page)

    def check(node):
        _, total, own, calls, _, children = node
        assert calls >= 1 and own <= total + 1e-6
        assert sum(child[1] for child in children) <= total * 1.001 + 1e-3
        for child in children:
            check(child)

    check(data["flame"])
    assert data["names"][data["flame"][5][0][0]] == "ProfilerStep*"


def test_names_cannot_leave_their_script(tmp_path):
    with profile(**FLAGS) as prof:
        with record_function("</script><script>alert(1)</script>"):
            rl.ones(2) + 1
    report(prof, tmp_path / "r.html", peaks=PEAKS)
    text = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in text
    data, _ = parts(tmp_path / "r.html")
    assert any("alert(1)" in name for name in data["names"])


def test_a_page_without_options(tmp_path):
    with profile() as prof:
        rl.ones(2) + 1
    report(prof, tmp_path / "r.html")
    data, _ = parts(tmp_path / "r.html")
    assert data["memory"] is None and data["roofline"]["points"] == []
    assert [t["title"] for t in data["tables"]] == ["Ops", "Lines"]


def test_strings_and_columns():
    strings = Strings("")
    assert [strings.number(s) for s in ("a", None, "b", "a")] == [1, 0, 2, 1]
    columns = Columns()
    columns.add("x", "u8", [1, 2, 3])
    columns.add("y", "f64", [0.5])
    assert columns.layout == [("x", "u8", 0, 3), ("y", "f64", 8, 1)]
    assert zlib.decompress(base64.b64decode(columns.packed()))[:3] == b"\1\2\3"


# ---- the page's own logic, in node

node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@node
def test_the_logic_of_the_page():
    done = subprocess.run(["node", str(LOGIC), str(PAGE / "model.js")], capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr


@node
def test_scripts_are_valid():
    script = "\n".join((PAGE / f"{name}.js").read_text() for name in _report._SCRIPTS)
    done = subprocess.run(["node", "--check", "-"], input=script, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_file_of_the_page_is_used():
    used = {"page.html", "style.css", *(f"{name}.js" for name in _report._SCRIPTS)}
    assert {p.name for p in PAGE.iterdir()} == used


@pytest.mark.parametrize("left_out", [0, 3])
def test_first_calls_are_those_of_the_first_step(left_out):
    """Where a schedule leaves steps out, a slow call has other reasons."""
    waits = iter([0.01] * left_out + [0.3] + [0.01] * 3)

    @rl.library.custom_op(f"first_calls_{left_out}::slow", mutates_args={"x"})
    def slow(x: rl.Tensor) -> None:
        time.sleep(next(waits))

    steps = schedule(wait=left_out - 1, warmup=1, active=4) if left_out else None
    with profile(schedule=steps) as prof:
        for _ in range(left_out + 4):
            slow(rl.ones(2))
            prof.step()
    assert ("First calls take" in str(report(prof))) == (not left_out)
