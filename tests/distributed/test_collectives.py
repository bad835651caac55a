"""Process groups of real processes: how they start, and the values that collectives give."""

import os
import re
import sys

import pytest
from distributed.ranks import Ranks, run_ranks
from scripts import run

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed._stores import core

TESTS = os.path.dirname(os.path.dirname(__file__))
pytestmark = pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")


def test_constants_are_those_of_the_library():
    header = os.path.join(sys.prefix, "include", "mpi_abi.h")
    if not os.path.exists(header):
        pytest.skip("the MPI library comes without its header")
    with open(header) as file:
        text = file.read()
    constants = core.mpi_constants()
    assert len(constants) == 30
    for name, value in constants.items():
        found = re.search(rf"\b{name}\b\s*=?\s*(?:\(\(\w+\*?\))?\s*(0x[0-9a-f]+|-?\d+)", text)
        assert found and int(found[1], 0) == value, name


def test_mapping_of_ranks_to_machines():
    assert core.process_mapping(["a", "a", "a"]) == "(vector,(0,1,3))"
    assert core.process_mapping(["a", "b", "b", "a"]) == "(vector,(0,1,1),(1,1,2),(0,1,1))"


def test_import_opens_no_mpi():
    out = run("""
        import rushlight, rushlight.distributed, rushlight.nn.parallel
        print("libmpi" in open("/proc/self/maps").read())
        """)
    assert out.strip() == "False"


@pytest.mark.parametrize(("size", "threads"), [(2, "1"), (2, "3"), (3, "1")])
def test_all_reduce_of_all_sizes_has_the_same_bits_on_all_ranks(size, threads):
    # Two ranks combine block by block in memory that they share.
    run_ranks(
        """
        rng = np.random.default_rng(0)
        ops = {"SUM": np.sum, "PRODUCT": np.prod, "MIN": np.min, "MAX": np.max}
        for n in (1, 8191, 8192, 8193, 65_537, 1_700_001):
            for dtype in ("float32", "float64", "int32", "bool"):
                values = (rng.standard_normal((SIZE, n)) * 100).astype(dtype)
                for turn, (op, expected) in enumerate(ops.items()):
                    x = rl.tensor(values[RANK])
                    work = dist.all_reduce(x, getattr(dist.ReduceOp, op), async_op=bool(turn % 2))
                    if work:
                        work.wait()
                    want = expected(values, 0).astype(dtype)
                    np.testing.assert_allclose(x.numpy(), want, 1e-5, 1e-5, err_msg=f"{dtype} {op}")
                    every = [rl.empty(n, dtype=x.dtype) for _ in range(SIZE)]
                    dist.all_gather(every, x)
                    assert all(np.array_equal(x.numpy(), other.numpy()) for other in every)
        # Many in a row, of sizes that do not fit into whole blocks, and of several groups in turn.
        members = [list(range(SIZE)), [0, SIZE - 1]]
        groups = [dist.new_group(ranks) for ranks in members]
        for turn in range(60):
            ranks = members[turn % 2]
            if RANK in ranks:
                x = rl.full((turn * 1777 + 1,), float(RANK + turn))
                dist.all_reduce(x, group=groups[turn % 2])
                assert (x == float(sum(ranks) + turn * len(ranks))).all()
        """,
        size,
        OMP_NUM_THREADS=threads,
    )


def test_nan_wins_between_two_ranks():
    run_ranks("""
        for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.SUM):
            for where in (0, 1):
                x = rl.full((3,), float("nan") if RANK == where else 1.0)
                dist.all_reduce(x, op)
                assert x.isnan().all()
        """)


def test_groups_that_are_gone_keep_no_shared_memory():
    run_ranks("""
        def shared():  # KiB of windows that are there
            total, ours = 0, False
            with open("/proc/self/smaps") as file:
                for line in file:
                    if "-" in line.split()[0]:
                        ours = "/dev/shm/mpich_shar" in line
                    total += int(line.split()[1]) if ours and line.startswith("Rss:") else 0
            return total

        dist.all_reduce(rl.ones(800_000))
        before = shared()
        assert before > 0  # of the group of all: fewer where ranks seldom wait for each other
        for _ in range(20):
            group = dist.new_group()
            x = rl.ones(800_000)
            dist.all_reduce(x, group=group)
            assert (x == 2.0).all()
            dist.barrier(group)
            dist.destroy_process_group(group)
            del group
            dist.barrier()
        assert shared() - before < 20 * before / 4, (shared(), before)
        """)


