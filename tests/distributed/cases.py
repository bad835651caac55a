"""What collectives and messages give on every rank; run by threads (simulate) and by processes."""

from datetime import timedelta

import numpy as np

import rushlight as rl
import rushlight.distributed as dist

EXACT = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
OPS = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
BITS = {"BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}


def raises(error, text, function, *args, **kwargs):
    """The call raises this, with this in its text, and issues nothing."""
    try:
        function(*args, **kwargs)
    except error as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"no {error.__name__}: {text}")


def equal(tensor, expected, what=""):
    np.testing.assert_array_equal(tensor.to(rl.float64).numpy(), np.asarray(expected, float), what)


def reductions(rank, size):
    """reduce, all_reduce and reduce_scatter agree with NumPy in every dtype."""
    rng = np.random.default_rng(1)
    for name in EXACT + FLOATS:
        dtype = getattr(rl, name)
        ops = {**OPS, **(BITS if name in EXACT else {})}
        values = rng.integers(0, 3, (size, size, 2, 3))
        for op, ufunc in ops.items():
            expected = ufunc.reduce(values)
            kind = getattr(dist.ReduceOp, op)
            root = 1 % size
            x = rl.tensor(values[rank]).to(dtype)
            dist.reduce(x, root, kind)
            equal(x, expected if rank == root else values[rank], f"reduce {name} {op}")
            out = rl.zeros(2, 3, dtype=dtype)
            dist.reduce_scatter_tensor(out, rl.tensor(values[rank]).to(dtype), kind)
            equal(out, expected[rank], f"reduce_scatter_tensor {name} {op}")
        parts = [rl.tensor(v).to(dtype).t().contiguous().t() for v in values[rank]]
        dist.reduce_scatter(out, parts)
        equal(out, values.sum(0)[rank], name)
        if name in FLOATS:
            dist.reduce_scatter(out, parts, dist.ReduceOp.AVG)
            mean = np.asarray(values.sum(0)[rank] / size)
            np.testing.assert_allclose(out.to(rl.float64).numpy(), mean, rtol=1e-2)
    flags = rl.tensor([rank == 0, False, True])
    dist.reduce(flags, 0)
    assert rank != 0 or flags.tolist() == [True, False, True]
    z = rl.full((size, 2), complex(rank, 1), dtype=rl.complex64)
    out = rl.zeros(1, 2, dtype=rl.complex64)
    dist.reduce_scatter_tensor(out, z)
    assert out.tolist() == [[complex(size * (size - 1) / 2, size)] * 2]
    x = rl.ones(2)
    dist.all_reduce(x, dist._make_nccl_premul_sum(rank + 1.0))
    equal(x, [size * (size + 1) / 2] * 2)
    several = [rl.ones(2), rl.full((2, 2), float(rank)), rl.tensor(1.0), rl.zeros(0)]
    dist.all_reduce_coalesced(several)
    equal(several[0], [size] * 2)
    equal(several[1], [[size * (size - 1) / 2] * 2] * 2)
    assert several[2].item() == size
    raises(TypeError, "integers", dist.reduce, rl.ones(1), 0, dist.ReduceOp.BOR)
    raises(ValueError, "factor", dist.all_reduce, rl.ones(1), dist.ReduceOp.PREMUL_SUM)
    raises(ValueError, "name a rank", dist.reduce, rl.ones(1))


