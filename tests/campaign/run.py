"""The hostile campaign: calls, files and loaders that try to crash, hang or mislead the library.

    python tests/campaign/run.py [--calls 200000] [--files 10000] [--faults 200] [--seed 1]
                                 [--jobs 2] [--seconds 0] [--device cpu|fake|cuda] [--report FILE]

--device cuda plans calls on a GPU and compares with the CPU's answers; fake takes a pretend driver,
whose kernels do nothing, to find crashes on the host.
    python tests/campaign/run.py --replay 1:4711      # one call again, alone, with its traceback

Each part runs in processes that may crash: the call that did it is named, and another process goes
on behind it. Ends with status 1 if anything was found.
"""

import argparse
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
SHARE = 4000  # calls of one process
# What part of --seconds each has; what one leaves over is there for the next.
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
    p.add_argument("--report", help="a file for the findings, a line of JSON each")
    p.add_argument("--replay", help="SEED:NUMBER of a call")
    return p.parse_args()


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


class Campaign:
    """What was counted and found, by all processes."""

    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.counts, self.findings, self.lock = {}, [], threading.Lock()
        self.start = time.monotonic()
        self.end = float("inf")  # of the part that runs

    def count(self, part, counts):
        with self.lock:
            own = self.counts.setdefault(part, {})
            for kind, n in counts.items():
                own[kind] = own.get(kind, 0) + n

    def found(self, part, number, kind, text, what):
        entry = {"part": part, "number": number, "kind": kind, "text": text, "call": what}
        with self.lock:
            self.findings.append(entry)
            print(f"{part} {number} {kind}: {text.strip()[-400:]}\n    {what[:600]}", flush=True)
            if self.options.report:
                with open(self.options.report, "a") as file:
                    file.write(json.dumps(entry) + "\n")

    def is_over(self):
        return time.monotonic() > self.end

    def share(self, part, module, first, last, *rest):
        """Runs numbers first to last, over the deaths of the processes that do it."""
        label = self.folder / f"label-{part}-{first}"
        home = self.folder / f"home-{part}-{first}"
        home.mkdir()
        while first < last and not self.is_over():
            label.write_text("-1 before the first\n")
            errors = self.folder / f"errors-{part}-{threading.get_ident()}"
            with open(errors, "w") as err:
                command = [sys.executable, "-m", module, self.options.seed, str(first), str(last)]
                done = subprocess.run(
                    [*command, str(label), *rest],
                    stdout=subprocess.PIPE,
                    stderr=err,
                    text=True,
                    env=environment(self.options.device, self.folder),
                    cwd=home,
                )
            self.read(part, done.stdout)
            if done.returncode == 0:
                break
            number, _, what = label.read_text(errors="replace").strip().partition(" ")
            kind = "hang" if done.returncode == -14 else f"crash ({done.returncode})"
            text = errors.read_text(errors="replace")
            self.found(part, int(number), kind, text[-3000:], what)
            if int(number) < 0:
                break  # not in a call: the harness itself
            self.count(part, {"died": 1, "before a death": int(number) - first})
            first = int(number) + 1
        shutil.rmtree(home, ignore_errors=True)

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
        if self.options.seconds:
            done = list(PARTS)[: list(PARTS).index(part) + 1]
            self.end = self.start + self.options.seconds * sum(PARTS[p] for p in done)
            share = max(1, share // 10)  # a share is not broken off
        shares = [(i, min(i + share, first + count)) for i in range(first, first + count, share)]

        def work():
            while True:
                with self.lock:
                    if not shares or self.is_over():
                        return
                    at = shares.pop(0)
                self.share(part, module, *at, *rest)

        threads = [threading.Thread(target=work) for _ in range(self.options.jobs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if shares:
            print(f"{part}: ended early, {sum(b - a for a, b in shares):,} were left out")


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
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(options, folder)
        if options.device != "cpu":  # readers and loaders know nothing of GPUs
            options.files = options.faults = 0
        if options.device == "fake":
            fake_driver(folder)
        if options.calls:
            guard = guard_library(folder)
            campaign.spread("calls", "campaign.child", options.first, options.calls, SHARE, guard)
            modules = options.calls // 5
            campaign.spread("modules", "campaign.modules", options.first, modules, SHARE, guard)
        if options.files:
            campaign.spread("files", "campaign.files", 0, options.files, 1000)
        if options.faults:
            campaign.spread("faults", "campaign.faults", 0, options.faults, 25)
    for part, counts in campaign.counts.items():
        total = ", ".join(f"{n:,} {kind}" for kind, n in sorted(counts.items()))
        print(f"{part}: {total}")
    print(f"{len(campaign.findings)} findings in {time.monotonic() - start:.0f} s")
    raise SystemExit(1 if campaign.findings else 0)


if __name__ == "__main__":
    main()
