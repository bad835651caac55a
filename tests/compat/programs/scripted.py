"""jit.script and jit.trace make programs; compile, library, profiler."""

import io

import torch
import torch._dynamo
import torch.fx
import torch.jit
import torch.profiler
from torch import nn
from torch.jit import Final


@torch.jit.script
def fused(x, y: torch.Tensor | None = None) -> torch.Tensor:
    if torch.jit.is_scripting() or y is None:
        return x
    return x * torch.sigmoid(1.702 * y)


class Net(torch.jit.ScriptModule):
    __constants__ = ["scale"]
    scale: Final[int]

    def __init__(self):
        super().__init__()
        self.scale = 2
        self.fc = nn.Linear(2, 2)

    @torch.jit.script_method
    def forward(self, x):
        return self.fc(x) * self.scale

    @torch.jit.export
    def twice(self, x):
        return self.forward(self.forward(x))

    @torch.jit.ignore
    def debug(self, x):
        return str(x)

    @torch.jit.unused
    def rare(self, x):
        return x


@torch.compile
def plain(x):
    return x + 1


@torch.compile(mode="reduce-overhead", fullgraph=True, dynamic=False)
def tuned(x):
    return x * 2


@torch.compiler.disable
def outside(x):
    return x


@torch.compiler.disable(recursive=False)
def outside_too(x):
    return x


@torch.library.custom_op("mylib::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


scale.register_autograd(
    lambda ctx, g: (g * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)
torch.fx.wrap("len")
torch._dynamo.config.cache_size_limit = 64
torch._dynamo.config.suppress_errors = True
torch._dynamo.reset()

x = torch.ones(2, 2, requires_grad=True)
assert torch.equal(fused(x), x) and fused(x, x).shape == (2, 2)
assert torch.equal(torch.jit.script(Net()).twice(x), torch.jit.script(Net()).twice(x)) is False
net = Net()
traced = torch.jit.trace(net, x)
assert torch.equal(traced(x), net(x)) and net.twice(x).shape == (2, 2)
assert (
    torch.equal(plain(x), x + 1) and torch.equal(tuned(x), 2 * x) and outside(x) is outside_too(x)
)
compiled = torch.compile(nn.Linear(2, 2), backend="inductor")
assert compiled(x).shape == (2, 2) and compiled.weight is compiled._orig_mod.weight
compiled.eval()
assert not compiled._orig_mod.training
assert not torch.compiler.is_compiling() and not torch.jit.is_tracing()
assert torch.jit.annotate(list[int], []) == [] and torch.jit.isinstance([1], list[int])
assert not torch.jit.isinstance({"a": "b"}, dict[str, int])
scale(x, 3.0).sum().backward()
assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
assert torch.ops.mylib.scale(x, 2.0).shape == (2, 2)
assert torch.jit.fork(lambda a: a + 1, 1).wait() == 2
buffer = io.BytesIO()
torch.jit.save(traced, buffer)
buffer.seek(0)
assert torch.equal(torch.jit.load(buffer)(x), net(x))
try:
    torch.jit.save(nn.Linear(2, 2), "never.pt")
except TypeError as error:
    assert "state_dict" in str(error)
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU],
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
) as prof:
    for _ in range(4):
        with torch.profiler.record_function("work"):
            torch.ones(10).sum()
        prof.step()
assert "work" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
with torch.autograd.profiler.profile() as prof, torch.autograd.profiler.record_function("part"):
    torch.ones(3).sum()
with torch.backends.cuda.sdp_kernel(enable_flash=False), torch.backends.cudnn.flags(enabled=True):
    pass
print("ok")
