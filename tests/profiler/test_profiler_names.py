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
