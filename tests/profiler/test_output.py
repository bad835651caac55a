"""Averages, tables, traces and stacks."""

import gzip
import json
import pathlib
import re

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.profiler import profile, record_function, schedule, tensorboard_trace_handler


@pytest.fixture(scope="module")
def recorded():
    """Two steps of a small network, with everything on."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x, y = rl.randn(4, 8), rl.tensor([0, 1, 2, 3])
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True,
                 with_modules=True) as prof:  # fmt: skip
        for _ in range(2):
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
    return prof


def rows(table):
    """(titles, rows of cells) of a table; cells are cut by the rule's dashes."""
    lines = table.splitlines()
    rule = lines[0]
    cuts, at = [], 0
    for part in rule.split("  "):
        if part:
            cuts.append((at, at + len(part)))
        at += len(part) + 2

    def cells(line):
        return [line[a:b].strip() for a, b in cuts]

    assert lines[2] == lines[-2] == rule and lines[-1].startswith("Self CPU time total: ")
    return cells(lines[1]), [cells(line) for line in lines[3:-2]]


# ---- averages


def test_averages(recorded):
    averages = {e.key: e for e in recorded.key_averages()}
    linear = averages["aten::linear"]
    events = [e for e in recorded.events() if e.name == "aten::linear"]
    assert linear.count == len(events) >= 4
    assert linear.cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in events))
    assert linear.self_cpu_time_total == pytest.approx(sum(e.self_cpu_time_total for e in events))
    assert linear.cpu_time == pytest.approx(linear.cpu_time_total / linear.count)
    assert linear.flops == sum(e.flops for e in events) and linear.input_shapes == ""
    assert averages["forward"].count == 2 and averages["forward"].is_user_annotation
    total = recorded.key_averages().total_average()
    assert total.count == len(recorded.events()) and total.key == "Total"
    assert total.self_cpu_time_total == pytest.approx(recorded.events().self_cpu_time_total)


def test_averages_by_shape_and_line(recorded):
    by_shape = [
        e for e in recorded.key_averages(group_by_input_shape=True) if e.key == "aten::linear"
    ]
    counts = {str(e.input_shapes): e.count for e in by_shape}
    assert counts["[[4, 8], [16, 8], [16]]"] == counts["[[4, 16], [4, 16], [4]]"] == 2
    by_line = [e for e in recorded.key_averages(group_by_stack_n=2) if e.key == "aten::relu"]
    assert [e.count for e in by_line] == [2] and len(by_line[0].stack) == 2
    assert by_line[0].stack[0].endswith(": recorded")


# ---- tables


def test_columns(recorded):
    titles, lines = rows(recorded.key_averages().table())
    assert titles == ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg",
                      "CPU Mem", "Self CPU Mem", "# of Calls", "Total FLOPs"]  # fmt: skip
    assert len(lines) == len(recorded.key_averages())
    shares = [float(line[1].rstrip("%")) for line in lines]
    assert sum(shares) == pytest.approx(100, abs=0.005 * len(shares) + 0.01)
    titles, _ = rows(recorded.key_averages(group_by_input_shape=True).table())
    assert "Input Shapes" in titles
    titles, _ = rows(recorded.key_averages(group_by_stack_n=3).table())
    assert "Source Location" in titles
    with profile() as plain:
        rl.ones(1)
    titles, _ = rows(plain.key_averages().table())
    assert titles == ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg",
                      "# of Calls"]  # fmt: skip


def test_order_and_limit(recorded):
    averages = recorded.key_averages()
    _, lines = rows(averages.table(sort_by="count", row_limit=3))
    counts = [int(line[8]) for line in lines]
    assert counts == sorted((e.count for e in averages), reverse=True)[:3]
    _, all_lines = rows(averages.table(sort_by="cpu_time_total", row_limit=-1))
    assert len(all_lines) == len(averages)
    with pytest.raises(AttributeError):
        averages.table(sort_by="no_such_time")


