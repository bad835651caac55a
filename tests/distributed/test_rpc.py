"""Calls between workers: simulated ranks here, processes over Ray in test_rpc_ray.py."""

import pytest

pytest.importorskip("numpy")

from distributed import rpc_programs

import rushlight as rl
from rushlight.distributed import rpc, simulate


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("program", ["calls", "references", "gradients", "values_that_stay"])
def test_programs(program, size):
    results = simulate(size, getattr(rpc_programs, program), size)
    assert results[0]


def test_names_and_options_are_checked():
    def same_name(rank):
        rpc.init_rpc("same", rank=rank, world_size=2)

    with pytest.raises(RuntimeError, match="two workers have one name"):
        simulate(2, same_name)
    with pytest.raises(ValueError, match="name"):
        rpc.init_rpc("a worker", rank=0, world_size=1)
    with pytest.raises(NotImplementedError, match="CPU"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {"cuda:0": "cuda:1"}})
    with pytest.raises(RuntimeError, match="init_rpc"):
        rpc.RRef(1)
    with pytest.raises(RuntimeError, match="init_rpc"):
        rl.distributed.autograd.context().__enter__()


def test_a_rank_that_raises_ends_the_waiting():
    def program(rank):
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
        if rank == 0:
            raise LookupError("lost")
        if rank == 1:
            rpc.rpc_sync("worker2", rpc_programs.sleep, (1,), timeout=0)
        rpc.shutdown()

    with pytest.raises(LookupError, match="lost"):
        simulate(3, program)


def test_a_worker_that_left_is_named():
    def program(rank):
        rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
        worker = rpc.api.current_worker("test")
        if rank == 1:
            rpc.shutdown(graceful=False)
            worker.store.set("gone", b"1")
            return
        worker.store.get("gone")
        with pytest.raises(RuntimeError, match="worker1 is gone"):
            rpc.rpc_sync("worker1", rpc_programs.who)
        rpc.shutdown(graceful=False)

    simulate(2, program)


def test_messages_over_ray_are_taken_in_their_order():
    """Ray begins the calls of an actor in any order; each sender's are put right."""
    from types import SimpleNamespace

    from rushlight.distributed.rpc._ray_transport import RayTransport

    came = []
    batches = [
        [(1, 0, 2, "add"), (2, 7, 1, "other")],
        [(3, 0, 3, "drop"), (4, 0, 1, "begin")],
        None,
    ]
    transport = RayTransport.__new__(RayTransport)
    take = SimpleNamespace(remote=lambda: batches.pop(0))
    transport._ray = SimpleNamespace(get=lambda batch: batch)
    transport._own = SimpleNamespace(take=take)
    transport._worker = SimpleNamespace(receive=lambda sender, m, reply: came.append((sender, m)))
    transport._heard, transport._early = {}, {}
    transport._serve()
    assert came == [(7, "other"), (0, "begin"), (0, "add"), (0, "drop")]
