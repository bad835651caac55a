"""plan: what a training step would take on a cluster, split in each way that fits it.

Compute times are measured here, or follow from operations and a given speed; the network is the
alpha-beta model of `_network.py`. Every figure says which it is.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed._network import Link, Ring, Traffic

__all__ = ["Cluster", "ClusterPlan", "Figure", "Split", "plan"]

_BUCKET = 25 << 20  # bytes of gradients that DistributedDataParallel averages together


@dataclass(frozen=True)
class Figure:
    """A number, and whether it was measured here or predicted."""

    value: float
    kind: str = "predicted"

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Cluster:
    """The machines that `plan` plans for: their numbers, memory and networks.

    Arguments:
        nodes: how many machines.
        gpus_per_node: how many GPUs each of them has.
        memory: bytes of each GPU.
        inside: the `Link` between GPUs of a node.
        between: the `Link` between nodes.
        flops: operations per second that a GPU achieves on this model; without it, a GPU is taken
            to be as fast as the device at hand, where the step is measured.

    Example:
        >>> from rushlight.distributed import Cluster, Link
        >>> inside, between = Link(5e-6, 2e11), Link(2e-5, 2.5e10)
        >>> Cluster(4, 8, 80e9, inside, between, flops=2e14).world
        32
    """

    nodes: int
    gpus_per_node: int
    memory: float
    inside: Link
    between: Link
    flops: float | None = None

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise ValueError(f"Cluster: at least one node and one GPU per node, got {self}")

    @property
    def world(self) -> int:
        """All GPUs."""
        return self.nodes * self.gpus_per_node


@dataclass
class Split:
    """One way: copies of the model (``data``), whether they share its state out (``sharded``), GPUs
    that a layer is cut over (``tensor``), groups of layers one after the other (``pipeline``)."""

    data: int
    sharded: bool
    tensor: int
    pipeline: int
    seconds: Figure = field(default_factory=lambda: Figure(0.0))
    memory: Figure = field(default_factory=lambda: Figure(0.0))
    inside_bytes: Figure = field(default_factory=lambda: Figure(0.0))  # per GPU and step
    between_bytes: Figure = field(default_factory=lambda: Figure(0.0))  # per node and step
    fits: bool = True
    efficiency: float = 1.0  # of as many GPUs that need not communicate

    @property
    def name(self) -> str:
        parts = [f"{'sharded' if self.sharded else 'data'} {self.data}"] if self.data > 1 else []
        parts += [f"tensor {self.tensor}"] if self.tensor > 1 else []
        parts += [f"pipeline {self.pipeline}"] if self.pipeline > 1 else []
        return ", ".join(parts) or "one GPU"


@dataclass
class ClusterPlan:
    """The ways that fit in memory first, each kind by time."""

    cluster: Cluster
    batch: int  # of one copy of the model
    splits: list[Split]
    one_gpu: Figure  # seconds of a step

    @property
    def best(self) -> Split | None:
        """The way with most samples per second among those that fit."""
        return next((split for split in self.splits if split.fits), None)

    def samples_per_second(self, split: Split) -> float:
        return self.batch * split.data / split.seconds.value

    def __str__(self) -> str:
        c = self.cluster
        text = [
            f"{c.nodes} nodes of {c.gpus_per_node} GPUs with {c.memory / 1e9:.3g} GB; batch "
            f"{self.batch} per copy; one GPU takes {self.one_gpu.value * 1e3:.3g} ms "
            f"({self.one_gpu.kind})",
            f"{'split':34} {'step ms':>10} {'samples/s':>10} {'of ideal':>8} {'GB/GPU':>8} "
            f"{'MB inside':>10} {'MB between':>10}",
        ]
        for s in self.splits:
            mark = "" if s.fits else "  does not fit"
            text.append(
                f"{s.name:34} {s.seconds.value * 1e3:10.4g} {self.samples_per_second(s):10.4g} "
                f"{s.efficiency:8.0%} {s.memory.value / 1e9:8.3g} "
                f"{s.inside_bytes.value / 1e6:10.4g} {s.between_bytes.value / 1e6:10.4g}{mark}"
            )
        kinds = {s.seconds.kind for s in self.splits}
        errors = [f"{name} {link.error:.0%}" for name, link in (("inside", c.inside),
                  ("between", c.between)) if link.error is not None]  # fmt: skip
        text.append(f"times, memory and bytes of splits: {', '.join(sorted(kinds))}; "
                    + (f"links measured, error of the fit: {', '.join(errors)}" if errors
                       else "links as given"))  # fmt: skip
        return "\n".join(text)


class Layer:
    """A block of the model, or all that is outside of blocks: seconds forward and backward; bytes
    of parameters, of what is kept for backward, and of what it returns."""

    def __init__(self, parameter_bytes: float, forward: float, backward: float, kept_bytes: float,
                 output_bytes: float, is_block: bool = True) -> None:  # fmt: skip
        self.parameter_bytes, self.kept_bytes = parameter_bytes, kept_bytes
        self.forward, self.backward = forward, backward
        self.output_bytes, self.is_block = output_bytes, is_block


@dataclass
class Workload:
    """One copy of the model."""

    layers: list[Layer]
    optimizer_seconds: float
    state_factor: float  # bytes of optimiser state per byte of parameters
    measured: bool

    @property
    def seconds(self) -> float:
        return sum(x.forward + x.backward for x in self.layers) + self.optimizer_seconds


def _has_any(items: Any) -> bool:
    return next(iter(items), None) is not None


def _blocks(model: Any) -> list[str]:
    """Paths of the layers that repeat: the longest list of modules of one kind."""
    best: list[str] = []
    for path, module in model.named_modules():
        children = list(module.named_children())
        kinds = {type(child) for _, child in children}
        if (
            len(children) > len(best)
            and len(kinds) == 1
            and any(True for _, child in children for _ in child.parameters())
        ):
            best = [f"{path}.{name}" if path else name for name, _ in children]
    return best or [name for name, child in model.named_children() if _has_any(child.parameters())]


def _output_sizes(model: Any, args: Any, blocks: list[str]) -> dict[str, int]:
    """Bytes that each block returns, found on the meta device."""
    from rushlight.profiler._plan import _mapped, _meta_model, _tensors

    meta, sizes = _meta_model(model), {}

    def note(path: str) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            sizes[path] = sum(t.numel() * t.element_size() for t in _tensors(output))

        return hook

    modules = dict(meta.named_modules())
    for path in blocks:
        modules[path].register_forward_hook(note(path))
    meta(*_mapped(args, lambda t: t.to("meta")))
    return sizes


def _measure(model: Any, args: Any, loss: Any, optimizer: Any, turns: int) -> tuple[float, ...]:
    """Median seconds of forward, backward and the optimiser's step, on a copy."""
    import rushlight as rl

    model = copy.deepcopy(model).train()
    stepper = optimizer(model.parameters()) if optimizer is not None else None
    wait = rl.cuda.synchronize if any(p.is_cuda for p in model.parameters()) else lambda: None
    rows = []
    for _ in range(turns + 2):
        wait()
        times = [time.perf_counter()]
        value = loss(model(*args))
        wait()
        times.append(time.perf_counter())
        value.backward()
        wait()
        times.append(time.perf_counter())
        if stepper is not None:
            stepper.step()
        model.zero_grad()
        wait()
        times.append(time.perf_counter())
        rows.append([b - a for a, b in itertools.pairwise(times)])
    return tuple(statistics.median(column) for column in zip(*rows[2:], strict=True))


