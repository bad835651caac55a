"""Training throughput of the six models of the PyTorch paper's Table 1, against PyTorch.

    python benchmarks/table1.py --peer PYTHON [--model resnet50 ncf] [--batch 16] [--threads 2]
    python benchmarks/table1.py --peer PYTHON --channels-last --report
    python benchmarks/table1.py --peer PYTHON --autocast bfloat16 --model resnet50
    python benchmarks/table1.py --peer PYTHON --device cuda [--graph]
    python benchmarks/table1.py --before FOLDER
    python benchmarks/table1.py --peer PYTHON --check

A step is whole: zero_grad, forward, loss, backward, optimiser. Each library has a process of its
own, and the processes take turns of `--steps` steps; the figures are medians over `--rounds` turns
with half the distance between the quartiles, and the ratio (ours : PyTorch's, above one is faster)
is the median over neighbouring turns; the ratio of the best turns stands beside it. `--peer` is a
Python that has PyTorch; TORCH_PYTHON is its default, and without either only our own speed is
shown. `--channels-last` adds PyTorch with memory_format=torch.channels_last set by hand, `--before`
another checkout of Rushlight, built: has a change made it slower?

Further columns: the process's peak resident memory (on a GPU, what its allocator had reserved at
most), the first step's time, and the share of the arithmetic limit: the operations of the
convolutions and products of a step over the best rate at which either side multiplies matrices.

`--report` writes results/table1.md (table1_cuda.md, table1_bfloat16.md), .json, and .png where
matplotlib is there; rows of earlier runs with other settings stay.

`--check` trains both sides for ten steps from the same weights (which we save, and PyTorch loads)
on the same batch, without dropout, since the two draw different random numbers, and fails when any
loss differs by more than TOLERANCE. Float64's is the narrow one: in float32 the gradients of a
fresh ResNet-50 are two percent away from the exact ones, in either library.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import table1_report as report
from peer import SETTLE, TORCH_PYTHON, Case, Side, Worker, write_report
from table1_models import TASKS, Training

# PyTorch dies with an illegal instruction where a virtual machine only claims AMX.
PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
# Of the loss, relative, over ten steps: sums in another order, amplified by training.
TOLERANCE = {"float64": 1e-6, "float32": 5e-2}
HERE = Path(__file__).parent
SETUP = """
import sys, time
sys.path.append({folder!r})
from table1_models import Training
from table1_side import *
started = time.perf_counter()
training = Training(lib, {model!r}, batch={batch}, small={small}, device={device!r},
                    dtype=getattr(lib, {dtype!r}), channels_last={channels_last},
                    autocast={autocast!r} and getattr(lib, {autocast!r}), capturable={graph})
wait = lib.cuda.synchronize if {device!r} == "cuda" else lambda: None
wait()
built = time.perf_counter() - started
started = time.perf_counter()
training.step(); wait()
first_step = time.perf_counter() - started
if {graph}:
    training.capture()
