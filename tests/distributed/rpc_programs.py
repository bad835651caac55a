"""Programs of workers that call each other, for simulated ranks and for processes over Ray."""

import threading
import time

import rushlight as rl
from rushlight.distributed import autograd as dist_autograd
from rushlight.distributed import rpc
from rushlight.distributed.optim import DistributedOptimizer


def add(a, b, scale=1):
    return scale * (a + b)


def fail(text):
    raise KeyError(text)


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def fail_strangely():
    raise NeedsTwo(1, 2)


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def who():
    return rpc.get_worker_info().name


@rpc.functions.async_execution
def add_by_way_of(other, a, b):
    return rpc.rpc_async(other, add, (a, b)).then(lambda future: future.wait() + 100)


@rpc.functions.async_execution
def no_future():
    return 1


class Counter:
    def __init__(self, start=0):
        self.value = start

    def increase(self, by=1):
        self.value += by
        return self.value

    @rpc.functions.async_execution
    def increase_later(self, by):
        future = rl.futures.Future()
        threading.Timer(0.05, lambda: future.set_result(self.increase(by))).start()
        return future


def increase(rref, by):
    return rref.to_here().value if not rref.is_owner() else rref.local_value().increase(by)


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def calls(rank, size):
    """rpc_sync, rpc_async, remote, RRef, errors, timeouts."""
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    other = f"worker{(rank + 1) % size}"
    assert rpc.get_worker_info() == rpc.WorkerInfo(f"worker{rank}", rank)
    assert rpc.rpc_sync(other, who) == other == rpc.rpc_sync(rpc.get_worker_info(other), who)
    assert rpc.rpc_sync(rank, who) == f"worker{rank}"
    for dtype in (rl.float64, rl.bfloat16, rl.int8, rl.bool, rl.complex64):
        x = rl.ones(2, 3).to(dtype)
        got = rpc.rpc_sync(other, rl.Tensor.clone, (x.t(),))
        assert got.dtype == dtype and got.shape == (3, 2) and bool((got == x.t()).all())
    big = rl.arange(100_000.0)
    assert bool((rpc.rpc_sync(other, rl.add, (big, 1)) == big + 1).all())
    assert rpc.rpc_sync(other, add, (rl.empty(0), 1)).shape == (0,)
    futures = [rpc.rpc_async(other, add, (i, 1), {"scale": 2}) for i in range(20)]
    assert rl.futures.wait_all(futures) == [2 * (i + 1) for i in range(20)]
    assert rpc.rpc_sync(other, add_by_way_of, (f"worker{rank}", 1, 2)) == 103
    error = raises(KeyError, "no such thing", rpc.rpc_sync, other, fail, ("no such thing",))
    assert f"raised on {other}" in str(error) and "rpc_programs.py" in str(error)
    raises(RuntimeError, "NeedsTwo", rpc.rpc_sync, other, fail_strangely)
    raises(RuntimeError, "must return", rpc.rpc_sync, other, no_future)
    raises(RuntimeError, "within 0.05 s", rpc.rpc_sync, other, sleep, (0.3,), timeout=0.05)
    raises(RuntimeError, "no worker 'nobody'", rpc.rpc_sync, "nobody", who)
    raises(TypeError, "callable", rpc.rpc_async, other, 3)
    raises(Exception, "lambda", rpc.rpc_sync, other, lambda: 1)
    rpc.shutdown()
    raises(RuntimeError, "init_rpc", rpc.rpc_sync, other, who)
    return True


def references(rank, size):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    other, third = (f"worker{(rank + i) % size}" for i in (1, 2))
    counter = rpc.remote(other, Counter, (5,))
    assert counter.owner_name() == other and not counter.is_owner()
    assert counter.rpc_sync().increase() == 6
    assert counter.rpc_async().increase(by=4).wait() == 10
    assert counter.remote().increase(1).to_here() == 11
    assert counter.rpc_sync().increase_later(2) == 13
    assert counter.to_here().value == 13
    assert rpc.rpc_sync(other, increase, (counter, 7)) == 20  # its owner gets the value itself
    assert rpc.rpc_sync(third, increase, (counter, 0)) == 20  # a third one a copy
    raises(RuntimeError, "lives on", counter.local_value)
    raises(KeyError, "gone", rpc.remote(other, fail, ("gone",)).to_here)
    own = rpc.RRef(Counter(3))
    assert own.is_owner() and own.local_value().value == own.to_here().value == 3
    assert rpc.rpc_sync(other, type(own).to_here, (own,)).value == 3
    assert rpc.remote(rank, Counter, (8,)).to_here().value == 8
    import pickle

    raises(RuntimeError, "cannot be pickled", pickle.dumps, own)
    worker = rpc.api.current_worker("test")
    del counter, own
    rpc.api._barrier(worker, "dropped", rpc.api._START)
    deadline = time.monotonic() + 20
    while worker.owned.count() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert worker.owned.count() == 0  # values die with their last copy
    rpc.shutdown()
    return True


