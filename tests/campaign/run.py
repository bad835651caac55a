"""The hostile campaign: calls, files and loaders that try to crash, hang or mislead the library.

    python tests/campaign/run.py [--calls 200000] [--files 10000] [--faults 200] [--seed 1]
                                 [--jobs 2] [--seconds 0] [--device cpu|fake|cuda] [--checked 0]
                                 [--report FILE]

--device cuda plans calls on a GPU and compares with the CPU's answers; fake takes a pretend driver,
whose kernels do nothing, to find crashes on the host. --checked 2: two of the jobs take calls from
the end, under NVIDIA's compute-sanitizer.
    python tests/campaign/run.py --replay 1:4711      # one call again, alone, with its traceback

Each part runs in processes that may crash: the call that did it is named, and another process goes
on behind it. Findings that are alike are printed once, and all are in the report. Ends with status
1 if anything was found.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
SHARES = {"calls": 4000, "modules": 4000, "files": 1000, "faults": 25}  # of one process
CHECKED = 40  # of one under compute-sanitizer, which says what it found when the process ends
MEMCHECK = 99  # the status of a process in which compute-sanitizer found something
GRACE = 15  # seconds for the call that runs when the time is over
# What part of --seconds each has, of those that run; what one leaves over is there for the next.
PARTS = {"calls": 0.5, "modules": 0.15, "files": 0.15, "faults": 0.2}


def parsed():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--calls", type=int, default=200_000)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--files", type=int, default=10_000)
    p.add_argument("--faults", type=int, default=200)
    p.add_argument("--seed", default="1")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    p.add_argument("--seconds", type=float, default=0, help="end early, with what was found")
    p.add_argument("--device", choices=("cpu", "fake", "cuda"), default="cpu")
    p.add_argument("--checked", type=int, default=0, help="jobs under compute-sanitizer")
    p.add_argument("--report", help="a file for the findings, a line of JSON each")
    p.add_argument("--replay", help="SEED:NUMBER of a call")
    options = p.parse_args()
    if options.checked and options.device != "cuda":
        p.error("--checked needs --device cuda")
    return options


def guard_library(folder):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("no C compiler: the calls run without guard pages")
        return ""
    path = Path(folder) / "libguard.so"
    source = HERE / "guard_allocator.c"
    subprocess.run(
        [compiler, "-std=c11", "-shared", "-fPIC", "-O1", source, "-o", path], check=True
    )
    return str(path)


def environment(device="cpu", folder=""):
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    found = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "CAMPAIGN_DEVICE": device}
    if device == "fake":
        found["LD_LIBRARY_PATH"] = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        found["CUDA_VISIBLE_DEVICES"] = "0"
        found["RUSHLIGHT_LIBRARY_PATH"] = str(folder)
        found["RUSHLIGHT_KERNEL_CACHE"] = str(Path(folder) / "kernels")
    return found


def fake_driver(folder):
    """The driver without a GPU of tests/fake_gpu, in a folder, and a compiler of the same sort."""
    source = TESTS / "fake_gpu" / "fake_driver.cpp"
    include = f"-I{TESTS.parent / 'csrc'}"
    command = ["g++", "-std=c++20", "-O1", "-g", "-shared", "-fPIC", include, source]
    subprocess.run([*command, "-o", Path(folder) / "libcuda.so"], check=True)
    compiler = ["gcc", "-std=c11", "-shared", "-fPIC", HERE / "fake_nvrtc.c"]
    subprocess.run([*compiler, "-o", Path(folder) / "libnvrtc.so.13"], check=True)


def sanitizer(log):
    """What a command stands behind to have its kernels' accesses checked: ours, since NVIDIA's
    libraries try calls that fail. Host backtraces would keep Python's frames, and their tensors."""
    at = shutil.which("compute-sanitizer") or next(
        iter(sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))), None
    )
    if at is None:
        return []
    options = {
        "tool": "memcheck", "error-exitcode": MEMCHECK, "kernel-name": "kernel_substring=rush",
        "report-api-errors": "no", "show-backtrace": "device", "print-limit": 20,
        "target-processes": "application-only", "log-file": log,
    }  # fmt: skip
    return [str(at), *(str(x) for k, v in options.items() for x in (f"--{k}", v))]