"""


def sides_of(args):
    """The libraries by their names in the table."""
    prelude = f"lib.set_num_threads({args.threads})"
    sides = {"rushlight": Side("rushlight", prelude=prelude)}
    if args.peer:
        sides["torch"] = Side("torch", args.peer, PEER_ENV, prelude)
        if getattr(args, "channels_last", False):
            sides["torch_last"] = sides["torch"]
    if getattr(args, "before", None):
        folder = str(Path(args.before).resolve())
        sides["before"] = Side("rushlight", env={"PYTHONPATH": folder}, prelude=prelude)
    return sides


def prepared(name, side, model, args, clock):
    """A worker that has made its first step, and what that told; no worker where it failed."""
    setup = SETUP.format(
        folder=str(HERE), model=model, batch=args.batch[model], small=args.small,
        device=args.device, dtype=args.dtype[0], channels_last=name == "torch_last",
        autocast=args.autocast, graph=args.graph,
    )  # fmt: skip
    # One process per model: what it cached is gone with it.
    worker = Worker(side, args.threads, clock)
    try:
        worker.prepare(Case(model, setup, "training.step(); wait()"))
        facts = {"first_step": worker.evaluate("first_step"), "built": worker.evaluate("built")}
        return worker, facts
    except RuntimeError as error:
        worker.close()
        print(f"{name} on {model}: {error}", file=sys.stderr)
        return None, {"error": str(error)}


def measure(model, args):
    """Alternates the sides; a row for the report."""
    # One thread is timed by the processor's time, which other programs disturb little.
    clock = "process_time" if args.threads == 1 and args.device == "cpu" else "perf_counter"
    workers, facts = {}, {}
    try:
        for name, side in sides_of(args).items():
            worker, facts[name] = prepared(name, side, model, args, clock)
            if worker:
                workers[name] = worker
                facts[name]["seconds"] = []
                worker.time(2)
        for _ in range(args.rounds):
            for name, worker in workers.items():
                time.sleep(SETTLE)
                facts[name]["seconds"].append(worker.time(args.steps) / args.steps)
        for name, worker in workers.items():
            facts[name]["peak_bytes"] = worker.evaluate(f"peak_bytes(lib, {args.device!r})")
            facts[name]["version"] = worker.evaluate("str(lib.__version__)")
        flops = workers["rushlight"].evaluate("training.flops()") if "rushlight" in workers else 0
    finally:
        for worker in workers.values():
            worker.close()
    task = TASKS[model]
    versions = {name: fact["version"] for name, fact in facts.items() if "version" in fact}
    return {
        "model": model,
        "batch": args.batch[model] or task.batch,
        "threads": args.threads,
        "device": args.device,
        "dtype": args.dtype[0],
        "autocast": args.autocast,
        "graph": args.graph,
        "unit": task.items,
        "items": count_items(model, args),
        "flops": flops,
        "versions": ", ".join(f"{report.LABELS[k]} {v}" for k, v in versions.items()),
        "command": command_of(args, model),
        "sides": facts,
    }


def peak_rate(args):
    """Operations per second of the best matrix product of either library."""
    kind = args.autocast or args.dtype[0]
    rates = []
    for side in {s.module: s for s in sides_of(args).values()}.values():
        worker = Worker(side, args.threads)
        try:
            folder = str(HERE)
            worker.prepare(
                Case("peak", f"import sys; sys.path.append({folder!r})\n"
                     "from table1_side import *", "pass")
            )  # fmt: skip
            rates.append(worker.evaluate(f"product_rate(lib, {args.device!r}, {kind!r})"))
        except RuntimeError as error:
            print(f"no peak rate: {error}", file=sys.stderr)
        finally:
            worker.close()
    return max(rates, default=0)


def command_of(args, model):
    """The command that measures this row, without paths."""
    parts = ["python benchmarks/table1.py --peer PYTHON --model", model]
    parts += ["--batch", str(args.batch[model])] if args.batch[model] else []
    parts += ["--threads", str(args.threads), "--steps", str(args.steps), "--rounds",
              str(args.rounds)]  # fmt: skip
    for name, value, default in (("device", args.device, "cpu"), ("autocast", args.autocast, None),
                                 ("dtype", args.dtype[0], "float32")):  # fmt: skip
        parts += [f"--{name} {value}"] if value != default else []
    for flag in ("graph", "channels_last", "small"):
        parts += ["--" + flag.replace("_", "-")] if getattr(args, flag) else []
    return " ".join(parts)


def count_items(model, args):
    """Items in a batch, without making the model."""
    import numpy as np

    task = TASKS[model]
    arrays = task.inputs(args.batch[model] or task.batch, args.small, np.random.default_rng(0))
    return task.items_in(next(iter(arrays.values())))


def losses_of(side, model, dtype, args, weights):
    """The losses of the side's first steps, from its own process."""
    command = [side.python, __file__, "--losses", side.module, "--weights", weights]
    command += ["--model", model, "--dtype", dtype, "--threads", str(args.threads)]
    command += ["--batch", str(args.batch[model])] if args.batch[model] else []
    command += ["--small"] if args.small else []
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | side.env)
    if out.returncode:
        sys.exit(f"{side.module} failed on {model}: {shlex.join(command)}")
    return json.loads(out.stdout.splitlines()[-1])


