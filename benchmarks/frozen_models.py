"""mode="frozen" on a GPU: whole training steps and decoding as CUDA graphs that nobody wrote.

    TORCH_PYTHON=path/to/python python benchmarks/frozen_models.py [--only MobileNet]

ResNet-50 and MobileNetV2 at batch 8 (Table 1's models): a frozen step against eager, a graph
captured by hand, and PyTorch's eager mode. A Llama of 1.1 B parameters decodes one token
after the other with a cache that stays in place. "first" is the time until the first replay has
returned, less that of as many eager calls: what freezing adds.
"""

import argparse
import sys
from pathlib import Path

from bench_compile import medians
from models_today import BLOCK, LLAMA
from peer import TORCH_PYTHON, Case, Side, markdown, write_report

IMAGES = """
import sys, time
sys.path.insert(0, {here!r})
from table1_models import Training
training = Training(lib, {model!r}, batch=8, device="cuda")
def timed(f, calls):
    lib.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        f()
    lib.cuda.synchronize()
    return time.perf_counter() - start
eager = training.step
timed(eager, 5)
step = eager
if WAY == "frozen":
    step = lib.compile(eager, mode="frozen")
    first = timed(step, 5) - timed(eager, 5)
    timed(step, 12)
    print({model!r}, "first: %.3f s" % first, step._options.frozen.lines(), file=sys.stderr)
elif WAY == "graph":
    training.capture()
    step = training.step
def run():
    for _ in range(10):
        step()
    lib.cuda.synchronize()
run()
"""

DECODE = """
import sys
lib.manual_seed(0)
LENGTH, START, TOKENS = 256, 128, 64
class Step(Llama):
    def forward(self, x, caches, at):
        cos, sin = self.cos.index_select(0, at), self.sin.index_select(0, at)
        seen = (self.places <= at)[None, None, None]
        x = self.tokens(x)
        for block, (keys, values) in zip(self.blocks, caches):
            x = self.block(block, x, cos, sin, keys, values, at, seen)
        return self.head(self.norm(x))
    def block(self, b, x, cos, sin, keys, values, at, seen):
        y = b.norm1(x)
        q = b.q(y).view(1, 1, b.heads, b.size).transpose(1, 2)
        k = b.k(y).view(1, 1, b.key_heads, b.size).transpose(1, 2)
        v = b.v(y).view(1, 1, b.key_heads, b.size).transpose(1, 2)
        q, k = b.turn(q, cos, sin), b.turn(k, cos, sin)
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen, enable_gqa=True)
        x = x + b.o(y.transpose(1, 2).reshape(1, 1, -1))
        y = b.norm2(x)
        return x + b.down(F.silu(b.gate(y)) * b.up(y))
with lib.device("cuda"):
    model = Step(32000, 2048, 2048, 22, 32, 4, 5632).to(lib.bfloat16).eval()
    model.places = lib.arange(LENGTH)
    caches = [lib.zeros(2, 1, 4, LENGTH, 64, dtype=lib.bfloat16).unbind() for _ in range(22)]
    first = lib.randint(0, 32000, (1, 1))
    begin = lib.tensor([START])
def one(token, at):
    with lib.no_grad():
        token = model(token, caches, at)[:, -1].argmax(-1, keepdim=True)
        return token, at + 1
if WAY != "eager":
    one = lib.compile(one, mode=WAY)
def run():
    token, at = first, begin
    for _ in range(TOKENS):
        token, at = one(token, at)
    return token.item()
run()
run()
if WAY == "frozen":
    import time
    from rushlight import _C
    while _C._frozen_awaits_code():
        time.sleep(0.05)
    run()
    print(one._options.frozen.lines(), file=sys.stderr)
"""
HERE = str(Path(__file__).parent)
# name, program, ways, calls per run
ROWS = [
    ("ResNet-50, step of 8", IMAGES.format(here=HERE, model="resnet50"), True, 10),
    ("MobileNetV2, step of 8", IMAGES.format(here=HERE, model="mobilenet_v2"), True, 10),
    ("Llama 1.1 B, a token", "APPROXIMATE = 'none'\n" + BLOCK + LLAMA + DECODE, False, 64),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    rows = []
    for name, program, has_graph, calls in ROWS:
        if args.only not in name:
            continue
        ways = ["frozen", "eager", *(["graph"] if has_graph else [])]
        sides = [Side("rushlight", prelude=f"WAY = {way!r}") for way in ways]
        if TORCH_PYTHON:
            sides.append(Side("torch", TORCH_PYTHON, prelude="WAY = 'eager'"))
        times = [t.median for t in medians(Case(name, program, "run()"), sides, 1, args.rounds)]
        ms = [f"{t / calls * 1e3:.3f}" for t in times]
        ratios = [f"{t / times[0]:.2f}" for t in times[1:]]
        if not has_graph:
            ms.insert(2, ""), ratios.insert(1, "")
        rows.append([name, *ms, *ratios])
        print(*rows[-1], sep=" | ", flush=True)
    if not args.no_report:
        names = ["frozen", "eager", "graph by hand", *(["torch eager"] if TORCH_PYTHON else [])]
        header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:])]
        write_report(
            "frozen_models", "Frozen functions as CUDA graphs",
            "Ratios above one: the frozen function is faster.\n", markdown(header, rows),
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
