"""Saved and scripted programs beside Python: loops, threads, loading, serving from C++, starting.

    python benchmarks/bench_programs.py [--rounds 9] [--check]

Both sides of a row take turns, round by round; the table has medians, and in brackets the spread
(quartiles) of the rounds. Where one thread computes, the time is the processor's, so that a busy
machine disturbs little; two threads and starting are also timed by the clock. Needs CMake and a
C++ compiler for benchmarks/programs_cpp.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from models_today import BLOCK, GPT
from peer import markdown, write_report
from table1_models import resnet50

import rushlight as rl
from rushlight import nn

HERE = Path(__file__).resolve().parent


def tiny(x: rl.Tensor, n: int) -> rl.Tensor:
    for _ in range(n):
        x = x * 0.5
        x = x + 1.0
        x = x.relu()
        x = x - 0.25
    return x


def control(x: rl.Tensor, n: int) -> rl.Tensor:
    total = 0
    k = 7
    for i in range(n):
        for j in range(20):
            if k % 2 == 0:
                k = k // 2
            else:
                k = 3 * k + 1
            if k > 100000 or k == 1:
                k = 7 + i + j
            total = total + k % 5
        if total % 3 == 0:
            x = x + 1.0
        else:
            x = x * 0.5
    return x + total


class Chain(nn.Module):
    """Products with pointwise ops between them, which compile fuses."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        y = self.up(x)
        y = rl.sigmoid(y) * y + 0.1 * y.clamp(-3.0, 3.0) - 0.05
        z = self.down(y)
        return (z * z + 1.0).sqrt() - x.relu() * 0.5


