"""Products of float32 matrices on a GPU: ours by tensor cores, cuBLASLt's float32, PyTorch's.

    python benchmarks/cuda_float32_products.py [--rounds 5] [--report FILE]

In turns, medians. Errors are the largest |result - exact| / (|a| @ |b|) of the first 512 rows, in
units of 2^-24. PyTorch is asked where it is installed. Shapes: the linear layers of the models of
Table 1 and of transformers in float32, forward (NT) and both gradients (NN, TN). Last, a product
of which one number is NaN, whose rows are computed again in float32.
"""

import argparse
import functools
import statistics

import rushlight as rl

try:
    import torch
except ImportError:
    torch = None

SHAPES = [  # name, m, n, k, left's and right's lines
    ("square 4096", 4096, 4096, 4096, "NT"),
    ("square 8192", 8192, 8192, 8192, "NN"),
    ("GNMT words, forward", 3200, 32000, 1024, "NT"),
    ("GNMT words, input's gradient", 3200, 1024, 32000, "NN"),
    ("GNMT words, weight's gradient", 32000, 1024, 3200, "TN"),
    ("NCF first layer, forward", 1048576, 256, 256, "NT"),
    ("NCF first layer, input's gradient", 1048576, 256, 256, "NN"),
    ("NCF first layer, weight's gradient", 256, 256, 1048576, "TN"),
    ("NCF second layer, forward", 1048576, 128, 256, "NT"),
    ("NCF third layer, forward", 1048576, 64, 128, "NT"),
    ("AlexNet first, forward", 128, 4096, 9216, "NT"),
    ("AlexNet first, input's gradient", 128, 9216, 4096, "NN"),
    ("AlexNet first, weight's gradient", 4096, 9216, 128, "TN"),
    ("VGG-19 first, forward", 64, 4096, 25088, "NT"),
    ("VGG-19 first, weight's gradient", 4096, 25088, 64, "TN"),
    ("GPT-2 feed forward", 8192, 3072, 768, "NT"),
    ("GPT-2 feed forward, weight's gradient", 3072, 768, 8192, "TN"),
    ("BERT attention, 4096 tokens", 4096, 1024, 1024, "NT"),
    ("512 tokens by 768", 512, 768, 768, "NT"),
    ("1024 x 1024", 1024, 1024, 1024, "NN"),
]


def timed(lib, f, repeats):
    start, end = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        f()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeats * 1e3


def made(lib, m, n, k, lines):
    a = lib.randn(m, k, device="cuda") if lines[0] == "N" else lib.randn(k, m, device="cuda").T
    b = lib.randn(k, n, device="cuda") if lines[1] == "N" else lib.randn(n, k, device="cuda").T
    return a, b


def error(f, a, b):
    wide_a, wide_b = a[:512].double(), b.double()
    sizes = wide_a.abs() @ wide_b.abs()
    return float(((f()[:512].double() - wide_a @ wide_b).abs() / sizes).max()) * 2**24


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--report")
    options = parser.parse_args()
    lines = [
        f"# Products of float32 matrices on {rl.cuda.get_device_name()}",
        "",
        "| what | m x n x k | ours, us | 10^12 per s | cuBLASLt, us | torch, us "
        "| ours to torch | error | float32's |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines))
    for name, m, n, k, kind in SHAPES:
        if options.only not in name:
            continue
        a, b = made(rl, m, n, k, kind)
        out = rl.empty(m, n, device="cuda")

        def ours(precision, a=a, b=b, out=out):
            rl.backends.cuda.matmul.fp32_precision = precision
            return rl.mm(a, b, out=out)

        ways = {"ours": (rl, lambda: ours("none")), "lt": (rl, lambda: ours("ieee"))}
        if torch:
            c, d = made(torch, m, n, k, kind)
            to = torch.empty(m, n, device="cuda")
            ways["torch"] = (torch, functools.partial(torch.mm, c, d, out=to))
        repeats = max(3, int(4e12 / (2 * m * n * k)))
        repeats = min(repeats, 200)
        times = {way: [] for way in ways}
        for lib, f in ways.values():
            timed(lib, f, 3)
        for _ in range(options.rounds):
            for way, (lib, f) in ways.items():
                times[way].append(timed(lib, f, repeats))
        t = {way: statistics.median(all_) for way, all_ in times.items()}
        errors = [error(lambda p=p: ours(p), a, b) for p in ("none", "ieee")]
        peer = f"{t['torch']:.1f} | {t['ours'] / t['torch']:.2f}" if torch else " | "
        line = (
            f"| {name} | {m} x {n} x {k} | {t['ours']:.1f} | {2 * m * n * k / t['ours'] / 1e6:.1f} "
            f"| {t['lt']:.1f} | {peer} | {errors[0]:.2f} | {errors[1]:.2f} |"
        )
        lines.append(line)
        print(line, flush=True)
    a, b = made(rl, 4096, 4096, 4096, "NT")
    rl.backends.cuda.matmul.fp32_precision = "none"
    for what, row in (("one number is", 0), ("all numbers are", slice(None))):
        a[row, row] = float("nan")
        took = timed(rl, lambda a=a: a @ b, 2)
        lines += ["", f"4096 x 4096 x 4096 of whose first factor {what} NaN: {took:.0f} us."]
        print(lines[-1], flush=True)
    if options.report:
        with open(options.report, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
