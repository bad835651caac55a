"""What it gives that batch norm's backward does not read the activation behind it: ResNet-50's and
MobileNetV2's compiled steps with and without (csrc/device/origin.h), on a GPU.

    python benchmarks/known_masks.py [--only resnet50] [--rounds 9] [--no-report]

One process per model, which takes both ways in turns: the setting is looked at in forward. A step
is whole, as in compile_table1.py. Beside its milliseconds: those that norms' kernels took of one.
"""

import argparse
import statistics
import subprocess
import sys
import time

from compile_table1 import BATCHES
from peer import markdown, write_report
from table1_models import Training

MODELS = ("resnet50", "mobilenet_v2")
NORMS = ("fused_channel_", "channel_map", "channel_sums", "channel_norm")


def measure(model, rounds):
    """Prints milliseconds of a step and of its norms' kernels, without and with."""
    import rushlight as rl
    from rushlight import _C
    from rushlight.profiler import ProfilerActivity, profile

    training = Training(rl, model, batch=BATCHES[model], device="cuda")
    training.model = rl.compile(training.model, options={"wait_for_code": True})

    def timed(calls):
        rl.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            training.step()
        rl.cuda.synchronize()
        return (time.perf_counter() - start) / calls * 1e3

    times, norms = {False: [], True: []}, {}
    for on in times:
        _C._leave_origins(on)
        timed(15)
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            training.step()
            rl.cuda.synchronize()
        kernels = [e for e in seen.events() if e.activity == "kernel"]
        spans = [e.time_range for e in kernels if any(n in e.name for n in NORMS)]
        norms[on] = sum(span.end - span.start for span in spans) / 1e3
    for _ in range(rounds):
        for on, found in times.items():
            _C._leave_origins(on)
            timed(1)
            found.append(timed(10))
    for on in times:
        print(f"{statistics.median(times[on]):.2f} {norms[on]:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.rounds)
        return 0
    rows = []
    for model in MODELS:
        if args.only not in model:
            continue
        command = [sys.executable, __file__, "--measure", model, "--rounds", str(args.rounds)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        without, with_it = (line.split() for line in done.stdout.splitlines()[-2:])
        rows.append([model, str(BATCHES[model]), without[0], with_it[0], without[1], with_it[1]])
        print(*rows[-1], sep=" | ", flush=True)
    if not args.no_report:
        import rushlight as rl

        header = ["model", "batch", "read, ms", "computed, ms", "norms' kernels, read, ms",
                  "norms' kernels, computed, ms"]  # fmt: skip
        title = f"Masks of activations behind batch norms on {rl.cuda.get_device_name()}"
        write_report("known_masks", title, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
