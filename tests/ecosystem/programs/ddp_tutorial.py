"""The steps of a first DDP program: spawn, set up, train, save on rank 0 and load on all, a model
that is cut over devices in turn (here: one), clean up."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 10), nn.Linear(10, 5)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def work(rank, world_size, path, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(rank)
    model = DDP(Toy())
    loss_fn, optimizer = nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.001)
    outputs = model(torch.randn(20, 10))
    loss_fn(outputs, torch.randn(20, 5)).backward()
    optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    other = DDP(Toy())
    other.load_state_dict(torch.load(path, map_location=torch.device("cpu"), weights_only=True))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2, *sys.argv[1:]), nprocs=2, join=True)
    print("ok")
