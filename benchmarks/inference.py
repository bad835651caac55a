"""Latency of one sample: ResNet-50, MobileNetV2, an LSTM and a small MLP, against PyTorch.

    python benchmarks/inference.py --peer PYTHON [--threads 1 2] [--only mlp] [--report]

Batch 1, evaluation mode, under no_grad and under inference_mode. Bar: at most PyTorch's time.
"""

import argparse
from pathlib import Path

from peer import TORCH_PYTHON, Case, Side, compare, geometric_mean, markdown, write_report

PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
HERE = str(Path(__file__).parent)
IMAGES = f"""
import sys
sys.path.append({HERE!r})
from table1_models import TASKS
model = TASKS[{{name!r}}].make(lib, False, 0.0).eval()
x = lib.randn(1, 3, 224, 224)
"""
MODELS = {
    "resnet50": IMAGES.format(name="resnet50"),
    "mobilenet_v2": IMAGES.format(name="mobilenet_v2"),
    "lstm": "model = lib.nn.LSTM(512, 512, 2).eval(); x = lib.randn(50, 1, 512)",
    "lstm, one step": "model = lib.nn.LSTM(512, 512, 2).eval(); x = lib.randn(1, 1, 512)",
    "mlp": (
        "nn = lib.nn; model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128),"
        " nn.ReLU(), nn.Linear(128, 10)).eval(); x = lib.randn(1, 64)"
    ),
}


def cases(only):
    for name, setup in MODELS.items():
        if only and not any(word in name for word in only):
            continue
        for mode in ("no_grad", "inference_mode"):
            run = f"{setup}\ndef run():\n    with lib.{mode}(): return model(x)\nrun()"
            yield Case(f"{name} ({mode})", run, "run()", 1.0)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=TORCH_PYTHON, help="a Python that has PyTorch")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", help="models whose names contain one of these")
    parser.add_argument("--report", action="store_true", help="write results/inference.md")
    args = parser.parse_args(argv)
    sections, every = [], []
    for threads in args.threads:
        prelude = "import importlib; importlib.import_module(lib.__name__ + '.nn')\n"
        prelude += f"lib.set_num_threads({threads})"
        sides = [Side("rushlight", prelude=prelude)]
        if args.peer:
            sides.append(Side("torch", args.peer, PEER_ENV, prelude))
        clock = "thread_time" if threads == 1 else "perf_counter"
        rows = []
        print(f"== {threads} thread(s): ours, PyTorch's, ratio")
        for result in compare(cases(args.only), sides, threads=threads, rounds=args.rounds,
                              seconds=0.05, clock=clock):  # fmt: skip
            print(result, flush=True)
            every.append(result)
            times = [result.ours, *result.peers.values()]
            cells = [f"{t.median * 1e3:,.3f} ms ±{t.spread * 100:.0f}%" for t in times]
            cells += [f"{result.ratio:.2f}"] if result.ratio is not None else []
            rows.append([result.case.name, *cells])
        header = ["model", "rushlight", *(["PyTorch", "ratio"] if args.peer else [])]
        mean = ""
        if args.peer:
            ratios = [r.ratio for r in every[-len(rows) :]]
            mean = (
                f"Geometric mean of the ratios (ours to PyTorch's): {geometric_mean(ratios):.2f}.\n"
            )
        sections.append(f"## {threads} thread(s)\n\n{markdown(header, rows)}\n{mean}")
    if args.report:
        how = "`python benchmarks/inference.py --peer PYTHON --report`. One sample at a time.\n"
        write_report("inference", "Latency of one sample", how, *sections)
    return every


if __name__ == "__main__":
    main()
