"""ResNet-50's training step in JAX, jitted as a whole: a peer for table1.py on a GPU.

    python benchmarks/jax_resnet50.py --batch 64 [--steps 5] [--rounds 5] [--autocast]

Plain jax.numpy and jax.lax, NHWC as JAX prefers it, the same sizes, loss and SGD with momentum
and weight decay as table1_models.py. The last line of the output is JSON: seconds of a step by
turn, the first step's time with its compilation, the peak of the device's memory. `--autocast`
computes convolutions and products in bfloat16.
"""

import argparse
import json
import time

COUNTS = (3, 4, 6, 3)
RATE, MOMENTUM, DECAY, EPS, RUNNING = 1e-4, 0.9, 1e-4, 1e-5, 0.1


def make(jax, jnp):
    """Parameters, running statistics, and the function from images to logits."""
    from jax import lax

    key = iter(jax.random.split(jax.random.PRNGKey(0), 200))
    parameters, averages = {}, {}

    def conv(name, inputs, outputs, kernel):
        scale = (2 / (outputs * kernel * kernel)) ** 0.5
        shape = (kernel, kernel, inputs, outputs)
        parameters[name] = jax.random.normal(next(key), shape) * scale
        parameters[name + ".scale"] = jnp.ones(outputs)
        parameters[name + ".shift"] = jnp.zeros(outputs)
        averages[name] = (jnp.zeros(outputs), jnp.ones(outputs))

    conv("stem", 3, 64, 7)
    channels = 64
    for stage, count in enumerate(COUNTS):
        width = 64 << stage
        for i in range(count):
            name = f"{stage}.{i}"
            conv(name + ".1", channels, width, 1)
            conv(name + ".2", width, width, 3)
            conv(name + ".3", width, 4 * width, 1)
            if i == 0:
                conv(name + ".down", channels, 4 * width, 1)
            channels = 4 * width
    parameters["head"] = jax.random.uniform(next(key), (channels, 1000), minval=-0.02, maxval=0.02)
    parameters["head.shift"] = jnp.zeros(1000)

    def forward(p, old, images, kind):
        new = {}

        def block(x, name, stride=1):
            w = p[name].astype(kind)
            pad = w.shape[0] // 2
            y = lax.conv_general_dilated(
                x.astype(kind), w, (stride, stride), [(pad, pad)] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ).astype(jnp.float32)  # fmt: skip
            mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
            new[name] = tuple(
                (1 - RUNNING) * a + RUNNING * b
                for a, b in zip(old[name], (mean, variance), strict=True)
            )
            factor = p[name + ".scale"] * lax.rsqrt(variance + EPS)
            return (y - mean) * factor + p[name + ".shift"]

        x = jax.nn.relu(block(images, "stem", 2))
        x = lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]
        )
        for stage, count in enumerate(COUNTS):
            for i in range(count):
                name, stride = f"{stage}.{i}", 2 if stage and i == 0 else 1
                h = jax.nn.relu(block(x, name + ".1"))
                h = jax.nn.relu(block(h, name + ".2", stride))
                h = block(h, name + ".3")
                x = jax.nn.relu(h + (block(x, name + ".down", stride) if i == 0 else x))
        x = x.mean((1, 2)).astype(kind)
        logits = (x @ p["head"].astype(kind)).astype(jnp.float32) + p["head.shift"]
        return logits, new

    return parameters, averages, forward


def training_step(jax, jnp, forward, kind):
    def loss_of(p, averages, images, labels):
        logits, averages = forward(p, averages, images, kind)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -chosen.mean(), averages

    def step(p, momentum, averages, images, labels):
        gradient = jax.grad(loss_of, has_aux=True)
        g, averages = gradient(p, averages, images, labels)
        tree_map = jax.tree_util.tree_map
        momentum = tree_map(lambda m, g, w: MOMENTUM * m + g + DECAY * w, momentum, g, p)
        return tree_map(lambda w, m: w - RATE * m, p, momentum), momentum, averages

    return jax.jit(step, donate_argnums=(0, 1, 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5, help="in a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--autocast", action="store_true", help="bfloat16 in convolutions")
    args = parser.parse_args()
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)
    images = jnp.asarray(random.standard_normal((args.batch, 224, 224, 3), dtype=np.float32))
    labels = jnp.asarray(random.integers(0, 1000, args.batch))
    parameters, averages, forward = make(jax, jnp)
    step = training_step(jax, jnp, forward, jnp.bfloat16 if args.autocast else jnp.float32)
    state = (parameters, jax.tree_util.tree_map(jnp.zeros_like, parameters), averages)

    def run(count, state):
        start = time.perf_counter()
        for _ in range(count):
            state = step(*state, images, labels)
        jax.block_until_ready(state)
        return (time.perf_counter() - start) / count, state

    first, state = run(1, state)
    _, state = run(2, state)
    seconds = []
    for _ in range(args.rounds):
        taken, state = run(args.steps, state)
        seconds.append(taken)
    memory = jax.devices()[0].memory_stats() or {}
    print(json.dumps({"seconds": seconds, "first_step": first, "version": jax.__version__,
                      "peak_bytes": memory.get("peak_bytes_in_use")}))  # fmt: skip


if __name__ == "__main__":
    main()
