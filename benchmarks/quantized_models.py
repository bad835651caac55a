"""Models to be quantized, for both libraries: `lib` is rushlight or torch.

All parameters and inputs come from NumPy's generator, so that both sides compute the same.
"""

import importlib
import warnings

import numpy as np

warnings.filterwarnings("ignore")  # PyTorch tells with every call that its eager mode is old


def _modules(lib):
    names = ("nn", "ao.quantization", "ao.nn.quantized")
    return [importlib.import_module(f"{lib.__name__}.{name}") for name in names]


def numbers(lib, *shape, seed=1):
    """Standard normal numbers."""
    return lib.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def fill(lib, model, seed=0):
    """Parameters as He and others draw them, and statistics of norms that are not trivial."""
    rng = np.random.default_rng(seed)
    with lib.no_grad():
        for name, value in model.state_dict().items():
            if "running_mean" in name or name.endswith("bias"):
                drawn = rng.standard_normal(tuple(value.shape)) * 0.1
            elif value.dim() > 1:
                drawn = rng.standard_normal(tuple(value.shape)) * (2 / value[0].numel()) ** 0.5
            elif value.dim() == 1:
                drawn = rng.uniform(0.5, 1.0, tuple(value.shape))
            else:
                continue
            value.copy_(lib.from_numpy(np.asarray(drawn, dtype=np.float32)))
    return model.eval()


def resnet18(lib, classes=1000):
    """ResNet-18 between stubs, with its sums as modules."""
    nn, aq, nnq = _modules(lib)

    class Block(nn.Module):
        def __init__(self, before, channels, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
            self.bn1, self.relu1 = nn.BatchNorm2d(channels), nn.ReLU()
            self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
            self.bn2, self.sum = nn.BatchNorm2d(channels), nnq.FloatFunctional()
            self.short = None
            if stride > 1 or before != channels:
                conv = nn.Conv2d(before, channels, 1, stride, bias=False)
                self.short = nn.Sequential(conv, nn.BatchNorm2d(channels))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
            return self.sum.add_relu(y, x if self.short is None else self.short(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
            self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
            self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
            sizes = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
            self.blocks = nn.Sequential(
                *(b for a, c, s in sizes for b in (Block(a, c, s), Block(c, c, 1)))
            )
            self.mean, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, classes)

        def forward(self, x):
            x = self.pool(self.relu(self.bn(self.conv(self.quant(x)))))
            return self.dequant(self.fc(self.mean(self.blocks(x)).flatten(1)))

    return fill(lib, ResNet())


def resnet18_int8(lib, backend="x86", images=8, size=224):
    """The same with integers, observed over one batch of random images: PyTorch joins the
    histograms of several in another way."""
    _, aq, _ = _modules(lib)
    lib.backends.quantized.engine = backend
    model = resnet18(lib)
    groups = [["conv", "bn", "relu"]]
    for i, block in enumerate(model.blocks):
        at = f"blocks.{i}."
        groups += [[at + n for n in ("conv1", "bn1", "relu1")], [at + "conv2", at + "bn2"]]
        if block.short is not None:
            groups.append([at + "short.0", at + "short.1"])
    model.qconfig = aq.get_default_qconfig(backend)
    seen = aq.prepare(aq.fuse_modules(model, groups))
    with lib.no_grad():
        seen(numbers(lib, images, 3, size, size, seed=10))
    return aq.convert(seen)


def lstm(lib, width=512, layers=2):
    """Two layers of long short-term memory."""
    nn, _, _ = _modules(lib)
    return fill(lib, nn.LSTM(width, width, layers))


def mlp(lib, width=768):
    """What follows the attention in a transformer's layer, twice."""
    nn, _, _ = _modules(lib)
    half = lambda: (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))  # noqa: E731
    return fill(lib, nn.Sequential(*half(), *half()))


def dynamic(lib, model):
    """The model with weights in int8."""
    nn, aq, _ = _modules(lib)
    lib.backends.quantized.engine = "x86"
    whole = nn.Sequential(model) if isinstance(model, nn.LSTM) else model
    made = aq.quantize_dynamic(whole, {nn.Linear, nn.LSTM})
    return made[0] if isinstance(model, nn.LSTM) else made
