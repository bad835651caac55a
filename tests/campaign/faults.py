"""Loaders whose workers fail: they raise, die, hang, lie, or find no memory.

    python -m campaign.faults SEED FIRST LAST LABEL

Each fault happens in a process group of its own. A loader has to end: with all its batches, right
ones, or with an exception; then another loader has to work, and no process may be left.
"""

import contextlib
import errno
import gc
import os
import random
import resource
import signal
import sys
import time
import warnings
import zlib

import rushlight as rl
from campaign.child import numbers, say
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

LIMIT = 90  # seconds for one fault, on a busy machine
SIZE = 24


class Odd(Exception):
    def __init__(self, one, *, two):
        self.one, self.two = one, two


def sleeps():
    time.sleep(1000)


def recurses():
    return recurses()


def raises_odd():
    raise Odd(1, two=lambda: 3)


def raises_exit():
    raise SystemExit(3)


def raises_interrupt():
    raise KeyboardInterrupt


def raises_base():
    raise BaseException("base")


def stops():
    raise StopIteration


def kills(which):
    return lambda: os.kill(os.getpid(), which)


def closes_descriptors():
    os.closerange(3, 64)


def out_of_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))


def out_of_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))


def no_space():
    raise OSError(errno.ENOSPC, "No space left on device")


def kills_parent():
    os.kill(os.getppid(), signal.SIGTERM)


def changes_threads():
    rl.set_num_threads(64)
    rl.ones(1_000_000).exp().sum()


def forks():
    if os.fork() == 0:
        os._exit(0)


# What happens at one sample; None of them may make the loader wait for ever.
EVENTS = {
    "raise": lambda: 1 / 0,
    "odd": raises_odd,
    "exit": raises_exit,
    "interrupt": raises_interrupt,
    "base": raises_base,
    "stop": stops,
    "recursion": recurses,
    "hang": sleeps,
    "SIGKILL": kills(signal.SIGKILL),
    "SIGSEGV": kills(signal.SIGSEGV),
    "SIGTERM": kills(signal.SIGTERM),
    "SIGABRT": kills(signal.SIGABRT),
    "SIGBUS": kills(signal.SIGBUS),
    "SIGSTOP": kills(signal.SIGSTOP),
    "SIGPIPE": kills(signal.SIGPIPE),
    "SIGINT": kills(signal.SIGINT),
    "_exit": lambda: os._exit(7),
    "_exit 0": lambda: os._exit(0),
    "closed": closes_descriptors,
    "no descriptors": out_of_descriptors,
    "no files": out_of_files,
    "no memory": little_memory,
    "no space": no_space,
    "threads": changes_threads,
    "forks": forks,
    "nothing": lambda: None,
}
ENDS = {"hang", "SIGSTOP"}  # by the timeout alone
# What a sample is instead of a number.
SAMPLES = {
    "lambda": lambda: lambda: 1,
    "generator": lambda: (i for i in range(3)),
    "lock": lambda: __import__("threading").Lock(),
    "meta": lambda: rl.ones(3, device="meta"),
    "sparse": lambda: rl.eye(3).to_sparse(),
    "huge view": lambda: rl.ones(1).expand(1 << 40),
    "ragged": lambda: rl.ones(random.randrange(1, 5)),
    "grad": lambda: rl.ones(2, requires_grad=True) * 2,
    "self": lambda: endless(),
    "empty": lambda: rl.ones(0),
    "big": lambda: rl.ones(1 << 22),
    "text": lambda: "\ud800",
    "object": lambda: object(),
    "none": lambda: None,
    "quantized": lambda: rl.quantize_per_tensor(rl.ones(3), 0.1, 0, rl.quint8),
    "deep": lambda: deep(3000),
}


def endless():
    found = []
    found.append(found)
    return found


def deep(n):
    found = []
    for _ in range(n):
        found = [found]
    return found


class Faulty(Dataset):
    def __init__(self, at, event=None, sample=None):
        self.at, self.event, self.sample = at, event, sample

    def __len__(self):
        return SIZE

    def __getitem__(self, i):
        if i == self.at and get_worker_info() is not None:
            if self.event:
                EVENTS[self.event]()
            if self.sample:
                return SAMPLES[self.sample]()
        return i


