"""Figures 1 and 2 of the PyTorch paper, drawn from our own profiler.

    python benchmarks/paper_figures.py record FILE.json [--model resnet50] [--batch 32]
    python benchmarks/paper_figures.py draw FILE.json [--out benchmarks/results]

`record` needs a GPU and CUPTI, `draw` matplotlib. Figure 1: the first operators of a forward pass,
above the host that queues them (gray: Python), below the GPU that runs them, with arrows from one
to the other. Figure 2: the first training steps of a fresh process, with the calls that get memory
from the driver, which block the host, marked; later steps have none.
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
OPERATORS = 14  # in figure 1
STEPS = 4  # in figure 2
MEMORY = ("cuMemAlloc", "cuMemFree", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap",
          "cuMemSetAccess", "cuMemHostAlloc", "cudaMalloc", "cudaFree")  # fmt: skip


def outermost(events):
    """Ops of the host that no other op is around."""
    for event in events:
        if event.name.startswith("aten::"):
            at = event.cpu_parent
            while at is not None and not at.name.startswith("aten::"):
                at = at.cpu_parent
            if at is None:
                yield event


def span(event):
    return [event.time_range.start, event.time_range.end]


def top_of(event):
    """The outermost op around what ran on a GPU."""
    found, at = None, event.launcher
    while at is not None:
        if at.name.startswith("aten::"):
            found = at
        at = at.cpu_parent
    return found


def record_operators(lib, training):
    for _ in range(3):
        training.loss()
    lib.cuda.synchronize()
    with lib.no_grad(), lib.profiler.profile() as prof:
        training.loss()
    events = prof.events()
    kernels = [e for e in events if e.on_device]
    ops = [e for e in outermost(events) if any(top_of(k) is e for k in kernels)]
    rows = [
        {"name": op.name, "host": span(op), "gpu": [span(k) for k in kernels if top_of(k) is op]}
        for op in ops
    ]
    return {
        "queued_us": max(op.time_range.end for op in ops) - ops[0].time_range.start,
        "ran_us": max(k.time_range.end for k in kernels) - kernels[0].time_range.start,
        "operators": rows[:OPERATORS],
    }


def record_steps(lib, training):
    with lib.profiler.profile() as prof:
        for step in range(STEPS):
            with lib.profiler.record_function(f"step {step}"):
                training.step()
                lib.cuda.synchronize()
    events = prof.events()
    steps = sorted((e for e in events if e.name.startswith("step ")), key=lambda e: e.name)
    found = []
    for step in steps:
        begin, end = span(step)

        def inside(which, begin=begin, end=end):
            return [[e.time_range.start - begin, e.time_range.end - begin, e.name]
                    for e in events if which(e) and begin <= e.time_range.start < end]  # fmt: skip

        found.append({
            "us": end - begin,
            "kernels": [[round(a, 1), round(b, 1)] for a, b, _ in inside(lambda e: e.on_device)],
            "memory": inside(lambda e: e.device_call and e.name in MEMORY),
            "modules": inside(lambda e: e.device_call and e.name == "cuModuleLoadData"),
        })  # fmt: skip
    return found


def record(args):
    import rushlight as lib

    sys.path.append(str(HERE))
    from table1_models import Training

    training = Training(lib, args.model, batch=args.batch, device="cuda")
    found = {"model": args.model, "batch": args.batch, "gpu": lib.cuda.get_device_name()}
    found["steps"] = record_steps(lib, training)  # first: nothing is cached yet
    found["figure1"] = record_operators(lib, training)
    Path(args.file).write_text(json.dumps(found))
    print(describe(found))


def describe(found):
    lines = []
    one = found["figure1"]
    lines.append(f"figure 1: all operators are queued within {one['queued_us'] / 1e3:.2f} ms and "
                 f"run for {one['ran_us'] / 1e3:.2f} ms: {one['ran_us'] / one['queued_us']:.1f} "
                 "times as long")  # fmt: skip
    for number, step in enumerate(found["steps"]):
        memory = sum(b - a for a, b, _ in step["memory"])
        busy = sum(b - a for a, b in step["kernels"])
        lines.append(f"figure 2, step {number}: {step['us'] / 1e3:.1f} ms, {len(step['memory'])} "
                     f"calls for memory take {memory / 1e3:.2f} ms, kernels run for "
                     f"{100 * busy / step['us']:.0f}% of it")  # fmt: skip
    return "\n".join(lines)


def draw_operators(axes, one, palette):
    origin = one["operators"][0]["host"][0]
    names = list(dict.fromkeys(op["name"] for op in one["operators"]))
    end = one["operators"][-1]["host"][1] - origin
    axes.broken_barh([(0, end)], (1.0, 0.6), color="#c9c9c9", label="Python")
    for op in one["operators"]:
        color = palette[names.index(op["name"]) % len(palette)]
        start, stop = (t - origin for t in op["host"])
        axes.broken_barh([(start, stop - start)], (1.0, 0.6), color=color, label=op["name"])
        spans = [(a - origin, b - a) for a, b in op["gpu"]]
        axes.broken_barh(spans, (0.0, 0.6), color=color)
        if spans:
            axes.annotate(
                "",
                (spans[0][0], 0.6),
                (start, 1.0),
                arrowprops={"arrowstyle": "->", "color": "#555555", "lw": 0.6},
            )
    axes.set_yticks([0.3, 1.3], ["GPU", "host"])
    axes.set_xlabel("microseconds")
    axes.set_title("Figure 1: the host queues operators ahead of the GPU")
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(shown.values(), shown.keys(), fontsize=7, ncol=4, loc="upper left",
                bbox_to_anchor=(0, -0.25))  # fmt: skip


def draw_steps(axes, steps):
    for number, step in enumerate(steps):
        y = len(steps) - 1 - number
        kernels = [(a / 1e3, max(b - a, 20) / 1e3) for a, b in step["kernels"]]
        memory = [(a / 1e3, max(b - a, 100) / 1e3) for a, b, _ in step["memory"]]
        axes.broken_barh(kernels, (y, 0.35), color="#4c78dd", label="kernels")
        axes.broken_barh(memory, (y + 0.4, 0.35), color="#d65f83", label="memory from the driver")
    axes.set_yticks([i + 0.35 for i in range(len(steps))],
                    [f"step {len(steps) - 1 - i}" for i in range(len(steps))])  # fmt: skip
    axes.set_xlabel("milliseconds since the step began")
    axes.set_title("Figure 2: the first step asks the driver for memory, the others do not")
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(shown.values(), shown.keys(), fontsize=7)


def draw(args):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = json.loads(Path(args.file).read_text())
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(10, 7), constrained_layout=True)
    palette = [matplotlib.colormaps["tab10"](i) for i in range(10)]
    draw_operators(top, found["figure1"], palette)
    draw_steps(bottom, found["steps"])
    out = Path(args.out)
    figure.savefig(out / "paper_figures.png", dpi=110)
    text = (f"# Figures 1 and 2 of the paper, {found['model']}, batch {found['batch']}, "
            f"{found['gpu']}\n\nDrawn by benchmarks/paper_figures.py from a profile.\n\n"
            f"![figures](paper_figures.png)\n\n```\n{describe(found)}\n```\n")  # fmt: skip
    (out / "paper_figures.md").write_text(text)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["record", "draw"])
    parser.add_argument("file")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    (record if args.what == "record" else draw)(args)


if __name__ == "__main__":
    main()
