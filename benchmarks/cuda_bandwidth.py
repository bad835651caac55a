"""How near do pointwise ops and reductions come to a copy's bandwidth on a GPU?

    python benchmarks/cuda_bandwidth.py [--rounds 7] [--only argmax,sum] [--no-report]

Each runs over 256 MB of float32, then of bfloat16. What it has to read and write, over its time on
the GPU, is its bandwidth; a copy of the same tensor, timed beside it in the same turn, gives the
measure. Backward forms read the gradient and what forward saved. Bar: 85%.
"""

import argparse
import statistics

from peer import markdown, write_report

import rushlight as rl

SIZE = 256 << 20  # bytes
WIDTH = 4096  # of a row: what a large model's are

UNARY = """abs neg exp log sqrt rsqrt sin cos tanh sigmoid erf floor square reciprocal log1p expm1
    sign"""
ACTIVATIONS = (
    "gelu gelu_tanh silu relu sigmoid tanh softplus mish elu leaky_relu hardswish logsigmoid"
)

# name: (statement, how many times 256 MB it reads and writes, in all). What a statement makes of
# float32 alone (a cast to bfloat16) or of bfloat16 alone has a size for each type.
OPS = {
    **{f"x.{name}()": (f"rl.{name}(x, out=out)", 2) for name in UNARY.split()},
    **{name: (f"ACTS[{name!r}](x)", 2) for name in ACTIVATIONS.split()},
    **{f"{name}, backward": (f"acts_back[{name!r}]()", 3) for name in ACTIVATIONS.split()},
    "x.clamp_(0.1, 0.9)": ("out.clamp_(0.1, 0.9)", 2),
    "x * 2": ("rl.mul(x, 2, out=out)", 2),
    "x ** 2": ("rl.pow(x, 2, out=out)", 2),
    "x.to(the other type)": ("x.to(other)", {4: 1.5, 2: 3}),
    "x > 0.5": ("x > 0.5", {4: 1.25, 2: 1.5}),
    "x.fill_(1)": ("out.fill_(1)", 1),
    **{f"{name}(x, y)": (f"rl.{name}(x, y, out=out)", 3)
       for name in "add sub mul div maximum atan2".split()},
    "x.add_(y)": ("out.add_(y)", 3),
    "x + row": ("rl.add(x, row, out=out)", 2),
    "x + column": ("rl.add(x, column, out=out)", 2),
    "where(x > y)": ("rl.where(mask, x, y)", {4: 3.25, 2: 3.5}),
    "addcmul": ("rl.addcmul(out, x, y, out=out)", 4),
    "lerp": ("rl.lerp(x, y, 0.3, out=out)", 3),
    "glu": ("F.glu(x)", 1.5),
    "cat of halves (rotary)": ("rl.cat((-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]), -1)", 3),
    "softmax": ("rl.softmax(x, -1)", 2),
    "softmax, backward": ("backs['softmax']()", 3),
    "log_softmax": ("rl.log_softmax(x, -1)", 2),
    "layer_norm": ("F.layer_norm(x, (WIDTH,), row, row)", 2),
    "layer_norm, backward": ("backs['layer_norm']()", 3),
    "rms_norm": ("F.rms_norm(x, (WIDTH,), row)", 2),
    "rms_norm, backward": ("backs['rms_norm']()", 3),
    "group_norm": ("F.group_norm(images, 32, weight, weight)", 2),
    "group_norm, backward": ("backs['group_norm']()", 3),
    "batch_norm": ("F.batch_norm(images, None, None, weight, weight, True)", 3),
    "batch_norm, backward": ("backs['batch_norm']()", 5),
    "dropout": ("F.dropout(x, 0.1)", {4: 2.25, 2: 2.5}),
    **{f"x.{name}()": (f"x.{name}()", 1)
       for name in "sum mean amax argmin prod norm var".split()},
    **{f"x.{name}({dim})": (f"x.{name}({dim})", 1)
       for name in "sum mean amax argmax prod var logsumexp".split()
       for dim in (0, 1)},
    "bits.any()": ("bits.any()", 1),
}  # fmt: skip


