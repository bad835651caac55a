"""What `import rushlight` costs: time, modules, memory.

    [TORCH_PYTHON=path/to/python] python benchmarks/bench_import.py [--rounds 15] [--check]

Bars: at most 150 ms, at most 60 MB resident afterwards, NumPy not imported. Each import runs in a
fresh interpreter; the time is the processor's, so that a busy machine does not disturb it.
"""

import argparse
import json
import statistics
import subprocess
import sys

from peer import TORCH_PYTHON, Side, markdown, write_report

TIME_BAR_MS, SIZE_BAR_MB = 150, 60

PROBE = """
import json, sys, time
sys.path.pop(0)
before = set(sys.modules)
wall, cpu = time.perf_counter(), time.process_time()
__import__(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "cpu_ms": cpu * 1e3,
    "wall_ms": wall * 1e3,
    "resident_mb": int(status["VmRSS"].split()[0]) / 1024,
    "modules": sorted(set(sys.modules) - before),
}))
"""


def probe(side: Side) -> dict:
    command = [side.python, "-c", PROBE, side.module]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--modules", action="store_true", help="list the modules imported")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    args = parser.parse_args()

    sides = [Side("rushlight"), Side("numpy")]
    if TORCH_PYTHON:
        sides.append(Side("torch", TORCH_PYTHON))
    for side in sides:
        probe(side)  # fills the file cache and __pycache__
    runs = {side.module: [] for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            runs[side.module].append(probe(side))

    rows, ours = [], {}
    for module, found in runs.items():
        figures = {
            key: statistics.median(run[key] for run in found)
            for key in ("cpu_ms", "wall_ms", "resident_mb")
        }
        modules = found[0]["modules"]
        if module == "rushlight":
            ours = figures | {"numpy": "numpy" in modules}
            if args.modules:
                print("\n".join(modules))
        numbers = [f"{figures[key]:.0f}" for key in figures]
        rows.append([module, *numbers, str(len(modules)), "yes" if "numpy" in modules else "no"])
    header = ["module", "CPU, ms", "wall, ms", "resident, MB", "modules", "imports NumPy"]
    table = markdown(header, rows)
    print(table)
    missed = [
        name
        for name, bad in [
            ("time", ours["cpu_ms"] > TIME_BAR_MS),
            ("resident size", ours["resident_mb"] > SIZE_BAR_MB),
            ("NumPy imported", ours["numpy"]),
        ]
        if bad
    ]
    verdict = f"Missed: {', '.join(missed)}." if missed else "All bars are met."
    bars = f"Bars: {TIME_BAR_MS} ms, {SIZE_BAR_MB} MB, no NumPy. {verdict}\n"
    print(bars)
    write_report("import", "The cost of importing", table, bars)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
