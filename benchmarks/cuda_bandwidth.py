"""How near do pointwise ops and reductions come to a copy's bandwidth on a GPU?

    python benchmarks/cuda_bandwidth.py [--rounds 7] [--only argmax,sum] [--no-report]

Each runs over 256 MB of float32. What it has to read and write, over its time on the GPU, is its
bandwidth; a copy of the same tensor, timed beside it in the same turn, gives the measure. Bar: 85%.
"""

import argparse
import statistics

from peer import markdown, write_report

import rushlight as rl

N = 8192
SIZE = N * N * 4

# name: (statement, tensors of 256 MB that it reads and writes, in all)
OPS = {
    **{f"x.{name}()": (f"rl.{name}(x, out=out)", 2) for name in """abs neg exp log sqrt rsqrt sin
       cos tanh sigmoid erf floor square reciprocal log1p expm1 sign""".split()},
    "relu": ("rl.nn.functional.relu(x)", 2),
    "gelu": ("rl.nn.functional.gelu(x)", 2),
    "silu": ("rl.nn.functional.silu(x)", 2),
    "x.clamp_(0.1, 0.9)": ("out.clamp_(0.1, 0.9)", 2),
    "x * 2": ("rl.mul(x, 2, out=out)", 2),
    "x ** 2": ("rl.pow(x, 2, out=out)", 2),
    "x.bfloat16()": ("x.bfloat16()", 1.5),
    "x > 0.5": ("x > 0.5", 1.25),
    "x.fill_(1)": ("out.fill_(1)", 1),
    **{f"{name}(x, y)": (f"rl.{name}(x, y, out=out)", 3)
       for name in "add sub mul div maximum atan2".split()},
    "x.add_(y)": ("out.add_(y)", 3),
    "x + row": ("rl.add(x, row, out=out)", 2),
    "x + column": ("rl.add(x, column, out=out)", 2),
    "where(x > y)": ("rl.where(mask, x, y)", 3.25),
    "addcmul": ("rl.addcmul(out, x, y, out=out)", 4),
    "lerp": ("rl.lerp(x, y, 0.3, out=out)", 3),
    **{f"x.{name}()": (f"x.{name}()", 1)
       for name in "sum mean amax argmin prod norm var".split()},
    **{f"x.{name}({dim})": (f"x.{name}({dim})", 1)
       for name in "sum mean amax argmax prod var logsumexp".split()
       for dim in (0, 1)},
    "bits.any()": ("bits.any()", 1),
}  # fmt: skip


def gpu_time(run):
    start, end = rl.cuda.Event(enable_timing=True), rl.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 5e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="words of names; no report is written then")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    rl.manual_seed(0)
    scope = {"rl": rl, "x": rl.rand(N, N, device="cuda") + 0.01, "y": rl.rand(N, N, device="cuda")}
    scope |= {"out": rl.rand(N, N, device="cuda"), "row": rl.rand(N, device="cuda")}
    scope |= {"column": rl.rand(N, 1, device="cuda"), "mask": scope["x"] > scope["y"]}
    scope["bits"] = rl.zeros(2 * N, 2 * N, dtype=rl.bool, device="cuda")
    copy = eval("lambda: out.copy_(x)", scope)
    rows, missed = [], 0
    wanted = args.only.split(",") if args.only else [""]
    for name, (statement, tensors) in OPS.items():
        if not any(word in name for word in wanted):
            continue
        run = eval(f"lambda: {statement}", scope)
        with rl.no_grad():
            gpu_time(run), gpu_time(copy)
            pairs = [(gpu_time(run), gpu_time(copy)) for _ in range(args.rounds)]
        speed = statistics.median(tensors * SIZE / t for t, _ in pairs) / 1e9
        share = statistics.median(tensors / 2 * c / t for t, c in pairs)
        missed += share < 0.85
        rows.append(
            [name, f"{speed:,.0f}", f"{100 * share:.0f}%", "" if share >= 0.85 else "missed"]
        )
        print(
            f"{name:24} {speed:8,.0f} GB/s {100 * share:5.0f}% of a copy {rows[-1][-1]}", flush=True
        )
    print(f"{missed} of {len(rows)} below 85%")
    if not (args.no_report or args.only):
        write_report(
            "cuda_bandwidth", f"Bandwidth of ops over 256 MB on {rl.cuda.get_device_name()}",
            f"`cuda_bandwidth.py --rounds {args.rounds}`. Bar: 85% of a copy's.\n",
            markdown(["what", "GB/s", "of a copy", ""], rows),
        )  # fmt: skip


if __name__ == "__main__":
    main()
