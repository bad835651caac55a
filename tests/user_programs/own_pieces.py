"""What users write themselves: a function with its gradient, a layer, an optimiser, a sampler."""

import math
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function, gradcheck
from rushlight.autograd.function import once_differentiable
from rushlight.optim.optimizer import Optimizer
from rushlight.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset


class ClampedExp(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, limit: float) -> torch.Tensor:
        y = x.exp().clamp(max=limit)
        ctx.save_for_backward(y)
        ctx.limit = limit
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        return grad_output * y * (y < ctx.limit), None


class NoisyLinear(nn.Module):
    __constants__ = ["in_features", "out_features"]
    weight_noise: torch.Tensor

    def __init__(self, in_features: int, out_features: int, sigma: float = 0.1) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.register_buffer("weight_noise", torch.zeros(out_features, in_features))
        self.sigma = sigma
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.weight, -1 / math.sqrt(self.in_features), 1)
        with torch.no_grad():
            self.weight_noise.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight + self.sigma * self.weight_noise if self.training else self.weight
        return nn.functional.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, sigma={self.sigma}"


class Lion(Optimizer):
    def __init__(
        self,
        params: Iterable[torch.Tensor],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        if lr <= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                average = state["exp_avg"]
                update = average.mul(beta1).add_(p.grad, alpha=1 - beta1).sign_()
                p.add_(update, alpha=-group["lr"])
                average.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


class EveryOther(Sampler[int]):
    def __init__(self, data: Sized) -> None:
        self.data = data

    def __iter__(self) -> Iterator[int]:
        return iter(range(0, len(self.data), 2))

    def __len__(self) -> int:
        return (len(self.data) + 1) // 2


class Countdown(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(5, 0, -1)


def collate(items: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    xs, ys = zip(*items)
    return {"x": torch.stack(xs), "y": torch.stack(ys)}


def hooks() -> dict[str, torch.Size]:
    shapes: dict[str, torch.Size] = {}
    model = nn.Sequential(NoisyLinear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def remember(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
            shapes[name] = output.shape

        return hook

    handles = [m.register_forward_hook(remember(n)) for n, m in model.named_children()]
    x = torch.randn(2, 3, requires_grad=True)
    x.register_hook(lambda grad: grad * 2)
    model(x).sum().backward()
    for handle in handles:
        handle.remove()
    assert x.grad is not None and x.grad.shape == x.shape
    return shapes


def main() -> float:
    torch.manual_seed(0)
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda t: ClampedExp.apply(t, 100.0), (x,))
    data = TensorDataset(torch.randn(12, 3), torch.randn(12, 1))
    loader = DataLoader(data, batch_size=3, sampler=EveryOther(data), collate_fn=collate)
    model = NoisyLinear(3, 1)
    optimizer = Lion(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(batch["x"]), batch["y"])
        loss.backward()
        optimizer.step()
    print(model, hooks(), [n for n in DataLoader(Countdown(), batch_size=None)])
    return loss.item()


if __name__ == "__main__":
    main()
