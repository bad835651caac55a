"""GPU tensors between processes: the memory is the same on both sides, and lives as long as anyone
holds it."""

import gc
import os
import signal
import time

import pytest

import rushlight as rl
import rushlight.multiprocessing as mp
from rushlight import nn

CONTEXT = mp.get_context("spawn")
PATIENCE = 120


def started(target, *args):
    process = CONTEXT.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def finish(process):
    process.join(PATIENCE)
    assert process.exitcode == 0


def double_it(inbox, outbox):
    x = inbox.get(timeout=PATIENCE)
    x *= 2
    rl.cuda.synchronize()
    outbox.put((x.is_cuda, float(x.sum()), tuple(x.shape)))
    inbox.get(timeout=PATIENCE)  # holds x until told


def test_both_sides_use_one_memory():
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(double_it, inbox, outbox)
    x = rl.arange(1000.0, device="cuda").reshape(10, 100)
    inbox.put(x)
    on_gpu, total, shape = outbox.get(timeout=PATIENCE)
    assert on_gpu and shape == (10, 100) and total == 999 * 1000
    assert x.sum().item() == 999 * 1000
    inbox.put(None)
    finish(other)


def test_large_tensors_span_several_pieces():
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(double_it, inbox, outbox)
    x = rl.ones(300_000_000, dtype=rl.uint8, device="cuda")
    inbox.put(x)
    _, total, _ = outbox.get(timeout=PATIENCE)
    assert total == 600_000_000 and bool((x == 2).all())
    inbox.put(None)
    finish(other)


def check_views(inbox, outbox):
    whole, row = inbox.get(timeout=PATIENCE)
    row.fill_(7)
    outbox.put((float(whole[3].sum()), whole.untyped_storage().data_ptr()
                == row.untyped_storage().data_ptr()))  # fmt: skip


def test_views_of_one_storage_stay_so():
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(check_views, inbox, outbox)
    x = rl.zeros(5, 8, device="cuda")
    inbox.put((x, x[3]))
    assert outbox.get(timeout=PATIENCE) == (56.0, True)
    assert x.sum().item() == 56
    finish(other)


def send_one(outbox, release):
    x = rl.full((1000,), 3.0, device="cuda")
    outbox.put(x)
    del x
    # The block must not be used again while the parent holds it.
    junk = [rl.zeros(1000, device="cuda") for _ in range(50)]
    rl.cuda.synchronize()
    release.get(timeout=PATIENCE)
    del junk


def test_the_sender_may_drop_it_and_use_other_memory():
    outbox, release = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(send_one, outbox, release)
    x = outbox.get(timeout=PATIENCE)
    time.sleep(0.5)
    assert bool((x == 3).all())
    release.put(None)
    finish(other)
    # The sender is gone; the memory is not.
    assert bool((x == 3).all())
    x += 1
    assert x.sum().item() == 4000


def hold(inbox, outbox):
    x = inbox.get(timeout=PATIENCE)
    outbox.put(os.getpid())
    time.sleep(PATIENCE)
    del x


def test_a_killed_receiver_holds_nothing():
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(hold, inbox, outbox)
    gc.collect()
    rl.cuda.ipc_collect()
    before = rl.cuda.memory_allocated()
    x = rl.ones(1 << 20, device="cuda")
    inbox.put(x)
    pid = outbox.get(timeout=PATIENCE)
    del x
    rl.cuda.ipc_collect()
    assert rl.cuda.memory_allocated() > before  # the other one reads it
    os.kill(pid, signal.SIGKILL)
    other.join(PATIENCE)
    rl.cuda.ipc_collect()
    assert rl.cuda.memory_allocated() == before


def receive_and_drop(inbox, outbox):
    for _ in range(20):
        x = inbox.get(timeout=PATIENCE)
        outbox.put(float(x[0]))
    del x
    rl.cuda.synchronize()
    outbox.put("done")
    inbox.get(timeout=PATIENCE)


def test_memory_returns_when_the_receiver_lets_go():
    inbox, outbox = CONTEXT.Queue(), CONTEXT.Queue()
    other = started(receive_and_drop, inbox, outbox)
    rl.cuda.ipc_collect()
    before = rl.cuda.memory_allocated()
    for k in range(20):
        inbox.put(rl.full((1 << 18,), float(k), device="cuda"))
        assert outbox.get(timeout=PATIENCE) == k
    assert outbox.get(timeout=PATIENCE) == "done"
    rl.cuda.ipc_collect()
    assert rl.cuda.memory_allocated() == before
    inbox.put(None)
    finish(other)


def test_what_was_received_is_not_sent_on():
    left, right = CONTEXT.Pipe()
    other = started(pass_on_pipe, right)
    left.send(rl.ones(3, device="cuda"))
    assert "clone()" in left.recv()
    finish(other)


def pass_on_pipe(end):
    x = end.recv()
    try:
        end.send(x)
    except RuntimeError as error:
        end.send(str(error))


def work_on_model(model, rank, ready, go):
    ready.put(rank)
    go.get(timeout=PATIENCE)
    rl.manual_seed(rank)
    opt = rl.optim.SGD(model.parameters(), lr=0.05)
    true = rl.arange(1.0, 9.0, device="cuda")
    for _ in range(150):
        x = rl.randn(32, 8, device="cuda")
        loss = (model(x).squeeze(1) - x @ true).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    rl.cuda.synchronize()


def test_hogwild_on_the_gpu():
    model = nn.Linear(8, 1).cuda().share_memory()
    assert all(p.is_shared() for p in model.parameters())
    ready, go = CONTEXT.Queue(), CONTEXT.Queue()
    workers = [started(work_on_model, model, k, ready, go) for k in range(2)]
    for _ in workers:
        ready.get(timeout=PATIENCE)
    for _ in workers:
        go.put(None)
    for w in workers:
        finish(w)
    assert rl.allclose(model.weight.cpu()[0], rl.arange(1.0, 9.0), atol=0.05)


def test_non_leaves_are_refused():
    x = rl.ones(3, device="cuda", requires_grad=True) * 2
    left, _right = CONTEXT.Pipe()
    with pytest.raises(RuntimeError, match="detach"):
        left.send(x)
