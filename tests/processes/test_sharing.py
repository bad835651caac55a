"""Tensors in shared memory: one process sees what another writes, in every way they can meet."""

import copy
import os
import pickle
import queue as queues
import threading

import pytest
import scripts

import rushlight as torch

HEADER = """
import os, sys, time, signal
import rushlight as torch
import rushlight.multiprocessing as mp
"""


def segments():
    return {n for n in os.listdir("/dev/shm") if n.startswith("rushlight-")}


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_share_memory_in_place():
    x = torch.arange(6.0)
    view, pointer = x[2:], x.data_ptr()
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared() and view.is_shared() and x.untyped_storage().is_shared()
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and x.data_ptr() != pointer
    view.fill_(9)
    assert x.tolist() == [0, 1, 9, 9, 9, 9]
    pointer = x.data_ptr()
    assert x.share_memory_().data_ptr() == pointer
    with pytest.raises(RuntimeError, match="shared"):
        x.untyped_storage().resize_(1000)
    assert not copy.deepcopy(x).is_shared() and not x.clone().is_shared()
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)


def test_sizes():
    sizes = [0, 1, 15, 100, 511, 512, 513, 1000, 1024, 1025, 5000, 300_000, 10_000_000]
    tensors = [torch.full((n,), float(i)).share_memory_() for i, n in enumerate(sizes)]
    for i, (t, n) in enumerate(zip(tensors, sizes, strict=True)):
        assert t.numel() == n and bool((t == i).all())


def test_memory_and_descriptors_come_back():
    before = torch._C._shared_memory_stats()[1]
    for _ in range(200):
        torch.ones(300_000).share_memory_()
    assert torch._C._shared_memory_stats()[1] == before
    count = descriptors()
    for _ in range(50):
        torch.ones(5_000_000).share_memory_()
    assert descriptors() <= count + 3


def test_module_share_memory():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    parameters = list(model.parameters())
    assert model.share_memory() is model
    assert all(t.is_shared() for t in [*model.parameters(), *model.buffers()])
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))


