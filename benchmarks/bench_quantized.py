"""Quantized models: against PyTorch's, and against our own float32.

    TORCH_PYTHON=path/to/python python benchmarks/bench_quantized.py [--threads 1 2] [--check]

ResNet-18 quantized statically, an LSTM and a transformer's MLP dynamically, PyTorch on its engine
x86 (and, for ResNet-18, onednn). All sides take turns. Bars: at most the time of PyTorch's
quantized model, and less than our float32 model's. What the models compute is compared, too: with
PyTorch's results, and with those of the float32 model.
"""

import argparse
import sys
from pathlib import Path

from peer import TORCH_PYTHON, Case, Side, Worker, compare, markdown, write_report

HERE = str(Path(__file__).parent)
PRELUDE = f"""
import sys, importlib
sys.path.append({HERE!r})
import quantized_models as models
importlib.import_module(lib.__name__ + ".ao.quantization")
lib.set_num_threads({{threads}})
"""
SETUP = """
plain = {plain}
small = {small}
x = models.numbers(lib, {shape})
first = lambda out: out[0] if isinstance(out, tuple) else out
def run(model):
    with lib.no_grad(): return first(model(x))
def numbers_of(model): return run(model).flatten()[:2000].tolist()
run(plain), run(small)
"""
RESNET = "models.resnet18(lib)"
CASES = {
    "ResNet-18, batch 1": (RESNET, "models.resnet18_int8(lib)", "1, 3, 224, 224"),
    "ResNet-18, batch 8": (RESNET, "models.resnet18_int8(lib)", "8, 3, 224, 224"),
    "ResNet-18, batch 8 (onednn)": (
        *(RESNET, "models.resnet18_int8(lib, 'onednn')", "8, 3, 224, 224"),
    ),
    "LSTM 512 x 2, 50 steps, batch 1": (
        *("models.lstm(lib)", "models.dynamic(lib, plain)", "50, 1, 512"),
    ),
    "LSTM 512 x 2, 50 steps, batch 32": (
        *("models.lstm(lib)", "models.dynamic(lib, plain)", "50, 32, 512"),
    ),
    "MLP 768, 1 token": ("models.mlp(lib)", "models.dynamic(lib, plain)", "1, 768"),
    "MLP 768, 128 tokens": ("models.mlp(lib)", "models.dynamic(lib, plain)", "128, 768"),
    "MLP 768, 1024 tokens": ("models.mlp(lib)", "models.dynamic(lib, plain)", "1024, 768"),
}
FLOAT = "float32"  # the side that runs our own model as it was


def cases(only):
    for name, (plain, small, shape) in CASES.items():
        if not only or any(word in name for word in only):
            setup = SETUP.format(plain=plain, small=small, shape=shape)
            yield Case(name, setup, "run(small)", 1.0, words={FLOAT: "run(plain)"})


def sides(threads):
    prelude = PRELUDE.format(threads=threads)
    made = [Side("rushlight", prelude=prelude), Side("rushlight", prelude=prelude, name=FLOAT)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        made.append(Side("torch", TORCH_PYTHON, env, prelude))
    return made


def row(result):
    times = [result.ours, *result.peers.values()]
    cells = [f"{t.median * 1e3:,.3f} ±{t.spread * 100:.0f}%" for t in times]
    ratios = [result.ratio_to(side) for side in result.peers]
    return [result.case.name, *cells, *(f"{r:.2f}" for r in ratios)]


def error(got, wanted):
    """The root of the mean squared difference, as a share of what is wanted."""
    square = sum((a - b) ** 2 for a, b in zip(got, wanted, strict=True))
    return (square / sum(b * b for b in wanted)) ** 0.5


def accuracy(only):
    """How far results lie from float32's, ours and PyTorch's, and the two from each other."""
    workers = [Worker(side, 2) for side in sides(2) if side.key != FLOAT]
    rows = []
    try:
        for case in cases(only):
            small = []
            for worker in workers:
                worker.prepare(case)
                small.append(worker.evaluate("numbers_of(small)"))
            plain = workers[0].evaluate("numbers_of(plain)")
            cells = [f"{error(got, plain):.5f}" for got in small]
            if len(small) > 1:
                apart = max(abs(a - b) for a, b in zip(*small, strict=True))
                step = workers[0].evaluate("small.fc.scale if hasattr(small, 'fc') else 0")
                cells.append(f"{error(small[0], small[1]):.6f}")
                cells.append(f"{apart / step:.2f} steps" if step else f"{apart:.1e}")
            rows.append([case.name, *cells])
            print(*rows[-1], flush=True)
    finally:
        for worker in workers:
            worker.close()
    peer = ["PyTorch's to float32", "ours to PyTorch's", "largest"] if TORCH_PYTHON else []
    return markdown(["model", "ours to float32", *peer], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", help="cases whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()
    sections, missed = [], []
    header = ["model", "ours, ms", "our float32, ms", *(["PyTorch's, ms"] if TORCH_PYTHON else [])]
    header += ["to float32", *(["to PyTorch's"] if TORCH_PYTHON else [])]
    for threads in args.threads:
        print(f"== {threads} thread(s): ours, our float32, PyTorch's")
        rows = []
        clock = "thread_time" if threads == 1 else "perf_counter"
        for result in compare(
            cases(args.only), sides(threads), threads=threads, rounds=args.rounds, seconds=0.05,
            clock=clock,
        ):  # fmt: skip
            rows.append(row(result))
            print(*rows[-1], sep="   ", flush=True)
            missed += [f"{result.case.name}, {side}" for side in result.peers
                       if result.ratio_to(side) > 1]  # fmt: skip
        sections.append(f"## {threads} thread(s)\n\n{markdown(header, rows)}")
    errors = (
        "## Accuracy\n\nThe root of the mean squared difference, as a share of the results' own, "
        "over 2,000 of them; and the largest difference between ours and PyTorch's.\n\n"
        + accuracy(args.only)
    )
    if not args.only:
        write_report("quantized", __doc__.splitlines()[0].rstrip("."), *sections, errors)
    for case in missed:
        print(f"missed: {case}")
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
