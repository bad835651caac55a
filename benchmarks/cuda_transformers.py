"""What transformers are made of, on a GPU in half precision, at the sizes of real models.

    TORCH_PYTHON=path/to/python python benchmarks/cuda_transformers.py [--rounds 9] [--only gelu]

Attention is compared twice: with PyTorch's default, and with the fastest of its backends, which
each row tries first (`sdpa_kernel`). Calls are queued ten at a time and waited for together, so
that the time is the GPU's where the GPU is the slower one. Bars: attention at most 1.02 of the best
backend. A second table has the peak memory of one training step through a model's head: the linear
map to the vocabulary and its loss, as two functions and as linear_cross_entropy. (PyTorch always
runs the two: 2.11 has no other.)
"""

import argparse
import sys

from peer import TORCH_PYTHON, Case, Side, Worker, compare, markdown, write_report

CALLS = 10

COMMON = f"""
import contextlib, time
F = lib.nn.functional
def queue(f):
    for _ in range({CALLS}):
        f()
    lib.cuda.synchronize()
def rand(*sizes):
    return lib.randn(*sizes, device="cuda", dtype=lib.bfloat16)
"""

# `best`: of PyTorch's backends the one that trains fastest.
ATTENTION = """
q, k, v, g = (rand({batch}, {heads}, {length}, {size}) for _ in range(4))
for t in (q, k, v):
    t.requires_grad_()
length, extras = {length}, "{extras}"
mask, dropout = None, 0.1 if "dropout" in extras else 0.0
if "padding" in extras:
    ends = lib.randint(length // 2, length, ({batch}, 1), device="cuda")
    mask = (lib.arange(length, device="cuda")[None] < ends)[:, None, None]
    mask = mask.expand({batch}, 1, length, length)
if "added" in extras:
    mask = rand({batch}, 1, length, length)
def attend():
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal={causal})
def forward():
    with lib.no_grad():
        attend()
def train():
    q.grad = k.grad = v.grad = None
    attend().backward(g)
"""
BEST = """
chosen = contextlib.nullcontext
if lib.__name__ == "torch":
    from torch.nn.attention import SDPBackend, sdpa_kernel
    def seconds(backend):
        try:
            with sdpa_kernel(backend):
                queue(train)
                start = time.perf_counter()
                queue(train)
                return time.perf_counter() - start
        except RuntimeError:
            return float("inf")
    backends = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION,
                SDPBackend.EFFICIENT_ATTENTION)
    fastest = min(backends, key=seconds)
    chosen = lambda: sdpa_kernel(fastest)
"""
SIZES = [
    (16, 12, 1024, 64, True),
    (4, 16, 4096, 64, True),
    (2, 16, 4096, 128, True),
    (1, 16, 16384, 128, True),
    (32, 16, 512, 64, False),
    (64, 12, 197, 64, False),
    (8, 12, 256, 64, True),
]

# With dropout and masks, which PyTorch's cuDNN and flash kernels know in part.
EXTRAS = ["dropout", "padding mask", "added mask", "padding mask and dropout"]
EXTRA_SIZES = [(16, 12, 1024, 64), (8, 12, 512, 64), (16, 12, 512, 64)]

LOSS = """
x = rand(16384, 50304).requires_grad_()
labels = lib.randint(0, 50304, (16384,), device="cuda")
def forward():
    with lib.no_grad(), lib.autocast("cuda", dtype=lib.bfloat16):
        F.cross_entropy(x, labels)
def train():
    x.grad = None
    with lib.autocast("cuda", dtype=lib.bfloat16):
        loss = F.cross_entropy(x, labels)
    loss.backward()
"""
HEAD = """
x = rand(16384, 768).requires_grad_()
w = (lib.randn(50304, 768, device="cuda") / 28).requires_grad_()
labels = lib.randint(0, 50304, (16384,), device="cuda")
fused = {fused} and lib.__name__ != "torch"
def train():
    x.grad = w.grad = None
    with lib.autocast("cuda", dtype=lib.bfloat16):
        if fused:
            loss = F.linear_cross_entropy(x, w, labels)
        else:
            loss = F.cross_entropy(F.linear(x, w), labels)
    loss.backward()
"""
GELU = """
x, g = rand(16384, 3072).requires_grad_(), rand(16384, 3072)
def forward():
    with lib.no_grad():
        F.gelu(x)
def train():
    x.grad = None
    F.gelu(x).backward(g)
"""
LISTS = """
sizes = [(768, 3072), (3072, 768), (768, 768), (2304, 768)] * 12
weights = [lib.zeros(s, device="cuda", requires_grad=True) for s in sizes]
for w in weights:
    w.grad = lib.randn(w.shape, device="cuda") * 1e-3
grads = [w.grad for w in weights]
averages = [w.detach().clone() for w in weights]
optimizer = lib.optim.SGD(weights, lr=0.1)
two, half, found = (lib.tensor(x, device="cuda") for x in (2.0, 0.5, 0.0))
moving = lib.optim.swa_utils.get_ema_multi_avg_fn(0.999)
def clip():
    lib.nn.utils.clip_grad_norm_(weights, 1.0)
def clip_all():
    lib.nn.utils.get_total_norm(grads)
    lib.nn.utils.clip_grads_with_norm_(weights, 1.0, two)
def clip_value():
    lib.nn.utils.clip_grad_value_(weights, 1.0)
def add():
    lib._foreach_add_(grads, 1e-6)
def mul():
    lib._foreach_mul_(grads, 0.999)
def unscale():
    lib._amp_foreach_non_finite_check_and_unscale_(grads, found, half)
def average():
    moving(averages, grads, 1)
def zero():
    optimizer.zero_grad(set_to_none=False)
"""
# After a few calls nothing is left to clip, as in most steps of a training.
LIST_ROWS = [
    ("clip_grad_norm_ of 48 tensors", "clip", 0.5),
    ("clip_grad_norm_, and every gradient is scaled", "clip_all", None),
    ("clip_grad_value_", "clip_value", None),
    ("_foreach_add_", "add", None),
    ("_foreach_mul_", "mul", None),
    ("unscale_ of a gradient scaler", "unscale", None),
    ("moving average of 48 tensors", "average", None),
    ("zero_grad(set_to_none=False)", "zero", None),
]