def test_table_text(recorded):
    averages = recorded.key_averages()
    text = averages.table(header="Title", max_name_column_width=20)
    lines = text.splitlines()
    assert lines[1] == "Title" and set(lines[0]) == {"="}
    assert len({len(line) for line in lines[2:-1]}) == 1  # a rectangle
    assert "autograd::engine:..." in text
    assert lines[-1].startswith("Self CPU time total: ") and text.endswith("\n")
    assert str(averages) == averages.table()
    _, lines = rows(averages.table(time_unit="s"))
    assert all(line[2].endswith("s") and line[2][-2].isdigit() for line in lines)
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="hours")


def test_formats():
    from rushlight.profiler._table import format_memory, format_time

    assert [format_time(t) for t in (0, 12.3456, 1500, 2.5e6)] == [
        "0.000us", "12.346us", "1.500ms", "2.500s"]  # fmt: skip
    assert [format_memory(n) for n in (0, -8, 2048, -(3 << 20), 5 << 30)] == [
        "0 B", "-8 B", "2.00 KB", "-3.00 MB", "5.00 GB"]  # fmt: skip


def test_top_level_only(recorded):
    text = recorded.events().table(top_level_events_only=True, row_limit=-1)
    assert "forward" in text and "aten::linear" not in text


# ---- traces


