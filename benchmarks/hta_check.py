"""Idle and overlap of a GPU: our figures against those of HTA (PyPI: HolisticTraceAnalysis).

    python benchmarks/hta_check.py record FOLDER [--model resnet50] [--batch 32]
    python-with-hta benchmarks/hta_check.py compare FOLDER

`record` needs a GPU and CUPTI: it writes the trace of some training steps, with a stream of its own
for copies, and what report says about it. `compare` reads the trace with HTA, and exits with 1
where a figure differs by more than one percent of the time.
"""

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def record(folder, model, batch):
    import rushlight as lib
    from rushlight.profiler import profile, report

    sys.path.append(str(HERE))
    from table1_models import Training

    training = Training(lib, model, batch=batch, device="cuda")
    for _ in range(2):
        training.step()
    side = lib.cuda.Stream()
    host = lib.ones(1 << 22).pin_memory()
    with profile() as prof:
        for _ in range(4):
            with lib.cuda.stream(side):
                copied = host.to("cuda", non_blocking=True)
            training.step()
    del copied
    write(prof, report(prof, peaks=(1e12, 1e12)), folder)


def write(prof, verdict, folder):
    (device,) = verdict.devices
    prof.export_chrome_trace(folder / "trace.json.gz")
    (folder / "ours.json").write_text(json.dumps({
        "total": device.total, "idle": device.total - device.busy, "compute": device.kernels,
        "communication": device.communication, "overlap": device.overlap,
    }))  # fmt: skip


def compare(folder):
    # By default it cuts times to whole microseconds, which is much for short kernels.
    os.environ.setdefault("HTA_DISABLE_NS_ROUNDING", "1")
    from hta.trace_analysis import TraceAnalysis

    ours = json.loads((folder / "ours.json").read_text())
    analysis = TraceAnalysis(trace_files={0: str(folder / "trace.json.gz")}, trace_dir=str(folder))
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    theirs = {"total": row["kernel_time(us)"], "idle": row["idle_time(us)"],
              "compute": row["compute_time(us)"]}  # fmt: skip
    if ours["communication"]:
        share = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
        theirs["overlap"] = share / 100 * ours["communication"]
    worst = 0.0
    for name, value in theirs.items():
        apart = abs(ours[name] - value) / ours["total"]
        worst = max(worst, apart)
        print(f"{name:>10}: ours {ours[name]:12.1f} us, HTA {value:12.1f} us, "
              f"{100 * apart:.3f}% of the time apart")  # fmt: skip
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    if args.what == "record":
        args.folder.mkdir(parents=True, exist_ok=True)
        record(args.folder, args.model, args.batch)
        return 0
    return int(compare(args.folder) > 0.01)


if __name__ == "__main__":
    sys.exit(main())
