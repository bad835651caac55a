"""What a launch costs: single kernels and graphs of them, on the default stream and another one.

    python benchmarks/cuda_graph_launches.py

Dependent additions to 4,096 floats, 2,048 of them; microseconds per kernel by the wall's clock, and
of the host alone. "between" runs a graph and a single kernel by turns. "kept back" are single calls
that the library itself queues some at a time (config.coalesce_launches); "singly" are not.
"""

import statistics
import sys
import time

import rushlight as rl

KERNELS = 2048


def timed(run):
    """(wall, host) microseconds per kernel: the median of nine."""
    walls, hosts = [], []
    for _ in range(9):
        rl.cuda.synchronize()
        start = time.perf_counter()
        count = run()
        hosts.append((time.perf_counter() - start) / count)
        rl.cuda.synchronize()
        walls.append((time.perf_counter() - start) / count)
    return statistics.median(walls) * 1e6, statistics.median(hosts) * 1e6


def main() -> int:
    if not rl.cuda.is_available():
        sys.exit(f"no GPU: {rl.cuda.why_unavailable()}")
    x = rl.zeros(4096, device="cuda")

    def single():
        for _ in range(KERNELS):
            x.add_(1.0)
        return KERNELS

    def graphs(graph, size, between=False):
        for _ in range(KERNELS // size):
            graph.replay()
            if between:
                x.add_(1.0)
        return KERNELS // size * (size + between)

    streams = {"default": rl.cuda.default_stream(), "own": rl.cuda.Stream()}
    for name, stream in streams.items():
        with rl.cuda.stream(stream):
            for how in ("singly", "kept back"):
                with rl.config.patch(coalesce_launches=how == "kept back"):
                    single()
                    wall, host = timed(single)
                print(f"{name} {how}: {wall:.2f} wall, {host:.2f} host", flush=True)
    for size in (1, 4, 16, 64, 256):
        graph = rl.cuda.CUDAGraph()
        start = time.perf_counter()
        with rl.cuda.graph(graph):
            for _ in range(size):
                x.add_(1.0)
        made = (time.perf_counter() - start) * 1e6
        for name, stream in streams.items():
            with rl.cuda.stream(stream):
                for between in (False, True):
                    run = lambda: graphs(graph, size, between)  # noqa: B023, E731
                    run()
                    what = f"graph of {size}{', between' * between}"
                    wall, host = timed(run)
                    print(f"{name} {what}: {wall:.2f} wall, {host:.2f} host", flush=True)
        print(f"graph of {size}: captured in {made:.0f} us", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
