"""Programs on a GPU: traced there, or traced on the CPU and moved."""

import io

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 36, 10)
        self.scale = rl.tensor([2.0])  # becomes a constant

    def forward(self, x):
        x = self.norm(self.conv(x)).relu()
        shift = rl.zeros(x.size(0), 1, device=x.device)
        return self.fc(x.view(x.size(0), -1)) * self.scale.to(x.device) + shift


def results_of(module, x, target):
    """The loss and the gradients of one step."""
    module.zero_grad()
    loss = F.cross_entropy(module(x), target)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in module.parameters())]


def check_same(program, net):
    x, target = rl.randn(5, 3, 8, 8, device="cuda"), rl.randint(0, 10, (5,), device="cuda")
    for found, right in zip(
        results_of(program, x, target), results_of(net, x, target), strict=True
    ):
        assert found.is_cuda
        rl.testing.assert_close(found, right)


def test_a_program_traced_on_the_gpu():
    net = Net().cuda()
    traced = rl.jit.trace(net, rl.randn(2, 3, 8, 8, device="cuda"))
    check_same(traced, net)
    loaded = rl.jit.load(io.BytesIO(traced.save_to_buffer()))
    assert loaded.fc.weight.is_cuda
    loaded.load_state_dict(net.state_dict())
    check_same(loaded, net)
    on_cpu = rl.jit.load(io.BytesIO(traced.save_to_buffer()), map_location="cpu")
    assert on_cpu(rl.randn(2, 3, 8, 8)).is_cpu


def test_a_program_moved_to_the_gpu():
    net = Net()
    data = rl.jit.trace(net, rl.randn(2, 3, 8, 8)).save_to_buffer()
    moved = rl.jit.load(io.BytesIO(data)).to("cuda")
    mapped = rl.jit.load(io.BytesIO(data), map_location="cuda")
    net.cuda()
    for program in (moved, mapped):
        program.load_state_dict(net.state_dict())
        check_same(program, net)