def test_two_ranks_that_share_no_memory():
    """As if on different hosts: MPI's own all_reduce does it."""
    run_ranks(
        """
        x = rl.full((100_000,), RANK + 1.0)
        dist.all_reduce(x)
        assert (x == 3.0).all()
        """,
        MPIR_CVAR_NOLOCAL="1",
    )


def test_all_reduce_of_every_dtype():
    run_ranks("""
        rng = np.random.default_rng(0)
        exact = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
        floats = ["float32", "float64", "float16", "bfloat16"]
        ops = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
        for name in exact + floats:
            values = rng.integers(0, 5, (SIZE, 3, 7))
            for op, ufunc in ops.items():
                x = rl.tensor(values[RANK]).to(getattr(rl, name))
                assert dist.all_reduce(x, getattr(dist.ReduceOp, op)) is None
                expected = ufunc.reduce(values)
                np.testing.assert_array_equal(x.to(rl.int64).numpy(), expected, f"{name} {op}")
        for name in exact:
            values = rng.integers(0, 100, (SIZE, 9))
            for op, ufunc in {"BAND": np.bitwise_and, "BOR": np.bitwise_or,
                              "BXOR": np.bitwise_xor}.items():
                x = rl.tensor(values[RANK]).to(getattr(rl, name))
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                np.testing.assert_array_equal(x.to(rl.int64).numpy(), ufunc.reduce(values))
        flags = rl.tensor([True, False, RANK == 0])
        dist.all_reduce(flags)
        assert flags.tolist() == [True, False, True] and flags.dtype == rl.bool
        flags = rl.tensor([True, False, RANK == 0])
        dist.all_reduce(flags, dist.ReduceOp.PRODUCT)
        assert flags.tolist() == [True, False, False]
        z = rl.full((2, 2), 1 + (RANK + 1) * 1j, dtype=rl.complex64)
        dist.all_reduce(z)
        assert (z == 2 + 3j).all()
        for name in ["float32", "float64", "float16", "bfloat16", "complex64"]:
            x = rl.full((5,), RANK + 1.0, dtype=getattr(rl, name))
            dist.all_reduce(x, dist.ReduceOp.AVG)
            assert (x == 1.5).all(), name
        half = rl.full((1000,), 0.1 + RANK, dtype=rl.float16)
        dist.all_reduce(half)
        expected = np.float16(0.1).astype(np.float32) + np.float16(1.1).astype(np.float32)
        assert (half.numpy() == np.float16(expected)).all()
        for bad, op, error, text in [
            (z, "MAX", ValueError, "complex"),
            (rl.ones(2, dtype=rl.int32), "AVG", TypeError, "AVG"),
            (rl.ones(2), "BOR", TypeError, "integers"), ([1.0], "SUM", TypeError, "tensor"),
            (rl.ones(1), "PREMUL_SUM", ValueError, "factor")]:
            try:
                dist.all_reduce(bad, getattr(dist.ReduceOp, op))
            except error as e:
                assert text in str(e), e
            else:
                raise AssertionError(op)
        dist.all_reduce(rl.ones(1))  # the refused calls left the ranks in step
        """)


def test_layouts_sizes_and_versions():
    run_ranks("""
        base = rl.zeros(6, 8)
        base[::2, 1::3] = RANK + 1.0
        dist.all_reduce(base[::2, 1::3])
        assert base.sum() == 27 and base[0, 1] == 3 and base[1].sum() == 0
        x = rl.ones(4, 5).t()
        dist.all_reduce(x)
        assert (x == 2).all()
        for shape in [(), (0,), (0, 3), (1,), (1 << 20,)]:
            x = rl.full(shape, float(RANK))
            dist.all_reduce(x)
            assert x.shape == shape and (x == 1).all()
        w = rl.ones(3, requires_grad=True)
        y = (w * w).sum()
        dist.all_reduce(w)
        try:
            y.backward()
        except RuntimeError as e:
            assert "all_reduce" in str(e), e
        else:
            raise AssertionError("a write that autograd did not see")
        """)


