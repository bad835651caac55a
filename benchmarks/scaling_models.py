"""Training of Table 1's six models on several ranks of this machine, against PyTorch's gloo.

    python benchmarks/scaling_models.py [--peer PYTHON] [--ranks 2 4 8] [--threads 2]
        [--models resnet50 ...] [--seconds 400] [--also NAME VARIABLE=VALUE ...] [--write]

The batch per rank stays the same on any number of ranks (weak scaling). All sides are started once,
on the largest number of ranks; those that are not measured sleep. For each model there are rounds,
and in each round each number of ranks has, one right after the other: steps without communication
(the plain model, on all these ranks at the same time; on one rank, too), steps of
DistributedDataParallel, on the largest number of ranks once more with all averages behind backward,
and steps of PyTorch's. A figure is the time until the last rank has done
its steps, divided by their number; shown are the median over rounds and half the distance of the
quartiles. Ratios and differences are taken within a round, so that a machine which gets slower for
a while does not change them.

Every rank has processors of its own (--free: the scheduler's choice) in both libraries. For the
models with a bar, on the largest number of ranks, each round has more ways: `--other-placement`
the same steps the other way round, and `--also` another side of ours with other environment
variables, which may name another build by PYTHONPATH.

scaling_report.py says what the tables mean. They are written after each round.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scaling_fit import PROBES
from scaling_rank import BATCHES
from scaling_report import BARRED, Study

HERE = Path(__file__).parent
RUN = {"rushlight": "rushlight.distributed.run", "torch": "torch.distributed.run"}
# How the time is shared out: about what a step of each takes.
SHARES = {"resnet50": 18, "mobilenet_v2": 14, "gnmt_v2": 36, "alexnet": 10, "vgg19": 16, "ncf": 6}
VISIT = 1.0  # seconds of steps, at least one
MOST_ROUNDS = 12


class Lost(Exception):
    """A side that does not answer any more."""


class Side:
    """A library on the largest number of ranks, each of which does what it is told."""

    def __init__(self, name, library, python, variables, args, folder):
        self.name, self.library, self.lines = name, library, []
        self.log = folder / f"{name}.txt"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / f"{name}.socket"))
        size = max(args.ranks)
        self.listener.listen(size)
        self.listener.settimeout(1.0)
        command = [python, "-m", RUN[library], "--standalone", "--nproc-per-node", str(size),
                   HERE / "scaling_rank.py", "--library", library, "--socket",
                   folder / f"{name}.socket", "--threads", str(args.threads),
                   "--ranks", *map(str, args.ranks)]  # fmt: skip
        command += ["--small"] if args.small else []
        # A virtual machine may only claim AMX: both sides leave it alone.
        environment = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", **os.environ,
                       "OMP_NUM_THREADS": str(args.threads), **variables}  # fmt: skip
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def connect(self, size, patience):
        found, until = {}, time.monotonic() + patience
        try:
            while len(found) < size:
                try:
                    connection, _ = self.listener.accept()
                except TimeoutError:
                    if self.process.poll() is None and time.monotonic() < until:
                        continue
                    raise
                connection.settimeout(patience)
                lines = connection.makefile("rw", encoding="utf-8")
                found[json.loads(lines.readline())] = lines
        except (OSError, ValueError) as error:
            raise Lost(f"{self.name} did not start: {error}\n{self.said()}") from error
        self.lines = [found[rank] for rank in range(size)]

    def tell(self, many, /, **command):
        """The first so many ranks."""
        try:
            for lines in self.lines[:many]:
                print(json.dumps(command), file=lines, flush=True)
        except OSError as error:
            raise Lost(f"{self.name}: {error}\n{self.said()}") from error

    def answers(self, many):
        try:
            return [json.loads(lines.readline()) for lines in self.lines[:many]]
        except (OSError, ValueError) as error:
            raise Lost(f"{self.name}: {error}\n{self.said()}") from error

    def ask(self, many, /, **command):
        self.tell(many, **command)
        return self.answers(many)

    def said(self):
        return self.log.read_text()[-3000:]

    def close(self):
        for lines in self.lines:
            try:
                lines.close()
            except OSError:
                pass  # it is gone
        self.listener.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.terminate()


class Case:
    """One way of a side on a number of ranks, which the rounds of a model visit."""

    def __init__(self, side, way, ranks, bound, key):
        self.side, self.way, self.ranks, self.bound, self.key = side, way, ranks, bound, key
        self.step = None  # seconds, as last seen

    def visit(self, seconds):
        if self.step is None:  # DDP deals its buckets anew after the first step
            count = 1 if self.way == "alone" else 2
        else:
            count = max(1, min(50, round(seconds / self.step)))
        times = self.side.ask(self.ranks, do="steps", way=self.way, ranks=self.ranks, count=count,
                              bound=self.bound)  # fmt: skip
        self.step = max(times) / count
        return self.step


class Measurement:
    """All sides, and the rounds of each model."""

    def __init__(self, args, study, folder):
        self.args, self.study = args, study
        self.size, self.bound = max(args.ranks), not args.free
        ours = {"rushlight": {}} | {name: dict(pairs) for name, pairs in args.also}
        plans = [(name, "rushlight", sys.executable, variables) for name, variables in ours.items()]
        plans += [("torch", "torch", args.peer, {})] if args.peer else []
        self.sides = {plan[0]: Side(*plan, args, folder) for plan in plans}
        self.each(lambda side: side.connect(self.size, args.patience))
        if "rushlight" not in self.sides:
            raise SystemExit("rushlight did not start")

    def each(self, do, sides=None):
        """What does not answer is left out from then on."""
        for name in list(sides or self.sides):
            try:
                do(self.sides[name])
            except Lost as lost:
                print(f"lost: {lost}", flush=True)
                self.sides.pop(name).close()

    def network(self):
        for n in self.args.ranks:

            def measure(side, n=n):
                self.study.network[side.name][n] = side.ask(
                    n, do="network", ranks=n, bound=self.bound
                )[0]

            self.each(measure, [name for name in ("rushlight", "torch") if name in self.sides])

    def machine(self):
        """How long each probe takes on each number of processes, once more."""
        for n in sorted({1, *self.args.ranks}):
            for probe in PROBES:
                seconds = self.sides["rushlight"].ask(n, do="probe", name=probe, ranks=n,
                                                      bound=self.bound)  # fmt: skip
                self.study.machine.setdefault(n, {}).setdefault(probe, []).append(max(seconds))

    def cases(self, model):
        """In the order of a round."""
        ours, theirs = self.sides["rushlight"], self.sides.get("torch")
        found = [] if 1 in self.args.ranks else [Case(ours, "alone", 1, self.bound, ("alone", 1))]
        for n in self.args.ranks:
            ways = ("alone", "ddp", "after") if n == self.size else ("alone", "ddp")
            found += [Case(ours, way, n, self.bound, (way, n)) for way in ways]
            if theirs:
                ways = ("ddp", "alone") if self.args.peer_alone else ("ddp",)
                found += [Case(theirs, way, n, self.bound, (f"torch {way}", n)) for way in ways]
        n = self.size
        if model in BARRED:
            if self.args.other_placement:
                found += [Case(ours, way, n, not self.bound, (f"other {way}", n))
                          for way in ("alone", "ddp")]  # fmt: skip
            found += [Case(self.sides[name], "ddp", n, self.bound, (name, n))
                      for name, _ in self.args.also if name in self.sides]  # fmt: skip
        return found

    def model(self, name, until):
        """Rounds until that moment, at least two."""
        began = time.monotonic()
        barred = name in BARRED
        sides = [s for s in self.sides if s in ("rushlight", "torch") or barred]
        for side in sides:  # at the same time
            numbers = self.args.ranks if side in ("rushlight", "torch") else [self.size]
            self.each(lambda s, n=numbers: s.tell(self.size, do="model", name=name, ranks=n),
                      [side])  # fmt: skip
        sizes = {}
        self.each(lambda side: sizes.update({side.name: side.answers(self.size)[0]["bytes"]}),
                  [side for side in sides if side in self.sides])  # fmt: skip
        self.machine()
        rounds, cases = [], self.cases(name)
        for case in cases:  # a first step makes what is made once, and settles the order of buckets
            case.visit(VISIT)
        print(f"{name}: ready after {time.monotonic() - began:.0f} s", flush=True)
        slowest = 0.0
        while len(rounds) < MOST_ROUNDS:
            started = time.monotonic()
            if len(rounds) >= 2 and started + slowest > until:
                break
            order = cases if len(rounds) % 2 == 0 else reversed(cases)
            rounds.append({case.key: case.visit(self.args.visit) for case in order})
            slowest = max(slowest, time.monotonic() - started)
            self.study.add(name, sizes["rushlight"], rounds, {})
            self.study.write()  # what is here, should the rest be cut off
        overlap = self.sides["rushlight"].ask(self.size, do="overlap", ranks=self.size,
                                              bound=self.bound)[0]  # fmt: skip
        self.study.add(name, sizes["rushlight"], rounds, overlap)
        self.each(
            lambda side: side.ask(self.size, do="drop"), [s for s in sides if s in self.sides]
        )
        print(f"{name}: {len(rounds)} rounds, {time.monotonic() - began:.0f} s", flush=True)

    def all_models(self, begun):
        left = list(self.args.models)
        while left:
            name, share = left[0], SHARES[left[0]] / sum(SHARES[m] for m in left)
            now = time.monotonic()
            spare = begun + self.args.seconds - now
            if spare < 5:
                print(f"no time left for {', '.join(left)}", flush=True)
                return
            try:
                self.model(name, now + spare * share)
            except Lost as lost:
                print(f"lost: {lost}", flush=True)
                self.sides = {n: s for n, s in self.sides.items() if s.process.poll() is None}
                if "rushlight" not in self.sides:
                    return
            self.study.write()
            left.pop(0)


def also(words):
    """NAME VARIABLE=VALUE ...: the name and the pairs."""
    return words[0], [tuple(word.split("=", 1)) for word in words[1:]]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default=os.environ.get("TORCH_PYTHON", ""))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    parser.add_argument("--seconds", type=float, default=400.0, help="of all, about")
    parser.add_argument("--visit", type=float, default=VISIT, help="seconds of steps of one way")
    parser.add_argument("--free", action="store_true", help="do not bind ranks to processors")
    parser.add_argument("--other-placement", action="store_true")
    parser.add_argument("--peer-alone", action="store_true", help="PyTorch without communication")
    parser.add_argument("--also", nargs="+", action="append", default=[], metavar="WORD")
    parser.add_argument("--small", action="store_true", help="tiny models: a trial of the script")
    parser.add_argument("--patience", type=float, default=180.0, help="seconds for one answer")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--page", help="a file for the tables")
    parser.add_argument("--write", action="store_true", help="write the results page")
    args = parser.parse_args()
    args.ranks = sorted(set(args.ranks))
    args.also = [also(words) for words in args.also]
    return args


def main():
    args = arguments()
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # shows what there is by then
    study = Study(args)
    measurement = None
    with tempfile.TemporaryDirectory(prefix="scaling") as folder:
        try:
            measurement = Measurement(args, study, Path(folder))
            print(f"started after {time.monotonic() - begun:.0f} s", flush=True)
            measurement.network()
            study.write()
            measurement.all_models(begun)
        except (KeyboardInterrupt, Lost) as end:
            print(f"ended before all was measured: {end}", flush=True)
        finally:
            study.write()
            for side in measurement.sides.values() if measurement else ():
                side.close()
    print(study.text())


if __name__ == "__main__":
    main()
