"""When the host queues work for a GPU, and when the GPU does it; the paper's Figures 1 and 2.

    python benchmarks/cuda_timeline.py [--model resnet50] [--batch 32] [--report]

Figure 1: the layers of a forward pass. The host's times are those of the calls, the GPU's come from
CUDA events around them, on one axis. The host runs ahead: it has queued the last layer long before
the GPU has computed it.

Figure 2: the first training steps with the caching allocator and without it (a setting of the
library, config.cuda_caching_allocator), each in a process of its own: seconds per step, and how
often the driver was asked for memory.

`--report` writes results/cuda_timeline.md, .json and, where matplotlib is there, .png.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
WIDTH = 100  # characters of a row


def trace(lib, training, skip=3):
    """[(layer, host begin, host end, gpu begin, gpu end)] in milliseconds, of one forward pass."""
    rows = []
    leaves = [(n, m) for n, m in training.model.named_modules() if not list(m.children())]

    def event():
        e = lib.cuda.Event(enable_timing=True)
        e.record()
        return e

    state = {}

    def before(name):
        def hook(module, inputs):
            state[name] = event(), time.perf_counter()

        return hook

    def after(name):
        def hook(module, inputs, output):
            end = time.perf_counter()
            first, begin = state.pop(name)
            rows.append((name, begin, end, first, event()))

        return hook

    handles = []
    for name, module in leaves:
        handles += [module.register_forward_pre_hook(before(name)),
                    module.register_forward_hook(after(name))]  # fmt: skip
    with lib.no_grad():
        for _ in range(skip + 1):
            rows.clear()
            lib.cuda.synchronize()
            origin, start = event(), time.perf_counter()
            training.loss()
            queued = time.perf_counter()
            lib.cuda.synchronize()
    for handle in handles:
        handle.remove()
    done = (time.perf_counter() - start) * 1e3
    layers = [
        {
            "layer": name,
            "host": [(begin - start) * 1e3, (end - start) * 1e3],
            "gpu": [origin.elapsed_time(first), origin.elapsed_time(last)],
        }
        for name, begin, end, first, last in rows
    ]
    return {"queued_ms": (queued - start) * 1e3, "done_ms": done, "layers": layers}


def bar(begin, end, total):
    left = int(begin / total * WIDTH)
    right = max(left + 1, int(end / total * WIDTH))
    return " " * left + "#" * (right - left)


def draw(figure, most=24):
    """The timeline as text: a row for the host and one for the GPU for every few layers."""
    total = max(figure["done_ms"], *(layer["gpu"][1] for layer in figure["layers"]))
    lines = [f"0 ms {'':{WIDTH - 12}} {total:.2f} ms"]
    step = max(1, len(figure["layers"]) // most)
    for layer in figure["layers"][::step]:
        for who in ("host", "gpu"):
            lines.append(f"{layer['layer'][-24:]:>24} {who:>4} |{bar(*layer[who], total)}")
    lines.append(f"everything queued after {figure['queued_ms']:.2f} ms, "
                 f"done after {figure['done_ms']:.2f} ms")  # fmt: skip
    return "\n".join(lines)


def iterations(lib, training, count):
    """Seconds and driver calls of each of the first steps."""
    rows = []
    for _ in range(count):
        before = lib.cuda.memory_stats()
        start = time.perf_counter()
        training.step()
        lib.cuda.synchronize()
        seconds = time.perf_counter() - start
        after = lib.cuda.memory_stats()
        rows.append({
            "seconds": seconds,
            "driver_allocations": after["num_device_alloc"] - before.get("num_device_alloc", 0),
            "driver_frees": after["num_device_free"] - before.get("num_device_free", 0),
        })  # fmt: skip
    return rows


def make_training(args):
    import rushlight as lib

    sys.path.append(str(HERE))
    from table1_models import Training

    return lib, Training(lib, args.model, batch=args.batch, device="cuda")


def worker(args):
    lib, training = make_training(args)
    if args.worker == "trace":
        training.step()
        return trace(lib, training)
    return iterations(lib, training, args.steps)


def in_process(args, what, config=""):
    command = [sys.executable, __file__, "--worker", what, "--model", args.model]
    command += ["--batch", str(args.batch), "--steps", str(args.steps)]
    env = {**os.environ, "RUSHLIGHT_CONFIG": config}
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def figure2(on, off):
    lines = [f"{'step':>4} {'caching: ms':>14} {'driver calls':>13} {'none: ms':>12} "
             f"{'driver calls':>13}"]  # fmt: skip
    for i, (a, b) in enumerate(zip(on, off, strict=True), 1):
        calls = [x["driver_allocations"] + x["driver_frees"] for x in (a, b)]
        lines.append(f"{i:>4} {a['seconds'] * 1e3:>14.1f} {calls[0]:>13} "
                     f"{b['seconds'] * 1e3:>12.1f} {calls[1]:>13}")  # fmt: skip
    return "\n".join(lines)


def picture(data, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return False
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(11, 7))
    for k, who in enumerate(("gpu", "host")):
        for i, layer in enumerate(data["timeline"]["layers"]):
            begin, end = layer[who]
            top.broken_barh([(begin, max(end - begin, 1e-3))], (k, 0.8), color=f"C{i % 10}")
    top.set_yticks([0.4, 1.4], ["GPU computes", "host queues"])
    top.set_xlabel("ms")
    for name in ("on", "off"):
        ms = [step["seconds"] * 1e3 for step in data["allocator"][name]]
        bottom.plot(range(1, len(ms) + 1), ms, "o-", label=f"caching allocator {name}")
    bottom.set_yscale("log")
    bottom.set_xlabel("step")
    bottom.set_ylabel("ms")
    bottom.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    return True


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--out", default=str(HERE / "results"), help="folder of the report")
    parser.add_argument("--worker", choices=["trace", "steps"], help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        print(json.dumps(worker(args)))
        return
    data = {
        "model": args.model,
        "batch": args.batch,
        "timeline": in_process(args, "trace"),
        "allocator": {
            "on": in_process(args, "steps"),
            "off": in_process(args, "steps", "cuda_caching_allocator=off"),
        },
    }
    text = draw(data["timeline"])
    table = figure2(data["allocator"]["on"], data["allocator"]["off"])
    print(text, table, sep="\n\n")
    if args.report:
        out = Path(args.out)
        (out / "cuda_timeline.json").write_text(json.dumps(data, indent=1) + "\n")
        drawn = picture(data, out / "cuda_timeline.png")
        image = "\n![timeline](cuda_timeline.png)\n" if drawn else ""
        (out / "cuda_timeline.md").write_text(
            f"# Host and GPU, {args.model}, batch {args.batch}\n\n"
            "What the figures show: benchmarks/cuda_timeline.py.\n"
            f"{image}\n```\n{text}\n```\n\n```\n{table}\n```\n"
        )


if __name__ == "__main__":
    main()
