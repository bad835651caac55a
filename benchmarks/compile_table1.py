"""The six models of Table 1 on a GPU, compiled, against torch.compile.

    TORCH_PYTHON=path/to/python python benchmarks/compile_table1.py [--only ncf] [--rounds 5]

A step is whole: zero_grad, forward, loss, backward, optimiser. Ours: eager, `compile` of the model,
and the whole step frozen; PyTorch's: `torch.compile` of the model as it is, and with
mode="reduce-overhead". Each way runs in a process of its own, and all of a model in turns. The
ratio is the better of PyTorch's two over the better of our two; bars: none below 1.0, and a
geometric mean of 1.15.
"""

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peer import (
    TORCH_PYTHON,
    Case,
    Side,
    Worker,
    geometric_mean,
    markdown,
    write_report,
)

BATCHES = {
    "alexnet": 128,
    "vgg19": 64,
    "resnet50": 64,
    "mobilenet_v2": 64,
    "gnmt_v2": 128,
    "ncf": 1 << 20,
}
SETUP = """
import sys, time
sys.path.append({folder!r})
from table1_models import Training
training = Training(lib, {model!r}, batch={batch}, device={device!r}, small={small})
wait = lib.cuda.synchronize if {device!r} == "cuda" else lambda: None
step = training.step
if {way!r} == "frozen":
    step = lib.compile(step, mode="frozen")
elif {way!r} != "eager":
    training.model = lib.compile(training.model, mode={way!r} if {way!r} != "compile" else None)
def timed(calls):
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    wait()
    return (time.perf_counter() - start) / calls
first = timed(1)
timed(14)
if lib.__name__ == "rushlight":
    from rushlight import _C
    while _C._frozen_awaits_code():  # kernels compiled beside the program
        time.sleep(0.05)
timed(14)
"""
# name of the column: (library, way)
WAYS = {
    "eager": ("rushlight", "eager"),
    "compile": ("rushlight", "compile"),
    "frozen": ("rushlight", "frozen"),
    "torch.compile": ("torch", "compile"),
    "torch.compile, reduce-overhead": ("torch", "reduce-overhead"),
}
OURS, THEIRS = ("compile", "frozen"), ("torch.compile", "torch.compile, reduce-overhead")


def setup_of(model, way, device="cuda", small=False):
    folder, batch = str(Path(__file__).parent), None if small else BATCHES[model]
    return SETUP.format(
        folder=folder, model=model, batch=batch, way=way, device=device, small=small
    )


def prepared(model, way):
    """A worker that has made its first steps; None where it could not."""
    module, how = WAYS[way]
    worker = Worker(Side(module, TORCH_PYTHON) if module == "torch" else Side(module), 1)
    setup = setup_of(model, how)
    try:
        worker.prepare(Case(model, setup, "pass"))
        return worker
    except RuntimeError as error:
        worker.close()
        print(f"{way} on {model}: {error}", file=sys.stderr)
        return None


def measure(models, ways, rounds, side_by_side):
    """Yields each model, the milliseconds of a step by way (NaN where it failed), and the seconds
    of its first step."""
    cases = [(model, way) for model in models for way in ways]
    with ThreadPoolExecutor(len(cases) if side_by_side else 1) as pool:
        workers = dict(zip(cases, pool.map(lambda case: prepared(*case), cases), strict=True))
    try:
        for model in models:
            own = {way: workers[model, way] for way in ways if workers[model, way]}
            times = {way: [] for way in ways}
            for _ in range(rounds):
                for way, worker in own.items():
                    times[way].append(worker.evaluate("timed(5)") * 1e3)
            ms = {way: statistics.median(t) if t else float("nan") for way, t in times.items()}
            yield model, ms, {way: worker.evaluate("first") for way, worker in own.items()}
    finally:
        for worker in workers.values():
            if worker:
                worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="words of models' names, with commas between")
    parser.add_argument(
        "--together", type=int, default=0,
        help="so many models are prepared at once, all ways side by side: quicker, but the times of"
        " first steps say nothing then",
    )  # fmt: skip
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    ways = [w for w, (module, _) in WAYS.items() if TORCH_PYTHON or module != "torch"]
    rows, ratios = [], []
    models = [m for m in BATCHES if any(word in m for word in args.only.split(","))]
    size = args.together or 1
    groups = [models[i : i + size] for i in range(0, len(models), size)]
    results = (r for g in groups for r in measure(g, ways, args.rounds, bool(args.together)))
    for model, ms, first in results:
        row = [model, str(BATCHES[model]), *(f"{ms[w]:.2f}" for w in ways)]
        if not args.together:
            row.append(", ".join(f"{first[w]:.1f}" for w in ways if w in first))
        if TORCH_PYTHON:
            ratios.append(min(ms[w] for w in THEIRS if ms[w] == ms[w]) / min(ms[w] for w in OURS))
            row += [f"{ratios[-1]:.2f}", "" if ratios[-1] >= 1 else "missed"]
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    header = ["model", "batch", *(f"{w}, ms" for w in ways)]
    if not args.together:
        header.append("first steps, s")
    if TORCH_PYTHON:
        header += ["to torch.compile", ""]
        print(f"geometric mean {geometric_mean(ratios):.2f}")
    if not args.no_report:
        parts = [markdown(header, rows)]
        if ratios:
            parts.append(f"Geometric mean: {geometric_mean(ratios):.2f}.\n")
        title = f"The six models of Table 1, compiled, on {rl.cuda.get_device_name()}"
        write_report("compile_table1", title, *parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
