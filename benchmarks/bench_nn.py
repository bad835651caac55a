"""Layers and losses at model sizes against PyTorch: forward, and forward with backward.

    TORCH_PYTHON=PYTHON python benchmarks/bench_nn.py [--threads 1 2] [--only pool] [--quick]

Bar: at most PyTorch's time. Without TORCH_PYTHON only our own times are shown.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, geometric_mean, markdown, write_report

PRELUDE = """
import importlib
nn = importlib.import_module(lib.__name__ + ".nn")
F = nn.functional
"""


def both(name, setup, call, wrt="x"):
    """The call alone without a graph, and with its backward pass."""
    free = f"{setup}\nwith lib.no_grad(): out = {call}\n"
    graph = (
        f"{setup}\nfor leaf in ({wrt},): leaf.requires_grad_()\nout = {call}\n"
        "seed = lib.ones_like(out)\n"
        f"def step(): return lib.autograd.grad({call}, ({wrt},), seed)\n"
    )
    scoped = f"{free}def run():\n    with lib.no_grad(): return {call}\n"
    return [
        Case(f"{name}", PRELUDE + scoped, "run()", 1.0),
        Case(f"{name}, with backward", PRELUDE + graph, "step()", 1.0),
    ]


def image(*shape, last=False):
    end = ".contiguous(memory_format=lib.channels_last)" if last else ""
    return f"x = lib.randn({', '.join(map(str, shape))}){end}"


def conv(name, channels, out, size, kernel, batch=16, **kw):
    options = ", ".join(f"{k}={v}" for k, v in kw.items())
    groups = kw.get("groups", 1)
    setup = (
        f"{image(batch, channels, size, size)}\n"
        f"w = lib.randn({out}, {channels // groups}, {kernel}, {kernel}); b = lib.randn({out})"
    )
    return both(f"conv2d {name}", setup, f"F.conv2d(x, w, b, {options})", "x, w, b")


def cases():
    X4 = image(16, 64, 56, 56)
    tokens = "x = lib.randn(16, 128, 768)"
    ce = "x = lib.randn(256, 1000); y = lib.arange(256) % 1000"
    words = "w = lib.randn(32000, 256); i = (lib.arange(4096) * 7919) % 32000"
    bags = f"{words}; o = lib.arange(0, 4096, 16)"
    pair = "x = lib.randn(256, 4096); y = lib.rand(256, 4096)"
    grid = (
        "x = lib.randn(8, 32, 64, 64); theta = lib.eye(2, 3).expand(8, 2, 3) * 0.9\n"
        "g = F.affine_grid(theta, (8, 32, 64, 64), align_corners=False).contiguous()"
    )
    ctc = (
        "x = lib.randn(150, 16, 40).log_softmax(2); t = 1 + lib.arange(16 * 30).view(16, 30) % 39\n"
        "n = (150,) * 16; m = (30,) * 16"
    )
    return [
        *both("max_pool2d 3x3 /2", image(16, 64, 112, 112), "F.max_pool2d(x, 3, 2, 1)"),
        *both("max_pool2d 2x2 /2", X4, "F.max_pool2d(x, 2)"),
        *both(
            "max_pool2d 2x2 /2, channels last",
            image(16, 64, 56, 56, last=True),
            "F.max_pool2d(x, 2)",
        ),
        *both("avg_pool2d 2x2 /2", X4, "F.avg_pool2d(x, 2)"),
        *both("avg_pool2d 3x3 /1", X4, "F.avg_pool2d(x, 3, 1, 1)"),
        *both("adaptive_avg_pool2d 1", image(16, 512, 7, 7), "F.adaptive_avg_pool2d(x, 1)"),
        *both("interpolate nearest x2", X4, "F.interpolate(x, scale_factor=2)"),
        *both(
            "interpolate bilinear x2",
            image(16, 64, 28, 28),
            "F.interpolate(x, scale_factor=2, mode='bilinear')",
        ),
        *both(
            "interpolate bicubic x2",
            image(4, 16, 56, 56),
            "F.interpolate(x, scale_factor=2, mode='bicubic')",
        ),
        *both("grid_sample bilinear", grid, "F.grid_sample(x, g, align_corners=False)", "x, g"),
        *both("unfold 3x3", image(8, 32, 28, 28), "F.unfold(x, 3, padding=1)"),
        *conv("1x1", 64, 256, 28, 1),
        *conv("3x3", 64, 64, 28, 3, padding=1),
        *conv("depthwise 3x3", 128, 128, 28, 3, padding=1, groups=128),
        *both("dropout", tokens, "F.dropout(x, 0.1)"),
        *both(
            "layer_norm",
            f"{tokens}; w = lib.ones(768); b = lib.zeros(768)",
            "F.layer_norm(x, (768,), w, b)",
            "x, w, b",
        ),
        *both(
            "batch_norm",
            f"{X4}; w = lib.ones(64); b = lib.zeros(64)",
            "F.batch_norm(x, None, None, w, b, True)",
            "x, w, b",
        ),
        *both(
            "group_norm",
            f"{X4}; w = lib.ones(64); b = lib.zeros(64)",
            "F.group_norm(x, 8, w, b)",
            "x, w, b",
        ),
        *both("gelu", tokens, "F.gelu(x)"),
        *both("silu", tokens, "F.silu(x)"),
        *both("softmax", "x = lib.randn(16, 8, 128, 128)", "F.softmax(x, -1)"),
        *both("log_softmax", "x = lib.randn(256, 1000)", "F.log_softmax(x, -1)"),
        *both("cross_entropy", ce, "F.cross_entropy(x, y)"),
        *both(
            "cross_entropy, large vocabulary",
            "x = lib.randn(256, 32000); y = lib.arange(256)",
            "F.cross_entropy(x, y)",
        ),
        *both(
            "cross_entropy, images",
            "x = lib.randn(4, 21, 64, 64); y = lib.arange(4 * 64 * 64).view(4, 64, 64) % 21",
            "F.cross_entropy(x, y, ignore_index=0, label_smoothing=0.1)",
        ),
        *both("nll_loss", "x = lib.randn(256, 1000); y = lib.arange(256)", "F.nll_loss(x, y)"),
        *both("mse_loss", pair, "F.mse_loss(x, y)"),
        *both("smooth_l1_loss", pair, "F.smooth_l1_loss(x, y)"),
        *both(
            "binary_cross_entropy_with_logits",
            pair,
            "F.binary_cross_entropy_with_logits(x, y)",
        ),
        *both("ctc_loss", ctc, "F.ctc_loss(x, t, n, m)"),
        *both("embedding", words, "F.embedding(i, w)", "w"),
        *both("embedding_bag sum", bags, "F.embedding_bag(i, w, o, mode='sum')", "w"),
        *both("embedding_bag max", bags, "F.embedding_bag(i, w, o, mode='max')", "w"),
    ]


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e6:,.1f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    return [result.case.name, *shown, f"{result.ratio:.2f}", "missed" if result.missed else "ok"]


def measure(threads, args):
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        sides.append(Side("torch", TORCH_PYTHON, env, prelude))
    print(f"== {threads} thread(s): ours, PyTorch's, ratio")
    clock = "thread_time" if threads == 1 else "perf_counter"
    chosen = [case for case in cases() if not args.only or args.only in case.name]
    rounds = 3 if args.quick else args.rounds
    seconds = 0.01 if args.quick else 0.02
    results = []
    for result in compare(
        chosen, sides, threads=threads, rounds=rounds, seconds=seconds, clock=clock
    ):
        print(result, flush=True)
        results.append(result)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    args = parser.parse_args()
    missed, sections = [], []
    for threads in args.threads:
        results = measure(threads, args)
        missed += [f"{r.case.name} ({threads})" for r in results if r.missed]
        header = ["case", "ours, us"] + (["PyTorch, us", "ratio", ""] if TORCH_PYTHON else [])
        table = markdown(header, [row(r) for r in results])
        ratios = [r.ratio for r in results if r.ratio is not None]
        mean = f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}.\n" if ratios else ""
        sections.append(f"## {threads} thread(s)\n\n{mean}\n{table}")
    summary = f"{len(missed)} bars missed{': ' + ', '.join(missed) if missed else ''}.\n"
    if not args.quick and not args.only:
        write_report("nn", "Layers and losses against PyTorch", summary, *sections)
    if args.check and missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
