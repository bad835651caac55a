"""The six models of Table 1 on a GPU, compiled, against JAX with its whole step jitted.

    JAX_PYTHON=path/to/python python benchmarks/jax_models.py --together 3 [--only ncf] [--nchw]
    JAX_PYTHON=path/to/python python benchmarks/jax_models.py --check [--device cuda]

A step is whole: forward, loss, backward, optimiser; the batch norms' statistics move and dropout
draws. Ours: `compile` of the model, and the whole step frozen. JAX's (jax_side.py): in each of the
ways that could be its best. Float32 as both have it here by our defaults: TF32 in convolutions and
LSTMs, none in products; `--tf32` allows it in products too, on both sides. Each way runs in a
process of its own, and all of a model in turns of five steps. The figures are medians with half the
distance between the quartiles; the ratio is that of JAX's better way to our better one, as the
median over neighbouring turns. Bars: none below 0.95, ResNet-50 at least 1.0.

XLA picks its kernels by timing them, so that a way of JAX's makes its first steps while no other
process uses the GPU. `--together` prepares so many models at once otherwise: ours side by side.

`--check` hands our weights of the small models to JAX, without dropout, and compares losses,
changes of the parameters and running statistics of two steps; and the number of parameters of the
full models. `--device cuda` lets JAX compute on a GPU there, which tries cuDNN's LSTM too.
"""

import argparse
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from compile_table1 import BATCHES, setup_of
from peer import Case, Side, Timing, Worker, geometric_mean, markdown, write_report
from table1_models import TASKS, Training

JAX_PYTHON = os.environ.get("JAX_PYTHON", "")
OURS = ("compile", "frozen")
# What jax_side.Options gets, by the name of the way.
LAYOUTS = {"NHWC": {}, "NCHW": {"layout": "NCHW"}}
POOLS = {"NHWC, reshaped pools": {"reshaped_pools": True}}
LSTMS = {"cuDNN's LSTM": {"cudnn": True}, "scanned LSTM": {}}
WAYS = {
    "alexnet": LAYOUTS,
    "vgg19": LAYOUTS | POOLS,
    "resnet50": LAYOUTS,
    "mobilenet_v2": LAYOUTS,
    "gnmt_v2": LSTMS,
    "ncf": {"jitted": {}},
}
BARS = {"resnet50": 1.0}
BAR = 0.95
# Relative, over two steps. cuDNN's LSTM knows no float64.
TOLERANCE = {"float64": 1e-7, "float32": 5e-3}
LOCK = """
import fcntl
lock = open({lock!r})
fcntl.flock(lock, fcntl.{kind})
"""
PRODUCTS = "lib.backends.cuda.matmul.allow_tf32 = {tf32}\n"
JAX_SETUP = """
import sys, time
sys.path.append({folder!r})
from jax_side import Options, Training
training = Training({model!r}, Options(small={small}, tf32={tf32}, **{options!r}), batch={batch})
training.wait()
def timed(calls):
    training.wait()
    start = time.perf_counter()
    for _ in range(calls):
        training.step()
    training.wait()
    return (time.perf_counter() - start) / calls
"""
FIRST_STEPS = """
first = timed(1)
timed(14)
"""
CHECK_SETUP = """
import sys
sys.path.append({folder!r})
lib.config.update("jax_enable_x64", {wide})
lib.config.update("jax_default_matmul_precision", "highest")
from jax_check import differences
from jax_side import Options, count_parameters
options = dict({options!r}, dropout=False)
"""


def jax_worker(device):
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_PLATFORMS": device}
    return Worker(Side("jax", JAX_PYTHON, env), 1)


def jax_ways(model, args):
    """JAX's ways by name, in the order of the table."""
    return {
        name: options
        for name, options in WAYS[model].items()
        if (args.nchw or name != "NCHW") and (args.device == "cuda" or "cudnn" not in options)
    }


def prepared(model, way, lock, args):
    """A worker that has made its first steps; None where it could not."""
    if way in OURS:
        worker, kind = Worker(Side("rushlight"), 1), "LOCK_SH"
        setup = setup_of(model, way, args.device, args.small)
        setup = LOCK.format(lock=lock, kind=kind) + PRODUCTS.format(tf32=args.tf32) + setup
    else:
        worker = jax_worker(args.device)
        setup = JAX_SETUP.format(
            folder=str(Path(__file__).parent), model=model, small=args.small, tf32=args.tf32,
            options=WAYS[model][way], batch=None if args.small else BATCHES[model],
        )  # fmt: skip
        setup += LOCK.format(lock=lock, kind="LOCK_EX") + FIRST_STEPS
    try:
        worker.prepare(Case(model, setup + "\nlock.close()\n", "pass"))
        return worker
    except RuntimeError as error:
        worker.close()
        print(f"{way} on {model}: {error}", file=sys.stderr)
        return None


def measure(models, args):
    """Yields each model, the milliseconds of its turns and the seconds of its first step, by way;
    a way that failed is left out."""
    cases = [(model, way) for model in models for way in (*OURS, *jax_ways(model, args))]
    with (
        tempfile.NamedTemporaryFile() as lock,
        ThreadPoolExecutor(len(cases) if args.together else 1) as pool,
    ):
        made = pool.map(lambda case: prepared(*case, lock.name, args), cases)
        workers = dict(zip(cases, made, strict=True))
    try:
        for model in models:
            own = {way: worker for (m, way), worker in workers.items() if m == model and worker}
            times = {way: [] for way in own}
            for _ in range(args.rounds):
                for way, worker in own.items():
                    times[way].append(worker.evaluate("timed(5)") * 1e3)
            yield model, times, {way: worker.evaluate("first") for way, worker in own.items()}
    finally:
        for worker in workers.values():
            if worker:
                worker.close()


