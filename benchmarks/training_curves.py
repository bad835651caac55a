"""Do a GPT's losses follow PyTorch's, from one initial state?

    TORCH_PYTHON=path/to/python python benchmarks/training_curves.py [--device cuda] [--steps 200]

A GPT of 4 layers of 256 learns short passages; parameters and batches come from NumPy, so both
libraries start with the same bits. In float32 the curves must stay within 0.1% of each other while
rounding has not yet led them apart (the first 50 steps), and all of them within 2%; in bfloat16
(autocast) the means over 20 steps within 2%.
"""

import argparse
import sys

from models_today import BLOCK, GPT
from peer import TORCH_PYTHON, Case, Side, Worker, markdown, write_report

PROGRAM = """
import numpy as np
model = GPT(512, 64, 256, 4, 4).to(DEVICE)
random = np.random.RandomState(0)
with lib.no_grad():
    for name, p in model.named_parameters():
        shape = tuple(p.shape)
        start = 0.02 * random.randn(*shape) if p.dim() > 1 else np.full(shape, "bias" not in name)
        p.copy_(lib.from_numpy(start.astype("float32")))
optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
passages = random.randint(0, 512, (16, 65))
def train(steps):
    losses = []
    for _ in range(steps):
        text = lib.from_numpy(passages[random.permutation(16)[:8]]).to(DEVICE)
        x, y = text[:, :-1], text[:, 1:]
        with lib.autocast(DEVICE, dtype=lib.bfloat16, enabled=HALF):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
"""


def curve(side: Side, device: str, half: bool, steps: int) -> list[float]:
    worker = Worker(side, 2)
    head = f"DEVICE, HALF, APPROXIMATE = {device!r}, {half}, 'none'\n"
    worker.prepare(Case("curve", head + BLOCK + GPT + PROGRAM, "pass"))
    losses = worker.evaluate(f"train({steps})")
    worker.close()
    return losses


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def worst(ours: list[float], theirs: list[float], width: int) -> float:
    """The largest difference of the means over `width` steps, as a share."""
    places = range(0, len(ours) - width + 1, width)
    pairs = [(mean(ours[i : i + width]), mean(theirs[i : i + width])) for i in places]
    return max(abs(a - b) / b for a, b in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--no-report", action="store_true")
    args = parser.parse_args()
    if not TORCH_PYTHON:
        sys.exit("TORCH_PYTHON must name a Python that has PyTorch")
    env = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    sides = [Side("rushlight", env=env), Side("torch", TORCH_PYTHON, env=env)]
    rows, missed = [], False
    for half in (False, True):
        ours, theirs = (curve(side, args.device, half, args.steps) for side in sides)
        early = worst(ours[:50], theirs[:50], 1)
        late = worst(ours, theirs, 20 if half else 1)
        bad = late > 0.02 or (not half and early > 0.001)
        missed |= bad
        ends = [f"{losses[0]:.4f} to {mean(losses[-20:]):.4f}" for losses in (ours, theirs)]
        kind = "bfloat16" if half else "float32"
        rows.append([kind, *ends, f"{early:.1e}", f"{late:.1e}", "missed" if bad else ""])
        print(rows[-1], flush=True)
    header = ["type", "rushlight", "torch", "first 50 steps", f"{args.steps} steps", ""]
    if not args.no_report:
        name = f"training_curves_{args.device}"
        write_report(name, f"Losses of a GPT, {args.device}", markdown(header, rows))
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
