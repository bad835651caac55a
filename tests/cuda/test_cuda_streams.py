"""Streams and backward, exchange with other libraries, sync debugging, pinned loading."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset

cuda = rl.cuda


def busy(n=60):
    """Queues work that takes a while on the current stream."""
    x = rl.ones(4096, 4096, device="cuda")
    for _ in range(n):
        x = x @ x * 1e-4
    return x


# ---- backward in the streams of forward ----


def test_backward_runs_in_the_stream_of_forward():
    w = rl.ones(2000, 2000, device="cuda", requires_grad=True)
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        busy()
        y = (w * 3).sum()
    cuda.current_stream().wait_stream(side)
    y.backward()
    # The caller's stream has the gradient, whatever the side stream is still doing.
    assert bool((w.grad == 3).all())


def test_two_branches_in_two_streams_meet():
    rl.manual_seed(0)
    w = rl.randn(300, 300, device="cuda", requires_grad=True)
    want = []
    for streams in (False, True):
        w.grad = None
        a, b = cuda.Stream(), cuda.Stream()
        x = w * 1.0
        if streams:
            a.wait_stream(cuda.current_stream())
            b.wait_stream(cuda.current_stream())
            with cuda.stream(a):
                busy(20)
                left = (x @ x).sum()
            with cuda.stream(b):
                busy(30)
                right = (x * x).sum()
            cuda.current_stream().wait_stream(a)
            cuda.current_stream().wait_stream(b)
        else:
            left, right = (x @ x).sum(), (x * x).sum()
        for _ in range(3):
            (left + right).backward(retain_graph=True)
        want.append(w.grad.cpu().numpy())
    np.testing.assert_allclose(want[1], want[0], rtol=1e-5)


def test_backward_called_in_another_stream():
    w = rl.ones(1000, device="cuda", requires_grad=True)
    y = (w * 2).sum()
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y.backward()
        busy(5)
        total = w.grad.sum()
    side.synchronize()
    assert total.item() == 2000


def test_grad_in_a_side_stream():
    w = rl.ones(1000, device="cuda", requires_grad=True)
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = (w * w * 2).sum()
        busy(10)
    cuda.current_stream().wait_stream(side)
    (g,) = rl.autograd.grad(y, [w])
    assert bool((g == 4).all())


# ---- other libraries ----


def peer():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return torch


def test_dlpack_to_and_from_pytorch():
    torch = peer()
    x = rl.arange(12.0, device="cuda").reshape(3, 4)
    assert x.__dlpack_device__() == (2, 0)
    t = torch.from_dlpack(x.T)
    assert t.shape == (4, 3) and t.device.type == "cuda" and t.data_ptr() == x.data_ptr()
    t += 1
    assert x.sum().item() == 66 + 12
    back = rl.from_dlpack(t)
    assert back.data_ptr() == x.data_ptr() and back.is_cuda
    y = rl.from_dlpack(torch.ones(5, device="cuda", dtype=torch.bfloat16))
    assert y.dtype == rl.bfloat16 and y.sum().item() == 5
    with pytest.raises(BufferError, match="requires grad"):
        torch.from_dlpack(rl.ones(2, device="cuda", requires_grad=True))


def test_dlpack_keeps_the_order_of_streams():
    torch = peer()
    side, theirs = cuda.Stream(), torch.cuda.Stream()
    for _ in range(3):
        with cuda.stream(side):
            x = rl.zeros(1 << 22, device="cuda")
            busy(10)
            x.fill_(1)
            with torch.cuda.stream(theirs):
                got = torch.from_dlpack(x).sum()  # their stream waits for ours
        theirs.synchronize()
        assert got.item() == 1 << 22
        with torch.cuda.stream(theirs):
            t = torch.zeros(1 << 22, device="cuda")
            for _ in range(10):
                t = t + 1
            with cuda.stream(side):
                total = rl.from_dlpack(t).sum()
        side.synchronize()
        assert total.item() == 10 * (1 << 22)


def test_dlpack_stream_arguments():
    x = rl.ones(3, device="cuda")
    x.__dlpack__(stream=-1)
    x.__dlpack__(stream=1)
    x.__dlpack__(stream=None)
    x.__dlpack__(stream=cuda.Stream().cuda_stream)
    with pytest.raises(ValueError, match="ambiguous"):
        x.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="int"):
        x.__dlpack__(stream="a")


def test_cuda_array_interface():
    x = rl.arange(6, dtype=rl.int16, device="cuda").reshape(2, 3)
    found = x.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<i2" and found["strides"] is None
    assert found["data"] == (x.data_ptr(), False) and found["version"] == 3
    assert x.T.__cuda_array_interface__["strides"] == (2, 6)
    with pytest.raises(AttributeError):
        _ = rl.ones(2).__cuda_array_interface__

    class Array:
        def __init__(self, owner):
            self.owner = owner
            self.__cuda_array_interface__ = owner.__cuda_array_interface__

    y = rl.as_tensor(Array(x.T))
    assert y.data_ptr() == x.data_ptr() and y.tolist() == x.T.tolist()
    y[0, 0] = 9
    assert x[0, 0].item() == 9
    z = rl.as_tensor(Array(x), dtype=rl.float32)
    assert z.dtype == rl.float32 and z.tolist() == x.float().tolist()


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x = rl.arange(6.0, device="cuda")
    a = cupy.from_dlpack(x)
    a *= 2
    assert x.tolist() == [0, 2, 4, 6, 8, 10]
    assert cupy.asarray(x).sum().item() == 30
    assert rl.from_dlpack(cupy.ones(3)).tolist() == [1, 1, 1]
    assert rl.as_tensor(cupy.ones(3)).is_cuda


def test_memory_of_others_is_not_given_back_early():
    torch = peer()
    for _ in range(5):
        t = torch.full((1 << 22,), 3.0, device="cuda")
        x = rl.from_dlpack(t)
        busy(10)
        total = (x * 1).sum()
        del t, x  # PyTorch gets the memory back when our stream has read it
        junk = torch.zeros(1 << 22, device="cuda")
        assert total.item() == 3 * (1 << 22)
        del junk


# ---- waiting ----


def test_sync_debug_names_what_waits():
    x = rl.ones(10, device="cuda")
    cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            x.sum().item()
        assert any("waits for the GPU" in str(w.message) for w in seen)
        cuda.set_sync_debug_mode("error")
        assert cuda.get_sync_debug_mode() == 2
        with pytest.raises(RuntimeError, match="waits for the GPU"):
            x.cpu()
        (x * 2 + 1).relu()
    finally:
        cuda.set_sync_debug_mode(0)


def test_a_training_step_waits_for_nothing():
    model = nn.Sequential(
        nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10)
    ).cuda()
    opt = rl.optim.AdamW(model.parameters())
    x, y = rl.randn(32, 64, device="cuda"), rl.randint(0, 10, (32,), device="cuda")

    def step():
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    step()
    cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        cuda.set_sync_debug_mode(0)


def test_events_measure_and_block():
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True, blocking=True)
    begin.record()
    busy(10)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0 and end.query()
    with pytest.raises(ValueError, match="enable_timing"):
        plain = cuda.Event()
        plain.record()
        begin.elapsed_time(plain)


def test_streams_of_others():
    torch = peer()
    theirs = torch.cuda.Stream()
    ours = cuda.ExternalStream(theirs.cuda_stream)
    with cuda.stream(ours):
        x = rl.ones(1000, device="cuda") * 2
    theirs.synchronize()
    assert x.sum().item() == 2000
    low, high = cuda.Stream.priority_range()
    assert cuda.Stream(priority=high).priority == high <= low


# ---- pinned memory ----


def test_a_loader_pins_in_the_background():
    data = TensorDataset(rl.arange(640.0).reshape(64, 10), rl.arange(64))
    for workers in (0, 2):
        loader = DataLoader(data, batch_size=8, num_workers=workers, pin_memory=True)
        total = 0
        for x, y in loader:
            assert x.is_pinned() and y.is_pinned()
            gpu = x.to("cuda", non_blocking=True)
            assert gpu.shape == (8, 10) and y.shape == (8,)
            total += gpu.sum().item()
        assert total == sum(range(640))


def test_pinned_memory_is_not_used_again_before_it_was_read():
    for _ in range(10):
        copies = []
        for k in range(20):
            host = rl.full((1 << 18,), float(k)).pin_memory()
            busy(1)
            copies.append(host.to("cuda", non_blocking=True))
            del host
        assert [c[0].item() for c in copies] == list(range(20))
        assert all(bool((c == k).all()) for k, c in enumerate(copies))


def test_a_copy_to_the_host_is_never_early():
    for _ in range(5):
        x = rl.zeros(1 << 20, device="cuda")
        busy(10)
        x += 1
        host = rl.empty(1 << 20, pin_memory=True)
        host.copy_(x, non_blocking=True)
        assert bool((host == 1).all())
        assert bool((x.to("cpu", non_blocking=True) == 1).all())


# ---- kernels and calls of libraries that are queued together ----

REPEATED_STEPS = """
import rushlight as rl
from rushlight import nn
rl.config.coalesce_launches = {on}
rl.use_deterministic_algorithms(True)  # cuDNN's and cuBLAS's choices, too
rl.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 16, 3, 2, 1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 256),
    nn.GELU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10),
).cuda()
optimizer = rl.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x, y = rl.randn(32, 3, 16, 16, device="cuda"), rl.randint(0, 10, (32,), device="cuda")
losses = []
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
for i in range(60):
    loss = step(x, y)
    if i % 7 == 0:
        losses.append(loss)            # its memory is not the next step's
    if i % 13 == 0:
        step(x[:17], y[:17])           # other sizes between
    if i % 20 == 0:
        with rl.cuda.stream(rl.cuda.Stream()):
            (x * 2).sum()
bits = [float(l) for l in losses] + [float(p.double().sum()) for p in model.parameters()]
stats = rl.cuda.coalescing_stats()
print(bits)
print(stats["library_calls"], stats["refused_graphs"], stats["off"])
"""


def test_training_with_calls_in_batches_has_the_same_bits(tmp_path):
    """In processes of their own: a test before may have given an address away."""
    told = {}
    for on in (True, False):
        program = tmp_path / "program.py"
        program.write_text(REPEATED_STEPS.format(on=on))
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        told[on] = done.stdout.splitlines()
    assert told[True][0] == told[False][0]
    calls, refused, off = told[True][1].split(" ", 2)
    assert (int(calls) > 100, refused, off) == (True, "0", "None")
    assert told[False][1].split()[0] == "0"
