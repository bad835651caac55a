"""A GPT trained as nanoGPT's users do: torchrun's variables, gradient accumulation whose last
micro-step synchronises, gradient clipping, a fused AdamW, checkpoints by rank 0."""

import math
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=32, width=32, depth=2, heads=4, length=16):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.token.weight = self.head.weight  # tied

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


ddp = int(os.environ.get("RANK", -1)) != -1
rank, world = 0, 1
if ddp:
    dist.init_process_group(backend="gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
accumulation = 4 // world
torch.manual_seed(1337)
model = GPT()
raw = model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
if ddp:
    model = DDP(model)
text = torch.randint(0, 32, (2000,), generator=torch.Generator().manual_seed(0)).sort().values
losses = []
for step in range(12):
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * min(1.0, (step + 1) / 4) * 0.5 * (1 + math.cos(math.pi * step / 24))
    total = 0.0
    for micro in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = micro == accumulation - 1
        part = micro * world + rank  # the same micro-batches, whatever the number of ranks
        draw = torch.Generator().manual_seed(4 * step + part)
        at = torch.randint(len(text) - 17, (4,), generator=draw)
        ids = torch.stack([text[i : i + 16] for i in at.tolist()])
        targets = torch.stack([text[i + 1 : i + 17] for i in at.tolist()])
        loss = model(ids, targets) / accumulation
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    mean = torch.tensor(total)
    if ddp:
        dist.all_reduce(mean, dist.ReduceOp.AVG)
    losses.append(mean.item())
if rank == 0:
    torch.save({"model": raw.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[1])
    print("losses", *(f"{loss:.4f}" for loss in losses), "ok", flush=True)
if ddp:
    dist.destroy_process_group()
