"""Writes tests/data/distributed_checkpoint with PyTorch 2.13 and 2 processes; run by hand.

    python tests/oracle/make_distributed_checkpoint.py

tests/distributed/test_checkpoint_files.py loads it without PyTorch. What it holds is in `state`.
"""

import os
import shutil
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "data" / "distributed_checkpoint"


def state(torch, cut):
    """`cut(tensor, dim)` is the tensor on all ranks: in parts along a dim, or copies (None)."""
    numbers = torch.arange(20.0)
    return {
        "rows": cut(numbers[:15].view(5, 3), 0),
        "columns": cut(numbers.view(4, 5), 1),
        "copies": cut(numbers[:7].clone(), None),
        "plain": numbers[:4].view(2, 2).to(torch.bfloat16),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "step": 7,
        "rates": [0.1, 0.2],
        "inner": {"name": "hello", "list": [cut(numbers[:12].view(6, 2), 0), {"pair": (1, "x")}]},
    }


def write(rank, store):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))

    def cut(tensor, dim):
        return distribute_tensor(tensor, mesh, [Replicate() if dim is None else Shard(dim)])

    # A path without folders, so that the file does not say where it was made.
    dcp.save(state(torch, cut), checkpoint_id=FOLDER.name)
    dist.destroy_process_group()


def main():
    import tempfile

    import torch.multiprocessing as mp

    shutil.rmtree(FOLDER, ignore_errors=True)
    os.chdir(FOLDER.parent)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(write, (os.path.join(folder, "store"),), nprocs=2)


if __name__ == "__main__":
    sys.exit(main())