def best(times, ways):
    return min((way for way in ways if way in times), key=lambda way: statistics.median(times[way]))


def show(times):
    timing = Timing(times)
    return f"{timing.median:.2f} ±{timing.spread * 100:.0f}%"


def row_of(model, times, first, args):
    """A line of the table, and the ratio."""
    ways = jax_ways(model, args)
    theirs = [f"{way}: {show(times[way]) if way in times else 'failed'}" for way in ways]
    row = [model, str(TASKS[model].batch if args.small else BATCHES[model])]
    row += [show(times[way]) if way in times else "failed" for way in OURS]
    row += ["; ".join(theirs), ", ".join(f"{first[way]:.1f}" for way in ways if way in first)]
    if not (times.keys() & set(OURS) and times.keys() & ways.keys()):
        return [*row, "", "not measured"], None
    pairs = zip(times[best(times, ways)], times[best(times, OURS)], strict=True)
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    return [*row, f"{ratio:.2f}", "" if ratio >= BARS.get(model, BAR) else "missed"], ratio


def compare(models, args):
    import rushlight as rl

    if args.device == "cuda" and not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    size = args.together or 1
    version = jax_version(args.device)
    rows, ratios = [], []
    for start in range(0, len(models), size):
        for model, times, first in measure(models[start : start + size], args):
            row, ratio = row_of(model, times, first, args)
            rows.append(row)
            ratios += [ratio] if ratio else []
            print(*row, sep=" | ", flush=True)
        if not args.no_report:  # what is there, should the rest be cut off
            place = rl.cuda.get_device_name() if args.device == "cuda" else "a CPU"
            report(rows, ratios, args, place, version)
    if ratios:
        print(f"geometric mean {geometric_mean(ratios):.2f}")


def report(rows, ratios, args, place, version):
    header = ["model", "batch", *(f"{way}, ms" for way in OURS), "JAX, ms",
              "JAX's first steps, s", "to JAX", ""]  # fmt: skip
    small = ", small variants" if args.small else ""
    how = "\n\n".join(__doc__.split("\n\n")[2:4]).replace("`", "") + "\n"
    options = [f"`jax_models.py --together {args.together} --rounds {args.rounds}"]
    options += [f"--{name}" for name in ("nchw", "tf32") if getattr(args, name)]
    command = " ".join(options) + f"`, JAX {version}.\n"
    title = f"The six models of Table 1, compiled, against JAX on {place}{small}"
    parts = [how, command, markdown(header, rows)]
    if ratios:
        parts.append(f"Geometric mean: {geometric_mean(ratios):.2f}.\n")
    write_report(args.report, title, *parts)


def jax_version(device):
    worker = jax_worker(device)
    try:
        worker.prepare(Case("version", "", "pass"))
        return worker.evaluate("lib.__version__")
    finally:
        worker.close()


def record(rl, model, dtype, path):
    """Two steps of ours: weights before and after, losses and running statistics."""
    training = Training(rl, model, small=True, dropout=False, dtype=getattr(rl, dtype))

    def arrays(part, pairs):
        return {f"{part}/{name}": tensor.detach().numpy().copy() for name, tensor in pairs}

    found = arrays("before", training.model.named_parameters())
    found["losses"] = np.array(training.losses(2))
    found |= arrays("after", training.model.named_parameters())
    found |= arrays("average", training.model.named_buffers())
    np.savez(path, **found)


def check(models, args):
    """Returns what differs."""
    import rushlight as rl

    args.nchw, missed = True, []
    for model in models:
        full = TASKS[model].make(rl, False, 1.0)
        ours = sum(p.numel() for p in full.parameters())
        for way, options in jax_ways(model, args).items():
            dtype = "float32" if "cudnn" in options else "float64"
            worker = jax_worker(args.device)
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "record.npz")
                record(rl, model, dtype, path)
                setup = CHECK_SETUP.format(
                    folder=str(Path(__file__).parent), wide=dtype == "float64", options=options
                )
                try:
                    worker.prepare(Case(model, setup, "pass"))
                    theirs = worker.evaluate(f"count_parameters({model!r}, Options(**options))")
                    small = f"{model!r}, Options(small=True, **options), {path!r}"
                    apart = worker.evaluate(f"differences({small})")
                finally:
                    worker.close()
            good = ours == theirs and max(apart.values()) <= TOLERANCE[dtype]
            missed += [] if good else [f"{model}, {way}"]
            shown = ", ".join(f"{name} {value:.0e}" for name, value in apart.items())
            verdict = "ok" if good else "MISSED"
            print(f"{model}, {way}: {ours:,} and {theirs:,} parameters; {shown} in {dtype}: "
                  f"{verdict}", flush=True)  # fmt: skip
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="words of models' names, with commas between")
    parser.add_argument("--together", type=int, default=0, help="so many models at once")
    parser.add_argument("--nchw", action="store_true", help="JAX's image models in NCHW too")
    parser.add_argument("--tf32", action="store_true", help="TF32 in products, on both sides")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--small", action="store_true", help="the variants that the tests use")
    parser.add_argument("--check", action="store_true", help="compare losses instead of speed")
    parser.add_argument("--report", default="jax_models", help="the report's name")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    if not JAX_PYTHON:
        sys.exit("JAX_PYTHON must name a Python that has JAX")
    args.device = args.device or ("cpu" if args.check else "cuda")
    models = [m for m in BATCHES if any(word in m for word in args.only.split(","))]
    if args.check:
        missed = check(models, args)
        return bool(missed) and sys.exit(f"JAX computes something else: {'; '.join(missed)}")
    compare(models, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
