"""What GPUs do, in profiles: over a CUPTI without a GPU (fake_cupti.cpp)."""

import json

import pytest

STEP = """
import warnings, json
from rushlight.profiler import profile, ProfilerActivity, record_function, schedule
warnings.simplefilter("error")
x = rl.ones(64, 64, device="cuda")

def step():
    with record_function("forward"):
        y = (x * 2).relu()
    z = y.sum()
    return z
step()
"""


@pytest.fixture
def profiled(run_with):
    """profiled(code, ...): the JSON that a program printed last."""
    return lambda code, **env: json.loads(run_with(STEP + code, **env)[-1])


def test_kernels_belong_to_the_ops_that_queued_them(profiled, tmp_path):
    found = profiled(f"""
with profile(with_modules=True, record_shapes=True) as prof:
    z = step()
    z.item()
events = prof.events()
kernels = [e for e in events if e.device_type.name == "CUDA"]
prof.export_chrome_trace({str(tmp_path / "trace.json")!r})
table = prof.key_averages().table(sort_by="cuda_time_total")
average = {{e.key: e for e in prof.key_averages()}}
print(json.dumps({{
    "by": [[e.activity, e.launcher and e.launcher.name,
            e.launcher and e.launcher.cpu_parent and e.launcher.cpu_parent.name,
            round(e.device_time_total, 3), e.call.name, e.source is not None, e.bytes]
           for e in kernels],
    "inside": [e.call.cpu_parent is e.launcher for e in kernels],
    "order": [e.call.time_range.start < e.time_range.start for e in kernels],
    "mul": [average["aten::mul"].device_time_total, average["aten::mul"].self_cuda_time_total],
    "forward": average["forward"].device_time_total,
    "own": average["forward"].self_device_time_total,
    "table": table,
}}))
""")
    kernels = [row for row in found["by"] if row[0] == "kernel"]
    assert [row[1] for row in kernels][:2] == ["aten::mul", "aten::relu"]
    assert all(row[3:6] == [10.0, "cuLaunchKernelEx", True] for row in kernels)
    assert kernels[0][2] == "forward"
    copies = [row for row in found["by"] if row[0] == "gpu_memcpy"]
    assert [row[6] for row in copies] == [4]  # item() reads one float
    assert all(found["inside"]) and all(found["order"])
    # Times are differences of microseconds since the machine started: the last bits depend on when.
    assert found["mul"] == pytest.approx([10.0, 10.0]) and found["forward"] == pytest.approx(20.0)
    assert found["own"] == pytest.approx(0.0, abs=1e-3)
    assert "Self CUDA" in found["table"] and "Self CUDA time total" in found["table"]

    trace = json.loads((tmp_path / "trace.json").read_text())
    lines = trace["traceEvents"]
    on_gpu = [e for e in lines if e.get("cat") == "kernel"]
    assert len(on_gpu) == len(kernels)
    assert on_gpu[0]["pid"] == 0 and on_gpu[0]["args"]["grid"][0] >= 1
    starts = {e["id"]: e for e in lines if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {e["id"]: e for e in lines if e.get("cat") == "ac2g" and e["ph"] == "f"}
    assert starts.keys() == ends.keys() == {e["args"]["correlation"] for e in lines
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")}  # fmt: skip
    ops = {e["args"]["External id"]: e["name"] for e in lines if e.get("cat") == "cpu_op"}
    assert ops[on_gpu[0]["args"]["External id"]] == "aten::mul"
    assert any(e.get("cat") == "gpu_user_annotation" and e["name"] == "forward" for e in lines)
    assert trace["deviceProperties"][0]["name"] == "Fake GPU"
    (copy,) = (e for e in lines if e.get("cat") == "gpu_memcpy")
    rate = copy["args"]["memory bandwidth (GB/s)"]
    assert rate == pytest.approx(copy["args"]["bytes"] / copy["dur"] / 1000, rel=1e-3)


def test_kinds_of_what_a_gpu_does(profiled, tmp_path):
    """Of events and of traces, only those that were asked for."""
    found = profiled(f"""
copies = {{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}}
with profile(activities=[ProfilerActivity.CPU, copies]) as prof:
    step().item()
prof.export_chrome_trace({str(tmp_path / "trace.json")!r})
print(json.dumps(sorted({{e.activity for e in prof.events() if e.activity}})))
""")
    assert found == ["gpu_memcpy"]
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["cat"] for e in lines if "cat" in e} == {
        "Trace", "cpu_op", "user_annotation", "gpu_memcpy"}  # fmt: skip


def test_gaps_of_a_gpu_have_causes(profiled):
    found = profiled(
        """
import time
from rushlight.profiler import report
x = x + 0
with profile(schedule=schedule(wait=0, warmup=1, active=3)) as prof:
    for _ in range(4):
        for _ in range(20):
            y = x * 2  # the host is ahead: 4 ms each
        y.sum().item()  # and waits
        time.sleep(0.025)
        prof.step()
verdict = report(prof)
device, = verdict.devices
print(json.dumps({"causes": device.idle_by_cause(), "busy": device.busy, "total": device.total,
                  "kernels": device.kernels, "idle": sum(g.length for g in device.idle),
                  "waited": verdict.shares["device"], "text": str(verdict)}))
""",
        FAKE_CUPTI_KERNEL_US=4000,
    )
    assert found["busy"] + found["idle"] == pytest.approx(found["total"])
    assert found["kernels"] == pytest.approx(3 * 21 * 4000)
    assert "rush::pointwise" in found["text"] and "wait for each other" in found["text"]
    assert next(iter(found["causes"])) == "sync" and found["causes"]["sync"] > 2 * 20_000
    assert found["waited"] > 0.3  # of the host's time
    assert "GPU 0 has nothing to do" in found["text"] and "item()" in found["text"]
    assert "at <string>(23)" in found["text"]  # the line that reads the value


def test_overlapping_profiles_and_gpu_alone(profiled):
    found = profiled("""
with profile() as outer:
    x * 2
    with profile(activities=[ProfilerActivity.CUDA]) as inner:
        x.relu()
    x * 3
names = lambda p: [e.launcher and e.launcher.name for e in p.events() if e.activity == "kernel"]
again = profile(activities=[ProfilerActivity.CPU])
with again:
    x * 2
print(json.dumps([names(outer), names(inner), sorted({e.activity for e in inner.events()}),
                  [e.activity for e in again.events()]]))
""")
    outer, inner, kinds, again = found
    assert outer == ["aten::mul", "aten::relu", "aten::mul"]
    assert inner == [None]  # whose op nobody recorded
    assert kinds == ["cuda_driver", "kernel"] and set(again) == {""}


def test_graphs_and_other_streams(profiled):
    found = profiled("""
side = cuda.Stream()
with cuda.stream(side):
    x * 2
cuda.synchronize()
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    y = (x * 2).relu()
with profile() as prof:
    with cuda.stream(side):
        x * 2
    graph.replay()
    cuda.synchronize()
kernels = [e for e in prof.events() if e.activity == "kernel"]
print(json.dumps([[e.thread, e.launch.get("graph id"), e.call.name] for e in kernels]))
""")
    assert len({stream for stream, _, _ in found}) == 2
    assert [row[1:] for row in found] == [[None, "cuLaunchKernelEx"]] + 2 * [[7, "cuGraphLaunch"]]


def test_beside_another_tool(run_with):
    code = """
import warnings
from rushlight.profiler import profile
x = rl.ones(4, device="cuda")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        with profile() as prof:
            x * 2
print([str(w.message) for w in caught])
print([e.name for e in prof.events()], {e.activity for e in prof.events()})
"""
    said, names = run_with(code, FAKE_CUPTI_HOLDER="Nsight Systems")
    assert said.count("Nsight Systems has it") == 1 and "one tool at a time" in said
    assert names == "['aten::mul'] {''}"


@pytest.mark.slow
def test_many_kernels_stay_bounded(profiled):
    found = profiled("""
with profile(activities=[ProfilerActivity.CUDA]) as prof:
    for _ in range(30000):
        x * 2
print(json.dumps(sum(e.activity == "kernel" for e in prof.events())))
""")
    assert found == 30000  # several buffers