@pytest.mark.threads
def test_threads_share_and_drop():
    def work():
        for i in range(300):
            a = torch.full((i * 7,), float(i)).share_memory_()
            b = a[: i // 2].clone().share_memory_()
            assert a.sum().item() == i * i * 7 and b.numel() == min(i // 2, i * 7)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


ROUND_TRIP = (
    HEADER
    + """
def child(inbox, outbox):
    while (got := inbox.get()) is not None:
        for t in got if isinstance(got, (list, tuple)) else [got]:
            t.data.add_(1)
        outbox.put(got)
        del got
    outbox.put(torch._C._shared_memory_stats()[1])

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1] if len(sys.argv) > 1 else METHOD)
    inbox, outbox = context.Queue(), context.SimpleQueue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    base = torch.zeros(10)
    views = [base[2:5], base[4:], base.view(2, 5).t()]
    inbox.put(views)
    back = outbox.get()
    assert base.tolist() == [1, 1, 2, 2, 3, 2, 2, 2, 2, 2], base
    for a, b in zip(views, back):
        assert a.untyped_storage()._cdata == b.untyped_storage()._cdata
        assert a.shape == b.shape and a.stride() == b.stride()
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 5.0)
    inbox.put(weight)
    back = outbox.get()
    assert type(back) is torch.nn.Parameter and back.requires_grad and back.grad is None
    assert weight.tolist() == [2, 2, 2]
    weight.grad.share_memory_()
    inbox.put(weight)
    back = outbox.get()
    back.grad.zero_()
    assert weight.grad.tolist() == [0, 0, 0]
    for dtype in (torch.float16, torch.uint8, torch.bfloat16, torch.complex64, torch.int64):
        x = torch.zeros(4, dtype=dtype)
        inbox.put(x)
        assert outbox.get().dtype == dtype and x.sum().item() == 4
    empty = torch.zeros(0, 3)
    inbox.put(empty)
    assert outbox.get().shape == (0, 3)
    del base, views, back, weight, x, empty, a, b
    inbox.put(None)
    left = outbox.get()
    assert left <= 1, left
    process.join()
    assert process.exitcode == 0
    inbox.close(); inbox.join_thread()
    assert torch._C._shared_memory_stats()[1] == 0, torch._C._shared_memory_stats()
    print("fine")
"""
)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_round_trip(method, strategy):
    source = ROUND_TRIP.replace("METHOD", repr(method)).replace(
        'if __name__ == "__main__":',
        f'mp.set_sharing_strategy("{strategy}")\nif __name__ == "__main__":',
    )
    before = segments()
    assert scripts.run(source) == "fine\n"
    assert segments() <= before


def test_strategies():
    mp = torch.multiprocessing
    assert mp.get_sharing_strategy() == "file_descriptor"
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="file_system"):
        mp.set_sharing_strategy("carrier pigeon")


def test_what_cannot_be_sent():
    reader, writer = torch.multiprocessing.Pipe()
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        writer.send(x * 2)
    with pytest.raises(RuntimeError, match="cannot be sent"):
        writer.send(torch.empty(2, device="meta").untyped_storage())
    writer.send([x, (x * 2).detach()])
    got = reader.recv()
    assert got[0].requires_grad and got[0].is_leaf and got[1].tolist() == [2, 2]


def test_pipe():
    first, second = torch.multiprocessing.Pipe()
    x = torch.zeros(3)
    first.send({"x": x, "text": "a" * 100_000})
    assert second.poll(5)
    got = second.recv()
    got["x"].fill_(4)
    assert x.tolist() == [4, 4, 4] and len(got["text"]) == 100_000
    second.send_bytes(b"raw")
    assert first.recv_bytes() == b"raw"
    reader, writer = torch.multiprocessing.Pipe(duplex=False)
    with pytest.raises(OSError):
        reader.send(1)
    with pytest.raises(OSError):
        writer.recv()
    writer.close()
    with pytest.raises(EOFError):
        reader.recv()


def test_queues_are_queues():
    queue = torch.multiprocessing.Queue(2)
    queue.put(1)
    queue.put("two")
    with pytest.raises(queues.Full):
        queue.put(3, block=False)
    assert (queue.get(timeout=30), queue.get(timeout=30)) == (1, "two")
    with pytest.raises(queues.Empty):
        queue.get(timeout=0.01)
    joinable = torch.multiprocessing.JoinableQueue()
    joinable.put(torch.ones(1))
    assert joinable.get(timeout=30).item() == 1
    joinable.task_done()
    joinable.join()


def test_standard_channels_and_managers():
    """Channels that carry bytes only: the receiver asks the living sender."""
    out = scripts.run(
        HEADER
        + """
import multiprocessing, concurrent.futures

def child(pipe):
    t = pipe.recv()
    t.add_(1)
    pipe.send(torch.ones(5))
    pipe.recv()

def double(t):
    return t.mul_(2)

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        end, other = context.Pipe()
        process = context.Process(target=child, args=(other,))
        process.start()
        x = torch.zeros(3)
        end.send(x)
        assert end.recv().tolist() == [1] * 5 and x.tolist() == [1, 1, 1]
        end.send(None)
        process.join()
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            assert pool.submit(double, x).result(60).tolist() == [2, 2, 2]
        assert x.tolist() == [2, 2, 2]
    with mp.Manager() as manager:
        shared = manager.dict()
        shared["x"] = x
        shared["x"].add_(1)
        assert x.tolist() == [3, 3, 3]
    print("fine")
"""
    )
    assert out == "fine\n"


def test_pool():
    out = scripts.run(
        HEADER
        + """
def scale(t):
    t.mul_(3)
    return t, t.sum()

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        inputs = [torch.full((4,), float(i)) for i in range(20)]
        with mp.get_context(method).Pool(2) as pool:
            results = pool.map(scale, inputs)
        for i, (t, (same, total)) in enumerate(zip(inputs, results)):
            assert t.tolist() == [3.0 * i] * 4 == same.tolist() and total.item() == 12 * i
            assert t.untyped_storage()._cdata == same.untyped_storage()._cdata
    print("fine")
"""
    )
    assert out == "fine\n"
