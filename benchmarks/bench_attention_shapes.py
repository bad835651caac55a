"""Attention's other shapes against PyTorch on the CPU: flex_attention, nested tensors.

    TORCH_PYTHON=path/to/python python benchmarks/bench_attention_shapes.py [--threads 1] [--check]

flex_attention is compared with PyTorch's as it is called there (eager, all scores at once) and
compiled (it then needs a C++ compiler); PyTorch has no gradients of it on the CPU. Nested tensors
of the layout jagged stand beside padded batches, both ours.
Bar: flex_attention at most PyTorch's eager time.
"""

import argparse

from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

FLEX = """
import importlib, warnings
warnings.simplefilter("ignore")
flex = importlib.import_module(lib.__name__ + ".nn.attention.flex_attention")
q, k, v = (lib.randn(1, 8, {length}, 64) for _ in range(3))
slopes = lib.rand(8)
documents = lib.arange({length}) // 300
masks = {{
    "causal": lambda b, h, i, j: i >= j,
    "window": lambda b, h, i, j: (i >= j) & (i - j <= 256),
    "documents": lambda b, h, i, j: (i >= j) & (documents[i] == documents[j]),
}}
mods = {{
    "none": None,
    "alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i),
    "softcap": lambda s, b, h, i, j: 20 * lib.tanh(s / 20),
}}
made = {{n: flex.create_block_mask(m, None, None, {length}, {length}, device="cpu")
        for n, m in masks.items()}}
attend = flex.flex_attention
if mode == "eager":
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
elif mode == "compiled":
    lib._dynamo.reset()
    attend = lib.compile(attend)
def forward(mask, mod="none"):
    with lib.no_grad():
        return attend(q, k, v, mods[mod], made[mask])
"""

TRAIN = (
    FLEX
    + """
for t in (q, k, v, slopes):
    t.requires_grad_()
g = lib.randn(1, 8, {length}, 64)
def step(mask, mod="none"):
    attend(q, k, v, mods[mod], made[mask]).backward(g)
def plain():
    lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).backward(g)
"""
)

NESTED = """
import warnings
warnings.simplefilter("ignore")
nn, F = lib.nn, lib.nn.functional
lib.manual_seed(0)
class Block(nn.Module):
    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x, mask=None):
        q, k, v = (u.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for u in self.attention(self.ln1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.project(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.ln2(x))))
block = Block()
lengths = [256, 30, 64, 100, 12, 180, 90, 40]
parts = [lib.randn(n, 256) for n in lengths]
nested = lib.nested.nested_tensor(parts, layout=lib.jagged)
padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
seen = lib.arange(256)[None, None, None] < lib.tensor(lengths)[:, None, None, None]
def infer(x, mask=None):
    with lib.no_grad():
        return block(x, mask)
def step(x, mask=None):
    y = block(x, mask)
    (y.values() if x is nested else y).sum().backward()
"""


def flex_cases(length, bar):
    setup = FLEX.replace("{length}", str(length)).replace("{{", "{").replace("}}", "}")
    return [
        Case(f"{length:,} tokens, {mask}" + (f", {mod}" if mod != "none" else ""), setup,
             f"forward({mask!r}, {mod!r})", bar)
        for mask, mod in [("causal", "none"), ("causal", "alibi"), ("causal", "softcap"),
                          ("window", "none"), ("documents", "alibi")]
    ]  # fmt: skip


def train_cases(length):
    setup = TRAIN.replace("{length}", str(length)).replace("{{", "{").replace("}}", "}")
    rows = [("causal attention without functions", "plain()"), ("causal", "step('causal')"),
            ("causal, learnt alibi", "step('causal', 'alibi')"),
            ("window", "step('window')")]  # fmt: skip
    return [Case(f"{length:,} tokens, {n}: step", setup, s) for n, s in rows]


NESTED_CASES = [
    Case("block of width 256, 8 sequences of 12 to 256, nested: inference", NESTED,
         "infer(nested)"),
    Case("the same padded, with a mask", NESTED, "infer(padded, seen)"),
    Case("nested: step", NESTED, "step(nested)"),
    Case("padded, with a mask: step", NESTED, "step(padded, seen)"),
]  # fmt: skip


def table(cases, sides, threads, rounds):
    clock = "thread_time" if threads == 1 else "perf_counter"
    options = {"threads": threads, "rounds": rounds, "seconds": 0.1, "clock": clock}
    rows, missed = [], False
    for result in compare(cases, sides, patience=30.0, **options):
        print(f"{threads}: {result}", flush=True)
        times = [result.ours, *result.peers.values()]
        shown = [f"{t.median * 1e3:.2f} ±{t.spread * 100:.0f}%" for t in times]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        rows.append([result.case.name, *shown, *ratios])
        missed |= result.missed
    names = [side.module for side in sides]
    header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:])]
    return markdown(header, rows), missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--eager-lengths", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave the results alone")
    args = parser.parse_args()

    def sides(mode):
        found = [Side("rushlight", prelude="mode = 'ours'")]
        if TORCH_PYTHON and mode:
            found.append(Side("torch", TORCH_PYTHON, prelude=f"mode = {mode!r}"))
        return found

    parts, missed = [], False
    eager, compiled = (
        [case for length in lengths for case in flex_cases(length, bar)]
        for lengths, bar in ((args.eager_lengths, 1.0), (args.lengths, None))
    )
    train = [case for length in args.lengths for case in train_cases(length)]
    for threads in args.threads:
        runs = [
            ("flex_attention, PyTorch eager", eager, "eager"),
            ("flex_attention, PyTorch compiled", compiled, "compiled"),
            ("flex_attention in training (PyTorch has no gradients of it on the CPU)", train, ""),
            ("nested tensors, ours alone", NESTED_CASES, ""),
        ]
        for title, cases, mode in runs:
            text, failed = table(cases, sides(mode), threads, args.rounds)
            missed |= failed
            parts.append(f"{title}, {threads} thread{'s' if threads > 1 else ''}\n\n{text}")
    if not args.no_report:
        write_report("attention_shapes", "Attention's other shapes", *parts)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