def _workload(
    model: Any, args: Any, loss: Any, optimizer: Any, flops: float | None, turns: int
) -> tuple[Workload, int]:
    from rushlight.profiler import plan as plan_of_one

    one = plan_of_one(model, args, loss=loss, optimizer=optimizer)
    if flops is None:
        forward, backward, step = _measure(model, args, loss, optimizer, turns)
    else:
        forward, backward, step = one.flops / flops, one.backward_flops / flops, 0.0
    blocks = _blocks(model)
    outputs = _output_sizes(model, args, blocks)
    found = {m.path: m for m in one.modules}
    total_flops, total_back = max(one.flops, 1), max(one.backward_flops, 1)
    element = next(p.element_size() for p in model.parameters())
    layers = [
        Layer(found[b].parameters * element, forward * found[b].flops / total_flops,
              backward * found[b].backward_flops / total_back, found[b].activation_bytes,
              outputs.get(b, 0))
        for b in blocks
    ]  # fmt: skip
    rest = Layer(
        max(0.0, one.parameters * element - sum(x.parameter_bytes for x in layers)),
        max(0.0, forward - sum(x.forward for x in layers)),
        max(0.0, backward - sum(x.backward for x in layers)),
        max(0.0, one.activation_bytes - sum(x.kept_bytes for x in layers)),
        0.0,
        is_block=False,
    )
    states = sum(n for name, n in one.at_peak.items() if "optimizer" in name)
    factor = states / max(1, one.parameters * element)
    return Workload([*layers, rest], step, factor, flops is None), one.batch


