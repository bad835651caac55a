"""A small Llama of transformers' over two processes equals one process: cut along its heads, and
with fully_shard."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
}  # fmt: skip


def make():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**CONFIG))


def train(model, ids, mean=lambda loss: loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(mean(loss.detach())))
    return losses


def mean_of_ranks(loss):
    loss = loss.clone()
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    return loss


how, folder = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
ids = torch.randint(0, 64, (4, 12), generator=torch.Generator().manual_seed(1))
alone = make()
expected = train(alone, ids)
if how == "tensor":
    if rank == 0:
        make().save_pretrained(folder)
    dist.barrier()
    model = LlamaForCausalLM.from_pretrained(folder, tp_plan="auto")
    losses = train(model, ids)
else:
    model = make()
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    losses = train(model, ids[2 * rank : 2 * rank + 2], mean_of_ranks)
assert max(abs(a - b) for a, b in zip(expected, losses, strict=True)) < 1e-5, (expected, losses)
parameters = dict(model.named_parameters())
assert any(hasattr(p, "full_tensor") for p in parameters.values())
for name, expected in alone.named_parameters():
    whole = parameters[name]
    whole = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
    assert (whole - expected).abs().max() < 1e-5, name
dist.destroy_process_group()
print("ok", flush=True)
