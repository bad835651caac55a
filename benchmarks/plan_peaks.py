"""Peak memory of training steps: what profiler.plan predicts, and what the allocator counts.

    python benchmarks/plan_peaks.py [--device cpu] [--only NAME] [--batch N] [--report] [--explain]

The six models of Table 1, a GPT and a U-Net. Exits with 1 where a prediction is off by more than
five percent. `--report` writes results/plan.md, with what results/plan.json (or the file that
`--json` names) has of the other device; `--explain` lists what ops have at the measured peak and
have not at the planned one, or the reverse: workspaces of libraries, copies in another layout.
"""

import argparse
import gc
import json
import math
import sys
from pathlib import Path

import rushlight as lib
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.profiler import plan

HERE = Path(__file__).parent
sys.path.append(str(HERE))

import models_today  # noqa: E402
import table1_models  # noqa: E402

BAR = 0.05


class Loss(nn.Module):
    """A task's model with its loss; lengths of sequences are read by Python, and stay."""

    def __init__(self, task, names, kept):
        super().__init__()
        self.model, self.task, self.names, self.kept = task.make(lib, False, 1.0), task, names, kept

    def forward(self, *tensors):
        data = dict(zip(self.names, tensors, strict=True)) | self.kept
        return self.task.loss(lib, self.model, data)


def of_table1(name, batch):
    import numpy as np

    task = table1_models.TASKS[name]
    arrays = task.inputs(batch or task.batch, False, np.random.default_rng(0))
    data = {key: lib.from_numpy(array) for key, array in arrays.items()}
    kept = {"lengths": data.pop("lengths")} if "lengths" in data else {}
    model = Loss(task, list(data), kept)
    return model, tuple(data.values()), lambda p: task.optimizer(lib, p, False)


class OfText(nn.Module):
    """A model of today's benchmarks, which are texts, with its loss."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *tensors):
        *inputs, target = tensors
        return self.loss(self.model(*inputs), target)


def today(*texts):
    found = {"lib": lib, "nn": nn, "F": F, "math": math, "APPROXIMATE": "tanh"}
    exec("\n".join(texts), found)
    return found


def gpt(batch):
    made = today(models_today.BLOCK, models_today.GPT)["GPT"](8000, 128, 256, 6, 8)
    ids = lib.randint(0, 8000, (batch or 4, 129))

    def loss(scores, target):
        return F.cross_entropy(scores.flatten(0, 1), target.flatten())

    return OfText(made, loss), (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()), lib.optim.AdamW


def unet(batch):
    made = today(models_today.UNET)["UNet"]()
    size = (batch or 4, 3, 64, 64)
    inputs = (lib.randn(size), lib.rand(size[0]) * 1000, lib.randn(size))
    return OfText(made, F.mse_loss), inputs, lib.optim.AdamW


CASES = {name: (lambda batch, name=name: of_table1(name, batch)) for name in table1_models.TASKS}
CASES |= {"gpt": gpt, "unet": unet}


def measured(model, inputs, make, device):
    """The most that is live during three steps, of what belongs to them."""
    gc.collect()
    on_gpu = device != "cpu"
    own = {t.data_ptr(): t for t in (*model.parameters(), *model.buffers(), *inputs)}
    own = sum(t.numel() * t.element_size() for t in own.values())
    now = lib.cuda.memory_allocated() if on_gpu else lib.memory_stats()["allocated"]
    optimizer = make(model.parameters())
    (lib.cuda.reset_peak_memory_stats if on_gpu else lib.reset_peak_memory_stats)()
    for _ in range(3):
        optimizer.zero_grad()
        model(*inputs).backward()
        optimizer.step()
    peak = lib.cuda.max_memory_allocated() if on_gpu else lib.memory_stats()["peak"]
    return peak - (now - own)


def of_ops(history, device):
    """Bytes that are there at the peak, by the op that made them."""
    time, _ = history.peak(device)
    found = {}
    for block in history.live_at(time, device):
        op = "before the steps" if block.event is None else block.event.name
        found[op] = found.get(op, 0) + block.bytes
    return found


def explain(name, device, batch):
    """Steps under a profile: on the meta device, as plan takes them, and on the device."""
    from rushlight.profiler import profile
    from rushlight.profiler._plan import _meta_model

    sides = []
    for where in ("meta", device):
        model, inputs, make = CASES[name](batch)
        with profile(profile_memory=True) as prof:
            # (.to("meta") would part weights that are shared.)
            model = _meta_model(model) if where == "meta" else model.to(where)
            inputs = tuple(t.to(where) for t in inputs)
            optimizer = make(model.parameters())
            for _ in range(2):
                optimizer.zero_grad()
                model(*inputs).backward()
                optimizer.step()
        history = prof.events().memory
        sides.append(of_ops(history, where if where in ("meta", "cpu") else f"{where}:0"))
    planned, found = sides
    rows = sorted(planned.keys() | found.keys(),
                  key=lambda op: -abs(found.get(op, 0) - planned.get(op, 0)))  # fmt: skip
    for op in rows[:12]:
        a, b = planned.get(op, 0) / 2**20, found.get(op, 0) / 2**20
        if abs(a - b) > 0.05:
            print(f"    {b - a:+9.2f} MiB  {op}: planned {a:.2f}, there {b:.2f}", flush=True)


def compared(name, device, batch):
    model, inputs, make = CASES[name](batch)
    planned = plan(model, inputs, loss=lambda loss: loss, optimizer=make, device=device).peak_bytes
    if device != "cpu":
        model.to(device)
        inputs = tuple(t.to(device) for t in inputs)
    return {"planned": planned, "measured": measured(model, inputs, make, device),
            "batch": len(inputs[0])}  # fmt: skip


def write(results):
    gpu = results.get("gpu")
    about = f' On the GPU ({gpu}) with `device="cuda"`: what cuDNN and cuBLAS work in counts.'
    lines = ["# Predicted and measured peak memory of training steps", "",
             "`profiler.plan` before anything runs, and the allocator's count; MiB "
             "(benchmarks/plan_peaks.py)." + (about if gpu else ""), "",
             "| model | device | batch | planned | measured | off by |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for device in ("cpu", "cuda"):
        for name, row in results.get(device, {}).items():
            a, b = row["planned"] / 2**20, row["measured"] / 2**20
            lines.append(f"| {name} | {device} | {row['batch']} | {a:.1f} | {b:.1f} | "
                         f"{100 * (a / b - 1):+.2f}% |")  # fmt: skip
    (HERE / "results" / "plan.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--explain", action="store_true", help="which ops make the difference")
    parser.add_argument("--json", type=Path, help="where figures of both devices are kept")
    args = parser.parse_args()
    kept = args.json or HERE / "results" / "plan.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    if args.device != "cpu":
        results["gpu"] = lib.cuda.get_device_name()
    bad = False
    for name in [args.only] if args.only else CASES:
        row = compared(name, args.device, args.batch)
        off = row["planned"] / row["measured"] - 1
        bad |= abs(off) > BAR
        a, b = row["planned"] / 2**20, row["measured"] / 2**20
        print(f"{name:14} batch {row['batch']:5} planned {a:9.1f} MiB, measured {b:9.1f} MiB, "
              f"{100 * off:+.2f}%", flush=True)  # fmt: skip
        if args.explain:
            explain(name, args.device.partition(":")[0], args.batch)
        results.setdefault(args.device.partition(":")[0], {})[name] = row
        if args.json or args.report:
            kept.write_text(json.dumps(results))
    if args.report:
        write(results)
    sys.exit(bad)


if __name__ == "__main__":
    main()