def gathering(rank, size):
    """gather, scatter, all_gather and all_to_all move every dtype, stride and size."""
    for name in ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex128"]:
        dtype = getattr(rl, name)
        mine = rl.full((3, 2), rank).to(dtype)
        every = [rl.full((3, 2), r).to(dtype) for r in range(size)]
        got = [rl.zeros(3, 2, dtype=dtype) for _ in range(size)] if rank == size - 1 else None
        dist.gather(mine, got, dst=size - 1)
        for want, part in zip(every, got or [], strict=False):
            assert (part == want).all()
        out = rl.zeros(2, 3, dtype=dtype).t()  # not contiguous
        dist.scatter(out, every if rank == 0 else None, src=0)
        assert (out == mine).all()
        joined = rl.empty(size * 3, 2, dtype=dtype)
        dist.all_gather_into_tensor(joined, mine)
        assert (joined == rl.cat(every)).all()
        outs = [rl.empty(3, 2, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outs, [mine + r if name != "bool" else mine for r in range(size)])
        for r, part in enumerate(outs):
            assert name == "bool" or (part == rl.full((3, 2), r + rank).to(dtype)).all()
    # Parts of any size; the r-th rank gets r + 1 rows, and one gets nothing.
    rows = [0 if r == 0 else r + 1 for r in range(size)]
    source = rl.arange(float(sum(rows) * 2)).view(-1, 2) + 100 * rank
    here = rl.empty(rows[rank] * size, 2)
    dist.all_to_all_single(here, source, [rows[rank]] * size, rows)
    first = sum(rows[:rank])
    everyone = np.concatenate(
        [
            np.arange(sum(rows) * 2.0).reshape(-1, 2)[first : first + rows[rank]] + 100 * r
            for r in range(size)
        ]
    )
    equal(here, everyone)
    out = rl.empty(size)
    dist.all_to_all_single(out, rl.arange(float(size)) + 10 * rank)
    equal(out, [10 * r + rank for r in range(size)])
    # In place: this rank's part of the output is the input.
    whole = rl.full((size, 3), float(rank))
    dist.all_gather_into_tensor(whole, whole[rank])
    equal(whole, np.arange(size)[:, None] * np.ones(3))
    lists = [[rl.zeros(2), rl.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [rl.full((2,), float(rank)), rl.full((3,), -float(rank))])
    assert [row[1][0].item() for row in lists] == [-r for r in range(size)]
    for shape in [(), (0,), (2, 0)]:
        parts = [rl.full(shape, -1.0) for _ in range(size)]
        dist.all_gather(parts, rl.full(shape, float(rank)))
        for r, part in enumerate(parts):
            equal(part, np.full(shape, r))
        x = rl.full(shape, float(rank))
        dist.reduce(x, 0)
        dist.gather(x, parts if rank == 0 else None)
        dist.scatter(x, parts if rank == 0 else None)
        dist.broadcast(x, 0)
    raises(ValueError, "must be specified on destination", dist.gather, x, None, dst=rank)
    raises(ValueError, "NOT be specified", dist.scatter, x, parts, src=(rank + 1) % size)
    raises(ValueError, "per rank", dist.all_gather, parts[1:], x)
    raises(rl.ShapeError, "elements", dist.all_gather_into_tensor, rl.empty(1), rl.ones(3))
    raises(rl.ShapeError, "elements", dist.reduce_scatter_tensor, rl.empty(2), rl.ones(3))
    raises(TypeError, "one dtype", dist.all_gather_into_tensor, rl.empty(size), rl.ones(1).int())
    raises(ValueError, "split sizes", dist.all_to_all_single, out, out, [1], [1])
    dist.barrier(timeout=timedelta(seconds=60))


def messages(rank, size):
    """send and recv, in every order."""
    after, before = (rank + 1) % size, (rank - 1) % size
    # All send first: what a rank sends must not wait for what it receives.
    for shape in [(), (0,), (5,), (300, 300)]:
        work = dist.isend(rl.full(shape, float(rank)), after)
        got = rl.empty(shape)
        assert dist.recv(got, before) == before
        assert work.wait() and work.is_success()
        equal(got, np.full(shape, before))
    # Tags tell messages apart, whatever their order.
    works = [dist.isend(rl.full((2,), 10.0 * rank + tag), after, tag=tag) for tag in (1, 2, 3)]
    for tag in (3, 1, 2):
        got = rl.zeros(2, 2)[:, 0]  # not contiguous
        work = dist.irecv(got, before, tag=tag)
        work.wait(timedelta(seconds=60))
        assert work.is_completed() and work.exception() is None
        assert work.source_rank() == before and got[0] == 10 * before + tag
    for work in works:
        work.wait()
    # From whoever sends.
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            got = rl.zeros(1, dtype=rl.int64)
            source = dist.recv(got)
            assert got.item() == source
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(rl.tensor([rank]), 0)
    dist.barrier()  # or rank 0 could take a later message for one of these
    ops = [dist.P2POp(dist.irecv, rl.empty(4, dtype=rl.bfloat16), before),
           dist.P2POp(dist.isend, rl.full((4,), rank + 0.5, dtype=rl.bfloat16), after)]  # fmt: skip
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (ops[0].tensor == before + 0.5).all()
    raises(ValueError, "destination rank", dist.send, rl.ones(1), rank)
    raises(ValueError, "not part of group", dist.send, rl.ones(1), size)
    raises(ValueError, "of one group", dist.batch_isend_irecv,
           [*ops, dist.P2POp(dist.isend, rl.ones(1), after, dist.group.WORLD)])  # fmt: skip
    raises(ValueError, "isend", dist.P2POp, dist.send, rl.ones(1), after)
    raises(ValueError, "P2POp", dist.batch_isend_irecv, [1])
    raises(TypeError, "Tensor", dist.isend, [1.0], after)
    raises(ValueError, "tag", dist.isend, rl.ones(1), after, tag=-1)
    dist.barrier()


def objects(rank, size):
    """Python objects of any length."""
    got = [None] * size if rank == 0 else None
    dist.gather_object({"rank": "x" * rank}, got)
    assert rank != 0 or [len(o["rank"]) for o in got] == list(range(size))
    mine = [None]
    dist.scatter_object_list(mine, [("part", r) for r in range(size)] if rank == 1 else None, 1)
    assert mine == [("part", rank)]
    if rank == 0:
        dist.send_object_list([1, "two", None], size - 1)
    if rank == size - 1:
        three = [None] * 3
        assert dist.recv_object_list(three) == 0 and three == [1, "two", None]
    things = [rank, [rank]]
    dist.broadcast_object_list(things)
    assert things == [0, [0]]
    raises(ValueError, "objects", dist.scatter_object_list, [None], [1], rank)
    raises(ValueError, "one place per rank", dist.all_gather_object, [None] * (size + 1), 1)


def groups(rank, size):
    """Groups of some ranks count their own; the rank in the default group is translated."""
    order = list(reversed(range(size)))
    turned = dist.new_group(order, sort_ranks=False)
    assert dist.get_rank(turned) == size - 1 - rank
    assert dist.get_process_group_ranks(turned) == order
    assert (
        dist.get_global_rank(turned, 0) == size - 1 and dist.get_group_rank(turned, 0) == size - 1
    )
    got = [rl.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(rl.tensor([float(rank)]), got, dst=0, group=turned)
    assert rank != 0 or [int(t) for t in got] == order
    x = rl.tensor([float(rank)])
    dist.broadcast(x, group=turned, group_src=0)
    assert x.item() == size - 1
    after = dist.get_global_rank(turned, (dist.get_rank(turned) + 1) % size)
    work = dist.isend(rl.tensor([rank]), after, turned)
    source = dist.recv(y := rl.zeros(1, dtype=rl.int64), group=turned)
    assert y.item() == source == (rank + 1) % size
    work.wait()
    if rank < 2:
        pair = dist.new_group([0, 1], use_local_synchronization=True)
        dist.all_reduce(z := rl.ones(1), group=pair)
        assert z.item() == 2
        dist.destroy_process_group(pair)
    part = dist.split_group(None, [list(range(0, size, 2)), list(range(1, size, 2))])
    dist.all_reduce(z := rl.tensor([float(rank)]), group=part)
    assert z.item() == sum(range(rank % 2, size, 2))
    mine, every = dist.new_subgroups_by_enumeration([[0], list(range(1, size))])
    assert dist.get_world_size(mine) == (1 if rank == 0 else size - 1) and len(every) == 2
    raises(ValueError, "two subgroups", dist.new_subgroups_by_enumeration, [[0], [0]])
    raises(ValueError, "divisible", dist.new_subgroups, size + 1)
    raises(ValueError, "twice in", dist.split_group, None, [[0, 0]])
    assert dist.get_pg_count() >= 4 and dist.get_backend_config() == "cpu:gloo"


def works(rank, size):
    """A Work, its future, and what follows it."""
    x = rl.ones(3)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future().then(lambda f: f.value()[0] / size)
    equal(future.wait(), [1, 1, 1])
    assert future.done() and work.is_completed()
    called = []
    future = dist.all_reduce(x, async_op=True).get_future()
    future.add_done_callback(lambda f: called.append(f.value()[0][0].item()))
    future.wait()
    assert called == [size * size]
    bad = dist.all_reduce(x, async_op=True).get_future().then(lambda f: 1 / 0)
    raises(ZeroDivisionError, "division", bad.wait)
    outs = [rl.zeros(1) for _ in range(size)]
    work = dist.all_gather(outs, rl.ones(1), async_op=True)
    work.wait()
    assert [t.item() for t in work.result()] == [1] * size
    # Gradients are neither recorded nor lost.
    w = rl.ones(2, requires_grad=True)
    total = (w * 2).sum()
    dist.all_reduce(total.detach())
    total.backward()
    equal(w.grad, [2, 2])


def methods(rank, size):
    """Collectives as methods of a group, with ranks in it, a tensor or a list, options or not."""
    group = dist.new_group(list(range(size)))
    mine, total = rl.full((2,), rank + 1.0), size * (size + 1) / 2

    def done(call, result, *args, **kwargs):
        call(*args, **kwargs).wait()
        return result

    lowest = dist.AllreduceOptions(reduceOp=dist.ReduceOp.MIN)
    equal(done(group.allreduce, x := mine.clone(), x), [total] * 2)
    equal(done(group.allreduce, x := mine.clone(), [x], lowest), [1, 1])
    equal(done(group.broadcast, x := mine.clone(), x, size - 1), [size] * 2)
    equal(done(group.broadcast, x := mine.clone(), [x], dist.BroadcastOptions(1)), [2, 2])
    every = [rl.zeros(2) for _ in range(size)]
    done(group.allgather, None, [every], [mine])
    equal(rl.stack(every), [[r + 1] * 2 for r in range(size)])
    equal(done(group._allgather_base, x := rl.zeros(2 * size), x, mine), rl.cat(every).numpy())
    done(group.reduce, None, x := mine.clone(), 0, dist.ReduceOp.MAX)
    equal(x, [size if rank == 0 else rank + 1] * 2)
    equal(done(group.reduce_scatter, x := rl.zeros(2), [x], [[mine] * size]), [total] * 2)
    equal(done(group._reduce_scatter_base, x := rl.zeros(2), x, mine.repeat(size)), [total] * 2)
    done(group.gather, None, [every] if rank == 0 else [], [-mine])
    assert rank != 0 or every[-1].tolist() == [-size] * 2
    given = [rl.full((1,), float(r)) for r in range(size)]
    equal(done(group.scatter, x := rl.zeros(1), [x], [given] if rank == 0 else []), [rank])
    equal(done(group.alltoall_base, x := rl.zeros(size), x, mine[:1].repeat(size), [], []),
          [r + 1 for r in range(size)])  # fmt: skip
    group.barrier().wait()
    if rank < 2:
        work = group.send([mine], 1) if rank == 0 else group.recv([x := rl.zeros(2)], 0)
        work.wait()
        assert rank == 0 or x.tolist() == [1, 1]
    raises(RuntimeError, "not part of group", dist.broadcast, mine, src=size)
    raises(RuntimeError, "per rank", dist.all_gather, every[1:], mine)
    raises(TypeError, "ReduceOp", dist.all_reduce, mine, op="sum")


ALL = [reductions, gathering, messages, objects, groups, works, methods]


def run(rank, size):
    for case in ALL:
        case(rank, size)
