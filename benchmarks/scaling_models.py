"""Training of Table 1's six models on several ranks of this machine, against PyTorch's gloo.

    python benchmarks/scaling_models.py [--peer PYTHON] [--ranks 2 4 8] [--threads 2] [--write]

The batch per rank stays the same on any number of ranks (weak scaling). For each number of ranks
each library has one launch, in which the models train one after the other, the libraries in turn.
Of each model, in turns: steps of DistributedDataParallel, and the same steps without communication
(no_sync), all processes still at the same time; on the largest number of ranks also with the
gradients averaged after backward. A figure is the slowest rank's median over steps. `efficiency` is
the step without communication over DDP's.

`hidden` is how much of the communication costs no time, of what could be hidden: buckets whose
gradients are ready at measured moments of backward are averaged one after the other, each as long
as such an all_reduce takes alone; what then ends after backward cannot be hidden.

The prediction of the largest number of ranks knows the smaller ones alone: what DDP adds to a step
grows as the all_reduce of the model's bytes does, by latency and bandwidth that are fitted on each
number of ranks and drawn on in a straight line; so does the step without communication.
"""

import argparse
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# Samples per rank: steps of a second at most with two threads.
BATCHES = {"resnet50": 4, "mobilenet_v2": 8, "gnmt_v2": 8, "alexnet": 8, "vgg19": 1, "ncf": 4096}
ROUNDS = 3  # of DDP and of steps without communication, in turns
BARRED = ("resnet50", "mobilenet_v2", "gnmt_v2")  # 85% at 8 ranks
RUN = {"rushlight": "rushlight.distributed.run", "torch": "torch.distributed.run"}

# What a rank does.


