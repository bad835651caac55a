"""Training throughput of the six models of the PyTorch paper's Table 1, against PyTorch.

    python benchmarks/table1.py --peer PYTHON [--model resnet50 ncf] [--batch 16] [--threads 2]
    python benchmarks/table1.py --peer PYTHON --check

A step is whole: zero_grad, forward, loss, backward, optimiser. Each library has a process of its
own, and the processes take turns of `--steps` steps; the figures are medians over `--rounds` turns
with half the distance between the quartiles, and the ratio (ours : PyTorch's, above one is faster)
is the median over neighbouring turns. `--peer` is a Python that has PyTorch; TORCH_PYTHON is its
default, and without either only our own speed is shown.

`--check` trains both sides for ten steps from the same weights (which we save, and PyTorch loads)
on the same batch, without dropout, since the two draw different random numbers, and fails when any
loss differs by more than TOLERANCE. Float64's is the narrow one: in float32 the gradients of a
fresh ResNet-50 are two percent away from the exact ones, in either library.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peer import SETTLE, TORCH_PYTHON, Case, Result, Side, Timing, Worker, markdown, write_report
from table1_models import TASKS, Training

# PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
# Of the loss, relative, over ten steps: sums in another order, amplified by training.
TOLERANCE = {"float64": 1e-6, "float32": 5e-2}
HERE = Path(__file__).parent
SETUP = """
import sys
sys.path.append({folder!r})
from table1_models import Training
training = Training(lib, {model!r}, batch={batch}, small={small}, device={device!r})
wait = lib.cuda.synchronize if {device!r} == "cuda" else lambda: None
"""


def sides_of(args):
    prelude = f"lib.set_num_threads({args.threads})"
    sides = [Side("rushlight", prelude=prelude)]
    if args.peer:
        sides.append(Side("torch", args.peer, PEER_ENV, prelude))
    return sides


def measure(model, args):
    """Alternates the sides; a Result whose times are those of one step."""
    setup = SETUP.format(folder=str(HERE), model=model, batch=args.batch[model], small=args.small,
                         device=args.device)  # fmt: skip
    case = Case(model, setup, "training.step(); wait()")
    # One thread is timed by the processor's time, which other programs disturb little.
    clock = "process_time" if args.threads == 1 and args.device == "cpu" else "perf_counter"
    # A process a model: what it cached is gone with it.
    workers = [Worker(side, args.threads, clock) for side in sides_of(args)]
    runs = [[] for _ in workers]
    try:
        for worker in workers:
            worker.prepare(case)
            worker.time(2)
        for _ in range(args.rounds):
            for worker, times in zip(workers, runs, strict=True):
                time.sleep(SETTLE)
                times.append(worker.time(args.steps) / args.steps)
    finally:
        for worker in workers:
            worker.close()
    ours, *others = map(Timing, runs)
    modules = [side.module for side in sides_of(args)[1:]]
    return Result(case, ours, dict(zip(modules, others, strict=True)))


def count_items(model, args):
    """Items in a batch, without making the model."""
    import numpy as np

    task = TASKS[model]
    arrays = task.inputs(args.batch[model] or task.batch, args.small, np.random.default_rng(0))
    return task.items_in(next(iter(arrays.values())))


def row(result, args):
    items = count_items(result.case.name, args)
    task = TASKS[result.case.name]
    cells = [result.case.name, str(args.batch[result.case.name] or task.batch)]
    for timing in (result.ours, *result.peers.values()):
        cells.append(f"{items / timing.median:,.1f} {task.items}/s ±{timing.spread * 100:.0f}%")
    if result.ratio is not None:
        cells.append(f"{1 / result.ratio:.2f}")
    return cells


def losses_of(side, model, dtype, args, weights):
    """The losses of the side's first steps, from its own process."""
    command = [side.python, __file__, "--losses", side.module, "--weights", weights]
    command += ["--model", model, "--dtype", dtype, "--threads", str(args.threads)]
    command += ["--batch", str(args.batch[model])] if args.batch[model] else []
    command += ["--small"] if args.small else []
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | side.env)
    if out.returncode:
        sys.exit(f"{side.module} failed on {model}")
    return json.loads(out.stdout.splitlines()[-1])


