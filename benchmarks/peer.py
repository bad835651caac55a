"""Times the same statement in two libraries, each in a process of its own, in turns.

A figure is a ratio to a peer. Both sides run alternately in one go, so that a machine that slows
down for a while slows both; each reports its median and the spread of the middle half of its runs,
and the ratio is the median of the ratios of neighbouring runs.

    sides = [Side("rushlight"), Side("torch", python=os.environ["TORCH_PYTHON"])]
    for result in compare([Case("add", "x = lib.ones(4)", "x + x")], sides):
        print(result)

`lib` is the side's module. Statements must work in both; what differs goes into Side.prelude.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "")


@dataclass
class Side:
    """A library: its module, the interpreter that has it, its environment and first lines."""

    module: str
    python: str = sys.executable
    env: dict[str, str] = field(default_factory=dict)
    prelude: str = ""


@dataclass
class Case:
    """A statement to time after its setup; `bar` is the largest ratio (ours : peer) allowed."""

    name: str
    setup: str
    statement: str
    bar: float | None = None


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
    peer: Timing | None

    @property
    def ratio(self) -> float | None:
        if self.peer is None:
            return None
        pairs = zip(self.ours.runs, self.peer.runs, strict=True)
        return statistics.median(ours / peer for ours, peer in pairs)

    @property
    def missed(self) -> bool:
        return self.ratio is not None and self.case.bar is not None and self.ratio > self.case.bar

    def __str__(self) -> str:
        text = f"{self.case.name:<28} {_show(self.ours)}"
        if self.peer is not None:
            text += f"   {_show(self.peer)}   {self.ratio:6.2f}"
        if self.case.bar is not None and self.peer is not None:
            text += f"  (bar {self.case.bar:.2f}{', missed' if self.missed else ''})"
        return text


def _show(timing: Timing) -> str:
    return f"{timing.median * 1e6:12.3f} us ±{timing.spread * 100:3.0f}%"


class Worker:
    """A process that times what it is told to; it sleeps while the other side runs."""

    def __init__(self, side: Side, threads: int):
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [side.python, __file__, "--worker", side.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env | side.env,
            text=True,
        )
        self._ask(prelude=side.prelude)

    def prepare(self, case: Case) -> None:
        self._ask(setup=case.setup, statement=case.statement)

    def time(self, number: int) -> float:
        """Seconds for `number` runs."""
        return self._ask(number=number)["seconds"]

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
) -> Iterator[Result]:
    """Yields a result a case. sides: ours, and a peer or none. A run lasts about `seconds`."""
    workers = [Worker(side, threads) for side in sides]
    try:
        for case in cases:
            for worker in workers:
                worker.prepare(case)
            numbers = [_enough_runs(worker, seconds) for worker in workers]
            runs = [[] for _ in workers]
            for _ in range(rounds):
                for worker, number, times in zip(workers, numbers, runs, strict=True):
                    times.append(worker.time(number) / number)
            timings = [Timing(times) for times in runs]
            yield Result(case, timings[0], timings[1] if len(timings) > 1 else None)
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


def _work(module: str) -> None:
    """The worker's loop: a line of JSON in, a line out; statements print to nowhere."""
    import importlib
    import timeit

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    names = {"lib": importlib.import_module(module)}
    timer = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            if "prelude" in request:
                exec(request["prelude"], names)
            elif "setup" in request:
                scope = dict(names)
                exec(request["setup"], scope)
                timer = timeit.Timer(request["statement"], globals=scope)
                timer.timeit(1)
            else:
                answer["seconds"] = timer.timeit(request["number"])
        except Exception as error:
            answer["error"] = f"{module}: {type(error).__name__}: {error}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__" and sys.argv[1:2] == ["--worker"]:
    # The interpreter put this folder first on the path: nothing in it may hide a library.
    sys.path.pop(0)
    _work(sys.argv[2])
