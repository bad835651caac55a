"""Models people train today, small, on the CPU: training steps and decoding.

    TORCH_PYTHON=path/to/python python benchmarks/transformers_small.py [--only GPT] [--check]

GPT: 4 layers of 256, 4 x 128 tokens. ViT: 4 layers of 192, 8 images of 64 x 64. U-Net: 32 channels,
8 images of 32 x 32. A step is forward, loss, backward and AdamW; PyTorch runs it as it is and
compiled (torch.compile of the model), in a process each. Bars: in float32 at least 1.5 times the
speed of PyTorch and 1.4 of torch.compile (times 0.67 and 0.71), in bfloat16 (autocast, AMX
off on both sides) 1.1 times. Decoding: 6 layers of 512, a cache of 256 tokens, one token after the
other: 3 times.
"""

import argparse
import time

from models_today import BLOCK, GPT, UNET, VIT
from peer import TORCH_PYTHON, Case, Side, compare, markdown, write_report

TRAINED = """
def trained(model, loss_of):
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    def step():
        with lib.autocast("cpu", dtype=lib.bfloat16, enabled=HALF):
            loss = loss_of(RUN(model))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return step
RUN = (lambda model, kept={}: kept.setdefault(id(model), lib.compile(model))) if COMPILED else (
    lambda model: model)
"""

COMMON = "APPROXIMATE = 'none'\n" + BLOCK + TRAINED

GPT_STEP = """
lib.manual_seed(0)
model = GPT(4096, 128, 256, 4, 4)
text = lib.randint(0, 4096, (4, 129))
x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
step = trained(model, lambda run: F.cross_entropy(run(x).view(-1, 4096), y.view(-1)))
step()
"""

VIT_STEP = """
lib.manual_seed(0)
model = ViT(64, 8, 192, 4, 3, 100)
images, labels = lib.randn(8, 3, 64, 64), lib.randint(0, 100, (8,))
step = trained(model, lambda run: F.cross_entropy(run(images), labels))
step()
"""

UNET_STEP = """
lib.manual_seed(0)
model = UNet()
images, noise, times = lib.randn(8, 3, 32, 32), lib.randn(8, 3, 32, 32), lib.rand(8) * 1000
step = trained(model, lambda run: F.mse_loss(run(images, times), noise))
step()
"""

DECODE = """
lib.manual_seed(0)
model = GPT(4096, 512, 512, 6, 8).eval()
caches = [(lib.zeros(1, 8, 512, 64), lib.zeros(1, 8, 512, 64)) for _ in range(6)]
def generate(start=256, count=16):
    token = lib.zeros(1, 1, dtype=lib.long)
    with lib.no_grad():
        for at in range(start, start + count):
            token = model.decode(token, caches, at)[:, -1].argmax(-1, keepdim=True)
    return token
"""

MODELS = {"GPT": GPT + GPT_STEP, "ViT": VIT + VIT_STEP, "U-Net": UNET + UNET_STEP}

ATTENTION = """
F = lib.nn.functional
q, k, v, g = (lib.randn(BATCH, HEADS, LENGTH, 64).to(getattr(lib, DTYPE)) for _ in range(4))
for t in (q, k, v):
    t.requires_grad_()
def forward():
    with lib.no_grad():
        return F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL)
def step():
    F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL).backward(g)
"""


def model_cases(compiled: bool) -> list[Case]:
    cases = []
    for half in (False, True):
        bar = 1 / 1.1 if half else 1 / 1.4 if compiled else 1 / 1.5
        head = f"COMPILED = {compiled} and lib.__name__ == 'torch'\nHALF = {half}\n" + COMMON
        kind = "bfloat16" if half else "float32"
        for name, setup in MODELS.items():
            cases.append(Case(f"{name}, training, {kind}", head + setup, "step()", bar))
    if not compiled:
        head = "COMPILED = HALF = False\n" + COMMON
        cases.append(Case("decoding 16 tokens, float32", head + GPT + DECODE, "generate()", 1 / 3))
    return cases


def attention_cases() -> list[Case]:
    cases = []
    for dtype in ("float32", "bfloat16"):
        for length, batch, heads in ((128, 8, 12), (512, 2, 12), (1024, 1, 12), (4096, 1, 2)):
            for causal in (False, True):
                head = f"BATCH, HEADS, LENGTH, CAUSAL = {batch}, {heads}, {length}, {causal}\n"
                name = f"{'causal' if causal else 'full'} attention {batch}x{heads}x{length}x64"
                for what in ("forward", "step"):
                    setup = head + f"DTYPE = {dtype!r}\n" + ATTENTION
                    cases.append(Case(f"{name}, {dtype}, {what}", setup, f"{what}()", 1.0))
    return cases


def products_alone(threads: int) -> list[list[str]]:
    """Per model: what the products and convolutions of a float32 step would take at the rate of the
    fastest square product of this machine, in ms. No library's step can be shorter."""
    import rushlight as lib
    from rushlight.profiler import profile

    lib.set_num_threads(threads)
    rate = 0.0
    for size in (512, 1024, 2048):
        a, b = lib.randn(size, size), lib.randn(size, size)
        for _ in range(20):
            start = time.perf_counter()
            a @ b
            rate = max(rate, 2 * size**3 / (time.perf_counter() - start))
    rows = []
    for name, setup in MODELS.items():
        scope = {"lib": lib, "HALF": False, "COMPILED": False}
        exec(COMMON + setup, scope)
        with profile(with_flops=True) as recorded:
            scope["step"]()
        flops = sum(event.flops or 0 for event in recorded.key_averages())
        rows.append([name, f"{flops / 1e9:.1f}", f"{rate / 1e9:.0f}", f"{flops / rate * 1e3:.1f}"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--no-report", action="store_true", help="leave results alone")
    args = parser.parse_args()

    # AMX off on both sides: some virtual machines advertise it and trap.
    env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    sides = [Side("rushlight", env=env)]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON, env=env))
    tables = {
        "PyTorch as it is": model_cases(False),
        "torch.compile": model_cases(True),
        "Attention": attention_cases(),
    }
    parts, missed = [], False
    for title, cases in tables.items():
        rows = []
        chosen = [case for case in cases if args.only in f"{title}: {case.name}"]
        for result in compare(chosen, sides, threads=args.threads, rounds=args.rounds, seconds=0.3):
            print(f"{title}: {result}", flush=True)
            times = [result.ours, *result.peers.values()]
            shown = [f"{t.median * 1e3:.2f} ±{t.spread * 100:.0f}%" for t in times]
            ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
            verdict = "missed" if result.missed else ""
            rows.append([result.case.name, *shown, *ratios, f"{result.case.bar:.2f}", verdict])
            missed |= result.missed
        names = [side.module for side in sides]
        header = ["what", *(f"{n}, ms" for n in names), *(f"to {n}" for n in names[1:]), "bar", ""]
        parts.append(f"## {title}\n\n" + markdown(header, rows))
    if any(args.only in f"PyTorch as it is: {name}, training, float32" for name in MODELS):
        header = ["float32 step", "10^9 operations", "best rate, 10^9/s", "at that rate, ms"]
        table = markdown(header, products_alone(args.threads))
        parts.append("## What products and convolutions alone take\n\n" + table)
        print(table)
    if not args.no_report:
        title = f"Models people train today, small, on the CPU, {args.threads} threads"
        write_report("transformers_small", title, *parts)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
