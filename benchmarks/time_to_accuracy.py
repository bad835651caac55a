"""How long training takes to a target, on Rushlight and on PyTorch: two of the examples.

    python benchmarks/time_to_accuracy.py --peer PYTHON [--task digits gpt] [--seeds 3] [--report]

The digits network (examples/digits.py) to 98% of the held-out images, and the character GPT
(examples/char_gpt.py) to a held-out loss of 1.9. Both libraries run the example's own classes: the
source is loaded with the library's name in place of ours. Each run is a process of its own, the
sides take turns, and the clock counts training only, not the evaluation between. `--report` writes
results/time_to_accuracy.md, .json and, where matplotlib is there, .png. A run that does not get
there counts as missed, whatever its time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

from peer import RESULTS, TORCH_PYTHON, markdown, write_report

EXAMPLES = Path(__file__).parent.parent / "examples"
PEER_ENV = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
TARGETS = {"digits": (0.98, "accuracy"), "gpt": (1.9, "loss")}


# --- one run, in the library's own process ------------------------------------------------------


def load_example(name, module):
    """The example's names, with `module` instead of rushlight and without what only prints."""
    stub = types.ModuleType("stub")
    stub.tqdm = stub.load_digits = None
    missing = [m for m in ("tqdm", "sklearn", "sklearn.datasets") if m not in sys.modules]
    sys.modules |= dict.fromkeys(missing, stub)
    source = (EXAMPLES / f"{name}.py").read_text()
    source = source.replace("import rushlight as torch", f"import {module} as torch")
    source = source.replace("from rushlight", f"from {module}")
    names = {"__name__": name, "__file__": str(EXAMPLES / f"{name}.py")}
    exec(compile(source, f"{name}.py", "exec"), names)
    for module in missing:
        del sys.modules[module]
    return types.SimpleNamespace(**names)


def train_digits(torch, example, data, most):
    """Yields the accuracy after each epoch, and trains when it is asked for the next."""
    import numpy as np

    arrays = np.load(data)
    images = torch.from_numpy(arrays["images"]).float().unsqueeze(1) / 16
    labels = torch.from_numpy(arrays["labels"]).long()
    test, train = slice(0, len(labels) // 4), slice(len(labels) // 4, None)
    model = example.Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    for _ in range(most):
        model.train()
        for batch in torch.randperm(len(labels[train])).split(64):
            optimizer.zero_grad()
            shifted = example.jitter(images[train][batch])
            loss = torch.nn.functional.cross_entropy(model(shifted), labels[train][batch])
            loss.backward()
            optimizer.step()
        yield lambda: example.evaluate(model, images[test], labels[test])[1]


def train_gpt(torch, example, data, most):
    """The same, fifty steps at a time."""
    text = example.Text(example.TALES.read_text(encoding="utf-8"))
    model = example.GPT(len(text.alphabet))
    optimizer = example.make_optimizer(model, 2e-3)
    for _ in range(most):
        for _ in range(50):
            optimizer.zero_grad()
            example.loss_of(model, *text.batch("train", 32, model.context)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        yield lambda: example.test_loss(model, text, 32)


def run_side(args):
    """Prints the points (seconds of training so far, value) as JSON."""
    import importlib

    sys.path.pop(0)  # this folder: nothing in it may hide a library
    torch = importlib.import_module(args.side)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    (task,) = args.task
    example = load_example("digits" if task == "digits" else "char_gpt", args.side)
    training = (train_digits if task == "digits" else train_gpt)(
        torch, example, args.data, args.most
    )
    points, spent = [], 0.0
    start = time.perf_counter()
    for value in training:
        spent += time.perf_counter() - start
        points.append((spent, value()))
        if reached(task, points[-1][1]):
            break
        start = time.perf_counter()
    print(json.dumps(points))


def reached(task, value):
    target, kind = TARGETS[task]
    return value >= target if kind == "accuracy" else value <= target


# --- all runs -----------------------------------------------------------------------------------


def curves(task, args):
    """Points by side and seed; the sides take turns."""
    sides = {"rushlight": (sys.executable, {})}
    if args.peer:
        sides["torch"] = (args.peer, PEER_ENV)
    found = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "digits.npz")
        if task == "digits":
            save_digits(data)
        for seed in range(args.seeds):
            for side, (python, env) in sides.items():
                command = [python, __file__, "--side", side, "--task", task, "--seed", str(seed),
                           "--threads", str(args.threads), "--data", data,
                           "--most", str(args.most)]  # fmt: skip
                out = subprocess.run(
                    command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | env
                )
                points = json.loads(out.stdout.splitlines()[-1])
                found[side].append(points)
                print(f"{task:<8} {side:<10} seed {seed}: {points[-1][1]:.3f} after "
                      f"{points[-1][0]:.1f} s, {len(points)} evaluations", flush=True)  # fmt: skip
    return found


def save_digits(path):
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    np.savez(path, images=digits.images[order], labels=digits.target[order])


def summary(task, found):
    """A row: the median time to the target on each side, how often it was reached, the ratio."""
    target, kind = TARGETS[task]
    row, times = [f"{task}, {kind} {target}"], []
    for runs in found.values():
        done = [points[-1][0] for points in runs if reached(task, points[-1][1])]
        times.append(statistics.median(done) if done else None)
        shown = f"{times[-1]:.1f} s" if done else "not reached"
        row.append(f"{shown} ({len(done)} of {len(runs)} runs)")
    row.append(f"{times[1] / times[0]:.2f}" if len(times) == 2 and all(times) else "")
    return row


def draw(results):
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(1, len(results), figsize=(5 * len(results), 4), squeeze=False)
    for axes, (task, found) in zip(all_axes[0], results.items(), strict=True):
        for side, color in zip(found, ("tab:red", "tab:blue"), strict=False):
            for k, points in enumerate(found[side]):
                label = {"torch": "PyTorch"}.get(side, side) if k == 0 else None
                axes.plot(*zip(*points, strict=True), color=color, alpha=0.7, label=label)
        axes.axhline(TARGETS[task][0], color="black", linewidth=0.8, linestyle="--")
        axes.set_xlabel("seconds of training")
        axes.set_ylabel(f"held-out {TARGETS[task][1]}")
        axes.set_title(task)
        axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "time_to_accuracy.png", dpi=120)
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=TORCH_PYTHON, help="a Python that has PyTorch")
    parser.add_argument("--task", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seeds", type=int, default=3, help="runs per side")
    parser.add_argument("--most", type=int, default=60, help="evaluations before a run gives up")
    parser.add_argument("--report", action="store_true")
    for hidden in ("--side", "--data"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        return run_side(args)
    results = {task: curves(task, args) for task in args.task}
    rows = [summary(task, found) for task, found in results.items()]
    for row in rows:
        print(" | ".join(row))
    if args.report:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "time_to_accuracy.json").write_text(json.dumps(results) + "\n")
        how = (
            f"{args.threads} thread(s), median of {args.seeds} seeds per side, training time only. "
            "The ratio is PyTorch's time to ours. `python benchmarks/time_to_accuracy.py --peer "
            f"PYTHON --threads {args.threads} --seeds {args.seeds} --report`\n"
        )
        header = ["task", "rushlight", *(["PyTorch", "ratio"] if args.peer else [""])]
        write_report("time_to_accuracy", "Training time to a target", how, markdown(header, rows))
        draw(results)
    return rows


if __name__ == "__main__":
    main()