def _stages(layers: Sequence[Layer], count: int) -> list[list[Layer]]:
    """Consecutive layers with about the same time each; what is outside of blocks goes to the
    last stage, which has the loss."""
    blocks, rest = [x for x in layers if x.is_block], [x for x in layers if not x.is_block]
    total = sum(x.forward + x.backward for x in blocks) or 1.0
    stages: list[list[Layer]] = [[] for _ in range(count)]
    done = 0.0
    for i, x in enumerate(blocks):
        half = (x.forward + x.backward) / 2
        by_time = int((done + half) / total * count)
        least = count - (len(blocks) - i)  # every stage gets one
        stages[min(count - 1, max(by_time, least, 0))].append(x)
        done += 2 * half
    stages[-1] += rest
    return stages


def _overlapped(layers: Sequence[Layer], ring: Ring, cut: int) -> Traffic:
    """Backward with buckets that are averaged while it still computes: the seconds of both."""
    clock = free = pending = 0.0
    moved = Traffic()
    for x in reversed(layers):
        clock += x.backward / (cut if x.is_block else 1)
        pending += x.parameter_bytes / (cut if x.is_block else 1)
        if pending >= _BUCKET or x is layers[0]:
            sent = ring.all_reduce(pending)
            free = max(free, clock) + sent.seconds
            moved, pending = moved + sent, 0.0
    return Traffic(max(clock, free), moved.inside, moved.between)


def _gathered(layers: Sequence[Layer], ring: Ring, cut: int) -> Traffic:
    """Forward and backward of a sharded model: the next layer is gathered while one computes."""
    both = Traffic()
    for x in layers:
        share = cut if x.is_block else 1
        one_way = ring.all_gather(x.parameter_bytes / share)
        forward = max(x.forward / share, one_way.seconds)
        backward = max(x.backward / share, 2 * one_way.seconds)
        both += Traffic(forward + backward, 3 * one_way.inside, 3 * one_way.between)
    return both


