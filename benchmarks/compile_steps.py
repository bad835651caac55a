"""compile on a GPU: training steps of GPT, ViT and U-Net, their launches and their peak memory.

    TORCH_PYTHON=path/to/python python benchmarks/compile_steps.py [--only GPT] [--ways ...]

A step is forward, backward and fused AdamW under bfloat16 autocast. Ways: ours eager, compiled,
compiled with all kept that backward needs, and frozen; PyTorch's eager and compiled. Each runs in a
process of its own, and all in turns. Launches are the kernels of one step that the profiler saw.
"first" is how long the first step took, with all that was compiled for it.
"""

import argparse
import statistics
import sys

from models_today import BLOCK, GPT, UNET, VIT
from peer import TORCH_PYTHON, Case, Side, Worker, markdown, write_report

STEP = """
import time
made_forward = []
def made(model, loss_of):
    optimizer = lib.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    forward = loss_of
    if WAY == "compile":
        forward = lib.compile(loss_of, options=OPTIONS) if OPTIONS else lib.compile(loss_of)
    if WAY == "kept":  # all that backward needs
        forward = lib.compile(loss_of, options={"recompute": False, **(OPTIONS or {})})
    made_forward.append(forward)
    def step():
        with lib.autocast("cuda", dtype=lib.bfloat16):
            loss = forward()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss
    return lib.compile(step, mode="frozen") if WAY == "frozen" else step
def timed(step, calls=1):
    lib.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    lib.cuda.synchronize()
    return (time.perf_counter() - start) / calls
def settled():
    timed(step, 11)
    if lib.__name__ == "rushlight":
        from rushlight import _C
        while _C._frozen_awaits_code():  # kernels that are compiled beside the program
            time.sleep(0.05)
        timed(step, 5)
def launches():
    from importlib import import_module
    tool = import_module(lib.__name__ + ".profiler")
    with tool.profile(activities=[tool.ProfilerActivity.CUDA, tool.ProfilerActivity.CPU]) as seen:
        step()
        lib.cuda.synchronize()
    names = [e.name for e in seen.events() if "CUDA" in str(e.device_type)]
    copies = ("Memcpy", "Memset", "memcpy", "memset", "ProfilerStep")
    names = [n for n in names if not n.startswith(copies)]
    if KINDS:
        import collections, sys
        for name, count in collections.Counter(n[:70] for n in names).most_common(45):
            print(f"{count:5} {name}", file=sys.stderr)
    return len(names)
"""
MODELS = {
    "GPT 124 M, 8 x 1024": (
        "APPROXIMATE = 'tanh'\n",
        GPT,
        """
lib.manual_seed(0)
model = GPT(50304, 1024, 768, 12, 12).cuda()
text = lib.randint(0, 50304, (8, 1025), device="cuda")
x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
step = made(model, lambda: F.cross_entropy(model(x).view(-1, 50304), y.view(-1)))
""",
    ),
    "ViT-B/16, batch 64": (
        "APPROXIMATE = 'none'\n",
        VIT,
        """
lib.manual_seed(0)
model = ViT(224, 16, 768, 12, 12, 1000).cuda()
images = lib.randn(64, 3, 224, 224, device="cuda")
labels = lib.randint(0, 1000, (64,), device="cuda")
step = made(model, lambda: F.cross_entropy(model(images), labels))
""",
    ),
    "U-Net, 128 channels, batch 32": (
        "APPROXIMATE = 'none'\n",
        UNET,
        """
lib.manual_seed(0)
model = UNet(128).cuda()
images = lib.randn(32, 3, 64, 64, device="cuda")
noise, t = lib.randn_like(images), lib.rand(32, device="cuda")
step = made(model, lambda: F.mse_loss(model(images, t), noise))
""",
    ),
}
WAYS = {
    "eager": ("rushlight", "eager"),
    "compile": ("rushlight", "compile"),
    "kept": ("rushlight", "kept"),
    "frozen": ("rushlight", "frozen"),
    "torch": ("torch", "eager"),
    "torch.compile": ("torch", "compile"),
}


def measure(name, ways, rounds, kinds):
    before, model, rest = MODELS[name]
    workers = {}
    rows = {}
    try:
        for way in ways:
            module, how = WAYS[way]
            side = Side(module, TORCH_PYTHON) if module == "torch" else Side(module)
            workers[way] = worker = Worker(side, 1)
            setup = (
                f"WAY, KINDS, OPTIONS = {how!r}, {kinds}, None\n"
                + before
                + BLOCK
                + model
                + STEP
                + rest
            )
            worker.prepare(Case(name, setup + "first = timed(step)\nsettled()\n", "pass"))
            worker.evaluate("lib.cuda.reset_peak_memory_stats()")
            rows[way] = {"first": worker.evaluate("first"), "times": []}
        for _ in range(rounds):
            for way, worker in workers.items():
                rows[way]["times"].append(worker.evaluate("timed(step, 5)"))
        for way, worker in workers.items():
            rows[way]["peak"] = worker.evaluate("lib.cuda.max_memory_allocated() / 2**20")
            rows[way]["launches"] = worker.evaluate("launches()")
    finally:
        for worker in workers.values():
            worker.close()
    return [
        [name, way, f"{statistics.median(row['times']) * 1e3:.2f}", str(row["launches"]),
         f"{row['peak']:,.0f}", f"{row['first']:.1f}"]
        for way, row in rows.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--kinds", action="store_true", help="print the launches by name")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    ways = [w for w in args.ways.split(",") if TORCH_PYTHON or WAYS[w][0] != "torch"]
    rows = []
    for name in MODELS:
        if args.only.lower() in name.lower():
            rows += measure(name, ways, args.rounds, args.kinds)
            for row in rows[-len(ways) :]:
                print(*row, sep=" | ", flush=True)
    header = ["step", "way", "ms", "launches", "peak MiB", "first s"]
    if not args.no_report:
        title = f"Compiled training steps on {rl.cuda.get_device_name()}"
        write_report("compile_steps", title, markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
