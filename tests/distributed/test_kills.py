"""Ranks that are killed at random moments while they train and save: the others say who and where,
nobody is left behind, and the last checkpoint is whole."""

import os
import random
import re
import time

import numpy as np
import pytest
from distributed.ranks import Ranks

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp

# RUSHLIGHT_TEST_KILLS=50 is the long run.
KILLS = int(os.environ.get("RUSHLIGHT_TEST_KILLS", "4"))
SIZE = 3
# Fifteen seconds are promised; a busy machine adds some.
LIMIT = 25

PROGRAM = """
from rushlight.distributed import checkpoint
from rushlight.distributed.tensor import Shard, distribute_tensor, init_device_mesh

def train():
    net = rl.nn.Sequential(*(rl.nn.Linear(64, 64) for _ in range(4)))
    model = rl.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.02)
    mesh = init_device_mesh("cpu", (SIZE,))
    for step in range(1, 1_000_000):
        model(rl.full((8, 64), float(RANK))).square().mean().backward()
        total = rl.full((30_000,), float(step))
        dist.all_reduce(total)
        whole = rl.full((3000,), float(step))
        state = {"cut": distribute_tensor(whole, mesh, [Shard(0)]), "whole": whole}
        checkpoint.save(state, checkpoint_id=os.environ["FOLDER"])
        if step == 2:
            print("goes", flush=True)

train()
"""


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_mpi_available(), reason="no MPI library is installed")
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_rank_is_killed_at_a_random_moment(tmp_path, seed):
    source = random.Random(seed)
    victim = source.randrange(SIZE)
    ranks = Ranks(PROGRAM, SIZE, FOLDER=str(tmp_path))
    for process in ranks.processes:
        assert process.stdout.readline() == "goes\n", process.stderr.read()
    time.sleep(source.random())
    start = time.monotonic()
    ranks.processes[victim].kill()
    results = ranks.finish(40)
    assert time.monotonic() - start < LIMIT
    for rank, (out, err, code) in enumerate(results):
        if rank == victim:
            assert code == -9
            continue
        assert code == 1 and "DistBackendError" in err, f"rank {rank}: {code}\n{out}\n{err}"
        assert re.search(rf"rank {victim} .*ended without leaving the group", err), err
        assert re.search(r"#\d+ \w+", err) and re.search(r"program.py:\d+", err), err
    state = {"cut": rl.zeros(3000), "whole": rl.zeros(3000)}
    dcp.load(state, checkpoint_id=tmp_path)
    step = state["whole"][0].item()
    assert step >= 1  # all of it is of one step
    for name in state:
        np.testing.assert_array_equal(state[name].numpy(), np.full(3000, step, "float32"), name)
