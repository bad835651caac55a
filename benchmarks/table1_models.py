"""The six models of the PyTorch paper's Table 1, and one training step of each.

Written once for both libraries: every function takes the module, Rushlight's or PyTorch's, as its
argument `torch`. `small` variants have the same structure and run in milliseconds.
"""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass
class Task:
    """A model with what belongs to its training."""

    items: str  # what throughput counts
    batch: int  # on a CPU with few cores
    make: callable  # (torch, small, dropout) -> model
    inputs: callable  # (batch, small, random) -> arrays by name
    loss: callable  # (torch, model, data) -> scalar
    optimizer: callable  # (torch, parameters, small) -> optimiser
    items_in: callable = len  # of the first array


# --- images -----------------------------------------------------------------------------------


def alexnet(torch, small, dropout):
    """The variant of Krizhevsky's "One weird trick" (2014), the one that torchvision has."""
    nn = torch.nn
    a, b, c, d, wide = (8, 12, 16, 12, 32) if small else (64, 192, 384, 256, 4096)
    return nn.Sequential(
        nn.Conv2d(3, a, 11, stride=4, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(a, b, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.Conv2d(b, c, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(c, d, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(d, d, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2),
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(),
        nn.Dropout(dropout * 0.5),
        nn.Linear(d * 36, wide),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout * 0.5),
        nn.Linear(wide, wide),
        nn.ReLU(inplace=True),
        nn.Linear(wide, 10 if small else 1000),
    )


def vgg19(torch, small, dropout):
    """Simonyan and Zisserman (2014), configuration E."""
    nn = torch.nn
    width, wide = (4, 32) if small else (64, 4096)
    layers, channels = [], 3
    for stage, count in enumerate((2, 2, 4, 4, 4)):
        for _ in range(count):
            outputs = width * min(2**stage, 8)
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    side = 2 if small else 7
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(side),
        nn.Flatten(),
        nn.Linear(channels * side * side, wide),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout * 0.5),
        nn.Linear(wide, wide),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout * 0.5),
        nn.Linear(wide, 10 if small else 1000),
    )


def resnet50(torch, small, dropout):
    """He and others (2015); the stride is in the 3x3 convolution, as torchvision has it."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != 4 * width:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
                )

        def forward(self, x):
            h = self.relu(self.bn1(self.conv1(x)))
            h = self.relu(self.bn2(self.conv2(h)))
            h = self.bn3(self.conv3(h))
            h += x if self.downsample is None else self.downsample(x)
            return self.relu(h)

    width, counts = (4, (1, 1, 2, 1)) if small else (64, (3, 4, 6, 3))
    blocks, channels = [], width
    for stage, count in enumerate(counts):
        for i in range(count):
            stride = 2 if stage and i == 0 else 1
            blocks.append(Bottleneck(channels, width << stage, stride))
            channels = 4 * (width << stage)
    model = nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10 if small else 1000),
    )
    return kaiming(torch, model)


def mobilenet_v2(torch, small, dropout):
    """Sandler and others (2018), width 1."""
    nn = torch.nn

    def conv(inputs, outputs, kernel, stride=1, groups=1):
        return [
            nn.Conv2d(
                inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False
            ),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(inplace=True),
        ]  # fmt: skip

    class InvertedResidual(nn.Module):
        def __init__(self, inputs, outputs, stride, expand):
            super().__init__()
            hidden = inputs * expand
            layers = conv(inputs, hidden, 1) if expand != 1 else []
            layers += conv(hidden, hidden, 3, stride, groups=hidden)
            layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
            self.conv = nn.Sequential(*layers)
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.conv(x) if self.residual else self.conv(x)

    full = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    tiny = [(1, 4, 1, 1), (6, 8, 2, 2), (6, 8, 2, 1)]
    channels, last = (8, 32) if small else (32, 1280)
    layers = conv(3, channels, 3, 2)
    for expand, outputs, count, stride in tiny if small else full:
        for i in range(count):
            layers.append(InvertedResidual(channels, outputs, stride if i == 0 else 1, expand))
            channels = outputs
    model = nn.Sequential(
        *layers,
        *conv(channels, last, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(dropout * 0.2),
        nn.Linear(last, 10 if small else 1000),
    )
    return kaiming(torch, model)


def kaiming(torch, model):
    """The convolutions as torchvision initialises those that are followed by a batch norm."""
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out")
    return model


def image_inputs(batch, small, random):
    size, classes = (64, 10) if small else (224, 1000)
    images = random.standard_normal((batch, 3, size, size), dtype=np.float32)
    return {"images": images, "labels": random.integers(0, classes, batch)}


def image_loss(torch, model, data):
    return torch.nn.functional.cross_entropy(model(data["images"]), data["labels"])


def image_optimizer(torch, parameters, small):
    # A small rate for the large models: otherwise the last bits of the first step's sums decide
    # about the tenth's loss, and PyTorch on one thread and on two differs by some percent.
    rate = 0.01 if small else 1e-4
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=1e-4)


# --- translation ------------------------------------------------------------------------------

PADDING = 0


def gnmt_v2(torch, small, dropout):
    """MLPerf's GNMT v2: four LSTM layers per side, normalised additive attention, residuals."""
    nn, rnn = torch.nn, torch.nn.utils.rnn
    width, words = (16, 50) if small else (1024, 32_000)

    class Attention(nn.Module):
        """score(q, k) = g v/|v| . tanh(W q + U k + b)"""

        def __init__(self):
            super().__init__()
            self.query = nn.Linear(width, width, bias=False)
            self.key = nn.Linear(width, width, bias=False)
            self.vector = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
            self.scale = nn.Parameter(torch.full((1,), width**-0.5))
            self.bias = nn.Parameter(torch.zeros(width))

        def forward(self, queries, keys, padding):
            mixed = self.query(queries).unsqueeze(2) + self.key(keys).unsqueeze(1) + self.bias
            scores = torch.tanh(mixed) @ (self.scale * self.vector / self.vector.norm())
            weights = scores.masked_fill(padding.unsqueeze(1), -65504.0).softmax(-1)
            return torch.bmm(weights, keys)

    class GNMT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width, padding_idx=PADDING)
            self.dropout = nn.Dropout(dropout * 0.2)
            self.both_ways = nn.LSTM(width, width, batch_first=True, bidirectional=True)
            self.encoder = nn.ModuleList(
                nn.LSTM(width if i else 2 * width, width, batch_first=True) for i in range(3)
            )
            self.first = nn.LSTM(width, width, batch_first=True)
            self.attention = Attention()
            self.decoder = nn.ModuleList(
                nn.LSTM(2 * width, width, batch_first=True) for _ in range(3)
            )
            self.head = nn.Linear(width, words)

        def encode(self, source, lengths):
            x = self.dropout(self.embedding(source))
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True)
            x, _ = rnn.pad_packed_sequence(self.both_ways(packed)[0], batch_first=True)
            x, _ = self.encoder[0](self.dropout(x))
            for layer in self.encoder[1:]:  # residuals from the third layer on
                x = x + layer(self.dropout(x))[0]
            return x

        def forward(self, source, lengths, target):
            keys = self.encode(source, lengths)
            x, _ = self.first(self.dropout(self.embedding(target)))
            context = self.attention(x, keys, source == PADDING)
            for i, layer in enumerate(self.decoder):
                h, _ = layer(torch.cat([self.dropout(x), context], dim=2))
                x = x + h if i else h
            return self.head(x)

    return GNMT()


