"""plan: what a training step will take, before it runs anywhere.

The model is copied to the meta device, where tensors have sizes and no memory, and takes two steps
there under a profile: its blocks of memory and its operations are those of a real step.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.profiler._memory import ACTIVATION, CATEGORIES, TEMPORARY, MemoryHistory
from rushlight.profiler._table import format_memory
from rushlight.profiler._workspaces import Peak, Workspaces, chosen_gpu, raised_peak
from rushlight.profiler.profiler import profile

__all__ = ["Fit", "ModulePlan", "Plan", "plan"]

_PRECISIONS = ("float64", "float32", "bfloat16", "float16", "autocast bfloat16", "autocast float16")


@dataclass
class Work:
    """Operations, and the parameters that they are done with."""

    parameters: int = 0
    flops: int = 0  # of forward
    backward_flops: int = 0


@dataclass
class ModulePlan(Work):
    """One module with all modules inside it."""

    path: str = ""
    kind: str = ""
    calls: int = 0
    activation_bytes: int = 0  # kept for backward


@dataclass
class Fit:
    """What a batch size takes in a precision."""

    precision: str
    batch: int
    peak_bytes: int


@dataclass
class Plan(Work):
    """A training step: sizes in bytes, operations, and modules in the order of named_modules()."""

    precision: str = "float32"
    modules: list[ModulePlan] = field(default_factory=list)
    batch: int = 1
    at_peak: dict[str, int] = field(default_factory=dict)  # bytes by what they are for
    peak_bytes: int = 0
    peak_line: str | None = None  # the line that runs when it is reached
    activation_bytes: int = 0  # kept for backward when forward ends
    table: list[Fit] = field(default_factory=list)
    memory: int | None = None  # what there is, where it was asked
    largest: list[Fit] = field(default_factory=list)  # the largest batch that fits, by precision

    def __str__(self) -> str:
        lines = [("module", "calls", "parameters", "forward", "backward", "kept for backward")]
        for m in self.modules:
            depth = m.path.count(".") + 1 if m.path else 0
            name = m.path.rpartition(".")[2]
            lines.append(("  " * depth + (f"{name}: {m.kind}" if name else m.kind),
                          str(m.calls or ""), f"{m.parameters:,}" if m.parameters else "",
                          _flops(m.flops), _flops(m.backward_flops),
                          format_memory(m.activation_bytes) if m.activation_bytes else "")
                         )  # fmt: skip
        text = _aligned(lines)
        text.insert(1, "-" * max(map(len, text)))
        parts = ", ".join(f"{name} {format_memory(n)}" for name, n in self.at_peak.items() if n)
        text += [
            text[1],
            f"batch {self.batch} in {self.precision}: {self.parameters:,} parameters, "
            f"{_flops(self.flops)} forward, {_flops(self.backward_flops)} backward",
            f"peak: {format_memory(self.peak_bytes)} ({parts})",
        ]
        if self.peak_line:
            text.append(f"reached at {self.peak_line}")
        text += [
            f"batch {fit.batch} in {fit.precision}: {format_memory(fit.peak_bytes)}"
            + ("" if self.memory is None else
               ", fits" if fit.peak_bytes <= self.memory else ", does not fit")
            for fit in self.table
        ]  # fmt: skip
        for fit in self.largest:
            what = f"batch {fit.batch} ({format_memory(fit.peak_bytes)})" if fit.batch else "none"
            text.append(f"largest that fits {format_memory(self.memory or 0)} in {fit.precision}: "
                        f"{what}")  # fmt: skip
        return "\n".join(text)


def _flops(n: int) -> str:
    value = float(n)
    for unit in ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"):
        if value < 1000:
            break
        value, last = value / 1000, unit
    else:
        return f"{value * 1000:,.0f} {last}"
    return f"{value:.3g} {unit}" if n else ""


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join([line[0].ljust(widths[0]),
                   *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    ]  # fmt: skip


# ---- the copy without memory


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _meta_model(model: Any) -> Any:
    """A copy of the model whose tensors have no memory; tensors that are shared stay shared."""
    from rushlight.nn.parameter import Parameter, is_lazy

    memo: dict[int, Any] = {}
    for module in model.modules():
        held = [*module._parameters.values(), *module._buffers.values(),
                *filter(_is_tensor, vars(module).values())]  # fmt: skip
        for tensor in held:
            if tensor is None or id(tensor) in memo:
                continue
            if is_lazy(tensor):
                raise ValueError(
                    "plan: the model has lazy parameters whose sizes are not known yet; call it "
                    "once before"
                )
            made = tensor.detach().to("meta")
            if isinstance(tensor, Parameter):
                made = Parameter(made, requires_grad=tensor.requires_grad)
            memo[id(tensor)] = made
    return copy.deepcopy(model, memo)


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if _is_tensor(value):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _tensors(value: Any) -> Iterator[Tensor]:
    found: list[Tensor] = []
    _mapped(value, lambda t: found.append(t) or t)  # type: ignore[func-returns-value]
    return iter(found)


def _default_loss(output: Any) -> Tensor:
    floats = [t for t in _tensors(output) if t.is_floating_point() and t.requires_grad]
    if not floats:
        raise ValueError(
            "plan: no output of the model needs a gradient; give loss=, a function of the "
            "output, or training=False"
        )
    total = floats[0].sum()
    for tensor in floats[1:]:
        total = total + tensor.sum()
    return total


@dataclass
class _Request:
    model: Any
    inputs: Any
    kwargs: dict[str, Any]
    target: Any
    loss: Callable[..., Tensor]
    optimizer: Callable[[Any], Any] | None
    training: bool
    batch: int
    batch_dim: int
    device: Any  # a GPU that tells what its libraries need, or None

    def with_batch(self, tensor: Tensor, batch: int) -> Tensor:
        """The tensor with as many samples, where it has the batch of the others."""
        shape = list(tensor.shape)
        if len(shape) > self.batch_dim and shape[self.batch_dim] == self.batch:
            shape[self.batch_dim] = batch
        return _C.empty(shape, dtype=tensor.dtype, device="meta")


# ---- running it


def _precision(name: str) -> tuple[Any, Any]:
    """The dtype of the model and that of autocast."""
    if name not in _PRECISIONS:
        raise ValueError(f"plan: precisions are {', '.join(_PRECISIONS)}; got {name!r}")
    word, _, cast = name.rpartition(" ")
    dtype = getattr(rushlight, cast)
    return (rushlight.float32, dtype) if word else (dtype, None)


@contextlib.contextmanager
def _autocast(dtype: Any) -> Iterator[None]:
    """autocast for tensors of the meta device, with the rules of GPUs; nothing without a dtype."""
    if dtype is None:
        yield
        return
    _C.set_autocast_dtype("meta", dtype)
    _C.set_autocast_enabled("meta", True)
    try:
        yield
    finally:
        _C.set_autocast_enabled("meta", False)
        _C.clear_autocast_cache()


def _steps(request: _Request, model: Any, args: Any, kwargs: Any, target: Any, cast: Any) -> None:
    """Two steps: the second finds gradients and states there."""
    if not request.training:
        with rushlight.no_grad(), _autocast(cast):
            model(*args, **kwargs)
        return
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = request.optimizer(trained) if request.optimizer is not None else None
    for _ in range(2):
        for parameter in trained:
            parameter.grad = None
        with _autocast(cast):
            loss = request.loss(model(*args, **kwargs), *target)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        del loss


def _run(request: _Request, batch: int, precision: str) -> tuple[Any, Any, Peak]:
    """The profile of two steps, the model that took them, and where memory was highest."""
    dtype, cast = _precision(precision)

    def prepared(tensor: Tensor) -> Tensor:
        made = request.with_batch(tensor, batch)
        return made.to(dtype) if made.is_floating_point() else made

    def take_steps(around: Any) -> tuple[Any, Any]:
        with around as found:
            model = _meta_model(request.model).to(dtype)
            model.train(request.training)
            args, kwargs, target = (
                _mapped(given, prepared)
                for given in (request.inputs, request.kwargs, request.target)
            )
            try:
                _steps(request, model, args, kwargs, target, cast)
            except (RuntimeError, NotImplementedError) as error:
                if "meta" not in str(error):
                    raise
                raise type(error)(
                    f"plan: the step runs on tensors without values, on the meta device, and "
                    f"failed there: {error}. What the loss compares with is given by target=; "
                    "what reads values (item, nonzero, masks as indices) cannot be planned"
                ) from error
        return found, model

    # Apart: while somebody looks at the calls, their arguments live longer.
    calls = take_steps(Workspaces(request.device, cast))[0].calls if request.device else []
    prof, model = take_steps(profile(profile_memory=True, with_flops=True, with_modules=True))
    _rounded(prof.events().memory)
    return prof, model, raised_peak(prof, calls)


def _rounded(history: MemoryHistory) -> None:
    """Blocks as allocators round them: to 512 bytes, with a header of 64."""
    for block in history.blocks:
        block.bytes = -(-(block.bytes + 64) // 512) * 512
    history.changes = [
        (time, device, block.bytes if change >= 0 else -block.bytes, block)
        for time, device, change, block in history.changes
    ]


def _kind_of_backward(event: Any) -> bool:
    at = event
    while at is not None:
        if at.scope == 1 or at.name.startswith("autograd::engine"):
            return True
        at = at.cpu_parent
    return False


def _paths(path: str, root: str) -> Iterator[str]:
    """The path of a module and of those around it; the outermost is ""."""
    path = "" if path == root else path
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _fill_modules(found: Plan, prof: Any, model: Any) -> None:
    """Operations and activations by module; steps are two, so counts are halved."""
    rows = {}
    root = type(model).__name__
    for path, module in model.named_modules():
        own = sum(p.numel() for p in module.parameters())
        rows[path] = ModulePlan(path=path, kind=type(module).__name__, parameters=own)
    steps = 2 if any(e.scope == 1 for e in prof.events()) else 1
    for event in prof.events():
        if event.is_python_function:
            for path in list(_paths(event.module or root, root))[:1]:
                if path in rows:
                    rows[path].calls += 1
        if not event.flops:
            continue
        backward = _kind_of_backward(event)
        found.backward_flops += event.flops if backward else 0
        found.flops += 0 if backward else event.flops
        for path in _paths(event.module, root) if event.module is not None else ():
            if path in rows:
                if backward:
                    rows[path].backward_flops += event.flops
                else:
                    rows[path].flops += event.flops
    first = next((e.time_range.start for e in prof.events() if e.scope == 1), None)
    # Kept for backward: what forward made and is there when backward begins.
    if first is not None:
        for block in prof.events().memory.live_at(first, "meta"):
            if block.category != ACTIVATION or block.event is None:
                continue
            found.activation_bytes += block.bytes
            for path in _paths(block.event.module, root) if block.event.module else ():
                if path in rows:
                    rows[path].activation_bytes += block.bytes
    for row in rows.values():
        row.calls //= steps
        row.flops //= steps
        row.backward_flops //= steps
    found.flops //= steps
    found.backward_flops //= steps
    found.modules = list(rows.values())


def _event_at(prof: Any, time: float) -> Any:
    inner = None
    for event in prof.events():
        if event.time_range.start > time:
            break
        if event.time_range.end >= time and event.source is not None:
            inner = event
    return inner


_MOST_BATCH = 1 << 22


def _largest(request: _Request, precision: str, memory: int) -> Fit:
    """The largest batch whose peak fits: memory grows with the batch, in a straight line mostly."""

    def peak(batch: int) -> int:
        return _run(request, batch, precision)[2].bytes

    low, low_peak = 0, 0
    batch, high = 1, 0
    while not high and batch <= _MOST_BATCH:
        now = peak(batch)
        if now > memory:
            high = batch
            break
        # Towards where a line through the last two meets the limit, at most eight times as far.
        slope = (now - low_peak) / (batch - low) if low else now / batch
        low, low_peak = batch, now
        goal = low + int((memory - now) / max(slope, 1))
        batch = max(low + 1, min(goal, 8 * low))
    while high and high - low > 1:
        middle = (low + high) // 2
        now = peak(middle)
        if now <= memory:
            low, low_peak = middle, now
        else:
            high = middle
    return Fit(precision, low, low_peak)


def _available(memory: Any) -> int | None:
    """Bytes: a number as it is; of a GPU what it has free, in this process's hands or nobody's."""
    if memory is None or isinstance(memory, int | float):
        return None if memory is None else int(memory)
    device = rushlight.device(memory)
    if device.type == "cuda":
        free, _ = rushlight.cuda.mem_get_info(device)
        return free + rushlight.cuda.memory_reserved(device)
    if device.type == "cpu":
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    raise ValueError(f"plan: memory must be bytes, a GPU or the CPU, not {memory!r}")


def plan(
    model: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: Any = None,
    loss: Callable[..., Tensor] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
    training: bool = True,
    batch_sizes: Sequence[int] = (),
    precisions: Sequence[str] = ("float32",),
    memory: Any = None,
    batch_dim: int = 0,
    device: Any = None,
) -> Plan:
    """What a training step of a model takes: parameters, operations, activations and peak memory,
    by module, without running it.

    Sizes are those of tensors. What libraries of a GPU work in besides counts where `device` names
    one: each product and convolution is tried on it once. A GPU's context counts nowhere.

    Arguments:
        model: a module; where it lies does not matter, and it is not changed.
        inputs: its arguments, a tensor or a tuple; only shapes and dtypes count.
        kwargs: its arguments by name.
        target: what the loss compares the output with: its second argument.
        loss: the loss of the model's output; by default the sum of what it returns.
        optimizer: makes an optimiser of the parameters, such as rushlight.optim.AdamW; without
            one the step ends with backward.
        training: False for a call without gradients.
        batch_sizes: for which batch sizes the peak is wanted, too.
        precisions: float32, float64, bfloat16, float16, "autocast bfloat16" or "autocast float16";
            the first is that of the table by module.
        memory: how much there is: bytes, "cuda:0" or "cpu". The largest batch that fits is found.
        batch_dim: which dim of the inputs counts samples.
        device: a GPU of this machine, such as "cuda"; its counters of peaks are reset.

    Example:
        >>> found = rl.profiler.plan(nn.Linear(4, 2), rl.ones(8, 4), optimizer=rl.optim.SGD)
        >>> found.parameters, found.batch
        (10, 8)
    """
    inputs = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    kwargs = dict(kwargs or {})
    first = next((t for t in _tensors((inputs, kwargs)) if t.dim() > batch_dim), None)
    if first is None:
        raise ValueError(f"plan: no input has a dim {batch_dim} that could count samples")
    if not precisions:
        raise ValueError("plan: precisions is empty")
    if target is not None and loss is None:
        raise ValueError("plan: a target needs a loss that compares the output with it")
    goal = () if target is None else (target,)
    request = _Request(model, inputs, kwargs, goal, loss or _default_loss, optimizer, training,
                       int(first.shape[batch_dim]), batch_dim, chosen_gpu(device))  # fmt: skip
    available = _available(memory)
    prof, copied, peak = _run(request, request.batch, precisions[0])
    found = Plan(batch=request.batch, precision=precisions[0], memory=available)
    found.parameters = sum(p.numel() for p in copied.parameters())
    _fill_modules(found, prof, copied)
    found.peak_bytes = peak.bytes
    found.at_peak = dict.fromkeys(CATEGORIES, 0)
    found.at_peak[CATEGORIES[TEMPORARY]] = peak.workspace
    for block in prof.events().memory.live_at(peak.time, "meta"):
        found.at_peak[CATEGORIES[block.category]] += block.bytes
    event = _event_at(prof, peak.time)
    found.peak_line = None if event is None else event.source
    for precision in precisions:
        for batch in batch_sizes:
            needed = _run(request, int(batch), precision)[2].bytes
            found.table.append(Fit(precision, int(batch), needed))
        if available is not None:
            found.largest.append(_largest(request, precision, available))
    return found