def _evaluate(work: Workload, cluster: Cluster, split: Split, micro_batches: int) -> None:
    """Fills a split's figures in."""
    t, p, d = split.tensor, split.pipeline, split.data
    each = max(1, min(d, cluster.gpus_per_node // (t * p) if t * p <= cluster.gpus_per_node else 1))
    ring = Ring(cluster.inside, cluster.between, each, max(1, -(-d // each)),
                sharers=min(cluster.gpus_per_node // each, t * p))  # fmt: skip
    cut = Ring(cluster.inside, cluster.between, t, 1)
    worst, moved, memory = 0.0, Traffic(), 0.0
    for number, layers in enumerate(_stages(work.layers, p)):
        forward = sum(x.forward / (t if x.is_block else 1) for x in layers)
        tensor = Traffic()
        for x in layers:
            if x.is_block and t > 1:  # two sums forward and two backward per block
                tensor += cut.all_reduce(x.output_bytes).times(4)
        if split.sharded:
            part = _gathered(layers, ring, t)
            computed = part.seconds
        else:
            part = _overlapped(layers, ring, t) if d > 1 else Traffic(
                sum(x.backward / (t if x.is_block else 1) for x in layers))  # fmt: skip
            computed = forward + part.seconds
        seconds = computed + tensor.seconds
        if p > 1:
            boundary = max((x.output_bytes for x in layers if x.is_block), default=0.0)
            link = cluster.inside if t * p <= cluster.gpus_per_node else cluster.between
            hop = link.latency + boundary / micro_batches / link.bandwidth
            seconds = seconds * (micro_batches + p - 1) / micro_batches
            seconds += 2 * (micro_batches + p - 1) * hop
        state = sum(x.parameter_bytes / (t if x.is_block else 1) for x in layers)
        kept = sum(x.kept_bytes / (t if x.is_block else 1) for x in layers)
        here = state * (2 + work.state_factor) / (d if split.sharded else 1)
        here += kept * (min(micro_batches, p - number) / micro_batches if p > 1 else 1)
        if split.sharded:  # a layer is whole while it computes, and the next one is on its way
            here += 2 * max(x.parameter_bytes / (t if x.is_block else 1) for x in layers)
        share = (d if split.sharded else 1) * t * p
        if seconds + work.optimizer_seconds / share > worst:
            worst, moved = seconds + work.optimizer_seconds / share, part + tensor
        memory = max(memory, here)
    alone = t * p * d == 1
    kind = "measured" if alone and work.measured else "predicted"
    split.seconds, split.memory = Figure(worst, kind), Figure(memory)
    split.inside_bytes, split.between_bytes = Figure(moved.inside), Figure(moved.between)
    split.fits = memory <= cluster.memory
    split.efficiency = work.seconds * d / (worst * cluster.world) if worst else 1.0


def _splits(cluster: Cluster, blocks: int) -> list[Split]:
    found = []
    for tensor in _divisors(cluster.gpus_per_node):
        for pipeline in _divisors(cluster.world // tensor):
            if pipeline > blocks:
                continue
            data = cluster.world // tensor // pipeline
            found.append(Split(data, False, tensor, pipeline))
            if data > 1:
                found.append(Split(data, True, tensor, pipeline))
    return found


def _divisors(n: int) -> list[int]:
    return [i for i in range(1, n + 1) if n % i == 0]


def plan(
    model: Any,
    batch: Any,
    cluster: Cluster,
    *,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
    micro_batches: int | None = None,
    turns: int = 5,
) -> ClusterPlan:
    """Predicted time, memory and traffic of a training step on a cluster, for data, sharded, tensor
    and pipeline parallelism and their mixtures.

    Arguments:
        model: a module; a copy of it takes a few steps here, unless ``cluster.flops`` is given.
        batch: the inputs of one copy of the model, a tensor or a tuple: twice the copies train on
            twice the samples per step.
        cluster: the machine; its links may come from ``fit_network``.
        loss: the loss of the model's output, by default the sum of what it returns.
        optimizer: makes an optimiser of the parameters.
        micro_batches: pieces of the batch in a pipeline; by default four per stage.
        turns: how often the step is measured.

    Returns:
        ClusterPlan: ``splits`` has all ways, those that fit in memory first and the fastest first
        among them; ``best`` is the first that fits. Printed, it is a table.

    Example:
        >>> from rushlight.distributed import Cluster, Link, plan
        >>> link = Link(latency=5e-6, bandwidth=1e11)
        >>> cluster = Cluster(1, 2, 80e9, inside=link, between=link, flops=1e12)
        >>> model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        >>> found = plan(model, rl.ones(4096, 64), cluster, micro_batches=2)
        >>> found.best.name, found.best.seconds.kind
        ('data 2', 'predicted')
        >>> sorted(split.name for split in found.splits)
        ['data 2', 'pipeline 2', 'sharded 2', 'tensor 2']
    """
    from rushlight.profiler._plan import _default_loss

    args = batch if isinstance(batch, tuple) else (batch,)
    work, size = _workload(model, args, loss or _default_loss, optimizer, cluster.flops, turns)
    splits = _splits(cluster, sum(x.is_block for x in work.layers))
    for split in splits:
        pieces = micro_batches or 4 * split.pipeline
        _evaluate(work, cluster, split, max(1, min(pieces, size)))
    splits.sort(key=lambda s: (not s.fits, s.seconds.value / s.data))
    alone = Figure(work.seconds, "measured" if work.measured else "predicted")
    return ClusterPlan(cluster, size, splits, alone)