class Small(nn.Module):
    """What two threads call: enough work that a call is no matter of microseconds."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(256, 256) if i % 2 else nn.ReLU() for i in range(9))
        )

    def forward(self, x):
        return self.layers(x)


class Server:
    """The C++ program, with a model of its own."""

    def __init__(self, folder, model, kind, sizes):
        libraries = [
            f"{sys.prefix}/lib",
            f"{sysconfig.get_paths()['purelib']}/scipy_openblas32/lib",
        ]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": ":".join(libraries)}
        command = [folder / "serve", model, kind, *map(str, sizes)]
        start = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the C++ program gave no result")
        self.start_s = time.perf_counter() - start

    def run(self, threads, calls):
        """(seconds of the clock, of the processor)."""
        self.process.stdin.write(f"{threads} {calls}\n")
        self.process.stdin.flush()
        return tuple(map(float, self.process.stdout.readline().split()))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def processor(function, *args):
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def alternate(rounds, *sides):
    """Times of each side, in turns, after a call of each that is not counted."""
    for side in sides:
        side()
    times = [[side() for side in sides] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


def shown(values, scale=1e3):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * scale:.3g} ({low * scale:.3g} to {high * scale:.3g})"


class Table:
    def __init__(self):
        self.rows, self.missed = [], []

    def add(self, what, ours, other, bar):
        """Both in seconds; the ratio is other / ours, and must be at least the bar."""
        ratio = statistics.median(o / u for u, o in zip(ours, other, strict=True))
        met = ratio >= bar
        self.rows.append([what, shown(ours), shown(other), f"{ratio:.2f}", f"≥ {bar:g}", _yes(met)])
        if not met:
            self.missed.append(what)

    def add_start(self, what, wall, cpu, has_bar):
        met = statistics.median(cpu) <= 0.2
        bar = ["≤ 200 ms", _yes(met)] if has_bar else ["none", ""]
        self.rows.append([what, shown(cpu), f"{shown(wall)} by the clock", "", *bar])
        if has_bar and not met:
            self.missed.append(what)


def _yes(met):
    return "yes" if met else "**no**"


def loops(table, rounds):
    for what, function, n, bar in (
        ("loop of tiny ops, scripted / Python", tiny, 2000, 1.4),
        ("loop with scalar control flow, scripted / Python", control, 400, 3.0),
    ):
        scripted, x = rl.jit.script(function), rl.ones(4)
        assert rl.equal(scripted(x, 50), function(x, 50))
        with rl.no_grad():
            ours, other = alternate(
                rounds,
                lambda: processor(scripted, x, n),  # noqa: B023
                lambda: processor(function, x, n),  # noqa: B023
            )
        table.add(what, ours, other, bar)


def loaded(table, rounds, folder):
    net, x = Chain().eval(), rl.randn(64, 256)
    rl.jit.save(rl.jit.trace(net, x), folder / "chain.rush")
    program, compiled = rl.jit.load(folder / "chain.rush"), rl.compile(net)

    def several(f):
        for _ in range(30):
            f(x)

    with rl.no_grad():
        assert rl.equal(program(x), compiled(x))
        ours, other = alternate(
            rounds, lambda: processor(several, program), lambda: processor(several, compiled)
        )
    table.add("30 calls of a loaded program / of compile", ours, other, 1.0)


def gpt():
    names = {"lib": rl, "APPROXIMATE": "tanh"}
    exec(BLOCK + GPT, names)
    return names["GPT"](8192, 128, 768, 12, 12)


def serving(table, rounds, folder):
    for name, net, x, bar in (
        ("ResNet-50, one picture", resnet50(rl, False, 0.0), rl.ones(1, 3, 224, 224), 1.0),
        ("GPT of 92 M, 64 tokens", gpt(), rl.ones(1, 64, dtype=rl.int64), 1.0),
    ):
        net.eval()
        path = folder / "model.rush"
        rl.jit.save(rl.jit.trace(net, x, check_trace=False), path)
        server = Server(folder, path, "int" if x.dtype == rl.int64 else "float", x.shape)
        with rl.no_grad():
            ours, other = alternate(
                rounds,
                lambda: server.run(1, 1)[1],  # noqa: B023
                lambda: processor(net, x),  # noqa: B023
            )
        server.end()
        table.add(f"{name}: C++ / Python", ours, other, bar)


def threads(table, rounds, folder):
    path = folder / "small.rush"
    rl.jit.save(rl.jit.trace(Small().eval(), rl.ones(32, 256)), path)
    server = Server(folder, path, "float", (32, 256))
    one, two = alternate(rounds, lambda: server.run(1, 400), lambda: server.run(2, 400))
    server.end()
    # By the processor's time: how fast two free processors would be, if nobody waits for a lock.
    for what, ours, other in (
        ("by the clock", [wall for wall, _ in two], [2 * wall for wall, _ in one]),
        ("by the processor's time", [cpu / 2 for _, cpu in two], [2 * cpu for _, cpu in one]),
    ):
        table.add(f"two threads, 400 calls each / 800 by one, {what}", ours, other, 1.8)


def starting(table, rounds, folder):
    for name, path, sizes, has_bar in (
        ("a small program", folder / "small.rush", (32, 256), True),
        ("ResNet-50 (98 MB; of it one inference)", folder / "resnet.rush", (1, 3, 224, 224), False),
    ):
        if "ResNet" in name:
            net = resnet50(rl, False, 0.0).eval()
            rl.jit.save(rl.jit.trace(net, rl.ones(sizes), check_trace=False), path)
        wall, cpu = [], []
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            server = Server(folder, path, "float", sizes)
            server.end()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            wall.append(server.start_s)
            cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        table.add_start(f"start of a C++ process to the first result of {name}", wall, cpu, has_bar)


def processor_name():
    """As the system says it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def build(folder):
    prefix = rl.utils.cmake_prefix_path
    for command in (
        ["cmake", "-S", HERE / "programs_cpp", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", folder],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    options = parser.parse_args()
    rl.set_num_threads(1)
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        loops(table, options.rounds)
        loaded(table, options.rounds, folder)
        threads(table, options.rounds, folder)
        serving(table, options.rounds, folder)
        starting(table, options.rounds, folder)
    load = os.getloadavg()[0]
    text = markdown(["", "ours, ms", "other, ms", "other / ours", "bar", "met"], table.rows)
    note = (
        f"Medians of {options.rounds} rounds in which both sides took turns, quartiles in "
        "brackets; one thread per call. Times are the processor's where nothing else is said. "
        f"The processor is an {processor_name()}. Processes that wanted to run meanwhile (load): "
        f"{load:.0f}; above the number of cores the machine was shared, and times by the clock say "
        "little.\n"
    )
    print(text)
    write_report("programs", "Programs", note, text)
    if options.check and table.missed:
        sys.exit(f"missed: {', '.join(table.missed)}")


if __name__ == "__main__":
    main()