def load(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt") as file:
        return json.load(file)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_trace(recorded, tmp_path, name):
    recorded.add_metadata("run", 'the "third"')
    recorded.add_metadata_json("settings", '{"lr": [0.1, 1]}')
    recorded.export_chrome_trace(tmp_path / name)
    trace = load(tmp_path / name)
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    assert trace["baseTimeNanoseconds"] > 0 and trace["record_shapes"] == 1
    assert trace["run"] == 'the "third"' and trace["settings"] == {"lr": [0.1, 1]}
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    assert len(spans) == len(recorded.events())
    assert {e["cat"] for e in spans} == {"cpu_op", "user_annotation", "python_function"}
    for event in spans:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ts"] >= 0 and event["dur"] >= 0 and event["name"]
    linear = next(e for e in spans if e["name"] == "aten::linear")
    assert linear["args"]["Input Dims"] == [[4, 8], [16, 8], [16]]
    assert linear["args"]["Input type"] == ["float"] * 3
    assert linear["args"]["Module Hierarchy"] == "0"
    assert ": recorded;" in linear["args"]["Call stack"]
    names = {e["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"process_name", "thread_name"} <= names


def test_arrows_from_forward_to_backward(recorded, tmp_path):
    recorded.export_chrome_trace(tmp_path / "trace.json")
    events = load(tmp_path / "trace.json")["traceEvents"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) >= 8
    at = {(e["ts"], e["tid"]): e["name"] for e in events if e["ph"] == "X"}
    found = {(at[s["ts"], s["tid"]], at[e["ts"], e["tid"]])
             for s, e in ((starts[i], ends[i]) for i in starts)}  # fmt: skip
    assert ("aten::relu", "ReluBackward0") in found
    assert all(starts[i]["ts"] < ends[i]["ts"] for i in starts)


def test_names_in_traces_are_quoted(tmp_path):
    with profile() as prof, record_function('quote " back \\ line\n ü'):
        pass
    prof.export_chrome_trace(str(tmp_path / "t.json"))
    assert 'quote " back \\ line\n ü' in {
        e["name"] for e in load(tmp_path / "t.json")["traceEvents"]
    }


def test_handler_writes_one_file_per_round(tmp_path):
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    for packed, ending in ((False, ".pt.trace.json"), (True, ".pt.trace.json.gz")):
        folder = tmp_path / ending
        handler = tensorboard_trace_handler(str(folder), "worker", packed)
        with profile(schedule=plan, on_trace_ready=handler) as prof:
            for _ in range(4):
                rl.ones(1)
                prof.step()
        files = sorted(folder.iterdir())
        assert len(files) == 2
        assert all(f.name.startswith("worker.") and f.name.endswith(ending) for f in files)
        names = {e["name"] for e in load(files[1])["traceEvents"]}
        assert "ProfilerStep#3" in names and "ProfilerStep#1" not in names


def test_trace_ids():
    with profile(custom_trace_id_callback=lambda: "mine") as prof:
        pass
    assert prof.get_trace_id() == "mine"
    with profile() as prof:
        pass
    assert len(prof.get_trace_id()) == 32


# ---- stacks


def test_stacks(recorded, tmp_path):
    recorded.export_stacks(tmp_path / "stacks.txt", "self_cpu_time_total")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert lines
    for line in lines:
        frames, value = line.rsplit(" ", 1)
        assert int(value) > 0 and " " not in frames
    assert any(line.split(" ")[0].endswith(":_recorded") for line in lines)
    with pytest.raises(ValueError, match="metric"):
        recorded.export_stacks(tmp_path / "s", "count")
    with profile() as plain:
        pass
    with pytest.raises(ValueError, match="with_stack"):
        plain.export_stacks(tmp_path / "s")


# ---- memory over time


def test_memory_over_time(tmp_path):
    model = rl.nn.Linear(64, 64)
    optimizer = rl.optim.AdamW(model.parameters())
    with profile(profile_memory=True) as prof:
        for _ in range(2):
            model(rl.randn(8, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    prof.export_memory_timeline(tmp_path / "m.json", device="cpu")
    prof.export_memory_timeline(str(tmp_path / "m.json.gz"), device="cpu")
    prof.export_memory_timeline(str(tmp_path / "m.raw.json.gz"))
    prof.export_memory_timeline(str(tmp_path / "m.html"), "cpu")
    times, sizes = load(tmp_path / "m.json")
    assert [times, sizes] == load(tmp_path / "m.json.gz")
    assert len(times) == len(sizes) and times == sorted(times)
    assert {len(row) for row in sizes} == {9} and all(row[0] == 0 for row in sizes)
    # The peak is that of the events; weights, states and gradients stand in their columns.
    peak = prof.events().memory.peak("cpu")[1]
    assert max(map(sum, sizes)) == pytest.approx(peak, abs=4096)
    weights, states, gradients = sizes[-1][1], sizes[-1][2], max(row[6] for row in sizes)
    assert weights >= 64 * 65 * 4 and states >= 2 * weights - 1024 and gradients >= 64 * 64 * 4
    raw = load(tmp_path / "m.raw.json.gz")
    assert {action for _, action, _, _ in raw} <= {1, 2, 4}
    assert sum(change for _, _, change, _ in raw) == sum(sizes[-1])
    page = (tmp_path / "m.html").read_text()
    assert "OPTIMIZER_STATE" in page and "<svg" in page and "http" not in page
    with profile() as plain:
        pass
    with pytest.raises(ValueError, match="profile_memory"):
        plain.export_memory_timeline(str(tmp_path / "m.json"))


def test_what_else_the_recipes_pass(tmp_path):
    config = rl._C._profiler._ExperimentalConfig(verbose=True)
    handler = rl.profiler.tensorboard_trace_handler(str(tmp_path), use_python_export=True)
    with profile(experimental_config=config, post_processing_timeout_s=5.0,
                 on_trace_ready=handler) as prof:  # fmt: skip
        with rl._C._profiler._RecordFunctionFast("fast"):
            rl.ones(2) + 1
    assert any(e.key == "fast" for e in prof.key_averages())
    assert len(list(tmp_path.iterdir())) == 1
    assert rl.profiler.RecordScope.USER_SCOPE == 7
    with pytest.raises(NotImplementedError, match="profiler_metrics"):
        rl._C._profiler._ExperimentalConfig(profiler_metrics=["dram__bytes_read.sum"])
    text = prof.key_averages().table(header="these", top_level_events_only=True)
    assert text.splitlines()[0].startswith("===") and "these" in text


# ---- the guide


def test_the_guides_example_runs(tmp_path, monkeypatch, capsys):
    page = pathlib.Path(__file__).parents[2] / "docs" / "profiler.md"
    program = re.search(r"```python\n(.*?)```", page.read_text(), re.S).group(1)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "profiler.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "aten::linear" in shown and "Total" in shown
    assert load(tmp_path / "trace.json.gz")["traceEvents"]
