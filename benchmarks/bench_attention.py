"""Attention and transformers against PyTorch: training steps and inference.

    TORCH_PYTHON=path/to/python python benchmarks/bench_attention.py [--threads 1 2] [--check]

Bar: a training step (forward and backward) of multi-head attention, 8 heads of 64, sequence 512,
batch 8, at most PyTorch's time, with and without weights. The others are there to be watched.
"""

import argparse

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

MHA = """
nn = lib.nn
mha = nn.MultiheadAttention(512, 8, batch_first=True)
x = lib.randn(8, 512, 512, requires_grad=True)
target = lib.randn(8, 512, 512)
def step(need_weights):
    y, _ = mha(x, x, x, need_weights=need_weights)
    (y * target).sum().backward()
"""

SDPA = """
F = lib.nn.functional
q, k, v, g = (lib.randn(8, 8, 512, 64) for _ in range(4))
for t in (q, k, v):
    t.requires_grad_()
def forward(causal=False):
    with lib.no_grad():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
def step(causal=False):
    F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(g)
"""

GPT = """
nn, F = lib.nn, lib.nn.functional
class Block(nn.Module):
    def __init__(self, width=384, heads=6):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.attention(self.ln1(x)).split(c, dim=2)
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))
block = Block()
x = lib.randn(8, 256, 384)
target = lib.randn(8, 256, 384)
def step():
    (block(x) * target).sum().backward()
one = lib.randn(1, 256, 384)
def infer():
    with lib.no_grad():
        block(one)
"""

ENCODER = """
nn = lib.nn
encoder = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True), 2,
    enable_nested_tensor=False)
x = lib.randn(8, 128, 256)
target = lib.randn(8, 128, 256)
padding = lib.arange(128)[None, :] >= lib.tensor([128, 100, 90, 128, 64, 128, 30, 128])[:, None]
def step():
    (encoder(x, src_key_padding_mask=padding) * target).sum().backward()
still = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 2,
    enable_nested_tensor=False).eval()
one = lib.randn(1, 128, 256)
def infer():
    with lib.no_grad():
        still(one)
"""

DECODE = """
F = lib.nn.functional
q, k, v = lib.randn(1, 8, 1, 64), lib.randn(1, 8, 2048, 64), lib.randn(1, 8, 2048, 64)
"""

CASES = [
    Case("attention 8x64, 512, batch 8: step", MHA, "step(False)", 1.0),
    Case("the same with weights", MHA, "step(True)", 1.0),
    Case("sdpa 8x8x512x64, forward", SDPA, "forward()"),
    Case("sdpa 8x8x512x64, step", SDPA, "step()"),
    Case("sdpa causal, forward", SDPA, "forward(True)"),
    Case("sdpa causal, step", SDPA, "step(True)"),
    Case("GPT block 8x256x384: step", GPT, "step()"),
    Case("GPT block 1x256x384: inference", GPT, "infer()"),
    Case("encoder, 2 layers, 8x128x256: step", ENCODER, "step()"),
    Case("encoder 1x128x256: inference", ENCODER, "infer()"),
    Case(
        "sdpa, 1 query, 2,048 keys",
        DECODE,
        "F.scaled_dot_product_attention(q, k, v)",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results/attention.md alone")
    args = parser.parse_args()

    sides = [Side("rushlight")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON))
    cases = [case for case in CASES if args.only in case.name]
    parts, missed = [], False
    for threads in args.threads:
        rows = []
        # Processor time where there is one thread: other work on the machine does not count then.
        clock = "thread_time" if threads == 1 else "perf_counter"
        options = {"threads": threads, "rounds": args.rounds, "seconds": 0.1, "clock": clock}
        for result in compare(cases, sides, patience=30.0, **options):
            print(f"{threads}: {result}", flush=True)
            times = [result.ours, *result.peers.values()]
            shown = [f"{t.median * 1e3:.2f} ±{t.spread * 100:.0f}%" for t in times]
            ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
            bar = result.case.bar
            verdict = "" if bar is None else "missed" if result.missed else "ok"
            rows.append([result.case.name, *shown, *ratios, f"{bar:.2f}" if bar else "", verdict])
            missed |= result.missed
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:]), "bar", ""]
        parts.append(f"{threads} thread{'s' if threads > 1 else ''}\n\n" + markdown(header, rows))
    if not args.no_report:
        write_report("attention", "Attention and transformers", *parts)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