class Campaign:
    """What was counted and found, by all processes."""

    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.counts, self.findings, self.lock = {}, [], threading.Lock()
        self.seen = collections.Counter()
        self.start = time.monotonic()
        self.end = float("inf")  # of the part that runs
        self.parts = []

    def count(self, part, counts):
        with self.lock:
            own = self.counts.setdefault(part, {})
            for kind, n in counts.items():
                own[kind] = own.get(kind, 0) + n

    def found(self, part, number, kind, text, what):
        entry = {"part": part, "number": number, "kind": kind, "text": text, "call": what}
        with self.lock:
            self.findings.append(entry)
            alike = (kind, what.split("(")[0])
            self.seen[alike] += 1
            if self.seen[alike] == 1:
                print(f"{part} {number} {kind}: {text.strip()[-300:]}")
                print(f"    {what[:400]}", flush=True)
            if self.options.report:
                with open(self.options.report, "a") as file:
                    file.write(json.dumps(entry) + "\n")

    def is_over(self):
        return time.monotonic() > self.end

    def share(self, part, module, first, last, rest, checked=False):
        """Runs numbers first to last, over the deaths of the processes that do it."""
        mark = f"{part.replace(' ', '-')}-{first}"
        label, home = self.folder / f"label-{mark}", self.folder / f"home-{mark}"
        errors, log = self.folder / f"errors-{mark}", self.folder / f"log-{mark}"
        home.mkdir()
        while first < last and not self.is_over():
            label.write_text("-1 before the first\n")
            command = [*sanitizer(log)] if checked else []
            command += [sys.executable, "-m", module, self.options.seed, str(first), str(last)]
            status = self.process([*command, str(label), *rest], part, errors, home, checked)
            if status == 0:
                break
            number, _, what = label.read_text(errors="replace").strip().partition(" ")
            if status == MEMCHECK and checked:
                what = f"one of the calls {first} to {last - 1}"
                self.found(part, first, "memcheck", log.read_text(errors="replace")[:3000], what)
                break
            if status is None:
                self.count(part, {"before the time was over": max(int(number) - first, 0)})
                break
            kind = "hang" if status == -14 else f"crash ({status})"
            text = errors.read_text(errors="replace")
            self.found(part, int(number), kind, text[-3000:], what)
            if int(number) < 0:
                break  # not in a call: the harness itself
            self.count(part, {"died": 1, "before a death": int(number) - first})
            first = int(number) + 1
        shutil.rmtree(home, ignore_errors=True)

    def process(self, command, part, errors, home, checked):
        """Runs a process and reads what it says. Its status; None where the time was over."""
        env = environment(self.options.device, self.folder)
        if self.end < float("inf"):
            env["CAMPAIGN_SECONDS"] = str(self.end - time.monotonic())
        if checked:
            env["CAMPAIGN_CHECKED"] = "1"
        options = {"stdout": subprocess.PIPE, "text": True, "env": env, "cwd": home}
        with open(errors, "w") as err, subprocess.Popen(command, stderr=err, **options) as running:
            left = self.end - time.monotonic() + GRACE
            try:
                output, _ = running.communicate(timeout=left if left < float("inf") else None)
                status = running.returncode
            except subprocess.TimeoutExpired:
                running.kill()
                output, status = running.communicate()[0], None
        self.read(part, output)
        return status

    def read(self, part, output):
        for line in output.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue  # what a call printed
            if isinstance(said, dict) and "finding" in said:
                self.found(part, *said["finding"])
            elif isinstance(said, dict) and "counts" in said:
                self.count(part, said["counts"])

    def spread(self, part, module, first, count, share, *rest):
        jobs, checked = self.options.jobs, self.options.checked
        if self.options.seconds:
            done = sum(PARTS[p] for p in self.parts[: self.parts.index(part) + 1])
            whole = sum(PARTS[p] for p in self.parts)
            self.end = self.start + self.options.seconds * done / whole
            share = max(1, min(share, count // (2 * jobs)))  # so that all have something to do
        left = [first, first + count]  # the numbers that nobody has taken

        def work(under):
            while True:
                with self.lock:
                    if left[0] >= left[1] or self.is_over():
                        return
                    n = min(CHECKED if under else share, left[1] - left[0])
                    at = (left[1] - n, left[1]) if under else (left[0], left[0] + n)
                    left[under] = at[1 - under]
                name = f"{part} under compute-sanitizer" if under else part
                self.share(name, module, *at, rest, bool(under))

        threads = [threading.Thread(target=work, args=(int(i < checked),)) for i in range(jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if left[0] < left[1]:
            print(f"{part}: ended early, {left[1] - left[0]:,} were left out")

    def summary(self):
        for part, counts in self.counts.items():
            total = ", ".join(f"{n:,} {kind}" for kind, n in sorted(counts.items()))
            print(f"{part}: {sum(counts.values()):,} made: {total}")
        for (kind, name), n in self.seen.most_common(40):
            print(f"{n} x {kind}: {name}")
        seconds = time.monotonic() - self.start
        print(f"{len(self.findings)} findings, {len(self.seen)} of them unlike, in {seconds:.0f} s")


def replay(what, device):
    seed, _, number = what.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        if device == "fake":
            fake_driver(folder)
        code = (
            "import sys\nfrom campaign import child\nallocator = child.prepare(sys.argv[3])\n"
            "from campaign.calls import plan\nfrom campaign.judging import judged\n"
            "one = plan(sys.argv[1], int(sys.argv[2]))\nprint(one, flush=True)\n"
            "print(judged(one, int(sys.argv[2]), allocator))"
        )
        command = [sys.executable, "-c", code, seed, number, guard_library(folder)]
        return subprocess.run(command, env=environment(device, folder), cwd=folder).returncode


def main():
    options = parsed()
    if options.replay:
        raise SystemExit(replay(options.replay, options.device))
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(options, folder)
        if options.device != "cpu":  # readers and loaders know nothing of GPUs
            options.files = options.faults = 0
        if options.device == "fake":
            fake_driver(folder)
        if options.checked and not sanitizer(""):
            print("compute-sanitizer was not found: no call runs under it")
            options.checked = 0
        counts = {"calls": options.calls, "modules": options.calls // 5,
                  "files": options.files, "faults": options.faults}  # fmt: skip
        campaign.parts = [part for part in PARTS if counts[part]]
        guard = [guard_library(folder)] if options.calls else []
        first = options.first
        for part in campaign.parts:
            share, rest = SHARES[part], guard if part in ("calls", "modules") else []
            module = "campaign.child" if part == "calls" else f"campaign.{part}"
            campaign.spread(part, module, first if rest else 0, counts[part], share, *rest)
    campaign.summary()
    raise SystemExit(1 if campaign.findings else 0)


if __name__ == "__main__":
    main()
