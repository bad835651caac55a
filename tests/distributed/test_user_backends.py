"""Backends that users register: their groups carry the collectives, as our own engines would."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from distributed.ranks import run_ranks
from distributed.store_group import LaterWork, StoreGroup, register

import rushlight as rl
import rushlight.distributed as dist

SIZE = 2
TESTS = str(Path(__file__).resolve().parent.parent)


@pytest.fixture(autouse=True)
def registered():
    names = set(dist.Backend.backend_list)
    register()
    StoreGroup.made.clear()
    yield
    for name in set(dist.Backend.backend_list) - names:
        dist.Backend.backend_list.remove(name)
        delattr(dist.Backend, name.upper())
        del dist.Backend.backend_capability[name], dist.Backend._plugins[name.upper()]


def numbers(rank, *shape):
    generator = rl.Generator().manual_seed(rank)
    return rl.randn(*shape, generator=generator)


def everything(rank, group):
    """All collectives and messages through a group, and what they leave behind."""
    kept = []

    def keep(*tensors):
        kept.extend(t.tolist() for t in tensors)

    other = 1 - rank
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        x, y, part = numbers(rank, 2, 3), numbers(rank, 2, 3), rl.empty(3)
        dist.all_reduce(x, op, group)
        dist.reduce(y, 1, op, group)
        dist.reduce_scatter(part, list(numbers(rank, 2, 3)), op, group)
        keep(x, part, *([y] if rank == 1 else []))
        dist.reduce_scatter_tensor(part, numbers(rank, 6), op, group)
        keep(part)
    pair = [numbers(rank, 3), numbers(rank, 2, 2)]
    dist.all_reduce_coalesced(pair, group=group)
    x = numbers(rank, 4)
    dist.broadcast(x, 1, group)
    lists, flat = [rl.empty(3), rl.empty(3)], rl.empty(6)
    dist.all_gather(lists, numbers(rank, 3), group)
    dist.all_gather_into_tensor(flat, numbers(rank, 3), group)
    keep(*pair, x, *lists, flat)
    mine, parts = rl.empty(3), [rl.empty(3), rl.empty(3)] if rank == 0 else None
    dist.gather(numbers(rank, 3), parts, 0, group)
    dist.scatter(mine, parts, 0, group)
    keep(mine)
    outs, one = [rl.empty(2), rl.empty(2)], rl.empty(3 if rank else 1, 2)
    dist.all_to_all(outs, list(numbers(rank, 2, 2)), group)
    split = [2, 1] if rank else [1, 0], [1, 2] if not rank else [0, 1]
    dist.all_to_all_single(one, numbers(rank, sum(split[1]), 2), *split, group)
    keep(*outs, one)
    got = rl.empty(3)
    messages = [dist.isend(numbers(rank, 3), other, group, 5), dist.irecv(got, other, group, 5)]
    for work in messages:
        work.wait()
    keep(got)
    if rank == 0:
        dist.send(numbers(rank, 3), other, group)
    assert dist.recv(got, group=group) == other  # from any
    if rank == 1:
        dist.send(numbers(rank, 3), other, group)
    keep(got)
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank}, group)
    dist.barrier(group)
    return kept, objects


@pytest.mark.threads
def test_collectives_equal_those_of_our_own_engine():
    def program(rank):
        own = dist.new_group(backend="board", timeout=timedelta(seconds=20))
        assert isinstance(own, StoreGroup) and dist.get_backend(own) == "board"
        assert own.timeout == timedelta(seconds=20) and own.name() == "board"
        assert everything(rank, own) == everything(rank, None)
        return own

    groups = dist.simulate(SIZE, program)
    assert [(g.rank(), g.size(), g.closed) for g in groups] == [(0, 2, True), (1, 2, True)]
    wanted = {
        "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base",
        "gather", "scatter", "reduce_scatter", "reduce_scatter_single", "alltoall", "alltoall_base",
        "barrier",
    }  # fmt: skip
    assert set(groups[0].calls) == wanted


def test_the_default_group_of_processes():
    """init_process_group(name) and DistributedDataParallel, without MPI."""
    run_ranks(
        """
        from rushlight.nn.parallel import DistributedDataParallel
        default = dist.group.WORLD
        assert type(default) is StoreGroup and dist.get_backend() == "board"
        assert dist.get_backend_config() == "cpu:board"
        rl.manual_seed(RANK)
        model = DistributedDataParallel(rl.nn.Linear(3, 1))  # rank 0's weights
        alone = rl.nn.Linear(3, 1)
        alone.load_state_dict(model.module.state_dict())
        data = rl.randn(4, 3, generator=rl.Generator().manual_seed(3))
        model(data[2 * RANK : 2 * RANK + 2]).pow(2).mean().backward()
        alone(data).pow(2).mean().backward()
        for a, b in zip(model.parameters(), alone.parameters()):
            assert rl.allclose(a.grad, b.grad), (a.grad, b.grad)
        part = dist.new_group([1])  # of the default group's backend
        assert part == dist.GroupMember.NON_GROUP_MEMBER if RANK == 0 else part.size() == 1
        found = [None] * SIZE
        dist.all_gather_object(found, RANK)
        assert found == [0, 1]
        assert "libmpi" not in open("/proc/self/maps").read()
        dist.destroy_process_group()
        assert default.closed and not dist.is_initialized()
        """,
        begin="""