def test_broadcast_gather_and_objects():
    run_ranks("""
        for name in ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex128"]:
            dtype = getattr(rl, name)
            x = rl.full((3, 2), RANK).to(dtype)
            dist.broadcast(x, src=1)
            assert (x == rl.full((3, 2), 1).to(dtype)).all()
            parts = [rl.zeros(3, 2, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(parts, rl.full((3, 2), RANK).to(dtype))
            assert [p.to(rl.float64).sum().item() for p in parts] == [0, 6]
        out = rl.empty(SIZE * 2, 3)
        dist.all_gather_into_tensor(out, rl.full((2, 3), float(RANK)))
        assert out[:, 0].tolist() == [0, 0, 1, 1]
        columns = rl.zeros(3, 2)
        dist.broadcast(columns[:, 1] if RANK else rl.tensor([1.0, 2, 3]), src=0)
        assert RANK == 0 or columns.tolist() == [[0, 1], [0, 2], [0, 3]]
        things = [{"a": RANK}, "text", None] if RANK == 0 else [None] * 3
        dist.broadcast_object_list(things, src=0)
        assert things == [{"a": 0}, "text", None]
        everybody = [None] * SIZE
        dist.all_gather_object(everybody, "x" * (RANK * 1000))
        assert [len(t) for t in everybody] == [0, 1000]
        dist.barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=20))
        """)


def test_every_case_between_processes():
    run_ranks(
        """
        from distributed import cases
        cases.run(RANK, SIZE)
        """,
        size=3,
        PYTHONPATH=os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]),
    )


def test_async_works_finish_in_order():
    run_ranks("""
        tensors = [rl.full((n,), float(RANK + 1)) for n in [1 << 20, 3, 1 << 16, 1]]
        works = [dist.all_reduce(t, async_op=True) for t in tensors]
        works.append(dist.broadcast(tensors[1], src=0, async_op=True))
        works[-1].wait()
        assert all(w.is_completed() and w.is_success() for w in works)
        assert all((t == 3).all() for t in tensors)
        works[0].wait()
        assert works[0].wait(timedelta(seconds=1)) is True
        assert works[0].result()[0] is tensors[0]
        # A call that waits comes after those that do not.
        x = rl.full((1 << 18,), float(RANK))
        work = dist.all_reduce(x, async_op=True)
        dist.all_reduce(x)
        assert work.is_completed() and (x == 2).all()
        numbers = [n for n, _, _ in dist.group.WORLD._recorded()]
        assert numbers == list(range(1, 8)), numbers
        what, where = dist.group.WORLD._recorded()[-1][1:]
        assert what == "all_reduce(SUM) of float32 [262144]", what
        assert "program.py" in where and "dist.all_reduce(x)" in where, where
        """)


def test_groups_of_some_ranks():
    run_ranks(
        """
        assert (dist.get_rank(), dist.get_world_size()) == (RANK, 3)
        assert dist.get_backend() == "gloo" and dist.group.WORLD is not None
        pair = dist.new_group([2, 0])
        alone = dist.new_group([1])
        if RANK == 1:
            assert pair == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
            x = rl.ones(2)
            dist.all_reduce(x, group=alone)
            assert x.tolist() == [1, 1] and dist.get_world_size(alone) == 1
        else:
            assert dist.get_process_group_ranks(pair) == [0, 2]
            assert dist.get_rank(pair) == RANK // 2 and dist.get_world_size(pair) == 2
            assert dist.get_global_rank(pair, 1) == 2 and dist.get_group_rank(pair, 2) == 1
            x = rl.full((4,), float(RANK))
            dist.all_reduce(x, group=pair)
            assert (x == 2).all()
            dist.broadcast(x, src=2, group=pair)
            try:
                dist.broadcast(x, src=1, group=pair)
            except ValueError as e:
                assert "not part of group" in str(e)
            else:
                raise AssertionError
            dist.destroy_process_group(pair)
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()
        """,
        size=3,
    )