def check(model, dtype, args):
    """Ten losses on both sides; returns a row for the table, the verdict last."""
    sides = sides_of(args)
    with tempfile.TemporaryDirectory() as folder:
        weights = str(Path(folder) / "weights.pt")
        a = losses_of(sides["rushlight"], model, dtype, args, weights)  # writes them
        b = losses_of(sides["torch"], model, dtype, args, weights)
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
    parser.add_argument("--autocast", choices=["bfloat16", "float16"], help="autocast to this type")
    parser.add_argument("--channels-last", action="store_true", help="a third side: PyTorch with "
                        "channels_last by hand")  # fmt: skip
    parser.add_argument("--graph", action="store_true", help="the whole step as a CUDA graph")
    parser.add_argument("--before", metavar="FOLDER", help="another checkout, built, as a side")
    parser.add_argument("--check", action="store_true", help="compare losses instead of speed")
    parser.add_argument("--dtype", nargs="+", choices=["float32", "float64", "bfloat16"],
                        help="of the weights; for --check one or more")  # fmt: skip
    parser.add_argument("--report", action="store_true", help="write results/table1.*")
    parser.add_argument("--losses", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    batches = args.batch or [None]
    if len(batches) == 1:
        batches *= len(args.model)
    if len(batches) != len(args.model):
        parser.error(f"{len(args.model)} models, but {len(batches)} batch sizes")
    args.batch = dict(zip(args.model, batches, strict=True))
    args.dtype = args.dtype or (list(TOLERANCE) if args.check else ["float32"])
    if args.graph and args.device != "cuda":
        parser.error("--graph needs --device cuda")
    if not args.check and not args.losses and len(args.dtype) != 1:
        parser.error("more than one --dtype is for --check")
    return args


def check_all(args):
    if not args.peer:
        sys.exit("--check needs --peer PYTHON, a Python that has PyTorch")
    checked = [check(model, dtype, args) for dtype in args.dtype for model in args.model]
    missed = [f"{model} in {dtype}" for model, dtype, *_, verdict in checked if verdict != "ok"]
    if args.report:
        header = ["model", "dtype", "first loss", "last loss", "PyTorch's last", "difference", ""]
        how = "Ten steps from the same weights without dropout: the largest relative difference.\n"
        write_report("table1_losses", "Table 1: losses against PyTorch's", how,
                     report.markdown(header, checked))  # fmt: skip
    if missed:
        sys.exit(f"losses differ: {', '.join(missed)}")


def main(argv=None):
    args = parse(argv)
    if args.losses:
        return print_losses(args)
    if args.check:
        return check_all(args)
    limit = peak_rate(args)
    print(f"best product: {limit / 1e9:,.0f} GFLOP/s", flush=True)
    rows, lines = [], []
    for model in args.model:
        rows.append(measure(model, args) | {"peak_flops": limit})
        lines.append(report.cells(rows[-1]))
        if len(lines) == 1:
            print(" | ".join(report.header(rows[0]["sides"])))
        print(" | ".join(lines[-1]), flush=True)
    for side in report.peers(rows[0]):
        good = [r for r in rows if {side, "rushlight"} <= set(report.measured(r))]
        mean = report.geometric_mean(report.ratio(r, side) for r in good)
        print(f"geometric mean against {report.LABELS[side]}: {mean:.2f}")
    if args.report:
        name = "table1_cuda" if args.device == "cuda" else "table1"
        place = " on a GPU" if args.device == "cuda" else ""
        if args.autocast and not place:
            name, place = f"table1_{args.autocast}", f" under autocast to {args.autocast}"
        title = f"Table 1: training throughput of six models{place}"
        how = (__doc__.split("\n\n")[2] + "\n\n" + __doc__.split("\n\n")[3] + "\n").replace("`", "")
        everything = report.merge(name, rows)
        write_report(name, title, how, report.tables(everything))
        report.draw(name, everything)
    return lines


if __name__ == "__main__":
    main()
