"""What each setting of rushlight.config contributes to the speed of each model of Table 1.

    python benchmarks/ablation.py [--model resnet50 ncf] [--batch 2 2048] [--threads 2] [--report]
    python benchmarks/ablation.py --device cuda --model resnet50 --batch 64

One setting at a time is switched off (RUSHLIGHT_CONFIG, RUSHLIGHT_ISA) in a process of its own,
which takes turns with a process that has the defaults. A figure is the time of a step without the
setting over the time with it: at 1.30 a step takes 30% longer without the setting, at 1.00 it does
nothing there. The last row of the CPU's table is the data loader: an epoch of images that cost 2 ms
of Python each, with the given number of workers and without.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

from peer import SETTLE, Case, Side, Worker, geometric_mean, markdown, write_report
from table1 import SETUP, TASKS

HERE = Path(__file__).parent

CPU = {
    "caching allocator off": {"RUSHLIGHT_CONFIG": "caching_allocator=off"},
    "huge pages off": {"RUSHLIGHT_CONFIG": "huge_pages=off"},
    "automatic layout off": {"RUSHLIGHT_CONFIG": "automatic_layout=off"},
    "primitive cache off": {"RUSHLIGHT_CONFIG": "primitive_cache=off"},
    "kept weights off": {"RUSHLIGHT_CONFIG": "weight_layouts=off"},
    "oneDNN off": {"RUSHLIGHT_CONFIG": "onednn=off"},
    "direct sums": {"RUSHLIGHT_CONFIG": "winograd=off"},
    "fused optimiser off": {"RUSHLIGHT_CONFIG": "fused_optimizer=off"},
    "one thread": {"RUSHLIGHT_CONFIG": "threads=1"},
    "AVX2 only": {"RUSHLIGHT_ISA": "avx2"},
    "baseline instructions only": {"RUSHLIGHT_ISA": "baseline"},
}
CUDA = {
    "caching allocator off": {"RUSHLIGHT_CONFIG": "cuda_caching_allocator=off"},
    "expandable segments off": {"RUSHLIGHT_CONFIG": "cuda_expandable_segments=off"},
    "every op synchronised": {"RUSHLIGHT_CUDA_BLOCKING": "1"},
    "automatic layout off": {"RUSHLIGHT_CONFIG": "automatic_layout=off"},
    "fused optimiser off": {"RUSHLIGHT_CONFIG": "fused_optimizer=off"},
}

LOADER = """
import time
import rushlight
from rushlight.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self):
        return {count}
    def __getitem__(self, i):
        end = time.perf_counter() + 2e-3  # decoding, in Python
        while time.perf_counter() < end:
            pass
        return rushlight.full((3, 64, 64), float(i)), i % 10

model = rushlight.nn.Sequential(
    rushlight.nn.Conv2d(3, 16, 3, stride=2), rushlight.nn.ReLU(), rushlight.nn.AdaptiveAvgPool2d(1),
    rushlight.nn.Flatten(), rushlight.nn.Linear(16, 10))
optimizer = rushlight.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Images(), batch_size=16, num_workers={workers},
                    persistent_workers={workers} > 0)
def epoch():
    for images, labels in loader:
        optimizer.zero_grad()
        rushlight.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