def test_a_second_group_in_one_process():
    run_ranks("""
        for turn in range(2):
            begin(store_number=turn)
            x = rl.ones(1)
            dist.all_reduce(x)
            assert x.item() == 2
            dist.destroy_process_group()
        """, begin="""
def begin(store_number):
    dist.init_process_group("mpi", init_method=os.environ["METHOD"] + str(store_number),
                            rank=RANK, world_size=SIZE)
""")  # fmt: skip


def test_a_group_of_one_needs_no_engine():
    run("""
        import rushlight as rl, rushlight.distributed as dist
        assert not dist.is_initialized() and dist.is_available()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        x = rl.arange(3.0)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        out = [rl.zeros(3)]
        dist.all_gather(out, x)
        dist.broadcast(x, src=0)
        dist.barrier()
        assert x.tolist() == out[0].tolist() == [0, 1, 2]
        assert dist.all_reduce(x, async_op=True).wait()
        try:
            dist.init_process_group("gloo")
        except ValueError as e:
            assert "there already" in str(e)
        dist.destroy_process_group()
        assert "libmpi" not in open("/proc/self/maps").read()
        """)


def test_start_errors(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK"):
        dist.init_process_group("gloo")
    if not rl.cuda.is_available():
        with pytest.raises(RuntimeError, match='"nccl" works with GPUs, and there is none'):
            dist.init_process_group("nccl")
    with pytest.raises(ValueError, match='"gloo" serves cpu tensors'):
        dist.init_process_group("cuda:gloo")
    with pytest.raises(ValueError, match="unknown backend"):
        dist.init_process_group("carrier pigeon")
    with pytest.raises(ValueError, match="an init_method or a store"):
        dist.init_process_group("gloo", "env://", store=dist.HashStore())
    with pytest.raises(ValueError, match="needs rank"):
        dist.init_process_group("gloo", "tcp://127.0.0.1:1234", world_size=2)
    with pytest.raises(RuntimeError, match="No rendezvous handler for http"):
        dist.init_process_group("gloo", "http://127.0.0.1", rank=0, world_size=1)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.all_reduce(rl.ones(1))
    with pytest.raises(RuntimeError, match="not been initialized"):
        dist.get_rank()
    with pytest.raises(NotImplementedError, match="not there yet"):
        dist.record_comm()


def test_a_rank_that_never_comes():
    ranks = Ranks("", begin="begin(timeout=timedelta(seconds=1))")
    ranks.processes[1].kill()
    (_, err, code), _ = ranks.finish(30)
    assert code == 1 and "DistStoreError" in err and "timeout after 1000 ms" in err


def test_spawn():
    run("""
        import os, rushlight as rl, rushlight.distributed as dist
        import rushlight.multiprocessing as mp

        def work(rank, size, folder):
            dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=size)
            x = rl.full((3,), float(rank))
            dist.all_reduce(x)
            assert x.tolist() == [1, 1, 1]
            dist.destroy_process_group()

        if __name__ == "__main__":
            mp.spawn(work, args=(2, os.path.dirname(__file__)), nprocs=2)
        """)


def test_a_forked_child_ends_and_may_not_communicate():
    run_ranks(
        """
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        dist.all_reduce(rl.ones(1))
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(rl.ones(1))
            except RuntimeError as error:
                sys.exit(5 if "forked" in str(error) else 6)  # with all that Python does at exit
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        x = rl.ones(1)
        dist.all_reduce(x)
        assert x.item() == 2
        """,
        limit=30,
    )


def test_nothing_is_left_in_shared_memory():
    def segments():
        return {name for name in os.listdir("/dev/shm") if name.startswith("mpich_shm")}

    before = segments()
    ranks = Ranks("""
        dist.barrier()
        os.kill(os.getpid(), 9)
        """)
    assert [code for _, _, code in ranks.finish()] == [-9, -9]
    assert segments() <= before


def test_a_rank_that_cannot_be_is_told_at_once(tmp_path):
    for method in ("tcp://127.0.0.1:1", f"file://{tmp_path}/store"):
        with pytest.raises(ValueError, match="rank must be from 0 to 1, got 2"):
            dist.init_process_group("gloo", init_method=method, rank=2, world_size=2)
