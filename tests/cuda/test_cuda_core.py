"""Tensors on a GPU: moving, reading, random numbers, streams, the allocator, errors."""

import gc
import pickle

import numpy as np
import pytest

import rushlight as rl

MB = 2**20


def busy(stream=None, milliseconds=200):
    """Queues work that takes a while."""
    x = rl.ones(4096, 4096, device="cuda")
    for _ in range(max(1, milliseconds // 3)):
        x = x @ x * 1e-4
    return x


def test_moving_there_and_back():
    for dtype in (rl.float32, rl.float16, rl.int64, rl.bool, rl.complex64):
        x = (rl.arange(60).reshape(3, 4, 5) % 7).to(dtype)
        for view in (x, x.transpose(0, 2), x[:, ::2], x[1:2].expand(3, 4, 5)):
            y = view.cuda()
            assert y.is_cuda and y.device == rl.device("cuda", 0) and y.get_device() == 0
            assert (y.cpu() == view).all()
            assert (
                y.to("cpu", rl.float64 if not dtype.is_complex else dtype).to(dtype) == view
            ).all()


def test_devices_have_numbers():
    x = rl.zeros(2, device="cuda")
    assert str(x.device) == "cuda:0"
    assert x.to("cuda") is x and x.to("cuda:0") is x
    with pytest.raises(RuntimeError, match="no device cuda:99"):
        rl.zeros(2, device="cuda:99")


def test_reading_values():
    x = rl.arange(6, device="cuda").reshape(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x[1, 2].item() == 5 and int(x.sum()) == 15 and bool((x == x).all())
    assert repr(x) == "tensor([[0, 1, 2],\n        [3, 4, 5]], device='cuda:0')"
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    np.testing.assert_array_equal(x.cpu().numpy(), np.arange(6).reshape(2, 3))


def test_numbers_and_cpu_scalars_mix_with_gpu_tensors():
    x = rl.arange(4.0, device="cuda")
    assert (x * 2 + 1).tolist() == [1, 3, 5, 7]
    assert (x * rl.tensor(3.0)).tolist() == [0, 3, 6, 9]
    with pytest.raises(RuntimeError, match="cuda:0 and cpu"):
        x + rl.ones(4)


def test_random_bits_are_those_of_the_cpu():
    for make in (
        lambda d: rl.rand(1001, device=d),
        lambda d: rl.randn(1001, device=d),
        lambda d: rl.rand(77, dtype=rl.float64, device=d),
        lambda d: rl.randint(0, 1000, (513,), device=d),
        lambda d: rl.empty(999, device=d).exponential_(),
        lambda d: rl.empty(999, device=d).bernoulli_(0.3),
        lambda d: rl.randperm(300, device=d),
        lambda d: rl.rand(33, 3, dtype=rl.bfloat16, device=d),
    ):
        rl.manual_seed(7)
        want = make("cpu")
        rl.manual_seed(7)
        assert rl.equal(make("cuda").cpu(), want)


def test_backward_runs_where_the_tensors_are():
    rl.manual_seed(0)
    w = rl.randn(8, 5, device="cuda", requires_grad=True)
    x = rl.randn(4, 8)
    y = (x.cuda() @ w).tanh().sum()
    y.backward()
    v = w.detach().cpu().requires_grad_()
    (x @ v).tanh().sum().backward()
    assert w.grad.is_cuda
    np.testing.assert_allclose(w.grad.cpu().numpy(), v.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_gradients_flow_through_a_move():
    x = rl.ones(3, requires_grad=True)
    (x.cuda() * 2).cpu().sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and x.grad.device.type == "cpu"


def test_pickling():
    x = rl.arange(5, device="cuda")
    y = pickle.loads(pickle.dumps(x))
    assert y.is_cuda and y.tolist() == [0, 1, 2, 3, 4]


def test_saving(tmp_path):
    x = {"w": rl.arange(5.0, device="cuda")}
    rl.save(x, tmp_path / "x.pt")
    assert rl.load(tmp_path / "x.pt")["w"].is_cuda
    assert rl.load(tmp_path / "x.pt", map_location="cpu")["w"].device.type == "cpu"


# ---- asynchrony ----


def test_the_host_does_not_wait():
    rl.cuda.synchronize()
    stream = rl.cuda.current_stream()
    x = busy()
    assert not stream.query()
    y = x + 1
    assert not stream.query()
    rl.cuda.synchronize()
    assert stream.query() and y.is_cuda


def test_events_measure_time():
    begin, end = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    begin.record()
    busy()
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) > 1
    with pytest.raises(ValueError, match="enable_timing"):
        rl.cuda.Event().elapsed_time(end) if False else _untimed().elapsed_time(end)


def _untimed():
    event = rl.cuda.Event()
    event.record()
    return event


def test_streams_run_side_by_side_and_wait_for_each_other():
    side = rl.cuda.Stream()
    assert side != rl.cuda.default_stream()
    x = busy()
    with rl.cuda.stream(side):
        assert rl.cuda.current_stream() == side
        y = rl.ones(1000, device="cuda") * 2
    assert rl.cuda.current_stream() == rl.cuda.default_stream()
    side.synchronize()
    assert not rl.cuda.current_stream().query()
    rl.cuda.current_stream().wait_stream(side)
    assert (y + 1).sum().item() == 3000
    del x


def test_memory_used_by_another_stream_is_not_handed_out_early():
    side = rl.cuda.Stream()
    rl.cuda.synchronize()
    for _ in range(3):
        x = rl.full((MB,), 1.0, device="cuda")
        side.wait_stream(rl.cuda.current_stream())
        with rl.cuda.stream(side):
            busy()
            y = x * 1
        x.record_stream(side)
        del x
        z = rl.full((MB,), 7.0, device="cuda")  # must not get x's block
        side.synchronize()
        assert y.max().item() == 1.0
        del y, z
    rl.cuda.synchronize()


def test_pinned_memory_copies_by_itself():
    x = rl.arange(MB, dtype=rl.float32).pin_memory()
    assert x.is_pinned() and not rl.ones(2).is_pinned()
    work = busy()
    y = x.to("cuda", non_blocking=True)
    del x
    again = rl.zeros(MB).pin_memory()  # must not be the block that is still read
    again.fill_(-1)
    assert (y.cpu() == rl.arange(MB, dtype=rl.float32)).all()
    del work


def test_sync_debug_mode():
    x = rl.ones(3, device="cuda")
    rl.cuda.set_sync_debug_mode("error")
    try:
        x + 1
        with pytest.raises(RuntimeError, match="waits"):
            x.cpu()
    finally:
        rl.cuda.set_sync_debug_mode("default")


# ---- memory ----


def test_blocks_are_reused():
    x = rl.empty(MB, device="cuda")
    at = x.data_ptr()
    before = rl.cuda.memory_stats()["num_device_alloc"]
    del x
    for _ in range(100):
        x = rl.empty(MB, device="cuda")
        assert x.data_ptr() == at
        del x
    assert rl.cuda.memory_stats()["num_device_alloc"] == before


def test_statistics():
    rl.cuda.reset_peak_memory_stats()
    start = rl.cuda.memory_allocated()
    x = rl.empty(300, dtype=rl.uint8, device="cuda")
    assert rl.cuda.memory_allocated() == start + 512
    y = rl.empty(10 * MB, dtype=rl.uint8, device="cuda")
    del y
    assert rl.cuda.max_memory_allocated() == start + 512 + 10 * MB
    assert rl.cuda.memory_reserved() >= rl.cuda.max_memory_allocated()
    stats = rl.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == start + 512
    assert "live tensors" in rl.cuda.memory_summary()
    del x
    free, total = rl.cuda.mem_get_info()
    assert 0 < free < total
    rl.cuda.empty_cache()
    assert rl.cuda.memory_reserved() <= 64 * MB


def test_out_of_memory_is_an_error_that_passes():
    total = rl.cuda.mem_get_info()[1]
    with pytest.raises(rl.OutOfMemoryError, match=r"(?s)CUDA out of memory.*Try"):
        rl.empty(2 * total, dtype=rl.uint8, device="cuda")
    assert rl.cuda.OutOfMemoryError is rl.OutOfMemoryError
    assert rl.ones(3, device="cuda").sum().item() == 3


def test_a_fraction_of_the_memory():
    rl.cuda.empty_cache()
    total = rl.cuda.mem_get_info()[1]
    rl.cuda.set_per_process_memory_fraction(0.1)
    try:
        with pytest.raises(rl.OutOfMemoryError, match="fraction"):
            rl.empty(int(total * 0.2), dtype=rl.uint8, device="cuda")
        x = rl.empty(int(total * 0.05), dtype=rl.uint8, device="cuda")
        del x
    finally:
        rl.cuda.set_per_process_memory_fraction(1.0)
        rl.cuda.empty_cache()


def test_caches_of_other_streams_are_given_back_before_failing():
    rl.cuda.empty_cache()
    total = rl.cuda.mem_get_info()[1]
    rl.cuda.set_per_process_memory_fraction(0.1)
    try:
        half = int(total * 0.06)
        side = rl.cuda.Stream()
        with rl.cuda.stream(side):
            x = rl.empty(half, dtype=rl.uint8, device="cuda")
            del x
        y = rl.empty(half, dtype=rl.uint8, device="cuda")
        assert rl.cuda.memory_stats()["num_alloc_retries"] >= 1
        del y
    finally:
        rl.cuda.set_per_process_memory_fraction(1.0)
        rl.cuda.empty_cache()


def test_random_lengths_do_not_fragment():
    rng = np.random.RandomState(0)
    rl.cuda.empty_cache()
    live, most = [], 0
    for step in range(3000):
        n = int(rng.randint(1, 4 * MB))
        live.append(rl.empty(n, dtype=rl.uint8, device="cuda"))
        if len(live) > 50:
            live.pop(int(rng.randint(0, len(live))))
        if step == 1000:
            most = rl.cuda.memory_reserved()
    assert rl.cuda.memory_reserved() <= 1.3 * most
    live.clear()


# ---- many dims, large sizes ----


def test_many_dims():
    shape = (2,) * 12
    x = rl.arange(4096).reshape(shape)
    y = x.permute(*reversed(range(12)))
    for f in (lambda t: t + 1, lambda t: t.contiguous(), lambda t: t.to(rl.float32) * 2):
        assert rl.equal(f(y.cuda()).cpu(), f(y))


def test_more_than_31_bits():
    n = 2**31 + 5
    x = rl.zeros(n, dtype=rl.uint8, device="cuda")
    x[-1] = 3
    y = x + 1
    assert y[-1].item() == 4 and y[0].item() == 1
    assert y.sum(dtype=rl.int64).item() == n + 3
    del x, y
    gc.collect()
    rl.cuda.empty_cache()


def test_threads_have_their_own_streams():
    import threading

    seen = []

    def work():
        with rl.cuda.stream(rl.cuda.Stream()):
            seen.append((rl.ones(1000, device="cuda") * 3).sum().item())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [3000.0] * 8
