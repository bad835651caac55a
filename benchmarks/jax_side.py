"""The six models of table1_models.py in JAX, and one training step of each, jitted as a whole.

What a worker of jax_models.py runs in its own process: it needs JAX and NumPy, and not Rushlight.
Layers, sizes, losses and optimisers are those of table1_models.py, and so are the names of the
parameters, so that the weights of the one can be handed to the other.

Where JAX can say a thing in several ways, this is the one that XLA makes the most of: sums and
squares of a batch norm in one pass, a comparison in place of a scatter in the losses, indices
promised to be in bounds, random numbers by XLA's own generator, and donated buffers.
"""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from table1_models import PADDING, TASKS

EPS, RUNNING = 1e-5, 0.1  # of batch norms
MOMENTUM, DECAY = 0.9, 1e-4  # of SGD
BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Options:
    """How a model is made."""

    small: bool = False
    dropout: bool = True
    layout: str = "NHWC"
    reshaped_pools: bool = False  # a window without overlap is an axis of its own
    cudnn: bool = False  # the LSTM of jax.experimental.rnn
    tf32: bool = False  # in products too; convolutions and LSTMs use it anyway


class Net:
    """Layers that take their parameters by name; without values they only note the shapes."""

    def __init__(self, options, values=None, averages=None, key=None):
        self.options, self.values, self.averages, self.key = options, values, averages, key
        self.shapes = {}  # of the parameters
        self.new_averages = {}
        self.from_images = {}  # linear layers that read an image: its channels, height and width
        self.dropouts = itertools.count()
        self.channel = 3 if options.layout == "NHWC" else 1
        self.plane = (1, 2) if options.layout == "NHWC" else (2, 3)
        self.precision = None if options.tf32 else lax.Precision.HIGHEST

    def parameter(self, name, *shape):
        self.shapes[name] = shape
        return jnp.zeros(shape) if self.values is None else self.values[name]

    def product(self, pattern, *factors):
        return jnp.einsum(pattern, *factors, precision=self.precision)

    def conv(self, name, x, outputs, kernel, stride=1, padding=0, groups=1, bias=False):
        inputs, last = x.shape[self.channel] // groups, self.options.layout == "NHWC"
        shape = (kernel, kernel, inputs, outputs) if last else (outputs, inputs, kernel, kernel)
        weight = self.parameter(name + ".weight", *shape)
        kinds = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
        y = lax.conv_general_dilated(
            x, weight, (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=kinds, feature_group_count=groups,
        )  # fmt: skip
        return y + self._along(self.parameter(name + ".bias", outputs)) if bias else y

    def _along(self, vector):
        """A value per channel, to be broadcast over an image."""
        return vector if self.channel == 3 else vector[:, None, None]

    def batch_norm(self, name, x):
        channels = x.shape[self.channel]
        weight, bias = (self.parameter(f"{name}.{k}", channels) for k in ("weight", "bias"))
        axes = (0, *self.plane)
        count = x.size // channels
        mean = x.mean(axes)
        variance = jnp.maximum((x * x).mean(axes) - mean * mean, 0)
        seen = {"running_mean": mean, "running_var": variance * (count / (count - 1))}
        for kind, value in seen.items():
            key = f"{name}.{kind}"
            old = 0 if self.averages is None else self.averages[key]
            self.new_averages[key] = (1 - RUNNING) * old + RUNNING * lax.stop_gradient(value)
        factor = weight * lax.rsqrt(variance + EPS)
        return (x - self._along(mean)) * self._along(factor) + self._along(bias)

    def max_pool(self, x, kernel, stride, padding=0):
        height, width = (x.shape[axis] for axis in self.plane)
        if self.options.reshaped_pools and kernel == stride and not (height | width) % kernel:
            first, rest = self.plane[0], x.shape[self.plane[1] + 1 :]
            split = (height // kernel, kernel, width // kernel, kernel)
            return x.reshape(*x.shape[:first], *split, *rest).max((first + 1, first + 3))
        sizes = [1] * 4, [1] * 4, [(0, 0)] * 4
        for axis in self.plane:
            sizes[0][axis], sizes[1][axis], sizes[2][axis] = kernel, stride, (padding, padding)
        return lax.reduce_window(x, -jnp.inf, lax.max, *sizes)

    def average_pool(self, x, size):
        """AdaptiveAvgPool2d."""
        if size == 1:
            return x.mean(self.plane, keepdims=True)
        for axis in self.plane:
            length = x.shape[axis]
            if length == size:
                continue
            shares = np.zeros((size, length), np.float32)
            for i in range(size):
                first, end = i * length // size, -(-(i + 1) * length // size)
                shares[i, first:end] = 1 / (end - first)
            x = self.product("nl,...l->...n", shares, jnp.moveaxis(x, axis, -1))
            x = jnp.moveaxis(x, -1, axis)
        return x

    def linear(self, name, x, outputs, bias=True):
        """Takes an image too, flattened in the layout's own order."""
        if x.ndim == 4:
            height, width = (x.shape[axis] for axis in self.plane)
            self.from_images[name + ".weight"] = (x.shape[self.channel], height, width)
            x = x.reshape(len(x), -1)
        weight = self.parameter(name + ".weight", outputs, x.shape[-1])
        y = self.product("...i,oi->...o", x, weight)
        return y + self.parameter(name + ".bias", outputs) if bias else y

    def dropout(self, x, rate):
        if not self.options.dropout:
            return x
        key = jax.random.fold_in(self.key, next(self.dropouts))
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def embedding(self, name, indices, rows, width, padding=None):
        table = self.parameter(name + ".weight", rows, width)
        x = table.at[indices].get(mode="promise_in_bounds")
        if padding is None:
            return x
        return jnp.where((indices == padding)[..., None], lax.stop_gradient(x), x)

    def lstm(self, name, x, width, lengths=None, both_ways=False):
        """One layer over (batch, time, features), with zeros behind the lengths."""
        inputs, directions = x.shape[-1], ["", "_reverse"][: 1 + both_ways]
        if self.options.cudnn:
            from jax.experimental import rnn

            count = rnn.get_num_params_in_lstm(inputs, width, 1, both_ways)
            weights = self.parameter(name + ".packed", count)
            zeros = jnp.zeros((len(directions), len(x), width))
            steps = jnp.full(len(x), x.shape[1], jnp.int32) if lengths is None else lengths
            if self.values is None:
                return jnp.zeros((*x.shape[:2], width * len(directions)))
            return rnn.lstm(x, zeros, zeros, weights, steps, inputs, width, 1, 0.0, both_ways)[0]
        x = x.swapaxes(0, 1)
        valid = None
        if lengths is not None:
            valid = (jnp.arange(len(x))[:, None] < lengths).astype(x.dtype)[..., None]
        outputs = [self._recur(name + ".", "_l0" + d, x, width, valid, d != "") for d in directions]
        return jnp.concatenate(outputs, -1).swapaxes(0, 1)

    def _recur(self, name, end, x, width, valid, reverse):
        w_ih = self.parameter(f"{name}weight_ih{end}", 4 * width, x.shape[-1])
        w_hh = self.parameter(f"{name}weight_hh{end}", 4 * width, width)
        bias = sum(self.parameter(f"{name}bias_{k}{end}", 4 * width) for k in ("ih", "hh"))
        # Products without a precision are in TF32, as cuDNN's.
        gates = jnp.einsum("tbi,oi->tbo", x, w_ih) + bias

        def cell(carry, now):
            h, c = carry
            gate, inside = now
            i, f, g, o = jnp.split(gate + jnp.einsum("bi,oi->bo", h, w_hh), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            if inside is not None:
                # A row that has ended forwards, or not begun backwards, has nothing to remember.
                h, c = h * inside, c * inside
            return (h, c), h

        zeros = jnp.zeros((x.shape[1], width))
        return lax.scan(cell, (zeros, zeros), (gates, valid), reverse=reverse)[1]


# --- images -----------------------------------------------------------------------------------


def alexnet(net, data):
    a, b, c, d, wide = (8, 12, 16, 12, 32) if net.options.small else (64, 192, 384, 256, 4096)
    relu = jax.nn.relu
    x = relu(net.conv("0", data["images"], a, 11, stride=4, padding=2, bias=True))
    x = net.max_pool(x, 3, 2)
    x = relu(net.conv("3", x, b, 5, padding=2, bias=True))
    x = net.max_pool(x, 3, 2)
    for name, outputs in (("6", c), ("8", d), ("10", d)):
        x = relu(net.conv(name, x, outputs, 3, padding=1, bias=True))
    x = net.average_pool(net.max_pool(x, 3, 2), 6)
    x = relu(net.linear("16", net.dropout(x, 0.5), wide))
    x = relu(net.linear("19", net.dropout(x, 0.5), wide))
    return net.linear("21", x, 10 if net.options.small else 1000)


def vgg19(net, data):
    small = net.options.small
    width, wide = (4, 32) if small else (64, 4096)
    x, place = data["images"], 0
    for stage, count in enumerate((2, 2, 4, 4, 4)):
        for _ in range(count):
            outputs = width * min(2**stage, 8)
            x = jax.nn.relu(net.conv(str(place), x, outputs, 3, padding=1, bias=True))
            place += 2
        x = net.max_pool(x, 2, 2)
        place += 1
    x = net.average_pool(x, 2 if small else 7)
    for i in (place + 2, place + 5):
        x = net.dropout(jax.nn.relu(net.linear(str(i), x, wide)), 0.5)
    return net.linear(str(place + 8), x, 10 if small else 1000)


def resnet50(net, data):
    small = net.options.small
    width, counts = (4, (1, 1, 2, 1)) if small else (64, (3, 4, 6, 3))
    relu = jax.nn.relu
    x = relu(net.batch_norm("1", net.conv("0", data["images"], width, 7, 2, 3)))
    x = net.max_pool(x, 3, 2, 1)
    place = 4
    for stage, count in enumerate(counts):
        inner = width << stage
        for i in range(count):
            stride = 2 if stage and i == 0 else 1
            h = relu(net.batch_norm(f"{place}.bn1", net.conv(f"{place}.conv1", x, inner, 1)))
            h = net.conv(f"{place}.conv2", h, inner, 3, stride, 1)
            h = relu(net.batch_norm(f"{place}.bn2", h))
            h = net.batch_norm(f"{place}.bn3", net.conv(f"{place}.conv3", h, 4 * inner, 1))
            if stride != 1 or x.shape[net.channel] != 4 * inner:
                x = net.conv(f"{place}.downsample.0", x, 4 * inner, 1, stride)
                x = net.batch_norm(f"{place}.downsample.1", x)
            x = relu(h + x)
            place += 1
    return net.linear(str(place + 2), net.average_pool(x, 1), 10 if small else 1000)


def mobilenet_v2(net, data):
    small = net.options.small
    full = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    tiny = [(1, 4, 1, 1), (6, 8, 2, 2), (6, 8, 2, 1)]
    channels, last = (8, 32) if small else (32, 1280)

    def conv(prefix, place, x, outputs, kernel, stride=1, groups=1):
        x = net.conv(f"{prefix}{place}", x, outputs, kernel, stride, kernel // 2, groups)
        return jax.nn.relu6(net.batch_norm(f"{prefix}{place + 1}", x))

    x = conv("", 0, data["images"], channels, 3, 2)
    block = 3
    for expand, outputs, count, first_stride in tiny if small else full:
        for i in range(count):
            stride, inputs = first_stride if i == 0 else 1, x.shape[net.channel]
            name, place, h = f"{block}.conv.", 0, x
            if expand != 1:
                h, place = conv(name, 0, h, inputs * expand, 1), 3
            h = conv(name, place, h, inputs * expand, 3, stride, groups=inputs * expand)
            h = net.conv(f"{name}{place + 3}", h, outputs, 1)
            h = net.batch_norm(f"{name}{place + 4}", h)
            x = x + h if stride == 1 and inputs == outputs else h
            block += 1
    x = net.average_pool(conv("", block, x, last, 1), 1)
    x = net.dropout(x, 0.2)
    return net.linear(str(block + 6), x, 10 if small else 1000)


def image_loss(logits, data):
    return cross_entropy(logits, data["labels"]).mean()


def cross_entropy(logits, labels, smoothing=0.0):
    """A loss per row."""
    is_label = lax.broadcasted_iota(jnp.int32, logits.shape, 1) == labels[:, None]
    total = jax.nn.logsumexp(logits, -1)
    loss = (1 - smoothing) * (total - jnp.where(is_label, logits, 0).sum(-1))
    return loss + smoothing * (total - logits.mean(-1)) if smoothing else loss


# --- translation and recommendation -----------------------------------------------------------


def gnmt_v2(net, data):
    width, words = (16, 50) if net.options.small else (1024, 32_000)
    source, target = data["source"], data["target"][:, :-1]

    def embed(indices):
        return net.dropout(net.embedding("embedding", indices, words, width, PADDING), 0.2)

    keys = net.lstm("both_ways", embed(source), width, data["lengths"], both_ways=True)
    for i in range(3):
        h = net.lstm(f"encoder.{i}", net.dropout(keys, 0.2), width)
        keys = keys + h if i else h
    x = net.lstm("first", embed(target), width)

    queries = net.linear("attention.query", x, width, bias=False)[:, :, None]
    mixed = queries + net.linear("attention.key", keys, width, bias=False)[:, None]
    vector = net.parameter("attention.vector", width)
    vector = net.parameter("attention.scale", 1) * vector / jnp.sqrt((vector * vector).sum())
    # A sum of products and not a product of matrices: so the tanh is never written down.
    scores = (jnp.tanh(mixed + net.parameter("attention.bias", width)) * vector).sum(-1)
    scores = jnp.where((source == PADDING)[:, None], -65504.0, scores)
    context = net.product("bqk,bkw->bqw", jax.nn.softmax(scores), keys)
    for i in range(3):
        h = net.lstm(f"decoder.{i}", jnp.concatenate([net.dropout(x, 0.2), context], 2), width)
        x = x + h if i else h
    return net.linear("head", x, words)


def sentence_loss(logits, data):
    labels = data["target"][:, 1:].reshape(-1)
    losses = cross_entropy(logits.reshape(len(labels), -1), labels, smoothing=0.1)
    counted = labels != PADDING
    return jnp.where(counted, losses, 0).sum() / counted.sum()


def ncf(net, data):
    small = net.options.small
    users, items = (60, 40) if small else (138_493, 26_744)
    factors, layers = (4, (16, 16, 8, 4)) if small else (64, (256, 256, 128, 64))
    user, item = data["user"], data["item"]
    product = net.embedding("user_product", user, users, factors)
    product = product * net.embedding("item_product", item, items, factors)
    x = jnp.concatenate([net.embedding("user_mlp", user, users, layers[0] // 2),
                         net.embedding("item_mlp", item, items, layers[0] // 2)], 1)  # fmt: skip
    for i, outputs in enumerate(layers[1:]):
        x = jax.nn.relu(net.linear(f"mlp.{2 * i}", x, outputs))
    return net.linear("head", jnp.concatenate([product, x], 1), 1)[:, 0]


def interaction_loss(logits, data):
    smooth = jnp.log1p(jnp.exp(-jnp.abs(logits)))
    return (jnp.maximum(logits, 0) - logits * data["label"] + smooth).mean()


# --- training ---------------------------------------------------------------------------------


def sgd(parameters, gradients, state, small):
    rate = 0.01 if small else 1e-4
    old = state["moments"]
    moments = {k: MOMENTUM * old[k] + gradients[k] + DECAY * p for k, p in parameters.items()}
    return {k: p - rate * moments[k] for k, p in parameters.items()}, {"moments": moments}


def adam(parameters, gradients, state, small):
    count = state["count"] + 1
    first, second, new = {}, {}, {}
    for k, p in parameters.items():
        g = gradients[k]
        first[k] = BETA1 * state["first"][k] + (1 - BETA1) * g
        second[k] = BETA2 * state["second"][k] + (1 - BETA2) * g * g
        root = jnp.sqrt(second[k] / (1 - BETA2**count)) + ADAM_EPS
        new[k] = p - 1e-3 / (1 - BETA1**count) * first[k] / root
    return new, {"count": count, "first": first, "second": second}


MODELS = {
    "alexnet": (alexnet, image_loss, sgd),
    "vgg19": (vgg19, image_loss, sgd),
    "resnet50": (resnet50, image_loss, sgd),
    "mobilenet_v2": (mobilenet_v2, image_loss, sgd),
    "gnmt_v2": (gnmt_v2, sentence_loss, adam),
    "ncf": (ncf, interaction_loss, adam),
}


def inputs(model, options, batch, random):
    """A batch in the layout's order, in JAX's default types."""
    arrays = TASKS[model].inputs(batch, options.small, random)
    if options.layout == "NHWC" and "images" in arrays:
        arrays["images"] = arrays["images"].transpose(0, 2, 3, 1)
    kinds = {np.float32: jnp.zeros(()).dtype, np.int64: np.int32}
    return {k: np.ascontiguousarray(a, kinds[a.dtype.type]) for k, a in arrays.items()}


def noted(model, options, arrays):
    """A net that has noted its parameters, without computing anything."""
    net = Net(options)

    def forward(data, key):
        net.key = key
        return MODELS[model][0](net, data)

    jax.eval_shape(forward, arrays, jax.random.key(0, impl="rbg"))
    return net


def count_parameters(model, options):
    arrays = inputs(model, options, 2, np.random.default_rng(0))
    return sum(int(np.prod(shape)) for shape in noted(model, options, arrays).shapes.values())


class Training:
    """A model in training: `step()` is one whole step on one batch, always the same one."""

    def __init__(self, model, options, *, batch=None, seed=0, weights=None):
        self.options = options
        self.forward, self.loss_of, self.optimizer = MODELS[model]
        random = np.random.default_rng(seed)
        arrays = inputs(model, options, batch or TASKS[model].batch, random)
        self.noted = noted(model, options, arrays)
        shapes, averages = self.noted.shapes, self.noted.new_averages
        values = self.arranged(weights) if weights else initial(shapes, random)
        assert {k: v.shape for k, v in values.items()} == shapes, "parameters differ"
        self.data = {name: jnp.asarray(array) for name, array in arrays.items()}
        parameters = {name: jnp.asarray(value) for name, value in values.items()}
        kinds = ("first", "second") if self.optimizer is adam else ("moments",)
        state = {kind: {k: jnp.zeros_like(p) for k, p in parameters.items()} for kind in kinds}
        if self.optimizer is adam:
            state["count"] = jnp.zeros(())
        averages = {k: jnp.full(v.shape, float("var" in k)) for k, v in averages.items()}
        self.everything = [parameters, state, averages, jax.random.key(seed, impl="rbg")]
        self.jitted = jax.jit(self._step, donate_argnums=(0, 1, 2, 3))

    def arranged(self, weights):
        """Weights of table1_models.py, by name, in the shapes and orders that are used here."""
        out = {}
        for name, value in weights.items():
            if self.options.layout == "NHWC" and value.ndim == 4:
                value = value.transpose(2, 3, 1, 0)
            elif self.options.layout == "NHWC" and name in self.noted.from_images:
                image = value.reshape(-1, *self.noted.from_images[name])
                value = image.transpose(0, 2, 3, 1).reshape(value.shape)
            out[name] = value
        for name in self.noted.shapes:
            if name.endswith(".packed"):
                prefix = name.removesuffix("packed")
                ends = [e for e in ("_l0", "_l0_reverse") if f"{prefix}weight_ih{e}" in out]
                keys = [f"{prefix}{kind}_{part}{end}" for kind in ("weight", "bias")
                        for end in ends for part in ("ih", "hh")]  # fmt: skip
                out[name] = np.concatenate([out.pop(key).ravel() for key in keys])
        return out

    def _step(self, parameters, state, averages, key, data):
        key, now = jax.random.split(key)

        def loss_of(parameters):
            net = Net(self.options, parameters, averages, now)
            return self.loss_of(self.forward(net, data), data), net.new_averages

        gradient = jax.value_and_grad(loss_of, has_aux=True)
        (loss, averages), gradients = gradient(parameters)
        parameters, state = self.optimizer(parameters, gradients, state, self.options.small)
        return parameters, state, averages, key, loss

    def step(self):
        """Returns the loss before the step."""
        *self.everything, loss = self.jitted(*self.everything, self.data)
        return loss

    def wait(self):
        jax.block_until_ready(self.everything)


def initial(shapes, random):
    """Weights for measuring time: of the usual size, so that nothing overflows."""
    values = {}
    for name, shape in shapes.items():
        if name.endswith("packed") or len(shape) > 1:
            inputs = np.prod(shape) / max(shape) if len(shape) > 1 else 1024
            values[name] = random.standard_normal(shape, dtype=np.float32)
            values[name] *= np.float32((1.5 / inputs) ** 0.5)
        else:
            values[name] = np.full(shape, float(name.endswith("weight")), np.float32)
    return values
