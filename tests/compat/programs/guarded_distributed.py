"""A script for many GPUs that also runs without: every distributed call is guarded."""

import functools
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import MixedPrecision, ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.nn.parallel import DistributedDataParallel as DDP


def is_dist():
    return dist.is_available() and dist.is_initialized()


def get_rank():
    return dist.get_rank() if is_dist() else 0


def reduce_mean(t, op=dist.ReduceOp.SUM):
    if not is_dist():
        return t
    dist.all_reduce(t, op=op)
    return t / dist.get_world_size()


world_size = int(os.environ.get("WORLD_SIZE", "1"))
if world_size > 1:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl", init_method="env://")
device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
model = nn.Sequential(
    nn.Linear(4, 8), checkpoint_wrapper(nn.Sequential(nn.ReLU(), nn.Linear(8, 8))), nn.Linear(8, 1)
).to(device)
if is_dist():
    model = DDP(model, device_ids=[0])
assert not isinstance(model, (DDP, FSDP)) and ShardingStrategy.FULL_SHARD != StateDictType
functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
raw = model.module if hasattr(model, "module") else model
assert "1.1.weight" in raw.state_dict()
parallel = nn.DataParallel(raw)
assert parallel.module is raw and all(k.startswith("module.") for k in parallel.state_dict())
scaler = GradScaler(enabled=torch.cuda.is_available())
opt = torch.optim.Adam(parallel.parameters(), lr=0.01)
x, y = torch.randn(32, 4, device=device), torch.randn(32, 1, device=device)
losses = []
for step in range(20):
    with autocast(enabled=torch.cuda.is_available()):
        loss = nn.functional.mse_loss(parallel(x), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    losses.append(reduce_mean(loss.detach()).item())
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
assert losses[-1] < losses[0] and get_rank() == 0
for broken in (
    lambda: DDP(raw),
    lambda: dist.init_process_group("gloo"),
    dist.get_rank,
    lambda: FSDP(raw, mixed_precision=None),
):
    try:
        broken()
    except (RuntimeError, ValueError) as error:
        assert "process" in str(error), error
    else:
        raise AssertionError("this needs other processes")
if torch.cuda.is_available():
    print(torch.cuda.get_device_name(0), torch.cuda.max_memory_allocated())
torch.cuda.empty_cache()
print("ok")