def sentence_inputs(batch, small, random):
    words, longest = (50, 7) if small else (32_000, 25)
    lengths = np.sort(random.integers(longest // 2, longest + 1, batch))[::-1].copy()
    lengths[0] = longest
    source = random.integers(1, words, (batch, longest))
    source[np.arange(longest) >= lengths[:, None]] = PADDING
    target = random.integers(1, words, (batch, longest + 1))
    target[:, 1:][np.arange(longest) >= lengths[::-1, None]] = PADDING
    return {"source": source, "lengths": lengths, "target": target}


def sentence_loss(torch, model, data):
    source, lengths, target = data["source"], data["lengths"], data["target"]
    logits = model(source, lengths, target[:, :-1])
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1),
        target[:, 1:].flatten(),
        ignore_index=PADDING,
        label_smoothing=0.1,
    )


# --- recommendation ---------------------------------------------------------------------------


def ncf(torch, small, dropout):
    """He and others (2017), NeuMF, with the sizes of MovieLens-20M."""
    nn = torch.nn
    users, items = (60, 40) if small else (138_493, 26_744)
    factors, layers = (4, (16, 16, 8, 4)) if small else (64, (256, 256, 128, 64))

    class NeuMF(nn.Module):
        def __init__(self):
            super().__init__()
            self.user_product = nn.Embedding(users, factors)
            self.item_product = nn.Embedding(items, factors)
            self.user_mlp = nn.Embedding(users, layers[0] // 2)
            self.item_mlp = nn.Embedding(items, layers[0] // 2)
            stack = []
            for inputs, outputs in itertools.pairwise(layers):
                stack += [nn.Linear(inputs, outputs), nn.ReLU()]
            self.mlp = nn.Sequential(*stack)
            self.head = nn.Linear(factors + layers[-1], 1)
            for embedding in (self.user_product, self.item_product, self.user_mlp, self.item_mlp):
                nn.init.normal_(embedding.weight, std=0.01)

        def forward(self, user, item):
            product = self.user_product(user) * self.item_product(item)
            mlp = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], dim=1))
            return self.head(torch.cat([product, mlp], dim=1)).squeeze(1)

    return NeuMF()


def interaction_inputs(batch, small, random):
    users, items = (60, 40) if small else (138_493, 26_744)
    labels = (random.random(batch) < 0.2).astype(np.float32)
    return {
        "user": random.integers(0, users, batch),
        "item": random.integers(0, items, batch),
        "label": labels,
    }


