"""Compares Rushlight with PyTorch on the samples of PyTorch's own operator database.

    TORCH_PYTHON=path python tools/opinfo.py [--samples N] [--again] [--device cuda] [--jobs N]
        [--seconds N] [--limit N] [--report file] [name ...]

The database (torch.testing._internal; expecttest and hypothesis must be installed beside PyTorch)
has samples of every op, module and optimiser and inputs that must be refused. PyTorch draws them
for every dtype that it supports on the CPU and records what it makes of them, once, in a folder;
Rushlight runs the same calls on the same memory in a process of its own. Results, dtypes, shapes,
gradients (second ones for float64), in-place, out= and method forms and classes of errors are
compared. A name is a section ("op add", "error add", "module nn.Linear", "optimizer SGD") or the
word behind its kind.

With --device cuda our side runs on a GPU. --jobs pairs of processes take one section after the
other, in an order by chance; one that dies is named, and another goes on. The report is written
while they run, and says how much of the database it covers: --seconds ends early, --limit leaves
the rest of a section after so many seconds. Exits with 1 where anything differs that is not in
tests/conformance/better.py, 2 where not all was reached.
"""

import argparse
import collections
import json
import os
import pathlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from conformance.samples import file_name  # noqa: E402

KINDS = {"op": "ops agree", "module": "modules agree", "optimizer": "optimisers agree"}
SCRIPTS = ROOT / "tests" / "conformance"
EVERY = 5  # seconds between two writings of the report
WIDTH = 400  # characters of a line of it


class Library:
    """A process that does sections by name, and is started again when one of them ends it."""

    def __init__(self, *command):
        self.command, self.process = [str(part) for part in command], None

    def ask(self, name):
        """Its answer, or the status with which it ended."""
        if self.process is None:
            env = {**os.environ, "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
            env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(self.command, env=env, text=True, **pipes)
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            if answer := self.process.stdout.readline():
                return json.loads(answer)
        except BrokenPipeError:
            pass
        status, self.process = self.process.wait(), None
        return status or 1

    def end(self):
        if self.process is not None:
            self.process.kill()


def listed(peer):
    """The sections of the database, in an order by chance that is always the same."""
    command = [peer, str(SCRIPTS / "database.py"), "--list"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(found, key=lambda name: zlib.crc32(name.encode()))


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10000, help="at most, per op and dtype")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "opinfo")
    parser.add_argument("--again", action="store_true", help="draw what is recorded already")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of our side")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0, help="for all; 0: till it is done")
    parser.add_argument("--limit", type=int, default=600, help="seconds of a section, on our side")
    parser.add_argument("--examples", type=int, default=1, help="shown per kind of difference")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


class Comparison:
    """The sections, what came of those that are done, and who does the rest."""

    def __init__(self, names, peer, options):
        self.names, self.peer, self.options = names, peer, options
        self.theirs = options.folder / "theirs"
        self.theirs.mkdir(parents=True, exist_ok=True)
        self.waiting, self.done, self.libraries = queue.SimpleQueue(), {}, []
        for name in names:
            self.waiting.put(name)

    def work(self):
        """Sections, one after the other, until there are none."""
        limits = self.options.samples, self.options.limit
        peer = Library(self.peer, SCRIPTS / "database.py", self.theirs, limits[0])
        where = self.options.device, self.theirs, limits[1]
        own = Library(sys.executable, SCRIPTS / "samples.py", *where)
        self.libraries += peer, own
        while True:
            try:
                name = self.waiting.get_nowait()
            except queue.Empty:
                break
            record = self.theirs / file_name(name)
            if (self.options.again or not record.exists()) and (status := peer.ask(name)):
                record.write_bytes(pickle.dumps(status))
            self.done[name] = own.ask(name)
        peer.end()
        own.end()

    def run(self):
        threads = [
            threading.Thread(target=self.work, daemon=True) for _ in range(self.options.jobs)
        ]
        for thread in threads:
            thread.start()
        start = said = written = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            now = time.monotonic()
            if now - written > EVERY:
                written = now
                text, _ = report(self.names, dict(self.done), self.options)
                if now - said > 12 * EVERY:
                    said = now
                    print(f"{len(self.done)} of {len(self.names)} sections", flush=True)
                self.write(text)
            if self.options.seconds and now - start > self.options.seconds:
                break

    def write(self, text):
        if self.options.report:
            new = self.options.report.with_suffix(".new")
            new.write_text(text + "\n")
            new.replace(self.options.report)

    def end(self):
        for library in self.libraries:
            library.end()


def main():
    options = parsed()
    peer = os.environ.get("TORCH_PYTHON")
    if not peer:
        sys.exit("TORCH_PYTHON must name a Python with PyTorch, expecttest and hypothesis")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = set(options.names)
    names = [n for n in listed(peer) if not wanted or n in wanted or n.split(" ", 1)[1] in wanted]
    comparison = Comparison(names, peer, options)
    try:
        comparison.run()
    finally:
        done = dict(comparison.done)
        comparison.end()
        text, status = report(names, done, options)
        print(text, flush=True)
        comparison.write(text)
    sys.stdout.flush()
    os._exit(status)  # threads may still wait for processes that were ended


def report(names, done, options):
    """What differs in words, how much agrees; the status to end with."""
    lines, tally = [], collections.Counter()
    for name in sorted(done):
        kind, found = name.split()[0], done[name]
        if isinstance(found, int):
            lines.append(f"{name}: Rushlight ended with status {found}")
            tally[kind, "all"] += 1
            continue
        if "status" in found:
            lines.append(f"{name}: PyTorch ended with status {found['status']}")
            continue
        add(tally, kind, found)
        for texts in found["kinds"].values():
            for text in texts[: options.examples]:
                lines.append(f"{name}: {len(texts)} of {found['count']}: {text}"[:WIDTH])
    if left := sorted(set(names) - set(done)):
        lines.append(f"not reached, {len(left)}: {', '.join(left)}"[: 4 * WIDTH])
    for kind, words in KINDS.items():
        if tally[kind, "all"]:
            lines.append(
                f"{tally[kind, 'good']} of {tally[kind, 'all']} {words}, "
                f"{tally[kind, 'better']} of them but for what is better on purpose"
            )
    if tally["error", "all"]:
        lines.append(
            f"{tally['error', 'good']} of {tally['error', 'all']} bad inputs refused with "
            f"PyTorch's class of error, {tally['error', 'other class']} with another"
        )
    lines.append(
        f"{tally['cases']:,} cases compared in {len(done)} of {len(names)} sections; "
        f"{tally['cut']} were left after {options.limit} s, with {tally['left']:,} cases to go"
    )
    agree = all(tally[kind, "good"] == tally[kind, "all"] for kind in ("error", *KINDS))
    return "\n".join(lines), (2 if left else 0) if agree else 1


def add(tally, kind, found):
    """Counts a section."""
    if not found["count"]:
        return
    bad = sum(map(len, found["kinds"].values()))
    tally["cases"] += found["count"]
    tally["cut"] += bool(found["left"])
    tally["left"] += found["left"]
    tally[kind, "all"] += found["count"] if kind == "error" else 1
    tally[kind, "good"] += found["count"] - bad if kind == "error" else not bad
    tally[kind, "better"] += bool(found["better"]) and not bad
    tally[kind, "other class"] += len(found["kinds"].get("other class", ()))


if __name__ == "__main__":
    main()