def check(model, dtype, args):
    """Ten losses on both sides; returns a row for the table, the verdict last."""
    ours, peer = sides_of(args)
    with tempfile.TemporaryDirectory() as folder:
        weights = str(Path(folder) / "weights.pt")
        a = losses_of(ours, model, dtype, args, weights)  # writes them
        b = losses_of(peer, model, dtype, args, weights)
    worst = max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))
    verdict = "ok" if worst <= TOLERANCE[dtype] else "MISSED"
    cells = [model, dtype, f"{a[0]:.6f}", f"{a[-1]:.6f}", f"{b[-1]:.6f}", f"{worst:.0e}", verdict]
    print("  ".join(f"{cell:<12}" for cell in cells), flush=True)
    return cells


def print_losses(args):
    """One side of the check: the first to come saves the weights, the second loads them."""
    import importlib

    sys.path.pop(0)  # this folder: nothing in it may hide a library
    torch = importlib.import_module(args.losses)
    torch.set_num_threads(args.threads)
    (model,) = args.model
    (dtype,) = args.dtype
    training = Training(
        torch,
        model,
        batch=args.batch[model],
        small=args.small,
        dropout=False,
        dtype=getattr(torch, dtype),
    )
    if Path(args.weights).exists():
        training.model.load_state_dict(torch.load(args.weights))
    else:
        torch.save(training.model.state_dict(), args.weights)
    print(json.dumps(training.losses(10)))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=TORCH_PYTHON, help="a Python that has PyTorch")
    parser.add_argument("--model", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--batch", type=int, nargs="+", help="one for all models, or one for each")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=2, help="in a turn")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--small", action="store_true", help="the variants that the tests use")
    parser.add_argument("--check", action="store_true", help="compare losses instead of speed")
    parser.add_argument("--dtype", nargs="+", choices=TOLERANCE, default=list(TOLERANCE),
                        help="what --check computes in")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="write results/table1.md")
    parser.add_argument("--losses", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    batches = args.batch or [None]
    if len(batches) == 1:
        batches *= len(args.model)
    if len(batches) != len(args.model):
        parser.error(f"{len(args.model)} models, but {len(batches)} batch sizes")
    args.batch = dict(zip(args.model, batches, strict=True))
    return args


def check_all(args):
    if not args.peer:
        sys.exit("--check needs --peer PYTHON, a Python that has PyTorch")
    checked = [check(model, dtype, args) for dtype in args.dtype for model in args.model]
    missed = [f"{model} in {dtype}" for model, dtype, *_, verdict in checked if verdict != "ok"]
    if missed:
        sys.exit(f"losses differ: {', '.join(missed)}")


def main(argv=None):
    args = parse(argv)
    if args.losses:
        return print_losses(args)
    if args.check:
        return check_all(args)
    header = ["model", "batch", "rushlight"] + (["PyTorch", "ratio"] if args.peer else [])
    rows = []
    for model in args.model:
        rows.append(row(measure(model, args), args))
        print("  ".join(f"{cell:<24}" for cell in rows[-1]), flush=True)
    if args.report:
        place = " on a GPU" if args.device == "cuda" else ""
        title = f"Table 1: training throughput of six models{place}"
        clock = "processor time" if args.threads == 1 else "wall clock"
        how = (
            f"{args.threads} thread(s), {clock}, {args.rounds} turns of {args.steps} whole "
            "training steps each. The ratio is ours to PyTorch's: above one we are faster.\n"
        )
        write_report("table1_cuda" if place else "table1", title, how, markdown(header, rows))
    return rows


if __name__ == "__main__":
    main()
