"""Whole models in C++: what Python traced gives Python's bits there, before and after a step."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "benchmarks")]
import cpp_build  # noqa: E402
import table1_models  # noqa: E402
from test_models import GPTBlock, LSTMTagger  # noqa: E402

pytestmark = pytest.mark.slow


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.norm, self.up = nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down1(x).relu()
        b = self.norm(self.down2(F.max_pool2d(a, 2))).relu()
        up = F.interpolate(self.up(b), size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.out(rl.cat([a, up], 1)).sigmoid()


def squares(output):
    parts = output if isinstance(output, tuple) else (output,)
    return sum(part.square().mean() for part in parts)


class WithLoss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net(*inputs)

    def loss(self, *inputs):
        return squares(self.net(*inputs))


def of_table1(name):
    """A model of the PyTorch paper's Table 1, small, with its inputs."""
    net = getattr(table1_models, name)(rl, True, True)
    random = np.random.default_rng(0)
    if name == "gnmt_v2":
        data = table1_models.sentence_inputs(3, True, random)
        data["target"] = data["target"][:, :-1].copy()
    elif name == "ncf":
        data = table1_models.interaction_inputs(5, True, random)
        del data["label"]
    else:
        data = table1_models.image_inputs(2, True, random)
        del data["labels"]
    return net, tuple(map(rl.as_tensor, data.values()))


MODELS = {
    **{name: lambda name=name: of_table1(name)
       for name in ("alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt_v2", "ncf")},
    "gpt": lambda: (GPTBlock(), (rl.randint(0, 50, (2, 11)),)),
    "lstm": lambda: (LSTMTagger(), (rl.randn(2, 7, 12),)),
    "unet": lambda: (UNet(), (rl.randn(2, 1, 8, 8),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    site = cpp_build.installed(tmp_path_factory.mktemp("site"))
    return cpp_build.built(HERE / "cpp", site, tmp_path_factory.mktemp("step")) / "step"


def sum_of(output, total=0xCBF29CE484222325):
    """As step.cpp forms it."""
    for part in output if isinstance(output, tuple) else (output,):
        for byte in part.numpy().tobytes():
            total = (total ^ byte) * 0x100000001B3 % 2**64
    return total


@pytest.mark.filterwarnings("ignore::rushlight.jit.TracerWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_step_in_cpp_has_the_bits_of_python(name, step, tmp_path):
    net, inputs = MODELS[name]()
    net = WithLoss(net)
    traced = rl.jit.trace_module(net, {"forward": inputs, "loss": inputs})
    rl.jit.save(traced, tmp_path / "model.rush")
    rl.jit.save(rl.jit.trace(lambda: inputs, ()), tmp_path / "inputs.rush")
    files = [tmp_path / f"{part}.rush" for part in ("model", "inputs", "after")]
    outputs, loss = cpp_build.run(step, *files, env=cpp_build.ENVIRONMENT).splitlines()

    with rl.no_grad():
        rl.manual_seed(7)
        assert int(outputs, 16) == sum_of(net(*inputs))
    optimizer = rl.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    rl.manual_seed(8)
    here = net.loss(*inputs)
    here.backward()
    optimizer.step()
    assert float.fromhex(loss) == here.item()
    after = rl.jit.load(files[2]).state_dict()
    assert list(after) == list(net.state_dict())
    different = [k for k, v in net.state_dict().items() if not rl.equal(v, after[k])]
    assert different == []
