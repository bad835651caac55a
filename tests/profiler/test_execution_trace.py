"""Execution traces: ops and tensors as a graph, in PyTorch's layout."""

import gzip
import json

import pytest

import rushlight as rl
from rushlight.profiler import ExecutionTraceObserver, profile, record_function


def _attribute(node, name):
    return next(a["value"] for a in node["attrs"] if a["name"] == name)


def _read(path):
    trace = json.loads(gzip.open(path).read() if str(path).endswith("gz") else path.read_text())
    assert trace["schema"].startswith("1.1.1-chakra") and trace["finish_ts"] >= trace["start_ts"]
    return trace["nodes"]


def test_a_graph_of_ops_and_tensors(tmp_path):
    path = tmp_path / "trace.json"
    observer = ExecutionTraceObserver()
    assert not observer.is_registered and observer.get_output_file_path() is None
    assert observer.register_callback(str(path)) is observer and observer.is_registered
    layer, x = rl.nn.Linear(3, 4), rl.randn(2, 3)
    with profile(execution_trace_observer=observer):
        assert observer.is_running()
        with record_function("mine"):
            y = layer(x).relu()
            rl.cat([y, y]).sum(dim=0, keepdim=True).sum().backward()
    assert not observer.is_registered and not observer.is_running()
    nodes = _read(path)
    by_id = {n["id"]: n for n in nodes}
    assert len(by_id) == len(nodes)  # no number twice
    assert all(n["ctrl_deps"] in by_id for n in nodes)
    for n in nodes:
        for side in ("inputs", "outputs"):
            assert len({len(column) for column in n[side].values()}) == 1
    mine = next(n for n in nodes if n["name"] == "mine")
    assert _attribute(mine, "scope") == 7
    linear = next(n for n in nodes if n["name"] == "aten::linear")
    relu = next(n for n in nodes if n["name"] == "aten::relu")
    cat = next(n for n in nodes if n["name"] == "aten::cat")
    assert linear["ctrl_deps"] == relu["ctrl_deps"] == mine["id"]
    assert linear["inputs"]["shapes"] == [[2, 3], [4, 3], [4]]
    assert linear["inputs"]["types"] == ["Tensor(float)"] * 3
    assert linear["outputs"]["strides"] == [[4, 1]]
    # What comes out of one goes into the next.
    assert relu["inputs"]["values"] == linear["outputs"]["values"]
    (out,) = relu["outputs"]["values"]
    assert cat["inputs"]["values"][0] == [out, out] and out[2:] == [0, 8, 4, "cpu"]
    assert cat["inputs"]["types"][0] == "GenericList[Tensor(float),Tensor(float)]"
    # The result of relu is alive; that of linear may be gone, and its address used again.
    assert cat["outputs"]["values"][0][0] not in (out[0], linear["outputs"]["values"][0][0])
    (whole,) = (n for n in nodes if n["name"] == "aten::sum" and n["inputs"]["values"][1] == [0]
                and n["ctrl_deps"] == mine["id"])  # fmt: skip
    assert whole["inputs"]["values"][1:] == [[0], True, "<None>"]
    assert whole["inputs"]["types"][1:] == ["GenericList[Int]", "Bool", "None"]
    # Backward's nodes name the op whose gradient they compute.
    backward = next(n for n in nodes if n["name"] == "ReluBackward0")
    assert _attribute(backward, "fw_parent") == relu["id"]
    assert _attribute(backward, "seq_id") == _attribute(relu, "seq_id") >= 0
    assert by_id[backward["ctrl_deps"]]["name"].endswith("evaluate_function: ReluBackward0")


def test_views_share_a_storage_and_in_place_ops_keep_the_tensor(tmp_path):
    path = tmp_path / "trace.json.gz"
    observer = ExecutionTraceObserver().register_callback(path)
    x = rl.zeros(2, 3)
    observer.start()
    view = x[1:]
    x.clamp_(max=float("inf"))
    observer.stop()
    x * 3  # not recorded
    observer.start()
    (x * 2, view)
    observer.unregister_callback()
    nodes = [n for n in _read(path) if n["name"].startswith("aten::")]
    assert [n["name"] for n in nodes if n["name"] in ("aten::mul", "aten::clamp_")] == [
        "aten::clamp_", "aten::mul"]  # fmt: skip
    add = next(n for n in nodes if n["name"] == "aten::clamp_")
    assert add["outputs"]["values"][0] == add["inputs"]["values"][0]
    assert "Infinity" in add["inputs"]["values"]
    sliced = next(n for n in nodes if n["outputs"]["values"] and n is not add)
    (of_view,) = sliced["outputs"]["values"]
    of_x = add["inputs"]["values"][0]
    assert of_view[1] == of_x[1] and of_view[0] != of_x[0] and of_view[2] == 3


def test_failures_and_files_that_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError):
        ExecutionTraceObserver().register_callback(tmp_path / "none" / "trace.json")
    observer = ExecutionTraceObserver().register_callback(tmp_path / "trace.json")
    observer.start()
    with pytest.raises(RuntimeError):
        rl.ones(2, 3) @ rl.ones(2, 3)
    rl.ones(2).exp()
    del observer  # writes the file
    names = [n["name"] for n in _read(tmp_path / "trace.json")]
    assert "aten::matmul" in names and names.index("aten::matmul") < names.index("aten::exp")


def test_any_object_with_the_three_methods_will_do(monkeypatch):
    told = []

    class Observer:
        def start(self):
            told.append("start")

        def stop(self):
            told.append("stop")

        def cleanup(self):
            told.append("cleanup")

    schedule = rl.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)
    with profile(execution_trace_observer=Observer(), schedule=schedule) as prof:
        for _ in range(6):
            prof.step()
    assert told == ["start", "stop"] * 2 + ["cleanup"]


def test_an_observer_by_the_environment(monkeypatch):
    assert profile().execution_trace_observer is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    with profile() as prof:
        rl.ones(2).exp()
    path = prof.execution_trace_observer.get_output_file_path()
    assert path.endswith(".et.json") and any(
        n["name"] == "aten::exp" for n in json.load(open(path))["nodes"]
    )
