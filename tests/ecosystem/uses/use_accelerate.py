"""A training loop with accumulation, clipping, schedules and checkpoints; gathering, big models in parts on the CPU
and on disk"""

import accelerate
import torch
from same import fill, integers, normal, use
from torch import nn

PACKAGES = ["accelerate"]


def network():
    return fill(nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)))


def loader(batch=4):
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(normal(22, 8), integers(0, 3, 22)), batch
    )


@use
def training(folder):
    for precision in ("no", "bf16"):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(
            cpu=True, gradient_accumulation_steps=2, mixed_precision=precision
        )
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
        model, optimizer, data, schedule = accelerator.prepare(model, optimizer, loader(), schedule)
        losses = []
        for epoch in range(2):
            for x, y in data:
                with accelerator.accumulate(model), accelerator.autocast():
                    loss = nn.functional.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        losses.append(accelerator.clip_grad_norm_(model.parameters(), 0.5).item())
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                losses.append(loss.item())
            accelerator.save_state(str(folder / f"{precision}{epoch}"))
        # Half precision: its own tolerance, by way of the dtype.
        yield (
            precision,
            torch.tensor(losses, dtype=torch.bfloat16 if precision == "bf16" else torch.float32),
        )
        yield f"{precision} rate", schedule.get_last_lr()
        accelerator.load_state(str(folder / f"{precision}0"))
        out = [accelerator.gather_for_metrics((model(x), y)) for x, y in data]
        yield f"{precision} gathered", [len(out), torch.cat([x.float() for x, _ in out]).shape[0]]
    skipped = accelerate.skip_first_batches(data, 3)
    yield "skipped", [y for _, y in skipped]
    accelerator.save_model(model, str(folder / "model"), max_shard_size="1KB")
    yield "shards", len(list((folder / "model").glob("*.safetensors")))


@use
def big_models(folder):
    x = normal(2, 8)
    expected = network()(x)
    with accelerate.init_empty_weights():
        empty = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    yield "empty", [str(p.device) for p in empty.parameters()]
    torch.save(network().state_dict(), folder / "weights.pt")
    placed = accelerate.infer_auto_device_map(empty, max_memory={"cpu": 700, "disk": 10**6})
    yield "placed", {name: str(where) for name, where in placed.items()}
    made = accelerate.load_checkpoint_and_dispatch(
        empty, str(folder / "weights.pt"), device_map={"0": "cpu", "1": "disk", "2": "cpu", "3": "disk"},
        offload_folder=str(folder / "offload"),
    )  # fmt: skip
    yield "on disk", made(x)
    yield "same", torch.equal(made(x), expected)
    kept = accelerate.cpu_offload(network(), execution_device=torch.device("cpu"))
    yield "offloaded", kept(x)
    accelerate.hooks.remove_hook_from_submodules(kept)
    yield "sizes", accelerate.utils.compute_module_sizes(network())
    yield (
        "found size",
        accelerate.utils.find_executable_batch_size(
            lambda batch_size: batch_size, starting_batch_size=8
        )(),
    )
    nested = {"a": [x, (x, 3)], "b": "text"}
    yield "sent", accelerate.utils.send_to_device(nested, "cpu")
    yield "halves", accelerate.utils.convert_to_fp32({"x": x.bfloat16()})
    accelerate.utils.set_seed(3)
    yield "seeded", torch.equal(torch.rand(3), (accelerate.utils.set_seed(3), torch.rand(3))[1])