class FaultyStream(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        info = get_worker_info()
        for i in range(info.id if info else 0, SIZE, info.num_workers if info else 1):
            yield self.source[i]


def failing_init(event):
    def init(worker):
        if worker == 0:
            EVENTS[event]()

    return init


def failing_collate(event):
    def collate(batch):
        if 5 in batch:
            EVENTS[event]()
        return rl.tensor(batch)

    return collate


class FailingSampler:
    def __init__(self, event):
        self.event = event

    def __iter__(self):
        yield from range(6)
        if self.event == "raise":
            raise ValueError("the sampler broke")
        yield {"huge": 10**30, "text": "x", "none": None, "minus": -1000}.get(self.event, SIZE + 5)

    def __len__(self):
        return 7


def planned(seed, n):
    """The options of one fault, drawn."""
    rng = random.Random(zlib.crc32(f"faults {seed}/{n}".encode()))
    where = rng.choice(
        (
            "sample",
            "sample",
            "sample",
            "value",
            "value",
            "init",
            "collate",
            "sampler",
            "outside",
            "early",
        )
    )
    method = "fork" if rng.random() < 0.93 else rng.choice(("spawn", "forkserver"))
    return {
        "where": where,
        "event": rng.choice(sorted(EVENTS)),
        "value": rng.choice(sorted(SAMPLES)),
        "at": rng.randrange(SIZE),
        "workers": rng.choice((1, 2, 3)),
        "batch": rng.choice((1, 2, 5, None)),
        "stream": rng.random() < 0.25,
        "method": method,
        "persistent": rng.random() < 0.3,
        "prefetch": rng.choice((1, 2, 8)),
        "in_order": rng.random() < 0.8,
        "sampler": rng.choice(("raise", "huge", "text", "none", "minus", "over")),
        "signal": rng.choice(("SIGKILL", "SIGTERM", "SIGSTOP", "SIGSEGV")),
        "strategy": rng.random() < 0.25,
    }


def loader_of(p):
    event = p["event"] if p["where"] == "sample" else None
    value = p["value"] if p["where"] == "value" else None
    data = Faulty(p["at"], event, value)
    options = {"num_workers": p["workers"], "batch_size": p["batch"], "timeout": 4}
    options["multiprocessing_context"] = p["method"]
    options |= {"persistent_workers": p["persistent"], "prefetch_factor": p["prefetch"]}
    options["in_order"] = p["in_order"]
    if p["where"] == "init":
        options["worker_init_fn"] = failing_init(p["event"])
    if p["where"] == "collate" and p["batch"]:
        options["collate_fn"] = failing_collate(p["event"])
    if p["where"] == "sampler":
        options["sampler"] = FailingSampler(p["sampler"])
        return DataLoader(data, **options)
    return DataLoader(FaultyStream(data) if p["stream"] else data, **options)


def scenario(p):
    """One loader with its fault, then a healthy one. Returns what happened."""
    if p["strategy"]:
        rl.multiprocessing.set_sharing_strategy("file_system")
    loader, said = loader_of(p), "ended"
    try:
        batches = iter(loader)
        taken = 0
        for _ in batches:
            taken += 1
            if p["where"] == "outside" and taken == 1:
                pool = getattr(batches, "_pool", None)
                for remote in getattr(pool, "_workers", [])[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(remote.process.pid, getattr(signal, p["signal"]))
            if p["where"] == "early" and taken == 2:
                break
    except BaseException as error:
        if isinstance(error, rl._C.InternalError | SystemError):
            return f"FAULT {type(error).__name__}: {error}"
        said = f"raised {type(error).__name__}"
        del error
    with contextlib.suppress(UnboundLocalError):
        del batches
    del loader
    gc.collect()
    healthy = DataLoader(range(10), 3, num_workers=2)
    found = [x for b in healthy for x in b.tolist()]
    return said if found == list(range(10)) else f"FAULT the next loader gave {found}"


def members(group):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    found.append(int(name))
    return found


def shared_files():
    return {f for f in os.listdir("/dev/shm") if "rush" in f or "torch" in f}


def one(p):
    """Runs a fault in a group of its own: (kind, text)."""
    read, write = os.pipe()
    before = shared_files()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(read)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT)
        try:
            said = scenario(p)
        except BaseException as error:
            said = f"FAULT {type(error).__name__}: {error}"
        os.write(write, said.encode(errors="replace")[:3000])
        os._exit(0)
    os.close(write)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    deadline = time.monotonic() + 10
    while (left := members(child)) and time.monotonic() < deadline:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    said = os.read(read, 4000).decode(errors="replace") if status == 0 else ""
    os.close(read)
    if status:
        return ("hang" if status == -signal.SIGALRM else "crash"), f"status {status}"
    if said.startswith("FAULT"):
        return "fault", said
    if left:
        return "left", f"{len(left)} processes stay behind"
    stay = shared_files() - before  # those of other programs go again
    while stay and time.monotonic() < deadline + 10:
        time.sleep(0.02)
        stay &= shared_files()
    if stay:
        return "left", f"in /dev/shm: {sorted(stay)[:3]}"
    return said.split()[0], ""


def main(seed, first, last, label):
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    label, counts = os.open(label, os.O_WRONLY), {}
    for n in numbers(first, last):
        p = planned(seed, n)
        os.pwrite(label, f"{n} {p}".encode().ljust(4001) + b"\n", 0)
        kind, text = one(p)
        if kind not in ("ended", "raised"):
            say(finding=[n, kind, text, str(p)])
        counts[kind] = counts.get(kind, 0) + 1
    os.pwrite(label, b"-1 after the last fault".ljust(4001) + b"\n", 0)
    say(counts=counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
