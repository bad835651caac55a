"""Where the memory of a training step is: what is alive after forward, who saved it, the peaks.

    python benchmarks/saved_memory.py [--model "U-Net"] [--way compile]

The steps of compile_steps.py. Memory is counted, not timed, so the pretend GPU of tests/fake_gpu
serves as well: with its libcuda, libcudnn and libcublasLt in LD_LIBRARY_PATH and
RUSHLIGHT_LIBRARY_PATH, and FAKE_CUDA_MEMORY=16000000000.
"""

import argparse
import collections

from compile_steps import MODELS, STEP
from models_today import BLOCK

MIB = 2**20


def saved_by(lib, loss):
    """Bytes by op, argument and dtype. (A tensor that two nodes saved counts twice.)"""
    seen, todo, found = {}, [loss.grad_fn], collections.Counter()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node
        todo += [following for following, _ in node.next_functions]
        for name in dir(node):
            value = getattr(node, name) if name.startswith("_saved_") else None
            for t in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(t, lib.Tensor):
                    found[node.name(), name.removeprefix("_saved_"), str(t.dtype)] += t.nbytes
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="U-Net")
    parser.add_argument("--way", default="compile", choices=["eager", "compile", "kept"])
    args = parser.parse_args()
    (name,) = (n for n in MODELS if args.model.lower() in n.lower())
    before, model, rest = MODELS[name]

    import math

    import rushlight as lib
    from rushlight import nn

    scope = {"lib": lib, "nn": nn, "F": nn.functional, "math": math, "KINDS": False}
    exec(f"WAY = {args.way!r}\nOPTIONS = {{'wait_for_code': True}}\n" + before, scope)
    exec(BLOCK + model + STEP + rest, scope)
    timed, forward = scope["timed"], scope["made_forward"]
    timed(scope["step"], 3)
    start = lib.cuda.memory_allocated()
    lib.cuda.reset_peak_memory_stats()
    with lib.autocast("cuda", dtype=lib.bfloat16):
        loss = forward[0]()
    between, peak = lib.cuda.memory_allocated(), lib.cuda.max_memory_allocated()
    lib.cuda.reset_peak_memory_stats()
    loss.backward()
    peaks = f"forward {peak / MIB:,.0f}, backward {lib.cuda.max_memory_allocated() / MIB:,.0f}"
    print(f"{name}, {args.way}: {start / MIB:,.0f} MiB, then {between / MIB:,.0f}; peaks: {peaks}")
    print(f"not kept: {lib.compiler.stats()['not_kept'] / 4 / MIB:,.0f} MiB per step")
    with lib.autocast("cuda", dtype=lib.bfloat16):
        loss = forward[0]()
    for (op, argument, dtype), n in saved_by(lib, loss).most_common(16):
        print(f"{n / MIB:8,.1f} MiB {op} {argument} {dtype}")


if __name__ == "__main__":
    main()
