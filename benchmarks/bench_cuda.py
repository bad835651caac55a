"""Ops on a GPU: what the host spends on a small one, how long the GPU takes for a large one.

    TORCH_PYTHON=path/to/python python benchmarks/bench_cuda.py [--rounds 9] [--only cat,sort]
    python benchmarks/bench_cuda.py --only small --rows rows.json    # then the other kinds

Small ops are queued 200 at a time and not waited for in the timed part: the time is the host's.
Bar: half of PyTorch's. Large ones (256 MB of float32) are waited for; bar: 1.05.
"""

import argparse
import json
import sys
from pathlib import Path

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

SMALL = """
a, b = lib.rand(4, device="cuda"), lib.rand(4, device="cuda")
m = lib.rand(64, 64, device="cuda")
w = lib.rand(64, 64, device="cuda", requires_grad=True)
def many(f):
    lib.cuda.synchronize()
    for _ in range(200):
        f()
def learn():
    (m @ w).relu().sum().backward()
"""
LARGE = """
x = lib.rand(8192, 8192, device="cuda")
out = lib.empty_like(x)
h = x[:4096, :4096].bfloat16()
def whole(f):
    f()
    lib.cuda.synchronize()
"""
ORDERS = """
x = lib.rand(8192, 8192, device="cuda")
v = x.view(-1)
m = lib.rand(1 << 20, device="cuda")
i = (m * 1e6).long()
parts = [lib.rand(64, k + 1, device="cuda") for k in range(64)]
edges = m.sort().values
mask = v > 0.5
def whole(f):
    f()
    lib.cuda.synchronize()
"""
CASES = [
    Case(name, SMALL, f"many(lambda: {statement})", 0.5)
    for name, statement in {
        "a + b": "a + b",
        "a * 2": "a * 2",
        "a.exp()": "a.exp()",
        "a.sum()": "a.sum()",
        "m @ m, 64": "m @ m",
        "empty": "lib.empty(4, device='cuda')",
        "zeros": "lib.zeros(4, device='cuda')",
        "a.copy_(b)": "a.copy_(b)",
        "m[0]": "m[0]",
        "backward of (m @ w).relu().sum()": "learn()",
    }.items()
] + [
    Case(name, LARGE, f"whole(lambda: {statement})", 1.05)
    for name, statement in {
        "copy, 256 MB": "out.copy_(x)",
        "add, 256 MB": "lib.add(x, x, out=out)",
        "exp, 256 MB": "lib.exp(x, out=out)",
        "sum, 256 MB": "x.sum()",
        "sum over rows": "x.sum(0)",
        "sum over columns": "x.sum(1)",
        "transposed copy": "x.t().contiguous()",
        "softmax": "lib.softmax(x, 1)",
        "uniform_": "out.uniform_()",
        "bfloat16 product, 4096": "h @ h",
    }.items()
]
CASES += [
    Case(name, ORDERS, f"whole(lambda: {statement})", 1.05)
    for name, statement in {
        "cumsum, 256 MB in one row": "v.cumsum(0)",
        "cumsum of rows": "x.cumsum(1)",
        "cumsum of columns": "x.cumsum(0)",
        "cummax of rows": "x.cummax(1)",
        "sort, 1M": "m.sort()",
        "sort, 64M": "v.sort()",
        "sort of rows, 8192": "x.sort(1)",
        "sort of rows, 64": "x.view(-1, 64).sort(1)",
        "argsort, 1M int64": "i.argsort()",
        "topk 50 of rows, 8192": "x.topk(50, 1)",
        "topk 100 of 64M": "v.topk(100)",
        "median, 64M": "v.median()",
        "kthvalue of rows": "x.kthvalue(100, 1)",
        "nonzero, half of 64M": "mask.nonzero()",
        "masked_select, half of 64M": "v[mask]",
        "unique, 1M int64": "i.unique()",
        "searchsorted, 64M in 1M": "lib.searchsorted(edges, v)",
        "bincount, 1M": "i.bincount()",
        "histc, 64M": "v.histc(100, 0, 1)",
        "tril": "x.tril()",
        "cat of 64": "lib.cat(parts, 1)",
        "randperm, 1M": "lib.randperm(1 << 20, device='cuda')",
        "multinomial": "lib.multinomial(m, 1000, True)",
    }.items()
]