"""


def alternate(default, other, rounds, steps):
    """Median over neighbouring turns of the other's time to the default's."""
    ratios = []
    for _ in range(rounds):
        times = []
        for worker in (default, other):
            time.sleep(SETTLE)
            times.append(min(worker.time(1) for _ in range(steps)))
        ratios.append(times[1] / times[0])
    return statistics.median(ratios)


def start(case, env, args):
    """A worker that has made its first steps; None, and why, where the setting is not there."""
    prelude = "" if "threads=1" in env.get("RUSHLIGHT_CONFIG", "") else (
        f"lib.set_num_threads({args.threads})"
    )  # fmt: skip
    try:
        worker = Worker(Side("rushlight", env=env, prelude=prelude), args.threads)
    except RuntimeError:
        return None
    worker.prepare(case)
    worker.time(1)
    return worker


def known_settings(device):
    """The variants that this build and this machine have."""
    from rushlight import config

    levels = ["baseline", "avx2", "avx512"]
    known = {}
    for name, env in (CUDA if device == "cuda" else CPU).items():
        setting = env.get("RUSHLIGHT_CONFIG", "").partition("=")[0]
        isa = env.get("RUSHLIGHT_ISA", "baseline")
        if setting and setting not in config.settings():
            print(f"{name}: this build has no setting {setting}", file=sys.stderr)
        elif levels.index(isa) <= levels.index(config.vectorization):
            known[name] = env
    return known


def contributions(model, variants, args):
    """Ratio by variant for one model."""
    setup = SETUP.format(
        folder=str(HERE), model=model, batch=args.batch[model], small=args.small,
        device=args.device, dtype="float32", channels_last=False, autocast=None, graph=False,
    )  # fmt: skip
    case = Case(model, setup, "training.step(); wait()")
    default = start(case, {}, args)
    found = {}
    try:
        for name, env in variants.items():
            other = start(case, env, args)
            if other is None:
                continue
            try:
                found[name] = alternate(default, other, args.rounds, args.steps)
            finally:
                other.close()
            print(f"{model:<14} {name:<28} {found[name]:.2f}", flush=True)
    finally:
        default.close()
    return found


def loader_contribution(args):
    """An epoch without workers to one with them."""
    workers = []
    try:
        for count in (args.workers, 0):
            worker = Worker(Side("rushlight"), 1)  # unbound: its workers need the cores
            workers.append(worker)
            worker.prepare(Case("loader", LOADER.format(count=256, workers=count), "epoch()"))
        ratio = alternate(*workers, args.rounds, 1)
    finally:
        for worker in workers:
            worker.close()
    print(f"{'loader':<14} {'no workers':<28} {ratio:.2f}", flush=True)
    return ratio


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--batch", type=int, nargs="+", help="one for all models, or one for each; "
                        "by default table1.py's")  # fmt: skip
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="+", help="variants whose names contain one of these")
    parser.add_argument("--workers", type=int, default=2, help="of the data loader")
    parser.add_argument("--steps", type=int, default=2, help="in a turn; the best one counts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="the variants that the tests use")
    parser.add_argument("--report", action="store_true", help="write results/ablation.md")
    args = parser.parse_args(argv)
    batches = args.batch or [None]
    if len(batches) == 1:
        batches *= len(args.model)
    if len(batches) != len(args.model):
        parser.error(f"{len(args.model)} models, but {len(batches)} batch sizes")
    given, args.batch = args.batch, dict(zip(args.model, batches, strict=True))

    variants = known_settings(args.device)
    if args.only:
        variants = {n: e for n, e in variants.items() if any(w in n for w in args.only)}
    found = {model: contributions(model, variants, args) for model in args.model}
    rows = []
    for name in variants:
        ratios = [found[model].get(name) for model in args.model]
        known = [r for r in ratios if r]
        mean = f"{geometric_mean(known):.2f}" if known else ""
        rows.append([name, *(f"{r:.2f}" if r else "" for r in ratios), mean])
    loader = None
    if args.device == "cpu" and (not args.only or any(w in "loader workers" for w in args.only)):
        loader = loader_contribution(args)
    header = ["switched off", *args.model, "mean"]
    if args.report:
        how = (
            "Time of a training step with one setting switched off, over the time with the "
            f"defaults: what the setting is worth. {args.threads} thread(s), {args.rounds} turns "
            f"of {args.steps} steps, alternated. `python benchmarks/ablation.py --threads "
            f"{args.threads} --rounds {args.rounds} --steps {args.steps}"
            + (f" --device {args.device}" if args.device != "cpu" else "")
            + (f" --batch {' '.join(map(str, given))}" if given else "")
            + "`\n"
        )
        tail = []
        if loader:
            tail.append(f"Loader with {args.workers} workers against none: {loader:.2f}.\n")
        name = "ablation_cuda" if args.device == "cuda" else "ablation"
        write_report(name, "What each setting contributes", how, markdown(header, rows), *tail)
    return rows


if __name__ == "__main__":
    main()
