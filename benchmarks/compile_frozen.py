"""mode="frozen": training steps and calls of small models, replayed without Python.

    TORCH_PYTHON=path/to/python python benchmarks/compile_frozen.py [--device cuda] [--threads 2]

An MLP (64-256-256-8, batch 128) and a GPT (6 layers, 384 wide, batch 8 x 256), against eager and,
where there is PyTorch, its eager mode and torch.compile(mode="reduce-overhead"). "one row" is the
MLP's forward on a single row, which is nearly all overhead.
"""

import argparse
import sys

from bench_compile import medians
from peer import TORCH_PYTHON, Case, Side, markdown, write_report

COMMON = """
import importlib
nn, F, optim = (importlib.import_module(lib.__name__ + "." + name)
                for name in ("nn", "nn.functional", "optim"))
device = {device!r}
lib.manual_seed(0)
def made(f):
    if WAY == "eager":
        return f
    return lib.compile(f, mode="frozen" if WAY == "frozen" else "reduce-overhead")
def waited(x):
    if device != "cpu":
        lib.cuda.synchronize()
    return x
def training(model, x, y):
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    def loss_of(x, y):
        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())
    def step(x, y):
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss
    # PyTorch's users compile the forward with its loss; a whole step is what ours takes.
    forward = made(loss_of) if WAY == "reduce-overhead" else loss_of
    run = made(step) if WAY == "frozen" else step
    for _ in range(9):
        waited(run(x, y))
    return lambda: waited(run(x, y))
"""

MLP = """
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                      nn.Linear(256, 8)).to(device)
x, y = lib.randn(128, 64, device=device), lib.randint(0, 8, (128,), device=device)
step = training(model, x, y)
row = lib.randn(1, 64, device=device)
@made
def forward(x):
    with lib.no_grad():
        return model(x)
for _ in range(9):
    forward(row)
"""

GPT = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.one(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.two(x))))
class Model(nn.Module):
    def __init__(self, vocabulary=512, width=384, layers=6, heads=6, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
    def forward(self, x):
        h = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))
model = Model().to(device)
x, y = (lib.randint(0, 512, (8, 256), device=device) for _ in range(2))
step = training(model, x, y)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    ways = [("rushlight", sys.executable, "frozen"), ("rushlight", sys.executable, "eager")]
    if TORCH_PYTHON:
        ways += [("torch", TORCH_PYTHON, way) for way in ("reduce-overhead", "eager")]
    sides = [Side(module, python, prelude=f"WAY = {way!r}") for module, python, way in ways]
    common = COMMON.format(device=args.device)
    cases = [
        Case("MLP, one row", common + MLP, "forward(row)"),
        Case("MLP, training step", common + MLP, "step()"),
        Case("GPT, training step", common + GPT, "step()"),
    ]
    rows = []
    for case in cases:
        times = [t.median for t in medians(case, sides, args.threads, args.rounds)]
        rows.append([case.name, *(f"{t * 1e6:,.1f}" for t in times),
                     *(f"{t / times[0]:.2f}" for t in times[1:])])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    if not args.no_report:
        names = [f"{module} {way}" for module, _, way in ways]
        header = ["case", *(f"{name}, us" for name in names), *(f"to {n}" for n in names[1:])]
        write_report(
            "compile_frozen" if args.device == "cpu" else "compile_frozen_cuda",
            "Frozen functions", f"{args.threads} threads.\n" * (args.device == "cpu"),
            "Ratios above one: ours, frozen, is faster.\n", markdown(header, rows),
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
