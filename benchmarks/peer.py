"""Times the same statement in several libraries in turns, with one process per library.

A figure is a ratio to a peer. All sides run alternately in one go, so that a machine that slows
down for a while slows all; each reports its median and the spread of the middle half of its runs,
and the ratio is the median of the ratios of neighbouring runs.

    sides = [Side("rushlight"), Side("torch", python=os.environ["TORCH_PYTHON"])]
    for result in compare([Case("add", "x = lib.ones(4)", "x + x")], sides):
        print(result)

`lib` is the side's module. The first side is ours. Statements must work everywhere; what differs
goes into Side.prelude, or into Case.words where a library spells it otherwise.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "")

# A thread stays on its core. On a busy machine the scheduler may put two threads of one loop on the
# same core; then each spins through its time slice while the other has work, and a loop of 50 us
# takes 8 ms, now on the one side, now on the other.
BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}

# Several threads are timed by the wall's clock, and a loop ends with the last of them: of so many
# parts of a turn the best one counts, the one that no other process held up.
PARTS = 10

# An OpenMP worker spins for some milliseconds after its last loop. Where all cores are in use, it
# would do so on a core that the other side needs; so that side waits, then wakes its own threads.
SETTLE = 0.02


@dataclass
class Side:
    """A library: its module, the interpreter that has it, its environment and first lines."""

    module: str
    python: str = sys.executable
    env: dict[str, str] = field(default_factory=dict)
    prelude: str = ""
    name: str = ""  # where a module has several sides; else the module's

    @property
    def key(self) -> str:
        return self.name or self.module


@dataclass
class Case:
    """A statement to time after its setup; a bar is the largest ratio (ours : peer's) allowed."""

    name: str
    setup: str
    statement: str
    bar: float | None = None  # against PyTorch
    numpy_bar: float | None = None
    words: dict[str, str] = field(default_factory=dict)  # the statement where a side differs

    def statement_for(self, module: str) -> str:
        return self.words.get(module, self.statement)

    def bar_for(self, module: str) -> float | None:
        return self.numpy_bar if module == "numpy" else self.bar


@dataclass
class Timing:
    """Seconds for one run of the statement."""

    runs: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.runs) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.runs, n=4)
        return (high - low) / 2 / self.median


@dataclass
class Result:
    case: Case
    ours: Timing
    peers: dict[str, Timing]  # by the sides' keys, in their order

    def ratio_to(self, module: str) -> float:
        pairs = zip(self.ours.runs, self.peers[module].runs, strict=True)
        return statistics.median(ours / peer for ours, peer in pairs)

    @property
    def ratio(self) -> float | None:
        """To PyTorch."""
        return self.ratio_to("torch") if "torch" in self.peers else None

    def missed_against(self, module: str) -> bool:
        bar = self.case.bar_for(module)
        return bar is not None and module in self.peers and self.ratio_to(module) > bar

    @property
    def missed(self) -> bool:
        return any(self.missed_against(module) for module in self.peers)

    def __str__(self) -> str:
        text = f"{self.case.name:<28} {_show(self.ours)}"
        for module, timing in self.peers.items():
            text += f"   {_show(timing)}   {self.ratio_to(module):6.2f}"
            if (bar := self.case.bar_for(module)) is not None:
                text += f"  (bar {bar:.2f}{', missed' if self.missed_against(module) else ''})"
        return text


def _show(timing: Timing) -> str:
    return f"{timing.median * 1e6:12.3f} us ±{timing.spread * 100:3.0f}%"