class Rank:
    """A rank of either library."""

    def __init__(self, library, args):
        self.lib = importlib.import_module(library)
        self.dist = importlib.import_module(f"{library}.distributed")
        self.ours, self.args = library == "rushlight", args
        self.lib.set_num_threads(args.threads)
        self.dist.init_process_group("gloo")
        self.rank = self.dist.get_rank()

    def agree(self, value, op):
        number = self.lib.tensor([float(value)])
        self.dist.all_reduce(number, op=op)
        return number.item()

    def slowest(self, seconds):
        return self.agree(seconds, self.dist.ReduceOp.MAX)

    def median(self, step, warm=1):
        """Of steps for about args.seconds / ROUNDS, at least two: the slowest rank's."""
        for _ in range(warm):
            step()
        times, more = [], 1
        self.dist.barrier()
        while more:
            started = time.perf_counter()
            step()
            times.append(time.perf_counter() - started)
            if len(times) == 1:  # all ranks take as many
                more = max(2, min(200, round(self.args.seconds / ROUNDS / self.slowest(times[0]))))
            more -= 1
        return self.slowest(statistics.median(times))

    def all_reduce(self, nbytes, turns=5):
        x = self.lib.ones(max(1, nbytes // 4))
        times = []
        for _ in range(turns):
            self.dist.barrier()
            started = time.perf_counter()
            self.dist.all_reduce(x)
            times.append(time.perf_counter() - started)
        return self.slowest(statistics.median(times[1:]))

    def model(self, name):
        from table1_models import Training

        parallel = self.lib.nn.parallel.DistributedDataParallel
        training = Training(self.lib, name, batch=BATCHES[name], small=self.args.small,
                            seed=self.rank)  # fmt: skip
        plain = training.model
        found = {"bytes": sum(p.numel() * 4 for p in plain.parameters())}
        training.model = wrapped = parallel(plain)

        def alone():
            with wrapped.no_sync():
                training.step()

        times = {"alone": [], "ddp": []}
        for turn in range(ROUNDS):
            times["ddp"].append(
                self.median(training.step, warm=1 if turn else 2)
            )  # (orders buckets)
            times["alone"].append(self.median(alone))
        found |= {name: statistics.median(seconds) for name, seconds in times.items()}
        if self.args.overlap:
            found["after"] = self.median(lambda: self.averaged_after(training))
            found |= self.overlap(training, wrapped, found)
        return found

    def averaged_after(self, training):
        training.optimizer.zero_grad()
        with training.model.no_sync():
            training.loss().backward()
        for p in training.model.parameters():
            self.dist.all_reduce(p.grad, op=self.dist.ReduceOp.AVG)
        training.optimizer.step()

    def overlap(self, training, wrapped, found):
        """The share of the communication that is hidden, of what ready times allow."""
        ready = {}
        hooks = [
            p.register_post_accumulate_grad_hook(lambda p: ready.update({id(p): now()}))
            for p in wrapped.parameters()
        ]
        now = time.perf_counter
        ends = []
        for _ in range(2):  # the second one counts
            training.optimizer.zero_grad()
            with wrapped.no_sync():
                loss = training.loss()
                started = now()
                loss.backward()
            ends.append(now() - started)
        for hook in hooks:
            hook.remove()
        reducer = wrapped._reducer
        clock = total = 0.0
        for bucket in reducer.buckets:
            seconds = self.all_reduce(bucket.flat.numel() * 4)
            at = max(ready[id(reducer.parameters[i])] for i in bucket.indices) - started
            clock = max(clock, at) + seconds
            total += seconds
        bound = max(0.0, clock - ends[-1])  # what no order could hide
        allowed, hidden = total - bound, total - (found["ddp"] - found["alone"])
        return {"communication": total, "allowed": self.slowest(allowed), "hidden": hidden}


def run_rank(args):
    sys.path.insert(0, str(HERE))
    rank = Rank(args.rank_of, args)
    found = {}
    if rank.ours:
        link = rank.dist.fit_network(turns=8)
        found["link"] = [link.latency, link.bandwidth, link.error]
    found["sizes"] = {str(n): rank.all_reduce(n, 30 if n <= 1 << 20 else 8) for n in SIZES}
    for name in args.models:
        try:
            found[name] = rank.model(name)
        except NotImplementedError as error:
            found[name] = {"error": str(error)}
    if rank.rank == 0:
        print("FOUND " + json.dumps(found), flush=True)
    rank.dist.destroy_process_group()


# The machine's side.

SIZES = [1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20]


def launch(args, library, python, ranks):
    command = [python, "-m", RUN[library], "--standalone", "--nproc-per-node", str(ranks),
               __file__, "--rank-of", library, "--threads", str(args.threads),
               "--seconds", str(args.seconds), "--models", *args.models]  # fmt: skip
    command += ["--small"] if args.small else []
    command += ["--overlap"] if library == "rushlight" and ranks == max(args.ranks) else []
    # A virtual machine may only claim AMX: both sides leave it alone.
    environment = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", **os.environ,
                   "OMP_NUM_THREADS": str(args.threads)}  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        print(f"{library}, {ranks} ranks: failed\n{done.stderr[-3000:]}", file=sys.stderr)
        return {}
    return json.loads(lines[0].removeprefix("FOUND "))


def drawn_on(points, ranks):
    """The straight line through the last two points."""
    (a, at_a), (b, at_b) = sorted(points.items())[-2:]
    return at_b + (at_b - at_a) * (ranks - b) / (b - a)


def predicted(found, name, ranks):
    """The DDP step on ``ranks``, from what smaller numbers of ranks showed."""
    less = {n: f for n, f in found.items() if n < ranks}
    latency = drawn_on({n: f["link"][0] for n, f in less.items()}, ranks)
    per_byte = drawn_on({n: 1 / f["link"][1] for n, f in less.items()}, ranks)

    def ring(n, latency, per_byte):
        return 2 * (n - 1) * (latency + less[top][name]["bytes"] / n * per_byte)

    top = max(less)
    alone = drawn_on({n: f[name]["alone"] for n, f in less.items()}, ranks)
    exposed = max(0.0, less[top][name]["ddp"] - less[top][name]["alone"])
    now = ring(top, less[top]["link"][0], 1 / less[top]["link"][1])
    return alone, exposed * ring(ranks, max(0.0, latency), per_byte) / now


def ms(seconds):
    return f"{seconds * 1e3:.1f}"


def tables(args, found):
    from peer import markdown

    ours, theirs = found["rushlight"], found.get("torch", {})
    rows = []
    for n in args.ranks:
        for size, ours_s in ours.get(n, {}).get("sizes", {}).items():
            there = theirs.get(n, {}).get("sizes", {}).get(size)
            rows.append([str(n), f"{int(size) >> 10} KiB", f"{ours_s * 1e3:.3f}",
                         f"{there * 1e3:.3f}" if there else "",
                         f"{there / ours_s:.2f}" if there else ""])  # fmt: skip
    pages = ["## all_reduce\n", markdown(["ranks", "tensor", "rushlight (ms)", "gloo (ms)",
                                           "gloo : rushlight"], rows)]  # fmt: skip
    rows = []
    for name in args.models:
        for n in args.ranks:
            here, there = ours.get(n, {}).get(name), theirs.get(n, {}).get(name, {})
            if not here or "error" in here:
                continue
            row = [name, str(BATCHES[name]), str(n), ms(here["ddp"]), ms(here["alone"]),
                   f"{here['alone'] / here['ddp']:.0%}", "", ""]  # fmt: skip
            if "after" in here:
                row[6] = ms(here["after"])
                if here["allowed"] > 1e-4:
                    row[7] = f"{here['hidden'] / here['allowed']:.0%}"
            if "ddp" in there:
                row += [ms(there["ddp"]), f"{there['alone'] / there['ddp']:.0%}",
                        f"{there['ddp'] / here['ddp']:.2f}"]  # fmt: skip
            rows.append(row + [""] * (11 - len(row)))
    head = ["model", "batch per rank", "ranks", "DDP (ms)", "without communication (ms)",
            "efficiency", "averaged after backward (ms)", "hidden", "PyTorch-gloo DDP (ms)",
            "its efficiency", "PyTorch : rushlight"]  # fmt: skip
    pages += ["## Training\n", markdown(head, rows)]
    return pages + prediction(args, ours)


def prediction(args, ours):
    from peer import markdown

    last = max(args.ranks)
    known = [n for n in args.ranks if "link" in ours.get(n, {})]
    if len([n for n in known if n < last]) < 2 or last not in known:
        return []
    rows = []
    for name in args.models:
        if any("ddp" not in ours[n].get(name, {}) for n in known):
            continue
        alone, exposed = predicted({n: ours[n] for n in known}, name, last)
        here = ours[last][name]
        drawn, with_alone = alone + exposed, here["alone"] + exposed
        away = [f"{seconds / here['ddp'] - 1:+.0%}" for seconds in (drawn, with_alone)]
        rows.append([name, ms(drawn), ms(with_alone), ms(here["ddp"]), *away])
    links = "; ".join(
        f"{n} ranks {ours[n]['link'][0] * 1e6:.1f} us, {ours[n]['link'][1] / 1e9:.2f} GB/s, fit "
        f"within {ours[n]['link'][2]:.0%}"
        for n in known
    )
    head = [f"predicted step of {last} ranks (ms)", "with its own step without communication (ms)",
            "measured (ms)", "difference", "difference of the second"]  # fmt: skip
    return ["## Prediction\n", f"Links: {links}.\n", markdown(["model", *head], rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--overlap", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peer", default=os.environ.get("TORCH_PYTHON", ""))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    parser.add_argument("--seconds", type=float, default=3.0, help="per model and way")
    parser.add_argument("--small", action="store_true", help="tiny models: a trial of the script")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds, then no more launches")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--write", action="store_true", help="write the results page")
    args = parser.parse_args()
    if args.rank_of:
        run_rank(args)
        return
    sides = {"rushlight": sys.executable} | ({"torch": args.peer} if args.peer else {})
    found = {library: {} for library in sides}
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # shows what there is by then
    # What says most comes first: time may be short.
    numbers = sorted(args.ranks, reverse=True)
    order = [(library, numbers[0]) for library in sides]
    order += [(library, n) for library in sides for n in numbers[1:]]
    try:
        for library, ranks in order:
            if time.monotonic() - begun > args.limit:
                print(f"no time left for {library} on {ranks} ranks", flush=True)
                continue
            found[library][ranks] = launch(args, library, sides[library], ranks)
            if args.json:
                Path(args.json).write_text(json.dumps(found))
    except KeyboardInterrupt:
        print(f"ended while {library} ran on {ranks} ranks", flush=True)
    pages = tables(args, found)
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    intro = (
        f"`benchmarks/scaling_models.py`: {args.threads} threads per rank, each way for about "
        f"{args.seconds:g} s. Load at the end: {load} on {os.cpu_count()} cores.\n"
    )
    print("\n".join([intro, *pages]))
    if args.write:
        from peer import write_report

        write_report("scaling_models", "Training of six models on several ranks", intro, *pages)


if __name__ == "__main__":
    main()
