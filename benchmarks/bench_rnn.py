"""Recurrent layers against PyTorch: training steps, inference of one sequence, single cells.

    TORCH_PYTHON=path/to/python python benchmarks/bench_rnn.py [--threads 1 2] [--quick] [--check]

Bar: a training step (forward and backward) of two LSTM layers, 256 wide, 50 steps, batch 32, takes
at most PyTorch's time. Without TORCH_PYTHON only our own times are shown.
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Result, Side, compare, markdown, write_report

SETUP = """
import importlib
nn = importlib.import_module(lib.__name__ + ".nn")
model = nn.{kind}({inputs}, {hidden}{layers}{options})
x = lib.rand({steps}{batch}, {inputs}) - 0.5
def train():
    for p in model.parameters(): p.grad = None
    model(x)[0].sum().backward()
def infer():
    with lib.no_grad(): model(x)
train(); infer()
"""
PACK = """
lengths = [{steps} - {steps} * k // {batch} for k in range({batch})]
x = nn.utils.rnn.pack_padded_sequence(x, lengths)
def train():
    for p in model.parameters(): p.grad = None
    model(x)[0].data.sum().backward()
"""

STEP = "sum(t.sum() for t in model(x))"  # a cell returns one tensor or two


def layer(kind, hidden, layers, steps, batch, train=True, bar=None, packed=False, **options):
    setup = SETUP.format(
        kind=kind,
        inputs=hidden,
        hidden=hidden,
        layers=f", {layers}",
        steps=f"{steps}, ",
        batch=batch,
        options="".join(f", {k}={v}" for k, v in options.items()),
    )
    if packed:
        setup += PACK.format(steps=steps, batch=batch)
    words = [f"{kind} {hidden} x {layers}, {steps} steps, batch {batch}", *options]
    words += ["packed"] * packed + ["training" if train else "inference"]
    return Case(", ".join(words), setup, "train()" if train else "infer()", bar)


def cell(kind, hidden, batch):
    setup = SETUP.format(kind=kind + "Cell", inputs=hidden, hidden=hidden, layers="", steps="",
                         batch=batch, options="").replace("model(x)[0].sum()", STEP)  # fmt: skip
    return Case(f"{kind}Cell {hidden}, batch {batch}, training", setup, "train()")


def cases(quick):
    main = [
        layer("LSTM", 256, 2, 50, 32, bar=1.0),
        layer("GRU", 256, 2, 50, 32, bar=1.0),
        layer("RNN", 256, 2, 50, 32, bar=1.0),
        layer("LSTM", 256, 2, 50, 32, train=False),
        layer("GRU", 256, 2, 50, 32, train=False),
        layer("RNN", 256, 2, 50, 32, train=False),
        layer("LSTM", 256, 2, 50, 1, train=False, bar=1.0),
        layer("GRU", 256, 2, 50, 1, train=False, bar=1.0),
        layer("RNN", 256, 2, 50, 1, train=False, bar=1.0),
    ]
    if quick:
        return main
    return [
        *main,
        layer("LSTM", 1024, 1, 30, 32),
        layer("LSTM", 1024, 1, 30, 128),
        layer("GRU", 1024, 1, 30, 64),
        layer("LSTM", 256, 1, 50, 32, bidirectional=True),
        layer("LSTM", 256, 1, 50, 32, batch_first=True),
        layer("LSTM", 256, 2, 50, 32, packed=True),
        layer("LSTM", 256, 1, 50, 32, proj_size=64),
        layer("LSTM", 32, 1, 20, 8),
        layer("LSTM", 8, 1, 10, 1),
        cell("LSTM", 256, 32),
        cell("GRU", 256, 32),
        cell("LSTM", 16, 4),
    ]


def row(result: Result) -> list[str]:
    times = [result.ours, *result.peers.values()]
    shown = [f"{t.median * 1e3:,.3f} ±{t.spread * 100:.0f}%" for t in times]
    if result.ratio is None:
        return [result.case.name, *shown]
    verdict = "" if result.case.bar is None else "missed" if result.missed else "ok"
    return [result.case.name, *shown, f"{result.ratio:.2f}", verdict]


def measure(threads, args):
    prelude = f"lib.set_num_threads({threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if TORCH_PYTHON:
        # PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
        env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        sides.append(Side("torch", TORCH_PYTHON, env, prelude))
    print(f"== {threads} thread(s): ours, PyTorch's, ratio")
    clock = "thread_time" if threads == 1 else "perf_counter"
    rounds = 5 if args.quick else args.rounds
    results = []
    for result in compare(cases(args.quick), sides, threads=threads, rounds=rounds, clock=clock):
        print(result, flush=True)
        results.append(result)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    args = parser.parse_args()
    missed, sections = [], []
    for threads in args.threads:
        results = measure(threads, args)
        missed += [r.case.name for r in results if r.missed]
        header = ["case", "ours, ms"] + (["PyTorch, ms", "ratio", ""] if TORCH_PYTHON else [])
        table = markdown(header, [row(r) for r in results])
        sections.append(f"## {threads} thread(s)\n\n{table}")
    summary = f"{len(missed)} bars missed{': ' + ', '.join(missed) if missed else ''}.\n"
    if not args.quick:
        write_report("rnn", "Recurrent layers against PyTorch", summary, *sections)
    if args.check and missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