class Part(rl.nn.Module):
    def __init__(self, seed):
        super().__init__()
        rl.manual_seed(seed)
        self.linear = rl.nn.Linear(4, 4, dtype=rl.float64)

    def forward(self, x):
        return rl.tanh(self.linear(x))

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]

    def values(self):
        return [p.detach() for p in self.parameters()]


def gradients_of(rref, context_id):
    found = dist_autograd.get_gradients(context_id)
    return [found[p] for p in rref.local_value().parameters()]


def weave(first, second, call_first, call_second, x, steps=6):
    """A computation whose graph branches and joins at each step, and uses parameters many times;
    part of it does not reach the result."""
    h = x
    for _ in range(steps):
        a, b = call_first(h), call_second(h)
        call_second(a)  # goes nowhere
        h = a * b + h
    return (h**2).sum()


def gradients(rank, size):
    """Distributed autograd and optimiser equal one process."""
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    result = None
    if rank == 0:
        parts = [rpc.remote(f"worker{i % size}", Part, (i,)) for i in (1, 2)]
        rrefs = [r for part in parts for r in part.rpc_sync().parameter_rrefs()]
        optimizer = DistributedOptimizer(rl.optim.SGD, rrefs, lr=0.1, momentum=0.9)
        here = [Part(1), Part(2)]
        plain = rl.optim.SGD([p for part in here for p in part.parameters()], lr=0.1, momentum=0.9)
        rl.manual_seed(9)
        for step in range(3):
            x = rl.randn(2, 4, dtype=rl.float64)
            with dist_autograd.context() as context_id:
                one, two = (part.rpc_sync().forward for part in parts)
                loss = weave(*parts, one, two, x)
                dist_autograd.backward(context_id, [loss])
                got = [rpc.rpc_sync(p.owner(), gradients_of, (p, context_id)) for p in parts]
                plain.zero_grad()
                expected = weave(*here, *here, x)
                expected.backward()
                assert rl.allclose(loss, expected, rtol=1e-12)
                for part, grads in zip(here, got, strict=True):
                    for p, grad in zip(part.parameters(), grads, strict=True):
                        assert rl.allclose(grad, p.grad, rtol=1e-10), step
                assert all(p.grad is None for part in parts if part.is_owner()
                           for p in part.local_value().parameters())  # fmt: skip
                optimizer.step(context_id)
                plain.step()
            raises(RuntimeError, "no autograd context", dist_autograd.get_gradients, context_id)
        for part, copy in zip(parts, here, strict=True):
            for a, b in zip(part.rpc_sync().values(), copy.values(), strict=True):
                assert rl.allclose(a, b, rtol=1e-10)
        result = loss.item()
    rpc.shutdown()
    return result


def values_that_stay(rank, size):
    """Gradients through rpc.remote and to_here, and RRef.backward."""
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        w = rl.ones(3, requires_grad=True)
        with dist_autograd.context() as context_id:
            product = rpc.remote("worker1", rl.mul, (w, rl.arange(3.0)))
            total = rpc.remote("worker1", rl.sum, (product.to_here() * w,))
            total.backward(context_id)
            assert dist_autograd.get_gradients(context_id)[w].tolist() == [0, 2, 4]
            alone = (w * 2).sum()
            dist_autograd.backward(context_id, [alone])  # adds to it
            assert dist_autograd.get_gradients(context_id)[w].tolist() == [2, 4, 6]
            raises(RuntimeError, "one element", dist_autograd.backward, context_id, [w * 2])
            changed = rpc.rpc_sync("worker1", rl.mul, (w, 3))
            changed += 1  # no leaf: may be written to
            dist_autograd.backward(context_id, [changed.sum()])
            assert dist_autograd.get_gradients(context_id)[w].tolist() == [5, 7, 9]
        assert w.grad is None
    rpc.shutdown()
    return True
