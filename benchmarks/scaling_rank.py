"""One rank of scaling_models.py, of either library: does what it is told through a socket.

While others are measured it waits for the next line, which takes no processor. One launch of the
largest number of ranks serves for the smaller ones too: those train in groups of the first ranks.
"""

import argparse
import contextlib
import gc
import importlib
import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path

# Samples per rank: steps of a second at most with two threads.
BATCHES = {"resnet50": 4, "mobilenet_v2": 8, "gnmt_v2": 8, "alexnet": 8, "vgg19": 1, "ncf": 4096}
# Of the probes: elements of two tensors each, and how long one takes.
SHARED, BEYOND, PROBE_SECONDS = 1 << 20, 1 << 25, 0.2
SIZES = [1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20]


def processors():
    """Those that this process may use, the threads of one core beside each other."""

    def core(number):
        folder = Path(f"/sys/devices/system/cpu/cpu{number}/topology")
        try:
            return [int((folder / name).read_text()) for name in ("physical_package_id", "core_id")]
        except (OSError, ValueError):
            return [0, number]

    return sorted(os.sched_getaffinity(0), key=lambda number: (core(number), number))


class Late:
    """A bucket's average that begins when it is waited for, and notes how long it takes."""

    def __init__(self, begin, notes):
        self.begin, self.notes = begin, notes

    def wait(self):
        started = time.perf_counter()
        self.begin().wait()
        self.notes.append(time.perf_counter() - started)


