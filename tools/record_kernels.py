#!/usr/bin/env python3
"""Writes rushlight/cuda/warmup_kernels.txt anew: the kernels that typical training programs use.

    python tools/record_kernels.py [--out FILE]        needs a GPU

Each program runs a few steps in a process of its own: the models of benchmarks/table1.py and
benchmarks/cold_start.py in float32, float16 and bfloat16 (those of Hugging Face where that library
is installed), a transformer with gradient scaling, generation with a cache, and every optimiser.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGE_MODELS = ("GPT 124 M", "ViT-B/16", "U-Net", "ResNet-50", "HF GPT-2", "HF Llama")
MODELS = "alexnet vgg19 resnet50 mobilenet_v2 gnmt_v2 ncf".split()

MODEL = """
import sys
sys.path.append({benchmarks!r})
import rushlight as rl
from table1_models import TASKS, Training
name = {model!r}
if name in TASKS:
    training = Training(rl, name, batch={batch}, small={small}, device="cuda",
                        autocast=getattr(rl, {autocast!r}) if {autocast!r} else None)
    for _ in range(2):
        loss = training.step()
    loss.item()
"""

TRANSFORMER = """
import rushlight as rl
from rushlight import nn
for dtype in (None, rl.float16, rl.bfloat16):
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.Sequential(nn.Embedding(100, 64), layer, nn.LayerNorm(64), nn.Linear(64, 100)).cuda()
    opt = rl.optim.AdamW(model.parameters())
    scaler = rl.amp.GradScaler("cuda", enabled=dtype == rl.float16)
    x = rl.randint(0, 100, (4, 16), device="cuda")
    for _ in range(2):
        opt.zero_grad()
        with rl.autocast("cuda", dtype=dtype or rl.float16, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    (loss.item(), model(x).argmax(-1).eq(x).float().mean().item())
"""

LARGE = """
import sys
sys.path.append({benchmarks!r})
import rushlight as lib
import cold_start
setup, hugging_face = cold_start.MODELS[{model!r}]
if hugging_face:
    import rushlight.as_torch
    rushlight.as_torch.install()
setup = setup.replace('autocast("cuda", dtype=lib.bfloat16)', {autocast!r})
BENCHMARKS, COMPILED, APPROXIMATE = {benchmarks!r}, False, "none"
exec(setup, globals())
for _ in range(2):
    step()
with lib.no_grad(), lib.autocast("cuda", dtype=lib.bfloat16):
    if hugging_face:
        model.generate(text[:1, :16], max_new_tokens=4, do_sample=True)
lib.cuda.synchronize()
"""

OPTIMIZERS = """
import rushlight as rl
for cls in (rl.optim.SGD, rl.optim.Adam, rl.optim.AdamW, rl.optim.RMSprop, rl.optim.Adagrad,
            rl.optim.NAdam, rl.optim.RAdam, rl.optim.Adadelta, rl.optim.Adamax):
    for options in ({}, {"momentum": 0.9} if cls in (rl.optim.SGD, rl.optim.RMSprop) else
                    {"capturable": True}):
        for dtype in (rl.float32, rl.float16, rl.bfloat16):
            p = rl.nn.Parameter(rl.zeros(8, device="cuda", dtype=dtype))
            p.grad = rl.ones_like(p)
            try:
                opt = cls([p], lr=1e-3, **options)
            except TypeError:
                continue
            opt.step()
rl.cuda.synchronize()
"""


def programs():
    for model in MODELS:
        for autocast in ("", "float16", "bfloat16"):
            yield MODEL.format(benchmarks=str(ROOT / "benchmarks"), model=model, autocast=autocast,
                               batch=4 if model != "ncf" else 4096,
                               small=model in ("gnmt_v2", "ncf"))  # fmt: skip
    for model in LARGE_MODELS:
        for autocast in ("", "float16", "bfloat16"):
            half = f'autocast("cuda", dtype=lib.{autocast or "float16"}, enabled={bool(autocast)})'
            yield LARGE.format(benchmarks=str(ROOT / "benchmarks"), model=model, autocast=half)
    yield TRANSFORMER
    yield OPTIMIZERS


def run(code, path):
    code += f"\nfrom rushlight.cuda import warmup\nwarmup.record({str(path)!r})\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.splitlines()[-1], file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(ROOT / "rushlight" / "cuda" / "warmup_kernels.txt"))
    parser.add_argument("--jobs", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        paths = []
        for i, code in enumerate(programs()):
            paths.append(Path(folder) / str(i))
            pool.submit(run, code, paths[-1])
        pool.shutdown()
        lines = sorted({line for p in paths if p.exists() for line in p.read_text().splitlines()})
    Path(args.out).write_text("".join(line + "\n" for line in lines))
    print(f"{len(lines)} kernels in {args.out}")


if __name__ == "__main__":
    main()
