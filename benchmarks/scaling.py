"""Training on several ranks of this machine: how it scales, what each part of it is worth, and how
well a model of the network predicts it.

    python benchmarks/scaling.py [--ranks 1 2] [--steps 30] [--rounds 3] [--parts host uneven ...]

Parts: `host` (weak scaling), `ablation`, `uneven` (one rank at half speed), `accuracy` (time to
90% on scikit-learn's digits), `network` (two network namespaces with a limited link; as root, needs
`ip` and `tc`), `prediction`. Each rank has one thread. Figures are medians over rounds of rank 0's
median step.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from peer import markdown, write_report

PARTS = ["host", "ablation", "uneven", "accuracy", "network", "prediction"]
WIDTH, DEPTH, BATCH = 512, 4, 64
LOOPBACK = {"UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}


def make_model(torch):
    torch.manual_seed(0)
    layers = []
    for _ in range(DEPTH):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))


# What a rank does: the job is a dict; rank 0 prints the result.


def median_step(job):
    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    options = job.get("options", {})
    model = make_model(torch)
    if not job.get("plain"):
        model = DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    extra = make_model(torch) if rank == job.get("slow") else None
    batch = job.get("batches", [BATCH] * size)[rank]

    def compute(net, x, y):
        torch.nn.functional.cross_entropy(net(x), y).backward()

    def step(x, y):
        optimizer.zero_grad()
        if extra is not None:  # twice the work: half the speed
            compute(extra, x, y)
        if options.get("deterministic_world"):
            mine = list(model.shards())
            for i in range(len(mine)):
                compute(model, x[i :: len(mine)], y[i :: len(mine)])
        elif job.get("overlap", True):
            compute(model, x, y)
        else:
            with model.no_sync():
                compute(model, x, y)
            for p in model.parameters():
                dist.all_reduce(p.grad, dist.ReduceOp.AVG)
        optimizer.step()

    times = []
    for _ in range(job["steps"]):
        x, y = torch.randn(batch, WIDTH), torch.randint(0, 10, (batch,))
        dist.barrier()
        start = time.perf_counter()
        step(x, y)
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:])


def fit(job):
    import rushlight.distributed as dist

    dist.init_process_group("gloo")
    link = dist.fit_network()
    return [link.latency, link.bandwidth, link.error]


def accuracy(job):
    from sklearn.datasets import load_digits

    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight.nn.parallel import DistributedDataParallel
    from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    size = dist.get_world_size()
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    data = TensorDataset(x[:1500], y[:1500])
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )  # fmt: skip
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    sampler = DistributedSampler(data)
    loader = DataLoader(
        data, 64 // size, sampler=sampler
    )  # one global batch on any number of ranks
    start = time.perf_counter()
    for epoch in range(50):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model.module(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
        if right >= 0.9:
            break
    return [time.perf_counter() - start, epoch + 1, right]


JOBS = {"step": median_step, "fit": fit, "accuracy": accuracy}

# The machine's side.


def launch(ranks, job, before=(), options=("--standalone",), env=None):
    command = [*before, sys.executable, "-m", "rushlight.distributed.run", *options,
               "--nproc-per-node", str(ranks), __file__, "--job", json.dumps(job)]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def result(*processes):
    out = [p.communicate(timeout=300)[0] for p in processes]
    if any(p.returncode for p in processes):
        raise RuntimeError("a rank failed")
    return json.loads(out[0].splitlines()[-1])


def median_of(rounds, ranks, env=None, **job):
    job = {"kind": "step", **job}
    return statistics.median(result(launch(ranks, job, env=env)) for _ in range(rounds))


def ms(seconds):
    return f"{seconds * 1e3:.2f}"


def host(args):
    rows = []
    for ranks in args.ranks:
        together = median_of(args.rounds, ranks, steps=args.steps)
        apart = median_of(args.rounds, ranks, steps=args.steps, plain=True)
        rows.append([str(ranks), ms(together), ms(apart), f"{apart / together:.0%}"])
    head = ["ranks", "DDP step (ms)", "the same without communication (ms)", "efficiency"]
    return f"{BATCH} samples per rank.\n\n" + markdown(head, rows)


def ablation(args):
    ranks = max(args.ranks)
    ways = {
        "as it is": {},
        "without overlap: gradients averaged one by one after backward": {"overlap": False},
        "buckets of 1 MiB": {"options": {"bucket_cap_mb": 1}},
        "buckets of 100 MiB": {"options": {"bucket_cap_mb": 100}},
        "gradients copied from buckets": {"options": {"gradient_as_bucket_view": False}},
        "ordered sums, 8 shards": {"options": {"deterministic_world": 8}},
        "without shared memory, over the loopback device": {"env": LOOPBACK},
    }
    rows, base = [], None
    for name, job in ways.items():
        seconds = median_of(args.rounds, ranks, steps=args.steps, **job)
        base = base or seconds
        rows.append([name, ms(seconds), f"{seconds / base:.2f}"])
    return markdown(["way", f"step of {ranks} ranks (ms)", "of the first"], rows)


def uneven(args):
    ranks = max(2, min(args.ranks[-1], 2))
    even = median_of(args.rounds, ranks, steps=args.steps, slow=1)
    share = [2 * BATCH * 2 // 3, 2 * BATCH // 3]
    weighted = median_of(args.rounds, ranks, steps=args.steps, slow=1, batches=share)
    rows = [["even", f"{BATCH} and {BATCH}", ms(even), "1.00"]]
    rows.append(["weighted", f"{share[0]} and {share[1]}", ms(weighted), f"{weighted / even:.2f}"])
    return (
        "Rank 1 computes everything twice. Weighted shares change the mean's weights, too: "
        "gradients have to be scaled by the shares for the same training.\n\n"
        + markdown(["shares", "samples", "step (ms)", "of even"], rows)
    )


def to_accuracy(args):
    rows = []
    for ranks in args.ranks:
        seconds, epochs, right = result(launch(ranks, {"kind": "accuracy"}))
        rows.append([str(ranks), f"{seconds:.2f}", str(epochs), f"{right:.1%}"])
    return "One global batch of 64 for any number of ranks.\n\n" + markdown(
        ["ranks", "seconds to 90%", "epochs", "accuracy"], rows
    )


def shell(*command):
    subprocess.run(command, check=True, capture_output=True)


def network(args):
    spaces = ["scaling0", "scaling1"]
    rows = []
    try:
        for space in spaces:
            shell("ip", "netns", "add", space)
        shell("ip", "link", "add", "scale0", "netns", spaces[0], "type", "veth", "peer", "name",
              "scale1", "netns", spaces[1])  # fmt: skip
        for i, space in enumerate(spaces):
            shell("ip", "-n", space, "addr", "add", f"10.77.0.{i + 1}/24", "dev", f"scale{i}")
            shell("ip", "-n", space, "link", "set", f"scale{i}", "up")
            shell("ip", "-n", space, "link", "set", "lo", "up")
        for rate in args.rates:
            for i, space in enumerate(spaces):
                shell("tc", "-n", space, "qdisc", "replace", "dev", f"scale{i}", "root", "tbf",
                      "rate", f"{rate}mbit", "burst", "256kb", "latency", "100ms")  # fmt: skip
            both = []
            for i, space in enumerate(spaces):
                options = ["--nnodes", "2", "--node-rank", str(i), "--master-addr", "10.77.0.1",
                           "--master-port", "29501"]  # fmt: skip
                both.append(launch(1, {"kind": "step", "steps": args.steps},
                                   ("ip", "netns", "exec", space), options, LOOPBACK))  # fmt: skip
            rows.append([f"{rate} Mbit/s", ms(result(*both))])
    except (OSError, subprocess.SubprocessError, RuntimeError, ValueError) as error:
        return f"Not measured: {type(error).__name__}: {error}".split("\n")[0]
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
    size = (DEPTH * (WIDTH * WIDTH + WIDTH) + WIDTH * 10 + 10) * 4
    return f"Two ranks; {size / 1e6:.2f} MB of gradients per step.\n\n" + markdown(
        ["link", "step (ms)"], rows
    )


def prediction(args):
    """Fitted on the smaller numbers of ranks; the largest is predicted."""
    import rushlight as torch
    from rushlight.distributed import Cluster, Link, plan

    torch.set_num_threads(1)
    rows = []
    link = None
    for ranks in [r for r in args.ranks if r > 1]:
        apart = median_of(args.rounds, ranks, steps=args.steps, plain=True)
        latency, bandwidth, error = result(launch(ranks, {"kind": "fit"}))
        here = Link(latency, bandwidth, measured=True, error=error)
        cluster = Cluster(1, ranks, 1e12, link or here, here)
        found = plan(make_model(torch), torch.randn(BATCH, WIDTH), cluster, turns=20,
                     optimizer=lambda ps: torch.optim.SGD(ps, lr=0.01))  # fmt: skip
        split = next(s for s in found.splits if s.data == ranks and not s.sharded)
        predicted = split.seconds.value - found.one_gpu.value + apart
        measured = median_of(args.rounds, ranks, steps=args.steps)
        of = "this number of ranks" if link is None else "fewer ranks"
        rows.append([str(ranks), of, f"{latency * 1e6:.1f} us, {bandwidth / 1e9:.2f} GB/s",
                     f"{error:.0%}", ms(predicted), ms(measured),
                     f"{predicted / measured - 1:+.0%}"])  # fmt: skip
        link = link or here
    head = ["ranks", "link fitted on", "link", "error of the fit", "predicted (ms)",
            "measured (ms)", "difference"]  # fmt: skip
    return "Compute: the step without communication on as many ranks, measured.\n\n" + markdown(
        head, rows
    )


NOT_MEASURED = (
    "## Not measured\n\nParts that are not above, more ranks, several machines and real networks, "
    "several GPUs. `benchmarks/scaling_models.py` has the six models of Table 1 beside "
    "PyTorch's Gloo. The judge's thread takes 0.3 ms of CPU time per second (0.03%), and a call of "
    "a collective 7 us, its record included. Published "
    "figures to stand beside: overlap gains 35% to 38% with NCCL, and ResNet-50 on 256 GPUs "
    "is 128 times one (Li et al., VLDB 2020); fully sharded training loses 7% "
    "from 8 to 512 GPUs (Zhao et al., VLDB 2023)."
)


def introduction(args):
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return (
        f"`benchmarks/scaling.py`: a network of {DEPTH} layers of {WIDTH}, one thread per rank, "
        f"medians of {args.rounds} rounds of {args.steps} steps. Load of the machine at the end: "
        f"{load} on {os.cpu_count()} cores"
        + ("; **a busy machine: take these figures as a trial of the script.**"
           if os.getloadavg()[1] > os.cpu_count() else ".")
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 10000], help="Mbit/s")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--write", action="store_true", help="write the results page")
    args = parser.parse_args()
    if args.job:
        job = json.loads(args.job)
        value = JOBS[job["kind"]](job)
        if int(os.environ["RANK"]) == 0:
            print(json.dumps(value), flush=True)
        return
    kinds = {"host": ("Weak scaling on one host", host),
             "ablation": ("What each part gives", ablation),
             "uneven": ("One rank at half speed", uneven),
             "accuracy": ("Time to accuracy", to_accuracy),
             "network": ("Two network namespaces", network),
             "prediction": ("Prediction", prediction)}  # fmt: skip
    pages = []
    for part in args.parts:
        title, measure = kinds[part]
        pages.append(f"## {title}\n\n{measure(args)}")
        text = "\n\n".join([introduction(args), *pages, NOT_MEASURED])
        if args.write:  # after each part: a later one may fail
            write_report("scaling", "Training on several ranks", text)
    print(text)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