def tensors(dtype):
    """What the statements name."""
    F = rl.nn.functional
    rows = SIZE // WIDTH // dtype.itemsize

    def rand(*sizes):
        return rl.rand(*sizes, device="cuda", dtype=dtype)

    def backward(f, *inputs):
        """Runs the gradient alone, again and again."""
        inputs = [t.detach().requires_grad_() for t in inputs]
        y = f(*inputs)
        g = rl.rand_like(y)
        return lambda: rl.autograd.grad(y, inputs, g, retain_graph=True)

    acts = {name: getattr(F, name, None) or getattr(rl, name, None) for name in ACTIVATIONS.split()}
    acts["gelu_tanh"] = lambda x: F.gelu(x, approximate="tanh")
    x, y, out = rand(rows, WIDTH) + 0.01, rand(rows, WIDTH), rand(rows, WIDTH)
    row, weight = rand(WIDTH), rand(128)
    images = rand(rows * WIDTH // (128 * 64 * 64), 128, 64, 64)
    backs = {
        "softmax": (lambda x: rl.softmax(x, -1), x),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b), x, row, row),
        "rms_norm": (lambda x, w: F.rms_norm(x, (WIDTH,), w), x, row),
        "group_norm": (lambda x, w, b: F.group_norm(x, 32, w, b), images, weight, weight),
        "batch_norm": (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True), images, weight, weight),
    }  # fmt: skip
    return {
        "rl": rl, "F": F, "WIDTH": WIDTH, "ACTS": acts, "x": x, "y": y, "out": out, "row": row,
        "acts_back": Made({name: (act, x) for name, act in acts.items()}, backward),
        "backs": Made(backs, backward), "column": rand(rows, 1), "mask": x > y,
        "weight": weight, "images": images,
        "other": {4: rl.bfloat16, 2: rl.float32}[dtype.itemsize],
        "bits": rl.zeros(SIZE, dtype=rl.bool, device="cuda"),
    }  # fmt: skip


class Made(dict):
    """Makes the value of the key that was asked for last, and keeps that one only."""

    def __init__(self, recipes, make):
        self.recipes, self.make = recipes, make

    def __missing__(self, key):
        self.clear()
        self[key] = self.make(*self.recipes[key])
        return self[key]


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
    wanted = args.only.split(",") if args.only else [""]
    parts = []
    for dtype in (rl.float32, rl.bfloat16):
        rl.manual_seed(0)
        rows = measure(dtype, wanted, args.rounds)
        name = str(dtype).partition(".")[2]
        missed = sum(row[-1] == "missed" for row in rows)
        print(f"{name}: {missed} of {len(rows)} below 85%")
        parts.append(f"## {name}\n\n" + markdown(["what", "GB/s", "of a copy", ""], rows))
    if not (args.no_report or args.only):
        write_report(
            "cuda_bandwidth", f"Bandwidth of ops over 256 MB on {rl.cuda.get_device_name()}",
            f"`cuda_bandwidth.py --rounds {args.rounds}`. Bar: 85% of a copy's.\n", *parts,
        )  # fmt: skip


def measure(dtype, wanted, rounds):
    scope = tensors(dtype)
    copy = eval("lambda: out.copy_(x)", scope)
    rows = []
    for name, (statement, sizes) in OPS.items():
        if not any(word in name for word in wanted):
            continue
        count = sizes[dtype.itemsize] if isinstance(sizes, dict) else sizes
        run = eval(f"lambda: {statement}", scope)
        with rl.enable_grad() if "back" in name else rl.no_grad():
            gpu_time(run), gpu_time(copy)
            pairs = [(gpu_time(run), gpu_time(copy)) for _ in range(rounds)]
        speed = statistics.median(count * SIZE / t for t, _ in pairs) / 1e9
        share = statistics.median(count / 2 * c / t for t, c in pairs)
        rows.append(
            [name, f"{speed:,.0f}", f"{100 * share:.0f}%", "" if share >= 0.85 else "missed"]
        )
        print(
            f"{name:24} {speed:8,.0f} GB/s {100 * share:5.0f}% of a copy {rows[-1][-1]}", flush=True
        )
    return rows


if __name__ == "__main__":
    main()