from distributed.store_group import StoreGroup, register
register()
dist.init_process_group("board", init_method=os.environ["METHOD"], rank=RANK, world_size=SIZE)
""",
        PYTHONPATH=os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]),
    )


def alone(backend, **options):
    """A default group of one process."""
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **options)
    return dist.group.WORLD


def test_extended_api_and_devices():
    def create(told, options):
        assert told.group_id and told.global_ranks_in_group == [0]
        return StoreGroup(told.store, told.group_rank, told.group_size, told.timeout, options)

    with pytest.warns(UserWarning, match="devices="):
        dist.Backend.register_backend("Wide", create, extended_api=True)
    assert dist.Backend.WIDE == "wide" and dist.Backend.backend_capability["wide"] == [
        "cpu",
        "cuda",
    ]
    try:
        assert alone("wide", pg_options="mine").options == "mine"
        work = dist.broadcast(rl.ones(1), 0, async_op=True)
        assert type(work) is LaterWork and work.wait()
        with pytest.raises(NotImplementedError, match="`result`"):
            work.result()
        x = rl.ones(2)
        future = dist.all_reduce(x, async_op=True).get_future()
        assert future.then(lambda f: f.value()[0].sum().item()).wait() == 2
        assert dist.all_gather([x], x, async_op=True).result()[0] is x  # None: it is done
    finally:
        dist.destroy_process_group()


def test_what_a_backend_may_not_be():
    class Bare(dist.ProcessGroup):
        def allreduce(self, tensors, opts):
            return 7

    group = Bare(0, 1)
    dist.Backend.register_backend("bare", lambda *place: group, devices="cpu")
    dist.Backend.register_backend("wrong", lambda *place: None, devices="cpu")
    with pytest.raises(TypeError, match="subclass of distributed.ProcessGroup"):
        alone("wrong")
    assert not dist.is_initialized()
    try:
        alone("bare")
        with pytest.raises(NotImplementedError, match="broadcast: Bare.*no method `broadcast`"):
            dist.broadcast(rl.ones(1), 0)
        with pytest.raises(NotImplementedError, match="`all_gather_single` or `_allgather_base`"):
            dist.all_gather_into_tensor(rl.ones(1), rl.ones(1))
        with pytest.raises(TypeError, match="must return a distributed.Work"):
            dist.all_reduce(rl.ones(1))
        with pytest.raises(TypeError, match="expected a tensor"):
            dist.all_reduce_coalesced([1.0])
        with pytest.raises(ValueError, match="in use already"):
            dist.new_group(backend="bare")
    finally:
        dist.destroy_process_group()
    register_backend = dist.Backend.register_backend
    for name, error in (
        ("gloo", ValueError),
        ("a:b", ValueError),
        ("", ValueError),
        (3, TypeError),
    ):
        with pytest.raises(error, match="register_backend"):
            register_backend(name, StoreGroup, devices=["cpu"])
    with pytest.raises(TypeError, match="callable"):
        register_backend("other", None, devices=["cpu"])
    with pytest.raises(TypeError, match="devices"):
        register_backend("other", StoreGroup, devices=[1])
    with pytest.raises(ValueError, match='unknown backend "other".*"board"'):
        alone("other")
    with pytest.raises(ValueError, match='"board" serves cpu'):
        alone("cuda:board")
    with pytest.raises(RuntimeError, match='new_group\\(backend="board"\\)'):
        dist.simulate(1, lambda: dist.init_process_group("board"))
    with pytest.raises(ValueError, match="none of 2 ranks"):
        dist.ProcessGroup(2, 2)
    with pytest.raises(TypeError, match="new_group"):
        dist.ProcessGroup()


def test_frozen_functions_leave_users_collectives_to_python():
    alone("board")
    try:
        group = dist.group.WORLD

        @rl.compile(mode="frozen")
        def step(x):
            y = x * 2
            dist.all_reduce(y)
            return y + 1

        for _ in range(4):
            assert step(rl.ones(2)).tolist() == [3, 3]
        assert group.calls.count("allreduce") == 4
    finally:
        dist.destroy_process_group()