def interaction_loss(torch, model, data):
    logits = model(data["user"], data["item"])
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, data["label"])


def adam(torch, parameters, small):
    return torch.optim.Adam(parameters, lr=1e-3)


# --- all of them ------------------------------------------------------------------------------


def images(make, batch):
    return Task("images", batch, make, image_inputs, image_loss, image_optimizer)


TASKS = {
    "alexnet": images(alexnet, 32),
    "vgg19": images(vgg19, 8),
    "resnet50": images(resnet50, 16),
    "mobilenet_v2": images(mobilenet_v2, 16),
    "gnmt_v2": Task(
        "tokens", 16, gnmt_v2, sentence_inputs, sentence_loss, adam,
        items_in=lambda source: 2 * int((source != PADDING).sum()),
    ),
    "ncf": Task("samples", 8192, ncf, interaction_inputs, interaction_loss, adam),
}  # fmt: skip


class Training:
    """A model in training: `step()` is one whole step on one batch, always the same one."""

    def __init__(self, torch, name, *, batch=None, small=False, dropout=True, seed=0, dtype=None,
                 device=None, channels_last=False, autocast=None, capturable=False):  # fmt: skip
        task = TASKS[name]
        random = np.random.default_rng(seed)
        arrays = task.inputs(batch or task.batch, small, random)
        self.torch, self.task = torch, task
        self.device, self.autocast = device or "cpu", autocast
        self.items = task.items_in(next(iter(arrays.values())))
        self.data = {key: torch.from_numpy(array) for key, array in arrays.items()}
        torch.manual_seed(seed)
        self.model = task.make(torch, small, float(dropout))
        if dtype is not None:
            self.model.to(dtype)
            self.data = {
                k: t.to(dtype) if t.is_floating_point() else t for k, t in self.data.items()
            }
        if device is not None:
            self.model.to(device)
            # Lengths of sequences are the host's business in either library.
            self.data = {k: t if k == "lengths" else t.to(device) for k, t in self.data.items()}
        if channels_last:
            self.model.to(memory_format=torch.channels_last)
            self.data = {
                k: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t
                for k, t in self.data.items()
            }
        self.optimizer = task.optimizer(torch, self.model.parameters(), small)
        if capturable and "capturable" in self.optimizer.defaults:
            for group in self.optimizer.param_groups:
                group["capturable"] = True

    def loss(self):
        if self.autocast is None:
            return self.task.loss(self.torch, self.model, self.data)
        with self.torch.autocast(self.device, dtype=self.autocast):
            return self.task.loss(self.torch, self.model, self.data)

    def step(self):
        """Returns the loss before the step."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss

    def losses(self, steps):
        return [self.step().item() for _ in range(steps)]

    def capture(self):
        """The whole step as a CUDA graph: afterwards `step()` replays it."""
        cuda = self.torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            for _ in range(3):
                self.step()
        cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            loss = self.loss()
            loss.backward()
            self.optimizer.step()
        self.graph = graph

        def replay():
            graph.replay()
            return loss

        self.step = replay

    def flops(self):
        """Floating point operations of one step's convolutions and products, from one forward.

        Backward takes twice the forward's: a gradient for the weights and one for the inputs. The
        first layer of an image model has no gradient for its inputs.
        """
        nn = self.torch.nn
        counts = []

        def count(module, inputs, output):
            x = inputs[0]
            if isinstance(module, nn.LSTM):
                tokens = x.data.shape[0] if hasattr(x, "batch_sizes") else x.shape[0] * x.shape[1]
                weights = sum(w.numel() for n, w in module.named_parameters() if "weight" in n)
                multiplications = tokens * weights
            elif isinstance(module, nn.Linear):
                multiplications = output.numel() * module.in_features
            else:
                multiplications = output.numel() * module.weight[0].numel()
            needs_input_gradient = not (isinstance(x, self.torch.Tensor) and x.dim() == 4
                                        and x.shape[1] == 3)  # fmt: skip
            counts.append(2 * multiplications * (3 if needs_input_gradient else 2))

        layers = (nn.Conv2d, nn.Linear, nn.LSTM)
        hooks = [m.register_forward_hook(count) for m in self.model.modules()
                 if isinstance(m, layers)]  # fmt: skip
        with self.torch.no_grad():
            self.task.loss(self.torch, self.model, self.data)
        for hook in hooks:
            hook.remove()
        return sum(counts)


def fill_weights(torch, model, seed=0):
    """Gives the model weights that depend on names and shapes only, in whichever library."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.dim() > 1:
                fan_in = int(np.prod(p.shape[1:]))
                p.copy_(torch.from_numpy(random.standard_normal(p.shape) * (1.5 / fan_in) ** 0.5))
            else:
                p.copy_(p.new_full(p.shape, 1.0 if name.endswith("weight") else 0.01))
