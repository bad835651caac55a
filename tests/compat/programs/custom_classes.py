"""Subclasses of Optimizer, lr_scheduler, Function, Module, Tensor and Distribution."""

import math

import torch
from torch import nn
from torch.distributions import Distribution, constraints, kl_divergence, register_kl
from torch.optim.lr_scheduler import LambdaLR, _LRScheduler
from torch.optim.optimizer import Optimizer, ParamsT, required


class SignSGD(Optimizer):
    def __init__(self, params: ParamsT, lr=required, momentum=0.0):
        if lr is not required and lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, dict(lr=lr, momentum=momentum))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0.0)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["buf"] = torch.zeros_like(p.data, memory_format=torch.preserve_format)
                state["step"] += 1
                buf = state["buf"]
                buf.mul_(group["momentum"]).add_(p.grad, alpha=1 - group["momentum"])
                p.add_(torch.sign(buf), alpha=-group["lr"])
        return loss


class Warmup(_LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * min(1.0, (self.last_epoch + 1) / self.steps) for base in self.base_lrs]


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.float()).type_as(x)


class Block(nn.Sequential):
    def __init__(self, width):
        super().__init__(LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        return x + super().forward(x)


class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, x, label="", *args, **kwargs):
        return super().__new__(cls, x, *args, **kwargs)

    def __init__(self, x, label=""):
        self.label = label

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Shifted(Distribution):
    arg_constraints = {"loc": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, validate_args=None):
        self.loc = loc
        super().__init__(loc.shape, validate_args=validate_args)

    def rsample(self, sample_shape=torch.Size()):
        return self.loc + torch.randn(self._extended_shape(sample_shape))

    def log_prob(self, value):
        return -0.5 * (value - self.loc) ** 2 - 0.5 * math.log(2 * math.pi)


@register_kl(Shifted, Shifted)
def _kl(p, q):
    return 0.5 * (p.loc - q.loc) ** 2


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), Block(8), nn.Linear(8, 1))
opt = SignSGD(model.parameters(), lr=0.01, momentum=0.5)
sched = Warmup(opt, 5)
x, y = torch.randn(64, 4), torch.randn(64, 1)
first = None
for step in range(60):

    def closure():
        opt.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        return loss

    loss = opt.step(closure)
    sched.step()
    first = loss.item() if first is None else first
assert loss.item() < 0.7 * first, (first, loss.item())
assert opt.state_dict()["state"][0]["step"] == 60 and sched.get_last_lr() == [0.01]
again = SignSGD(model.parameters(), lr=0.01)
again.load_state_dict(opt.state_dict())
assert again.param_groups[0]["momentum"] == 0.5
assert isinstance(LambdaLR(opt, lambda e: 0.5), torch.optim.lr_scheduler.LRScheduler)

w = torch.tensor([0.4, 1.6], requires_grad=True)
RoundSTE.apply(w).sum().backward()
assert w.grad.tolist() == [1.0, 1.0]
n = Named([1.0, 2.0], label="a")
assert n.label == "a" and isinstance(n + 1, Named) and isinstance(n, torch.Tensor)
with torch._C.DisableTorchFunctionSubclass():
    assert type(n + 1) is torch.Tensor
loc = torch.zeros(3, requires_grad=True)
d = Shifted(loc)
(
    d.log_prob(d.rsample((5,)).detach()).mean() + kl_divergence(d, Shifted(torch.ones(3))).sum()
).backward()
assert d.sample((2,)).shape == (2, 3) and loc.grad is not None
print("ok")
