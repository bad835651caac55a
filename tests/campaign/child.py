"""A process of the campaign: makes calls FIRST to LAST, and says what it found.

    python -m campaign.child SEED FIRST LAST LABEL GUARD

LABEL is a file that holds the call which runs, for whoever finds this process dead. Findings and
counts are lines of JSON on standard output.
"""

import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings

# For one call: far more than any takes on a busy machine; for GPUs, kernels are compiled.
SECONDS = 30 if os.environ.get("CAMPAIGN_DEVICE", "cpu") == "cpu" else 120
MEMORY = 3 << 30  # beyond what the interpreter, the library and its threads use


def limit_memory():
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def numbers(first, last):
    """The numbers of a share, until the time is over."""
    end = time.monotonic() + float(os.environ.get("CAMPAIGN_SECONDS", "inf"))
    for n in range(int(first), int(last)):
        if time.monotonic() > end:
            return
        yield n


def guard(path):
    """Puts the tensors' memory between closed pages."""
    from rushlight.cpu import memory

    library = ctypes.CDLL(path)
    if os.environ.get("CAMPAIGN_DEVICE") == "cuda":  # where the process itself has no limit
        library.guard_limit(ctypes.c_size_t(MEMORY))
    memory.change_current_allocator(memory.CPUPluggableAllocator(path, "guard_alloc", "guard_free"))
    return library


class NoGuard:
    def guard_fill(self, byte):
        pass


def prepare(guard_path):
    """What is there once: threads, libraries, limits. Returns the allocator's library."""
    warnings.simplefilter("ignore")
    import rushlight as rl

    rl.set_num_threads(2)
    rl.ones(300_000).exp().sum()
    (rl.ones(64, 64) @ rl.ones(64, 64)).sum()
    rl.linalg.svd(rl.ones(40, 40))
    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    device = os.environ.get("CAMPAIGN_DEVICE", "cpu")
    if device != "cpu":
        rl.ones(2, device="cuda").sum().item()
        rl.backends.cudnn.allow_tf32 = False  # the CPU's answers are the measure
    if device != "cuda":  # a real driver takes addresses by the terabyte
        limit_memory()
    return guard(guard_path) if guard_path else NoGuard()


def main(seed, first, last, label, guard_path):
    allocator = prepare(guard_path)
    from campaign.calls import plan
    from campaign.judging import Finding, judged

    label = os.open(label, os.O_WRONLY)
    counts = {}
    for n in numbers(first, last):
        one = plan(seed, n)
        text = str(one)
        os.pwrite(label, f"{n} {text}".encode(errors="replace")[:4000].ljust(4001) + b"\n", 0)
        signal.alarm(SECONDS)
        try:
            ended = judged(one, n, allocator)
        except Finding as finding:
            ended = finding.kind
            say(finding=[n, finding.kind, str(finding), text])
        except Exception:
            ended = "harness"
            say(finding=[n, "harness", traceback.format_exc()[-1500:], text])
        counts[ended] = counts.get(ended, 0) + 1
    signal.alarm(0)
    os.pwrite(label, b"-1 after the last call".ljust(4001) + b"\n", 0)
    say(counts=counts)


def say(**what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