class Rank:
    """Its commands are the methods whose names begin with do_."""

    def __init__(self, args):
        self.everywhere = processors()
        self.lib = importlib.import_module(args.library)
        self.dist = importlib.import_module(f"{args.library}.distributed")
        self.ours, self.args = args.library == "rushlight", args
        self.lib.set_num_threads(args.threads)
        self.dist.init_process_group("gloo")
        self.rank, self.size = self.dist.get_rank(), self.dist.get_world_size()
        numbers = {1, *args.ranks} - {self.size}  # one alone is no group, but measured as such
        self.groups = {n: self.dist.new_group(list(range(n))) for n in sorted(numbers)}
        self.groups[self.size] = None  # the default group
        self.training = self.plain = None
        self.wrapped = {}

    def place(self, bound):
        """Keeps all threads of this process on processors of its own, or lets them go."""
        first = self.rank * self.args.threads
        own = self.everywhere[first : first + self.args.threads]
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), own if bound and own else self.everywhere)

    def slowest(self, seconds, ranks):
        number = self.lib.tensor([float(seconds)])
        self.dist.all_reduce(number, op=self.dist.ReduceOp.MAX, group=self.groups[ranks])
        return number.item()

    def all_reduce(self, nbytes, ranks, turns):
        x = self.lib.ones(max(1, nbytes // 4))
        times = []
        for _ in range(turns):
            self.dist.barrier(self.groups[ranks])
            started = time.perf_counter()
            self.dist.all_reduce(x, group=self.groups[ranks])
            times.append(time.perf_counter() - started)
        return self.slowest(statistics.median(times[1:]), ranks)

    def do_network(self, ranks, bound):
        """How long all_reduce takes by size, and the link that is fitted to it."""
        self.place(bound)
        found = {"sizes": {n: self.all_reduce(n, ranks, 30 if n <= 1 << 20 else 8) for n in SIZES}}
        if self.ours:
            link = self.dist.fit_network(self.groups[ranks], turns=8)
            found["link"] = [link.latency, link.bandwidth, link.error]
        return found

    def do_probe(self, name, ranks, bound):
        """Seconds of some work, while as many processes do the same."""
        self.place(bound)
        lib = self.lib
        if name == "compute":  # in the processor's own caches
            a, b = lib.full((256, 256), 1e-3), lib.full((256, 256), 1e-3)
            work = lambda: a @ b  # noqa: E731
        else:  # beyond them, in the cache that processors share, or beyond that one
            a, b = (lib.ones(SHARED if name == "cache" else BEYOND) for _ in range(2))
            work = lambda: a.add_(b, alpha=1e-3)  # noqa: E731
        for _ in range(3):
            work()
        self.dist.barrier(self.groups[ranks])
        started, count, taken = time.perf_counter(), 0, 0.0
        while taken < PROBE_SECONDS:
            work()
            count += 1
            taken = time.perf_counter() - started
        return taken / count

    def do_model(self, name, ranks):
        """A new model, and a DistributedDataParallel of it for each number of ranks."""
        from table1_models import Training

        self.do_drop()
        self.place(False)
        self.training = Training(self.lib, name, batch=BATCHES[name], small=self.args.small,
                                 seed=self.rank)  # fmt: skip
        self.plain = self.training.model
        parallel = self.lib.nn.parallel.DistributedDataParallel
        for n in ranks:
            if self.rank < n:
                # Steps without communication take the copies apart anyway.
                self.wrapped[n] = parallel(
                    self.plain, process_group=self.groups[n], init_sync=False
                )
        return {"bytes": sum(p.numel() * 4 for p in self.plain.parameters())}

    def do_drop(self):
        """The model goes, with all that belongs to it."""
        for parallel in self.wrapped.values() if self.ours else ():
            for hook in parallel._reducer._hooks:
                hook.remove()
        self.training = self.plain = None
        self.wrapped = {}
        gc.collect()

    def do_steps(self, way, ranks, count, bound):
        """Seconds of so many steps; the ranks begin together."""
        self.place(bound)
        self.training.model = self.plain if way == "alone" else self.wrapped[ranks]
        with self.averages_behind(ranks) if way == "after" else contextlib.nullcontext():
            self.dist.barrier(self.groups[ranks])
            started = time.perf_counter()
            for _ in range(count):
                self.training.step()
            return time.perf_counter() - started

    @contextlib.contextmanager
    def averages_behind(self, ranks):
        """DDP averages its buckets behind backward; gives a list of how long each took.

        So nothing but the overlap is gone: the same buckets are averaged by the same calls, and the
        ranks wait for each other as often.
        """
        reducer, notes = self.wrapped[ranks]._reducer, []
        average = reducer.average
        reducer.average = lambda tensor, scaled: Late(lambda: average(tensor, scaled), notes)
        try:
            yield notes
        finally:
            reducer.average = average

    def do_overlap(self, ranks, bound):
        """What the averages of a step take, and how much of that ready times allow to hide."""
        self.place(bound)
        reducer, seconds = self.wrapped[ranks]._reducer, self.bucket_times(ranks)
        allowed = []
        for _ in range(4):
            ready, end = self.ready_times()
            clock = 0.0
            for bucket, taken in zip(reducer.buckets, seconds, strict=True):
                at = max(ready[id(reducer.parameters[i])] for i in bucket.indices)
                clock = max(clock, at) + taken
            allowed.append(sum(seconds) - max(0.0, clock - end))  # the rest no order could hide
        middle = statistics.median(allowed[1:])
        return {"communication": sum(seconds), "allowed": self.slowest(middle, ranks)}

    def bucket_times(self, ranks):
        """Seconds of each bucket's average behind backward, of the rank that waited least: the
        others waited for that one to come."""
        self.training.model = self.wrapped[ranks]
        steps = []
        for _ in range(4):
            with self.averages_behind(ranks) as notes:
                self.training.step()
            least = self.lib.tensor(notes, dtype=self.lib.float64)
            self.dist.all_reduce(least, op=self.dist.ReduceOp.MIN, group=self.groups[ranks])
            steps.append(least.tolist())
        return [statistics.median(times) for times in zip(*steps[1:], strict=True)]

    def ready_times(self):
        """When each gradient is there and when backward ends, in seconds from its beginning."""
        training, now, ready = self.training, time.perf_counter, {}
        training.model = self.plain
        hooks = [
            p.register_post_accumulate_grad_hook(lambda p: ready.update({id(p): now()}))
            for p in self.plain.parameters()
        ]
        training.optimizer.zero_grad()
        loss = training.loss()
        started = now()
        loss.backward()
        end = now() - started
        for hook in hooks:
            hook.remove()
        return {key: moment - started for key, moment in ready.items()}, end


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--ranks", type=int, nargs="+", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    rank = Rank(args)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(args.socket)
        with connection.makefile("rw", encoding="utf-8") as lines:
            print(json.dumps(rank.rank), file=lines, flush=True)
            for line in lines:
                command = json.loads(line)
                found = getattr(rank, "do_" + command.pop("do"))(**command)
                print(json.dumps(found), file=lines, flush=True)
    rank.dist.destroy_process_group()


if __name__ == "__main__":
    main()
