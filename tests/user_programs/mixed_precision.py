"""Training as it is done on a GPU: autocast, a scaler, compile, accumulation, EMA, resuming."""

import contextlib
import os
import tempfile
import time
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.amp import GradScaler, autocast
from rushlight.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from rushlight.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from rushlight.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        self.conv = nn.Conv1d(width, width, 3, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(nn.functional.silu(self.norm(x)))


class Net(nn.Module):
    def __init__(self, width: int = 8, depth: int = 2, save_memory: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, width, 1)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))
        self.heads = nn.ModuleDict({"mean": nn.Linear(width, 1), "scale": nn.Linear(width, 1)})
        self.save_memory = save_memory

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.save_memory else block(x)
        pooled = x.mean(dim=-1)
        return {name: head(pooled).squeeze(-1) for name, head in self.heads.items()}


def step(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, device: str, dtype: torch.dtype
) -> torch.Tensor:
    with autocast(device_type=device, dtype=dtype):
        out = model(x)
    return nn.functional.gaussian_nll_loss(
        out["mean"].float(), y, nn.functional.softplus(out["scale"].float()) + 1e-3
    )


def train(steps: int = 12, accumulate: int = 2) -> tuple[float, dict[str, Any]]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net(save_memory=True).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=False)
    scheduler = SequentialLR(
        optimizer,
        [LinearLR(optimizer, start_factor=0.1, total_iters=3), CosineAnnealingLR(optimizer, 9)],
        milestones=[3],
    )
    scaler = GradScaler(device, enabled=device == "cuda")
    compiled = torch.compile(model)
    began = time.perf_counter()
    losses: list[float] = []
    for i in range(steps):
        x = torch.randn(8, 1, 16, device=device)
        loss = step(compiled, x, x.sum((1, 2)), device, torch.bfloat16) / accumulate
        scaler.scale(loss).backward()
        if (i + 1) % accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            ema.update_parameters(model)
            scheduler.step()
        losses.append(loss.detach().item() * accumulate)
    if device == "cuda":
        torch.cuda.synchronize()
        print(torch.cuda.max_memory_allocated() / 2**20, "MiB")
    print(f"{steps / (time.perf_counter() - began):.0f} steps/s")
    state = {
        "model": model.state_dict(),
        "ema": ema.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
        "rng": torch.get_rng_state(),
    }
    return sum(losses[-4:]) / 4, state


def resume(state: dict[str, Any]) -> Net:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        torch.save(state, path)
        loaded = torch.load(path, map_location="cpu")
    model = Net()
    missing, unexpected = model.load_state_dict(loaded["model"], strict=False)
    assert not missing and not unexpected
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(loaded["optimizer"])
    assert optimizer.param_groups[0]["lr"] > 0
    torch.set_rng_state(loaded["rng"])
    return model.eval()


def main() -> float:
    torch.manual_seed(0)
    loss, state = train()
    model = resume(state)
    context = torch.inference_mode() if os.environ.get("FAST") else contextlib.nullcontext()
    with context, torch.no_grad():
        out = model(torch.zeros(1, 1, 16))
    assert set(out) == {"mean", "scale"}
    return loss


if __name__ == "__main__":
    main()
