"""Arguments and attributes of PyTorch's profiler that programs pass and read."""

import collections
import json
import subprocess
import sys
import warnings

import pytest

import rushlight as rl
from rushlight.profiler import ProfilerAction, ProfilerActivity, itt, profile, record_function

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA


def work():
    x = rl.ones(4, 5, requires_grad=True)
    with record_function("mine"):
        y = (x @ rl.ones(5, 3)).relu()
    y.sum().backward()


def categories(activities, path):
    with profile(activities=activities, profile_memory=True) as prof:
        work()
    prof.export_chrome_trace(path, use_python_export=True)
    found = collections.Counter(e.get("cat") for e in json.loads(path.read_text())["traceEvents"])
    return prof, {c: n for c, n in found.items() if c not in (None, "Trace")}


def test_kinds_of_activities_in_traces(tmp_path):
    path = tmp_path / "trace.json"
    _, all_kinds = categories([CPU], path)
    assert set(all_kinds) == {"cpu_op", "user_annotation", "cpu_instant_event", "fwdbwd"}
    prof, none = categories([{CPU: []}], path)
    assert none == {} and prof.activity_filters == {CPU: set()} and prof.activities == {CPU}
    assert any(e.name == "aten::relu" for e in prof.events())  # only the trace has less, as there
    assert set(categories([{CPU: ["CPU_OP"]}], path)[1]) == {"cpu_op", "fwdbwd"}
    assert categories([{CPU: ["USER_ANNOTATION"]}], path)[1] == {"user_annotation": 1}
    with pytest.raises(ValueError, match="CPU_OP"):
        profile(activities=[{CPU: ["NONSENSE"]}])
    with pytest.raises(ValueError, match="twice"):
        profile(activities=[CPU, {CPU: []}])
    with pytest.raises(TypeError):
        profile(activities=["CPU"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no GPU here
        given = profile(activities=[CPU, {CUDA: ["GPU_MEMCPY", "CUDA_RUNTIME"]}])
    assert given.activity_filters == {CUDA: {"GPU_MEMCPY", "CUDA_RUNTIME"}}


def test_traces_of_a_job_name_their_rank(tmp_path):
    code = f"""
import json, rushlight as rl
store = "file://{tmp_path}/store"
rl.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
with rl.profiler.profile() as prof:
    rl.ones(2) + 1
prof.export_chrome_trace("{tmp_path}/trace.json")
print(json.dumps(json.load(open("{tmp_path}/trace.json"))["distributedInfo"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout.splitlines()[-1])
    assert info == {"backend": "gloo", "rank": 0, "world_size": 1, "pg_count": 1}


def test_the_older_profiler_inside(tmp_path):
    prof = profile(record_shapes=True)
    assert prof.profiler is None
    with prof:
        work()
    inner = prof.profiler
    assert inner.record_shapes and inner.trace_id == prof.get_trace_id()
    assert len(inner.function_events) == len(prof.events())
    assert inner.self_cpu_time_total == prof.events().self_cpu_time_total
    assert "mine" in inner.table(header="above", max_name_column_width=20)
    inner.export_chrome_trace(tmp_path / "t.json", {"more": "[1, 2]"})
    assert json.loads((tmp_path / "t.json").read_text())["more"] == [1, 2]
    assert {e.activity_type for e in prof.events()} == {"cpu_op", "user_annotation"}
    assert prof.events()[0].linked_correlation_id == 0
    event = prof.events()[0]
    event.append_kernel("k", 0, 3.0)
    assert event.self_device_time_total == 3.0
    assert record_function("a", "b").run_callbacks_on_exit
    assert ProfilerAction.DEVICE_STOPPED.value == 4


def test_ranges_for_intel_are_passed_over(monkeypatch):
    with itt.range("step {}", 1), rl.autograd.profiler.emit_itt(record_shapes=True) as emitter:
        itt.range_push("x")
        itt.mark("here")
        itt.range_pop()
    assert not itt.is_available()
    with pytest.raises(RuntimeError, match="twice"):
        emitter.__enter__()
    with rl.autograd.profiler.emit_itt(enabled=False) as idle, idle:
        pass
    monkeypatch.setenv("INTEL_LIBITTNOTIFY64", "/opt/tool.so")
    monkeypatch.setattr(itt, "_told", False)
    with pytest.warns(UserWarning, match="Intel's tools"):
        itt.range_push("x")


def test_ranges_and_kernels_from_nvprof(tmp_path):
    import sqlite3

    from rushlight.autograd import profiler

    path = tmp_path / "trace.nvprof"
    with pytest.raises(FileNotFoundError):
        profiler.load_nvprof(path)
    database = sqlite3.connect(path)
    database.executescript("""
CREATE TABLE StringTable (_id_ INTEGER, value TEXT);
INSERT INTO StringTable VALUES (1, 'outer'), (2, 'inner'), (3, 'sgemm');
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (id INTEGER, name INTEGER, timestamp INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES
    (8, 2, 2000), (7, 1, 1000), (8, 0, 5000), (7, 0, 9000), (9, 0, 500);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INTEGER, start INTEGER, end INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (41, 2500, 2600), (42, 6000, 6100), (43, 9500, 9600);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
    (correlationId INTEGER, name INTEGER, start INTEGER, end INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES
    (41, 3, 10000, 13000), (42, 3, 14000, 15000), (43, 3, 16000, 17000);
""")
    database.commit()
    database.close()
    outer, inner = profiler.load_nvprof(path)
    assert (outer.name, inner.name) == ("outer", "inner")
    assert (outer.cpu_time_total, inner.cpu_time_total) == (8.0, 3.0)
    assert [k.duration for k in outer.kernels] == [3.0, 1.0]
    assert [tuple(k) for k in inner.kernels] == [("sgemm", 0, 3.0)]


def test_smaller_parts_of_the_older_profiler():
    from rushlight.autograd import profiler
    from rushlight.autograd.profiler_util import StringTable

    tracker = profiler.KinetoStepTracker
    begin = tracker.current_step()
    tracker.init_step_count("a")
    assert [tracker.increment_step(who) for who in "aabb"] == [begin + n for n in (1, 2, 3, 4)]
    assert tracker.erase_step_count("a") and tracker.erase_step_count("b")
    assert not tracker.erase_step_count("b") and tracker.current_step() == begin + 4
    unique = profiler.EnforceUnique()
    unique.see(1, 2)
    with pytest.raises(RuntimeError, match="duplicate"):
        unique.see(1, 2)
    assert StringTable()["_ZNK3foo3barEv"] == "foo::bar() const" and StringTable()["t"] == "t"

    class Record:
        def __init__(self, time):
            self.start_ns = lambda: time

    records = [(Record(t), t) for t in (50, 10, 30)]
    assert [t for _, t in profiler.MemRecordsAcc(records).in_interval(10, 40)] == [10, 30]