MATRICES = """
few = lib.rand(256, 256, device="cuda") + 4 * lib.eye(256, device="cuda")
many = lib.rand(1000, 16, 16, device="cuda") + 4 * lib.eye(16, device="cuda")
few_positive, many_positive = few @ few.mT, many @ many.mT
wave = lib.rand(1 << 20, device="cuda").to(lib.complex64)
images = lib.rand(64, 1024, 1024, device="cuda")
m = lib.rand(1 << 22, device="cuda") + 0.1
def whole(f):
    f()
    lib.cuda.synchronize()
"""
CASES += [
    Case(f"{name}, {size}", MATRICES, f"whole(lambda: lib.linalg.{call})", 1.05)
    for size, a, p in (("256", "few", "few_positive"), ("1000 of 16", "many", "many_positive"))
    for name, call in {
        "cholesky": f"cholesky({p})",
        "solve": f"solve({a}, {a})",
        "inv": f"inv({a})",
        "qr": f"qr({a})",
        "svd": f"svd({a})",
        "eigh": f"eigh({p})",
    }.items()
] + [
    Case(name, MATRICES, f"whole(lambda: {statement})", 1.05)
    for name, statement in {
        "fft, 2^20": "lib.fft.fft(wave)",
        "rfft2, 64 of 1024 x 1024": "lib.fft.rfft2(images)",
        "fft of columns, 64 of 1024 x 1024": "lib.fft.fft(images, dim=1)",
        "log_ndtr, 4M": "lib.special.log_ndtr(m)",
        "gammainc, 4M": "lib.special.gammainc(m, m)",
        "i1e, 4M": "lib.special.i1e(m)",
    }.items()
]

NETWORK = """
F = lib.nn.functional
x = lib.rand(8192, 8192, device="cuda", requires_grad=True)
g = lib.rand(8192, 8192, device="cuda")
labels = lib.randint(0, 8192, (8192,), device="cuda")
w = lib.rand(8192, device="cuda", requires_grad=True)
def forward(f):
    with lib.no_grad():
        f()
    lib.cuda.synchronize()
def backward(y, *of, by=None):
    lib.autograd.grad(y, of or x, by, retain_graph=True)
    lib.cuda.synchronize()
"""
IMAGES = """
image = lib.rand(64, 256, 64, 64, device="cuda", requires_grad=True)
by = lib.rand(64, 256, 64, 64, device="cuda")
channels = lib.rand(256, device="cuda", requires_grad=True)
small = lib.rand(64, 256, 32, 32, device="cuda", requires_grad=True)
"""
ROWS_OF_TABLES = """
table = lib.rand(138493, 128, device="cuda", requires_grad=True)
index = lib.randint(0, 138493, (1 << 19,), device="cuda")
"""
NETWORKS = {
    "log_softmax": "forward(lambda: F.log_softmax(x, 1))",
    "log_softmax, dim 0": "forward(lambda: F.log_softmax(x, 0))",
    "softmax backward": ("y = F.softmax(x, 1)", "backward(y, by=g)"),
    "log_softmax backward, dim 0": ("y = F.log_softmax(x, 0)", "backward(y, by=g)"),
    "cross_entropy": "forward(lambda: F.cross_entropy(x, labels))",
    "cross_entropy backward": ("y = F.cross_entropy(x, labels)", "backward(y)"),
    "mse_loss": "forward(lambda: F.mse_loss(x, g))",
    "bce_with_logits": "forward(lambda: F.binary_cross_entropy_with_logits(x, g))",
    "bce_with_logits backward": (
        "y = F.binary_cross_entropy_with_logits(x, g)",
        "backward(y)",
    ),
    "dropout": "forward(lambda: F.dropout(x))",
    "dropout backward": ("y = F.dropout(x)", "backward(y, by=g)"),
    "layer_norm": "forward(lambda: F.layer_norm(x, (8192,), w, w))",
    "layer_norm backward": ("y = F.layer_norm(x, (8192,), w)", "backward(y, x, w, by=g)"),
    "group_norm": (IMAGES, "forward(lambda: F.group_norm(image, 32, channels))"),
    "group_norm backward": (
        IMAGES + "y = F.group_norm(image, 32, channels)",
        "backward(y, image, channels, by=by)",
    ),
    "interpolate, bilinear": (
        IMAGES,
        "forward(lambda: F.interpolate(small, scale_factor=2, mode='bilinear'))",
    ),
    "interpolate backward, bilinear": (
        IMAGES + "y = F.interpolate(small, scale_factor=2, mode='bilinear')",
        "backward(y, small, by=by)",
    ),
    "interpolate, nearest": (IMAGES, "forward(lambda: F.interpolate(small, scale_factor=2))"),
    "embedding, 512k of 128": (ROWS_OF_TABLES, "forward(lambda: F.embedding(index, table))"),
    "embedding backward": (
        ROWS_OF_TABLES + "y = F.embedding(index, table)\nby = lib.rand_like(y)",
        "backward(y, table, by=by)",
    ),
    "embedding_bag": (
        ROWS_OF_TABLES + "bags = index.view(-1, 8)",
        "forward(lambda: F.embedding_bag(bags, table, mode='mean'))",
    ),
}
for name, case in NETWORKS.items():
    setup, statement = case if isinstance(case, tuple) else ("", case)
    CASES.append(Case(name, NETWORK + setup, statement, 1.05))


