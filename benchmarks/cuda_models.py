"""Transformers people train, on a GPU: a training step in mixed precision, time and peak memory.

    TORCH_PYTHON=path/to/python python benchmarks/cuda_models.py [--only gpt] [--compile]

GPT: 124 M parameters, 16 x 1,024 tokens, vocabulary of 50,304, autocast in bfloat16, fused AdamW.
ViT-B/16: batch of 64. Each side runs in a process of its own, in turns. With --compile PyTorch's
side is compiled, and how long its first step takes is told.
"""

import argparse
import statistics
import sys

from models_today import BLOCK, GPT, VIT
from peer import TORCH_PYTHON, Case, Side, Worker, markdown, write_report

COMMON = (
    BLOCK
    + """
import time
def trained(model, loss_of):
    optimizer = lib.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    run = lib.compile(loss_of) if COMPILED else loss_of
    def step():
        with lib.autocast("cuda", dtype=lib.bfloat16):
            loss = run()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step
def timed(step):
    start = time.perf_counter()
    step()
    lib.cuda.synchronize()
    return time.perf_counter() - start
"""
)
GPT_STEP = """
lib.manual_seed(0)
model = GPT(50304, 1024, 768, 12, 12).cuda()
text = lib.randint(0, 50304, (16, 1025), device="cuda")
x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
def loss_of():
    return F.cross_entropy(model(x).view(-1, 50304), y.view(-1))
step = trained(model, loss_of)
first = timed(step)
"""
VIT_STEP = """
lib.manual_seed(0)
model = ViT(224, 16, 768, 12, 12, 1000).cuda()
images = lib.randn(64, 3, 224, 224, device="cuda")
labels = lib.randint(0, 1000, (64,), device="cuda")
def loss_of():
    return F.cross_entropy(model(images), labels)
step = trained(model, loss_of)
first = timed(step)
"""
TRAIN_GPT = "APPROXIMATE = 'tanh'\n" + COMMON + GPT + GPT_STEP
TRAIN_VIT = "APPROXIMATE = 'none'\n" + COMMON + VIT + VIT_STEP
MODELS = {  # setup, what a step processes, and how many of it
    "GPT 124 M, 16 x 1024": (TRAIN_GPT, "tokens", 16 * 1024),
    "ViT-B/16, batch 64": (TRAIN_VIT, "images", 64),
}


def measure(name, sides, rounds, compiled):
    setup, what, count = MODELS[name]
    workers = [Worker(side, 1) for side in sides]
    try:
        times, first, peaks = [[] for _ in sides], [], []
        for worker, side in zip(workers, sides, strict=True):
            flag = compiled and side.module == "torch"
            worker.prepare(Case(name, f"COMPILED = {flag}\n" + setup, "timed(step)"))
            worker.time(5)
            first.append(worker.evaluate("first"))
            worker.evaluate("lib.cuda.reset_peak_memory_stats()")
        for _ in range(rounds):
            for worker, own in zip(workers, times, strict=True):
                own.append(worker.time(5) / 5)
        peaks = [w.evaluate("lib.cuda.max_memory_allocated() / 2**20") for w in workers]
    finally:
        for worker in workers:
            worker.close()
    rates = [count / statistics.median(own) for own in times]
    cells = [f"{rate:,.0f}" for rate in rates]
    ratio = f"{rates[0] / rates[1]:.2f}" if len(rates) > 1 else ""
    memory = [f"{peak:,.0f}" for peak in peaks]
    return [f"{name}, {what}/s", *cells, ratio, *memory, *(f"{s:.1f}" for s in first)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    sides = [Side("rushlight")] + ([Side("torch", TORCH_PYTHON)] if TORCH_PYTHON else [])
    rows = []
    for name in MODELS:
        if args.only.lower() in name.lower():
            rows.append(measure(name, sides, args.rounds, args.compile))
            print(rows[-1], flush=True)
    names = [side.module for side in sides]
    header = ["what", *names, "ratio", *(f"{n}, peak MiB" for n in names)]
    header += [f"{n}, first step s" for n in names]
    if not args.no_report:
        title = f"Transformers in training on {rl.cuda.get_device_name()}"
        write_report("cuda_models", title, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
