"""What a worker of table1.py measures inside its own process; `lib` is its library."""

import time


def peak_bytes(lib, device):
    """The process's largest resident set; on a GPU, the most that the allocator has reserved."""
    if device == "cuda":
        return lib.cuda.max_memory_reserved()
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) * 1024


def product_rate(lib, device, dtype, rounds=5):
    """Operations per second of a large square product: the best of a few."""
    n = 8192 if device == "cuda" else 2048
    kind = getattr(lib, dtype)
    a, b = (lib.randn(n, n).to(device).to(kind) for _ in range(2))
    wait = lib.cuda.synchronize if device == "cuda" else lambda: None
    best = float("inf")
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        a @ b
        wait()
        best = min(best, time.perf_counter() - start)
    return 2 * n**3 / best
