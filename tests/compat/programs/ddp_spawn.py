"""Data parallel training in two processes, as tutorials begin it."""

import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


def train(rank, world_size, port, path):
    setup(rank, world_size, port)
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)))
    data = TensorDataset(torch.randn(40, 10), torch.randn(40, 5))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path))
    for p in model.parameters():
        mean = p.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        torch.testing.assert_close(mean / world_size, p.detach())
    assert all(k.startswith("module.") for k in model.state_dict())
    cleanup()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(2, port, os.path.join(folder, "model.pt")), nprocs=2, join=True)
    print("ok")