SEQUENCES = """
F = lib.nn.functional
x = lib.rand(25, 128, 1024, device="cuda") - 0.5
lstm = lib.nn.LSTM(1024, 1024).cuda()
both = lib.nn.LSTM(1024, 1024, bidirectional=True).cuda()
gru = lib.nn.GRU(256, 256, 2).cuda()
short = lib.rand(50, 32, 256, device="cuda") - 0.5
cell = lib.nn.LSTMCell(1024, 1024).cuda()
def heads(dtype):
    return [lib.randn(8, 8, 512, 64, device="cuda").to(dtype).requires_grad_() for _ in range(3)]
f32, bf16 = heads(lib.float32), heads(lib.bfloat16)
g32 = lib.randn(8, 8, 512, 64, device="cuda")
g16 = g32.bfloat16()
attend = F.scaled_dot_product_attention
def quietly(f):
    with lib.no_grad(): f()
def whole(f):
    f()
    lib.cuda.synchronize()
"""
CASES += [
    Case(name, SEQUENCES, f"whole(lambda: {statement})", 1.0)
    for name, statement in {
        "LSTM 1024, 25 steps, batch 128: training": "lstm(x)[0].sum().backward()",
        "LSTM both ways: training": "both(x)[0].sum().backward()",
        "LSTM 1024: inference": "quietly(lambda: lstm(x))",
        "GRU 256 x 2, 50 steps, batch 32: training": "gru(short)[0].sum().backward()",
        "LSTMCell 1024, batch 128: training": "cell(x[0])[0].sum().backward()",
        "attention 8x64, 512, batch 8, float32": "quietly(lambda: attend(*f32))",
        "the same: training": "attend(*f32).backward(g32)",
        "attention in bfloat16": "quietly(lambda: attend(*bf16))",
        "attention in bfloat16: training": "attend(*bf16).backward(g16)",
        "causal attention in bfloat16: training": "attend(*bf16, is_causal=True).backward(g16)",
    }.items()
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-report", action="store_true", help="leave results/cuda.md alone")
    parser.add_argument(
        "--only",
        help="kinds (small, large, orders, matrices, network, sequences) or words of names",
    )
    parser.add_argument(
        "--rows", type=Path, help="a JSON file that keeps rows: runs of parts make one report"
    )
    args = parser.parse_args()
    kinds = {"small": SMALL, "large": LARGE, "orders": ORDERS, "matrices": MATRICES,
             "network": NETWORK, "sequences": SEQUENCES}  # fmt: skip
    wanted = args.only.split(",") if args.only else []
    cases = [
        c for c in CASES
        if not wanted
        or any(c.setup.startswith(kinds.get(word, "?")) or word in c.name for word in wanted)
    ]  # fmt: skip

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    sides = [Side("rushlight")] + ([Side("torch", TORCH_PYTHON)] if TORCH_PYTHON else [])
    rows = json.loads(args.rows.read_text()) if args.rows and args.rows.exists() else {}
    for result in compare(cases, sides, rounds=args.rounds):
        print(result, flush=True)
        per = 200 if result.case.setup is SMALL else 1
        shown = [
            f"{t.median / per * 1e6:.2f} ±{t.spread * 100:.0f}%"
            for t in (result.ours, *result.peers.values())
        ]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        verdict = "missed" if result.missed else "ok"
        rows[result.case.name] = [*shown, *ratios, f"{result.case.bar:.2f}", verdict]
        if args.rows:
            args.rows.write_text(json.dumps(rows, indent=1))
    if not args.no_report:
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, us" for n in names), *(f"to {n}" for n in names[1:])]
        title = f"Ops on {rl.cuda.get_device_name()}"
        in_order = [[c.name, *rows[c.name]] for c in CASES if c.name in rows]
        write_report("cuda", title, markdown([*header, "bar", ""], in_order))
    return 0


if __name__ == "__main__":
    sys.exit(main())