def machine() -> str:
    """The class of the machine, in words that do not identify it."""
    wide = "unknown instruction set"
    try:
        flags = Path("/proc/cpuinfo").read_text()
        wide = next((n for f, n in [("avx512f", "AVX-512"), ("avx2", "AVX2")] if f in flags), wide)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{platform.system()}, {platform.machine()}, {cores} cores, {wide}"


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def write_report(name: str, title: str, *parts: str) -> None:
    """Puts the parts, one under the other, into results/<name>.md."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.md"
    path.write_text("\n".join([f"# {title}\n", f"Machine: {machine()}.\n", *parts]))
    print(f"written: {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else path)


class Worker:
    """A process that times what it is told to; it sleeps while the other side runs."""

    def __init__(self, side: Side, threads: int, clock: str = "perf_counter"):
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if threads > 1:
            env |= BOUND
        self.process = subprocess.Popen(
            [side.python, __file__, "--worker", side.module, clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env | side.env,
            text=True,
        )
        self.key = side.key
        self._ask(prelude=side.prelude)

    def prepare(self, case: Case) -> None:
        self._ask(setup=case.setup, statement=case.statement_for(self.key))

    def time(self, number: int) -> float:
        """Seconds for `number` runs."""
        return self._ask(number=number)["seconds"]

    def evaluate(self, expression: str):
        """The value, which JSON must know, of an expression among the names of the setup."""
        return self._ask(evaluate=expression)["value"]

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()

    def _ask(self, **request) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker died (exit status {self.process.wait()})")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def compare(
    cases: Iterable[Case],
    sides: list[Side],
    *,
    threads: int = 1,
    rounds: int = 15,
    seconds: float = 0.02,
    patience: float = 10.0,
    clock: str = "perf_counter",
) -> Iterator[Result]:
    """Yields one result per case.

    A run lasts about `seconds`; where one alone takes long, there are fewer rounds. `clock` is one
    of the time module's: thread_time does not count what others do to a busy machine.
    """
    workers = [Worker(side, threads, clock) for side in sides]
    try:
        for case in cases:
            numbers = []
            for worker in workers:
                worker.prepare(case)
                numbers.append(_enough_runs(worker, seconds))
            runs = [[] for _ in workers]
            spent = 0.0
            while len(runs[0]) < rounds and (len(runs[0]) < 3 or spent < patience):
                for worker, number, times in zip(workers, numbers, runs, strict=True):
                    if threads > 1:
                        time.sleep(SETTLE)
                        worker.time(1)
                    share = max(1, number // (PARTS if threads > 1 else 1))
                    parts = [worker.time(share) for _ in range(max(1, number // share))]
                    times.append(min(parts) / share)
                    spent += sum(parts)
            ours, *others = map(Timing, runs)
            modules = [side.key for side in sides[1:]]
            yield Result(case, ours, dict(zip(modules, others, strict=True)))
    finally:
        for worker in workers:
            worker.close()


def _enough_runs(worker: Worker, seconds: float) -> int:
    """How often to run for about that long; warms up on the way."""
    number = 1
    while True:
        taken = worker.time(number)
        if taken >= seconds / 4:
            return max(1, round(number * seconds / taken))
        number *= 4


def geometric_mean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(values)


def _work(module: str, clock: str) -> None:
    """The worker's loop: a line of JSON in, a line out; statements print to nowhere."""
    import importlib
    import timeit

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    names = scope = {"lib": importlib.import_module(module)}
    timer = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            if "prelude" in request:
                exec(request["prelude"], names)
            elif "setup" in request:
                timer = scope = None  # what the last case held goes first
                scope = dict(names)
                exec(request["setup"], scope)
                timer = timeit.Timer(
                    request["statement"], timer=getattr(time, clock), globals=scope
                )
                timer.timeit(1)
            elif "evaluate" in request:
                answer["value"] = eval(request["evaluate"], scope)
            else:
                answer["seconds"] = timer.timeit(request["number"])
        except Exception as error:
            answer["error"] = f"{module}: {type(error).__name__}: {error}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__" and sys.argv[1:2] == ["--worker"]:
    # The interpreter put this folder first on the path: nothing in it may hide a library.
    sys.path.pop(0)
    _work(*sys.argv[2:4])
