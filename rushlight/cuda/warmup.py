"""Compiles the kernels that training programs need, so that no program has to.

    python -m rushlight.cuda.warmup                  # for the GPUs of this machine
    python -m rushlight.cuda.warmup --arch 90 100    # for others; needs no GPU
    python -m rushlight.cuda.warmup --list           # what would be compiled
    python -m rushlight.cuda.warmup --kernels FILE   # another list, as record() writes it

Kernels are compiled when first used and kept on disk; that takes tens of milliseconds each, so the
first step of a large program takes seconds. This does it beforehand, on all processors, for example
while an image of a container is built: what is compiled does not depend on a GPU being there. The
folder is that of every program (RUSHLIGHT_KERNEL_CACHE, or ~/.cache/rushlight/kernels).

The list that comes with the package holds what image models, recurrent ones, transformers and
recommenders use in float32, float16 and bfloat16, with the common optimisers. A program with other
needs records its own: ``rushlight.cuda.warmup.record("kernels.txt")`` at its end.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rushlight._C import _cuda
from rushlight.types import FileLike

KERNELS = Path(__file__).with_name("warmup_kernels.txt")


def read_list(path: FileLike) -> list[tuple[str, ...]]:
    """(file, expression) pairs from a list: one per line, with a tab between."""
    lines = Path(path).read_text().splitlines()
    pairs = [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"{path}: expected a file, a tab and an expression, got {pair}")
    return pairs


def record(path: FileLike) -> int:
    """Adds the kernels that this process has used to a list; makes the list if there is none."""
    path = Path(path)
    known = set(read_list(path)) if path.exists() else set()
    used = known | set(_cuda.loaded_kernels())
    path.write_text("".join(f"{file}\t{expression}\n" for file, expression in sorted(used)))
    return len(used)


def compile_one(job: Any) -> str | None:
    """Compiles one kernel into the cache; what went wrong, or None."""
    file, expression, arch = job
    try:
        _cuda.find_kernel(file, expression, arch)
    except Exception as error:
        return f"{file}: {expression} for sm_{arch}: {error}"
    return None


def archs_here() -> list[int]:
    """The architectures of this machine's GPUs."""
    from rushlight import cuda

    if not cuda.is_available():
        raise SystemExit(
            f"no GPU here ({cuda.why_unavailable()}): name architectures, such as --arch 90"
        )
    found = {cuda.get_device_capability(i) for i in range(cuda.device_count())}
    return sorted(major * 10 + minor for major, minor in found)


def warm_up(
    kernels: Sequence[tuple[str, ...]],
    archs: Sequence[int],
    jobs: int | None = None,
    progress: bool = True,
) -> list[str]:
    """Compiles all kernels for all architectures. Returns the errors."""
    if _cuda.nvrtc_missing():
        raise SystemExit(_cuda.nvrtc_missing())
    work = [(file, expression, arch) for arch in archs for file, expression in kernels]
    jobs = jobs or len(os.sched_getaffinity(0))
    errors = []
    start = time.perf_counter()
    show = progress and sys.stderr.isatty()
    # Processes, since the compiler takes turns among threads.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(min(jobs, len(work) or 1), context) as pool:
        for done, error in enumerate(pool.map(compile_one, work, chunksize=4), 1):
            if error:
                errors.append(error)
            if show:
                print(f"\r{done} of {len(work)} kernels", end="", file=sys.stderr, flush=True)
    if show:
        print(file=sys.stderr)
    if progress:
        seconds = time.perf_counter() - start
        print(f"{len(work) - len(errors)} kernels in {seconds:.1f} s, in "
              f"{_cuda.kernel_cache_folder()}")  # fmt: skip
    return errors


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rushlight.cuda.warmup", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--arch", type=int, nargs="+", help="such as 80, 90 or 100")
    parser.add_argument("--jobs", type=int, help="processes; one a processor by default")
    parser.add_argument("--kernels", default=KERNELS, help="a file with a list of kernels")
    parser.add_argument("--list", action="store_true", help="only print the list")
    args = parser.parse_args(argv)
    kernels = read_list(args.kernels)
    if args.list:
        for file, expression in kernels:
            print(f"{file}\t{expression}")
        return 0
    errors = warm_up(kernels, args.arch or archs_here(), args.jobs)
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
