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
