"""What a profile of GPU and host costs: a ResNet-50 step, a tiny op, and how large ten steps are.

    python benchmarks/cuda_profiler.py [--model resnet50] [--batch 64] [--report]

Bars: five percent of a step, twenty megabytes for ten steps. Steps are timed in turns, recorded and
not, and the medians compared; before them a profile has run, so that CUPTI is open in both.
"""

import argparse
import gzip
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent


def seconds(lib, work, count):
    lib.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    lib.cuda.synchronize()
    return (time.perf_counter() - start) / count


def in_turns(lib, work, count, rounds, **options):
    """(recorded, not recorded), seconds of one call of work."""
    from rushlight.profiler import profile

    off, on = [], []
    for _ in range(rounds):
        off.append(seconds(lib, work, count))
        with profile(**options):
            on.append(seconds(lib, work, count))
    return statistics.median(on), statistics.median(off)


def size_of_trace(lib, work, count):
    from rushlight.profiler import profile

    with profile() as prof:
        for _ in range(count):
            work()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        prof.export_chrome_trace(path)
        packed = path.stat().st_size
        plain = len(gzip.decompress(path.read_bytes()))
    kernels = sum(e.activity == "kernel" for e in prof.events())
    return packed, plain, kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    import rushlight as lib

    sys.path.append(str(HERE))
    from table1_models import Training

    lines = []
    training = Training(lib, args.model, batch=args.batch, device="cuda")
    for _ in range(3):
        training.step()
    before = seconds(lib, training.step, 10)  # CUPTI was never open
    for name, options in {"plain": {}, "all": {
        "record_shapes": True, "with_modules": True, "with_flops": True, "profile_memory": True,
    }}.items():  # fmt: skip
        on, off = in_turns(lib, training.step, 5, args.rounds, **options)
        lines.append(f"{args.model} step, {name}: {1e3 * off:.2f} ms, recorded {1e3 * on:.2f} ms, "
                     f"{100 * (on / off - 1):.1f}% more")  # fmt: skip
    after = seconds(lib, training.step, 10)
    lines.append(f"before the first profile {1e3 * before:.2f} ms, after the last "
                 f"{1e3 * after:.2f} ms")  # fmt: skip
    x = lib.ones(4, device="cuda")
    on, off = in_turns(lib, lambda: x + x, 2000, args.rounds)
    lines.append(f"tiny op: {1e6 * off:.2f} us, recorded {1e6 * on:.2f} us")
    packed, plain, kernels = size_of_trace(lib, training.step, 10)
    lines.append(f"ten steps with {kernels} kernels: {packed / 1e6:.1f} MB packed, "
                 f"{plain / 1e6:.1f} MB plain")  # fmt: skip
    text = "\n".join(lines)
    print(text)
    if args.report:
        about = f"# Profiles of a GPU, {lib.cuda.get_device_name()}, batch {args.batch}"
        (HERE / "results" / "cuda_profiler.md").write_text(f"{about}\n\n```\n{text}\n```\n")


if __name__ == "__main__":
    main()
