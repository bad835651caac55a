"""oneDNN or our own loops: the numbers behind the choices in docs/performance.md.

    TORCH_PYTHON=PYTHON python benchmarks/bench_choices.py [--rounds 9] [--only conv] [--report]

Products and convolutions run both ways in one process, by turns, with config.onednn on and off, and
convolutions of 3 by 3 with config.winograd on and off. For pools, norms and recurrent layers, where
we do not call oneDNN, its speed is that of PyTorch's own binding to it (mkldnn tensors,
mkldnn_rnn_layer), in a process of its own. One thread, its processor time, the best of some turns.
"""

import argparse
import time

from peer import TORCH_PYTHON, Case, Side, Worker, markdown, write_report

PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def product(n, dtype="float32"):
    setup = f"x = rl.randn({n}, {n}).to(rl.{dtype})"
    return f"product {n}, {dtype}", setup, "x @ x"


def convolution(name, shape, weight, options, dtype="float32", last=False):
    layout = "channels_last" if last else "contiguous_format"
    setup = (
        f"x = rl.randn{shape}.to(rl.{dtype}, memory_format=rl.{layout}).requires_grad_()\n"
        f"w = rl.randn{weight}.to(rl.{dtype}).requires_grad_()\n"
        f"g = rl.ones_like(F.conv2d(x, w, **{options}))"
    )
    call = f"F.conv2d(x, w, **{options})"
    return [
        (f"convolution {name}", setup, call),
        (f"convolution {name}, with backward", setup, f"rl.autograd.grad({call}, (x, w), g)"),
    ]


BOTH_WAYS = [
    product(16),
    product(64),
    product(256),
    product(1024),
    product(256, "bfloat16"),
    product(1024, "bfloat16"),
    *convolution("7x7 /2 of 3 channels", (2, 3, 224, 224), (64, 3, 7, 7), {"stride": 2}),
    *convolution("3x3 of 64", (4, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    *convolution("1x1 of 256", (4, 256, 28, 28), (512, 256, 1, 1), {}),
    *convolution("3x3 depthwise", (4, 96, 56, 56), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
]

# With images whose channels lie last, as convolutions hand them on.
OVER_TILES = [
    case
    for count, size, channels, out in (
        (8, 32, 32, 32), (8, 16, 64, 64), (1, 56, 64, 64), (4, 56, 64, 64), (4, 28, 128, 128),
        (4, 14, 256, 256), (16, 14, 512, 512), (1, 28, 512, 512), (16, 7, 512, 512),
    )
    for case in convolution(
        f"{count}x{channels}x{size}x{size} to {out}", (count, channels, size, size),
        (out, channels, 3, 3), {"padding": 1}, last=True,
    )
]  # fmt: skip

LSTM = """
layer = nn.LSTM(256, 256); w = [t.detach() for t in layer.parameters()]
x = lib.rand(50, 32, 256); h = lib.zeros(1, 32, 256); out = None
"""
# name, setup, our statement, PyTorch's over oneDNN
THROUGH_PYTORCH = [
    ("max_pool2d 3x3 /2", "x = lib.randn(16, 64, 112, 112); d = {d}", "F.max_pool2d(x, 3, 2, 1)",
     "F.max_pool2d(d, 3, 2, 1)"),
    ("avg_pool2d 3x3", "x = lib.randn(16, 64, 56, 56); d = {d}", "F.avg_pool2d(x, 3, 1, 1)",
     "F.avg_pool2d(d, 3, 1, 1)"),
    ("batch_norm in training",
     "x = lib.randn(16, 64, 56, 56); d = {d}; w = lib.ones(64); b = lib.zeros(64); "
     "m = lib.zeros(64); v = lib.ones(64)",
     "F.batch_norm(x, m, v, w, b, True)", "F.batch_norm(d, m, v, w, b, True)"),
    ("softmax of rows of 1000", "x = lib.randn(1024, 1000); d = {d}", "F.softmax(x, -1)",
     "F.softmax(d, -1)"),
    ("LSTM 256, 50 steps, batch 32", LSTM, "layer(x)",
     "lib.mkldnn_rnn_layer(x, w[0], w[1], w[2], w[3], h, h, False, [], 2, 256, 1, True, False, "
     "False, False)"),
]  # fmt: skip
PRELUDE = """
import importlib
nn = importlib.import_module(lib.__name__ + ".nn")
F = nn.functional
lib.set_num_threads(1)
lib.set_grad_enabled(False)
"""


def both_ways(cases, switch, rounds, only, **others):
    """Rows: case, oneDNN's time, ours, ours to oneDNN's. `switch` says what oneDNN's is."""
    import rushlight as rl
    from rushlight import config
    from rushlight.nn import functional as F

    rows = []
    with config.patch(threads=1, **others):
        for name, setup, call in cases:
            if only and only not in name:
                continue
            scope = {"rl": rl, "F": F}
            exec(setup, scope)
            code = compile(call, name, "eval")
            best = {True: float("inf"), False: float("inf")}
            for _ in range(rounds):
                for onednn in best:
                    with config.patch(**switch(onednn)):
                        eval(code, scope)
                        start, count = time.thread_time(), 0
                        while time.thread_time() - start < 0.02:
                            eval(code, scope)
                            count += 1
                        taken = (time.thread_time() - start) / count
                    best[onednn] = min(best[onednn], taken)
            rows.append(row(name, best[True], best[False]))
    return rows


def through_pytorch(rounds, only):
    rows = []
    if not TORCH_PYTHON:
        return rows
    sides = [Side("rushlight", prelude=PRELUDE), Side("torch", TORCH_PYTHON, PEER_ENV, PRELUDE)]
    workers = [Worker(side, 1, "thread_time") for side in sides]
    try:
        for name, setup, ours, theirs in THROUGH_PYTORCH:
            if only and only not in name:
                continue
            best = []
            for worker, call, d in zip(
                workers, (ours, theirs), ("x", "x.to_mkldnn()"), strict=True
            ):
                worker.prepare(Case(name, setup.replace("{d}", d), call))
                number = max(1, int(0.02 / max(worker.time(1), 1e-6)))
                best.append(min(worker.time(number) / number for _ in range(rounds)))
            rows.append(row(name, best[1], best[0]))
    finally:
        for worker in workers:
            worker.close()
    return rows


def row(name, onednn, ours):
    cells = [name, f"{onednn * 1e6:,.1f}", f"{ours * 1e6:,.1f}", f"{ours / onednn:.2f}"]
    print("  ".join(f"{cell:<40}" for cell in cells), flush=True)
    return cells


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="cases whose names contain this")
    parser.add_argument("--report", action="store_true", help="write results/choices.md")
    args = parser.parse_args(argv)
    header = ["case", "oneDNN, us", "ours, us", "ours to oneDNN's"]
    inside = both_ways(
        BOTH_WAYS, lambda onednn: {"onednn": onednn}, args.rounds, args.only, winograd=False
    )
    tiles = both_ways(OVER_TILES, lambda onednn: {"winograd": not onednn}, args.rounds, args.only)
    outside = through_pytorch(args.rounds, args.only)
    if args.report:
        how = "One thread, processor time, best turns. `benchmarks/bench_choices.py --report`\n"
        tables = [
            markdown(header, inside),
            "Convolutions of 3 by 3 over tiles (`config.winograd`):\n",
        ]
        tables += [markdown(header, tiles), "Through PyTorch's binding to oneDNN:\n"]
        tables += [markdown(header, outside)]
        write_report("choices", "oneDNN or our own loops", how, *tables)
    return inside, tiles, outside


if __name__ == "__main__":
    main()
