"""Profiles of GPUs: CUPTI's times against CUDA events, kernels against ops, idle times."""

import json
import time
import warnings

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.profiler import ProfilerActivity, plan, profile, record_function, report, schedule

cuda = rl.cuda


@pytest.fixture(autouse=True)
def _cupti():
    """Skips where CUPTI cannot be used, and says why."""
    if (why := rl._C._profiler_prepare_devices()) is not None:
        pytest.skip(why)


def on_gpu(prof, kind="kernel"):
    return [e for e in prof.events() if e.activity == kind]


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_times_of_kernels_are_those_of_events(dtype):
    """One long kernel between two events, several times: within three percent."""
    x = rl.randn(8192, 8192, device="cuda", dtype=dtype)
    big = rl.randn(1 << 28, device="cuda", dtype=dtype)
    for work in (lambda: x @ x, lambda: big * 2):
        work()
        with profile() as prof:
            pairs = []
            for _ in range(7):
                begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                begin.record()
                work()
                end.record()
                pairs.append((begin, end))
            cuda.synchronize()
        # The best run of each: others on the GPU may hold up one between its events.
        by_events = min(1e3 * a.elapsed_time(b) for a, b in pairs)
        kernels = on_gpu(prof)
        assert len(kernels) >= 7 and len(kernels) % 7 == 0
        times, per_run = [e.device_time_total for e in kernels], len(kernels) // 7
        ours = min(sum(times[i * per_run : (i + 1) * per_run]) for i in range(7))
        assert ours == pytest.approx(by_events, rel=0.03)


def model_and_data():
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
                          nn.Linear(32 * 30 * 30, 10)).cuda()  # fmt: skip
    return model, rl.randn(16, 3, 32, 32, device="cuda"), rl.zeros(16, dtype=rl.int64).cuda()


def test_every_kernel_of_a_step_belongs_to_an_op(tmp_path):
    model, images, labels = model_and_data()
    optimizer = rl.optim.Adam(model.parameters())

    def step():
        with record_function("forward"):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile(with_modules=True) as prof:
            step()
            step()
    kernels = on_gpu(prof)
    assert len(kernels) > 20
    assert all(e.launcher is not None and e.call is not None for e in kernels)
    assert all(e.call.time_range.start < e.time_range.start for e in kernels)
    assert all(e.source for e in kernels)
    averages = {e.key: e for e in prof.key_averages()}
    total = sum(e.device_time_total for e in prof.events() if e.on_device)
    tops = [e for e in prof.events() if e.cpu_parent is None and not e.on_device]
    assert sum(e.device_time_total for e in tops) == pytest.approx(total)
    assert averages["aten::conv2d"].device_time_total > 0
    assert averages["Optimizer.step#Adam.step"].device_time_total > 0
    modules = {e.module for e in kernels}
    assert {"0", "1", "4"} <= {m and m.rpartition(".")[2] for m in modules}
    prof.export_chrome_trace(tmp_path / "trace.json")
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(e.get("cat") == "ac2g" and e["ph"] == "f" for e in lines) >= len(kernels)
    assert "Self CUDA time total" in prof.key_averages().table(sort_by="self_cuda_time_total")


def test_copies_fills_and_graphs():
    host = rl.ones(1 << 20).pin_memory()
    graph = cuda.CUDAGraph()
    x = rl.ones(1000, device="cuda")
    with cuda.graph(graph):
        y = (x * 2).relu()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as prof:
        on_device = host.to("cuda", non_blocking=True)
        on_device.cpu()
        graph.replay()
        side = cuda.Stream()
        with cuda.stream(side):
            z = x + 1
        cuda.synchronize()
    copies = {e.name: e.bytes for e in on_gpu(prof, "gpu_memcpy")}
    assert any("HtoD (Pinned -> Device)" in name and n == 4 << 20 for name, n in copies.items())
    assert any("DtoH" in name for name in copies)
    nodes = [e for e in on_gpu(prof) if e.launch.get("graph id")]
    assert len(nodes) == 2 and all("GraphLaunch" in e.call.name for e in nodes)
    assert len({e.thread for e in on_gpu(prof)}) >= 2
    del y, z


def test_idle_times_and_their_causes():
    x = rl.randn(2048, 2048, device="cuda")
    with profile(schedule=schedule(wait=0, warmup=1, active=4)) as prof:
        for _ in range(5):
            for _ in range(10):
                y = x @ x
            y.sum().item()
            time.sleep(0.005)
            prof.step()
    verdict = report(prof, peaks=(1e12, 1e12))
    (device,) = verdict.devices
    assert device.busy + sum(g.length for g in device.idle) == pytest.approx(device.total)
    assert next(iter(device.idle_by_cause())) == "sync"
    assert device.idle_by_cause()["sync"] > 3 * 4500
    assert "GPU 0 has nothing to do" in str(verdict)


@pytest.mark.parametrize("name", ["mlp", "unet", "gpt"])
def test_the_planned_peak_is_that_of_the_gpu(name):
    def attention_model():
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
        return nn.Sequential(nn.Embedding(5000, 256), nn.TransformerEncoder(layer, 3),
                             nn.Linear(256, 5000), nn.Flatten(0, 1))  # fmt: skip

    cases = {
        "mlp": lambda: (nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 10)),
                        rl.randn(4096, 2048), rl.randint(0, 10, (4096,)), F.cross_entropy),
        "unet": lambda: (nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.GroupNorm(4, 64),
                                       nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1)),
                         rl.randn(32, 3, 128, 128), rl.randn(32, 3, 128, 128), F.mse_loss),
        "gpt": lambda: (attention_model(), rl.randint(0, 5000, (16, 256)),
                        rl.randint(0, 5000, (16 * 256,)), F.cross_entropy),
    }  # fmt: skip
    model, inputs, target, loss = cases[name]()
    planned = plan(model, inputs, target=target, loss=loss, optimizer=rl.optim.AdamW, device="cuda")
    model, inputs, target = model.cuda(), inputs.cuda(), target.cuda()
    optimizer = rl.optim.AdamW(model.parameters())
    for _ in range(3):
        cuda.reset_peak_memory_stats()
        optimizer.zero_grad()
        loss(model(inputs), target).backward()
        optimizer.step()
    peak = cuda.max_memory_allocated()
    assert planned.peak_bytes == pytest.approx(peak, rel=0.05)
