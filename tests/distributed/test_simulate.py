"""simulate: ranks that are threads, and with them all collectives and messages."""

import re
import threading
from datetime import timedelta

import pytest
from distributed import cases

import rushlight as rl
import rushlight.distributed as dist

pytestmark = pytest.mark.threads


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("case", cases.ALL, ids=lambda f: f.__name__)
def test_case(case, size):
    dist.simulate(size, case, size)


def test_results_and_arguments():
    assert dist.simulate(3, lambda rank: rank * 10) == [0, 10, 20]
    assert dist.simulate(2, lambda: dist.get_rank()) == [0, 1]
    assert dist.simulate(2, lambda rank, a, b=0: (rank, a, b), 5, b=6) == [(0, 5, 6), (1, 5, 6)]
    assert dist.simulate(1, lambda: dist.get_world_size()) == [1]
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="at least 1"):
        dist.simulate(0, print)
    with pytest.raises(RuntimeError, match="cannot simulate others"):
        dist.simulate(2, lambda: dist.simulate(2, print))


def test_a_program_that_begins_and_ends_by_itself():
    def program():
        dist.init_process_group("gloo")
        assert dist.is_initialized() and dist.group.WORLD._engine == "threads"
        x = rl.ones(1)
        dist.all_reduce(x)
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()
        with pytest.raises(RuntimeError, match="cannot join again"):
            dist.init_process_group("gloo")
        return x.item()

    assert dist.simulate(3, program) == [3, 3, 3]


def test_ranks_draw_by_themselves():
    rl.manual_seed(7)
    expected = rl.rand(3).tolist()
    after = rl.get_rng_state()

    def program(rank):
        first = rl.rand(3)  # from where the process stood
        rl.manual_seed(7 if rank else 8)
        seeded = rl.nn.functional.dropout(rl.rand(3), 0.5).tolist(), rl.initial_seed()
        rl.default_generator.manual_seed(7)
        same = rl.rand(3, generator=rl.default_generator).tolist() == expected
        return first.tolist(), seeded, same

    results = dist.simulate(3, program)
    assert results[0][0] == results[1][0] == results[2][0]
    assert results[1][1] == results[2][1] != results[0][1] and all(r[2] for r in results)
    assert (rl.get_rng_state() == after).all()


def test_the_error_of_the_rank_that_failed():
    def program(rank):
        if rank == 1:
            raise KeyError("lost")
        dist.all_reduce(rl.ones(1))

    with pytest.raises(KeyError, match="lost"):
        dist.simulate(3, program)
    assert threading.active_count() < 10


@pytest.mark.parametrize(
    "rank0, rank1, words",
    [
        (lambda: dist.gather(rl.ones(2), [rl.ones(2)] * 2), lambda: dist.gather(rl.ones(2), dst=0),
         None),
        (lambda: dist.reduce(rl.ones(2), 0), lambda: dist.reduce(rl.ones(2), 1),
         ["disagree at collective #1", "reduce(SUM, to rank 0)", "reduce(SUM, to rank 1)"]),
        (lambda: dist.all_to_all_single(rl.ones(2), rl.ones(2)),
         lambda: dist.all_to_all_single(rl.ones(2).int(), rl.ones(2).int()),
         ["disagree at collective #1", "all_to_all of float32", "all_to_all of int32"]),
        (lambda: dist.all_to_all_single(rl.ones(3), rl.ones(2), [2, 1], [1, 1]),
         lambda: dist.all_to_all_single(rl.ones(2), rl.ones(2)),
         ["rank 1 sends 1 elements to rank 0, which expects 2|rank 0 sends"]),
        (lambda: dist.recv(rl.ones(3), 1), lambda: dist.send(rl.ones(4), 0), ["different sizes"]),
        (lambda: dist.scatter(rl.ones(2), [rl.ones(2)] * 2), lambda: dist.barrier(),
         ["disagree at collective #1", "scatter(from rank 0)", "rank 1: #1 barrier"]),
    ],
)  # fmt: skip
def test_the_judge_knows_each(rank0, rank1, words):
    def program(rank):
        (rank0, rank1)[rank]()

    if words is None:
        dist.simulate(2, program)
        return
    with pytest.raises(dist.DistBackendError) as caught:
        dist.simulate(2, program)
    for word in words:
        assert re.search(word if "|" in word else re.escape(word), str(caught.value))


def test_timeouts_say_why():
    def program(rank):
        if rank == 0:
            dist.recv(rl.ones(1), 1, tag=3)
        else:
            dist.recv(rl.ones(1), 0, tag=4)

    with pytest.raises(
        dist.DistBackendError, match=r"timed out on rank \d after 1500 ms"
    ) as caught:
        dist.simulate(2, program, timeout=timedelta(milliseconds=1500))
    assert "tag 3" in str(caught.value) and "tag 4" in str(caught.value)


@pytest.mark.slow
def test_messages_from_ranks_that_are_gone():
    for source in (1, None):
        with pytest.raises(
            dist.DistBackendError, match=r"left the group[\s\S]*rank 0 waits in recv"
        ):
            dist.simulate(3, lambda rank, s=source: rank or dist.recv(rl.ones(1), s))


def test_device_ids_mean_nothing_to_groups_of_the_host():
    def program():
        dist.barrier(device_ids=[0])
        with pytest.raises(TypeError, match="list of one number"):
            dist.barrier(device_ids=0)
        return True

    assert dist.simulate(2, program) == [True, True]
