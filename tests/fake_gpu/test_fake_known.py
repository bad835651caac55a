"""What batch norm's backward does not read behind an activation: by the names of kernels, over a
driver without a GPU. (Bits are compared by tests/cpp/test_cuda_known.cpp and tests/cuda.)"""

import json

import pytest

PROGRAM = """
import json, time
from rushlight.profiler import ProfilerActivity, profile
nn, F = rl.nn, rl.nn.functional
SIZES = (8, 32, 16, 16)
def conv():
    return nn.Conv2d(32, 32, 1, bias=False).cuda()
class Layer(nn.Module):
    def __init__(self, activation, affine=True):
        super().__init__()
        self.first, self.last = conv(), conv()
        self.norm, self.activation = nn.BatchNorm2d(32, affine=affine).cuda(), activation
    def forward(self, x):
        self.x = self.first(x)
        self.y = self.activation(self.norm(self.x))
        return self.last(self.y)
WAIT = {"wait_for_code": True}
def backward(layer, between=lambda: None, dtype=rl.float32):
    # The names of the kernels of a backward pass, after something was done.
    image = rl.ones(*SIZES, device="cuda", dtype=dtype)
    image = image.to(memory_format=rl.channels_last).requires_grad_()
    run = rl.compile(layer, options=WAIT)
    def clear():
        layer.zero_grad()
        image.grad = None
    run(image).sum().backward()
    while rl._C._frozen_awaits_code():  # kernels are compiled beside the program
        time.sleep(0.01)
    clear()
    loss = run(image).sum()
    between()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        loss.backward()
    names = [e.name for e in seen.events() if e.activity == "kernel"]
    return [n.split("rush::", 1)[-1] for n in names]
def known(names):
    # Passes of backward that compute what they do not read: for the sums, for the gradient.
    known = [n for n in names if "Normalize" in n]
    return [sum("fused_channel_sums" in n for n in known),
            sum("fused_channel_map" in n and "InputGrad" in n for n in known)]
def show(*found):
    print(json.dumps(found))
"""


@pytest.fixture
def shown(run_with_cudnn):
    """shown(code): what the program's last line shows."""
    return lambda code: json.loads(run_with_cudnn(PROGRAM + code)[-1])


@pytest.mark.parametrize(
    "activation", ["F.relu", "F.relu6", "F.relu_", "nn.ReLU6(inplace=True)", "F.hardtanh"]
)
def test_both_passes_compute_the_activations_result(shown, activation):
    names, found = shown(f"names = backward(Layer({activation})); show(names, known(names))")
    assert found == [1, 1], names
    # The gradient behind the activation is no step of its own, and the norm's passes are these two.
    assert not any("ThresholdBackward" in n or "HardtanhBackward" in n for n in names)
    assert not any(n.startswith(("channel_map", "channel_sums", "channel_norm")) for n in names)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_norms_of_all_types_with_and_without_parameters(shown, dtype):
    found = shown(f"""
def layer(affine):
    return Layer(F.relu, affine).to(rl.{dtype})
show(*(known(backward(layer(affine), dtype=rl.{dtype})) for affine in (True, False)))
""")
    assert found == [[1, 1], [1, 1]]


def test_other_results_are_read(shown):
    """A sum before the activation, or an activation that computes more than comparisons."""
    assert shown("""
class Sum(Layer):
    def forward(self, x):
        x = self.first(x)
        return self.last(F.relu(self.norm(x) + x))
class Twice(Layer):  # the gradient of another norm of the same image
    def forward(self, x):
        x = self.first(x)
        return self.last(F.relu(self.norm(x)) + F.relu(self.other(x)))
twice = Twice(F.relu)
twice.other = nn.BatchNorm2d(32).cuda()
class Square(Layer):  # whose gradient reads the result once more
    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        return self.last(y * y)
show(*(known(backward(layer)) for layer in (Sum(F.relu), Layer(F.silu), Square(F.relu), twice)))
""") == [[0, 0], [0, 0], [0, 0], [2, 2]]


def test_a_gradient_that_is_computed_is_written_for_the_second_pass(shown):
    assert shown("""
class Both(Layer):
    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        return self.last(y) + self.other(y)
both = Both(F.relu)
both.other = conv()
show(known(backward(both)))
""") == [[1, 0]]


WRITES = {
    "nothing": "None",
    "the result": "layer.y.data.add_(1)",
    "the image": "layer.x.data.zero_()",
    "the weight": "layer.norm.weight.data.mul_(2)",
    "the bias": "layer.norm.bias.data.mul_(2)",
    "all parameters": "rl._foreach_add_([p.data for p in layer.norm.parameters()], 1)",
    "an address": "layer.norm.bias.data_ptr()",
    "a graph": "graph.replay()",
    "another tensor": "rl.ones(3, device='cuda').add_(1)",
    "running statistics": "layer.norm.running_mean.add_(1)",
}


def test_what_is_written_to_in_between_is_read(shown):
    found = shown(f"""
layer = Layer(F.relu)
one = rl.ones(3, device="cuda")
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    one.add_(1)
writes = {WRITES!r}
for name, code in writes.items():
    if name == "an address":
        continue  # it stays known for good
    writes[name] = known(backward(layer, lambda code=code: exec(code)))
writes["an address"] = known(backward(layer, layer.norm.bias.data_ptr))
show(writes, known(backward(layer)))
""")
    may_be_known = {"nothing", "another tensor", "running statistics"}
    assert {n for n, passes in found[0].items() if passes == [1, 1]} == may_be_known
    assert all(passes in ([1, 1], [0, 0]) for passes in found[0].values())
    assert found[1] == [0, 0]  # the bias may be written to unseen from now on


def test_a_gradient_that_is_held_is_written_once(shown):
    """By whoever holds it: it comes with one of the two passes."""
    held, free = shown("""
class Held(Layer):
    def forward(self, x):
        normal = self.norm(self.first(x))
        normal.retain_grad()
        return self.last(F.relu(normal))
show(backward(Held(F.relu)), backward(Layer(F.relu)))
""")
    assert len(held) == len(free)


def test_nothing_lives_longer_for_it(shown):
    """Neither the image that a result was made of, nor what watches writes."""
    found = shown("""
layer = Layer(F.relu)
run = rl.compile(layer, options=WAIT)
image = rl.ones(*SIZES, device="cuda").to(memory_format=rl.channels_last)
watchers = rl._C._deferred_counters()[-1]
held = []
for on in (False, True):
    rl._C._leave_origins(on)
    before = cuda.memory_allocated()
    run(image).sum().backward()
    layer.zero_grad()
    del layer.x
    y = layer.y.detach()
    del layer.y
    held.append(cuda.memory_allocated() - before)
    del y
    assert rl._C._deferred_counters()[-1] == watchers
loss = run(image).sum()
between = rl._C._deferred_counters()[-1]
del loss, layer.x, layer.y
show(held, between > watchers, rl._C._deferred_counters()[-1] == watchers)
""")
    assert found[0][0] >= 8 * 32 * 16 * 16 * 4
    assert found[0][1] - found[0][0] < 8 * 32 * 16 * 16 * 4
    assert found[1:] == [True, True]