def attention_cases():
    for batch, heads, length, size, causal in SIZES:
        setup = COMMON + ATTENTION.format(
            batch=batch, heads=heads, length=length, size=size, causal=causal, extras=""
        )
        name = f"{'causal' if causal else 'full'} attention {batch}x{heads}x{length}x{size}"
        for what in ("forward", "train"):
            yield Case(f"{name}, {what}", setup, f"queue({what})")
            yield Case(
                f"{name}, {what}, best backend",
                setup + BEST,
                f"with chosen(): queue({what})",
                1.02,
            )


def extra_attention_cases():
    rows = [(size, extras, False) for size in EXTRA_SIZES for extras in EXTRAS]
    rows += [(size, "dropout", True) for size in EXTRA_SIZES]
    for (batch, heads, length, size), extras, causal in rows:
        setup = COMMON + ATTENTION.format(
            batch=batch, heads=heads, length=length, size=size, causal=causal, extras=extras
        )
        name = f"{'causal' if causal else 'full'} attention {batch}x{heads}x{length}x{size}"
        for what in ("forward", "train"):
            timed = f"with chosen(): queue({what})"
            yield Case(f"{name}, {extras}, {what}, best backend", setup + BEST, timed, 1.02)


def other_cases():
    for name, setup in (
        ("cross_entropy 16384x50304, autocast", LOSS),
        ("gelu 16384x3072", GELU),
    ):
        for what in ("forward", "train"):
            yield Case(f"{name}, {what}", COMMON + setup, f"queue({what})")
    yield from head_cases()
    for name, what, bar in LIST_ROWS:
        yield Case(name, COMMON + LISTS, f"queue({what})", bar)


def head_cases():
    for name, fused in (("linear, cross_entropy", False), ("linear_cross_entropy", True)):
        yield Case(
            f"{name} 16384x768 to 50304, train",
            COMMON + HEAD.format(fused=fused),
            "queue(train)",
            1.0,
        )


def peaks(case, sides):
    """MiB that one step has at most, its inputs among them."""
    for side in sides:
        worker = Worker(side, 1)
        worker.prepare(case)
        worker.evaluate("lib.cuda.reset_peak_memory_stats()")
        worker.time(1)
        yield worker.evaluate("lib.cuda.max_memory_allocated() / 2**20")
        worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", help="a word of the names")
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()

    import rushlight as rl

    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    everything = (*attention_cases(), *extra_attention_cases(), *other_cases())
    cases = [c for c in everything if (args.only or "") in c.name]
    sides = [Side("rushlight")] + ([Side("torch", TORCH_PYTHON)] if TORCH_PYTHON else [])
    rows = []
    for result in compare(cases, sides, rounds=args.rounds):
        print(result, flush=True)
        timings = (result.ours, *result.peers.values())
        shown = [f"{t.median / CALLS * 1e6:.1f} ±{t.spread * 100:.0f}%" for t in timings]
        ratios = [f"{result.ratio_to(m):.2f}" for m in result.peers]
        bar = f"{result.case.bar:.2f}" if result.case.bar else ""
        rows.append([result.case.name, *shown, *ratios, bar, "missed" if result.missed else ""])
    names = [side.module for side in sides]
    memory = []
    for case in head_cases():
        if (args.only or "") in case.name:
            found = list(peaks(case, sides))
            print(case.name, *(f"{mib:.0f} MiB" for mib in found), flush=True)
            memory.append([case.name, *(f"{mib:.0f}" for mib in found)])
    if not args.no_report:
        header = ["what", *(f"{n}, us" for n in names), *(f"to {n}" for n in names[1:]), "bar", ""]
        title = f"Parts of transformers on {rl.cuda.get_device_name()}, bfloat16"
        peak_header = ["peak memory, MiB", *names]
        parts = [markdown(header, rows), markdown(peak_header, memory)]
        write_report("cuda_transformers", title, *parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
