"""Module.summary: a table of what each part of a model does with given inputs."""

from dataclasses import dataclass, field

from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.nn.parameter import is_lazy


@dataclass
class Row:
    """One module; a module that was called several times has the sums of all calls."""

    path: str
    kind: str
    depth: int
    output_shape: object = None  # of the last call; None if it was not called
    parameters: int = 0  # of this module itself, without its children
    multiply_adds: int = 0  # of this module itself
    output_bytes: int = 0
    calls: int = 0


@dataclass
class Summary:
    """The rows of the table in the order of named_modules(), and totals. Prints as the table."""

    rows: list[Row] = field(default_factory=list)
    parameters: int = 0
    trainable_parameters: int = 0
    multiply_adds: int = 0
    parameter_bytes: int = 0
    output_bytes: int = 0

    def __str__(self):
        lines = [("module", "output shape", "parameters", "multiply-adds", "output memory")]
        for row in self.rows:
            name = row.path.rpartition(".")[2]
            label = "  " * row.depth + (f"{name}: {row.kind}" if name else row.kind)
            if row.calls > 1:
                label += f" (x{row.calls})"
            lines.append(
                (
                    label,
                    _shape_text(row.output_shape) if row.calls else "not called",
                    f"{row.parameters:,}" if row.parameters else "",
                    f"{row.multiply_adds:,}" if row.multiply_adds else "",
                    _bytes_text(row.output_bytes) if row.output_bytes else "",
                )
            )
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        text = [_aligned(line, widths) for line in lines]
        rule = "-" * max(len(line) for line in text)
        frozen = self.parameters - self.trainable_parameters
        text.insert(1, rule)
        text += [
            rule,
            f"parameters: {self.parameters:,} ({self.trainable_parameters:,} trainable, "
            f"{frozen:,} frozen), {_bytes_text(self.parameter_bytes)} with buffers",
            f"multiply-adds: {self.multiply_adds:,}",
            f"outputs of the innermost modules: {_bytes_text(self.output_bytes)}",
        ]
        return "\n".join(text)

    __repr__ = __str__


def _aligned(line, widths):
    parts = [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
    parts += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
    return "  ".join(parts).rstrip()


def _bytes_text(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _shape_text(shape):
    if isinstance(shape, tuple):
        return "(" + ", ".join(_shape_text(s) for s in shape) + ")"
    return str(shape)


def _shapes(output):
    if isinstance(output, Tensor):
        return list(output.shape)
    if isinstance(output, dict):
        return tuple(_shapes(v) for v in output.values())
    if isinstance(output, tuple | list):
        return tuple(_shapes(v) for v in output)
    return type(output).__name__


def _tensors(output):
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, tuple | list):
        for value in output:
            yield from _tensors(value)


def _memory(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def _multiply_adds(module, args, output):
    """What the module's own weights do: each element of the output costs some products.

    A module of another kind may count its own by a method multiply_adds(args, output).
    """
    own = getattr(module, "multiply_adds", None)
    if callable(own):
        return int(own(args, output))
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or not isinstance(output, Tensor) or is_lazy(weight):
        return 0
    names = {cls.__name__ for cls in type(module).__mro__}
    if "Embedding" in names:
        return 0
    if names & {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}:
        # Each element of the input meets the weights of its channel.
        return args[0].numel() * weight[0].numel()
    if weight.dim() >= 2:  # linear, bilinear, convolutions: an output meets one row of weights
        return output.numel() * weight[0].numel()
    return output.numel()  # norms, PReLU: one product per element


def summarize(model, inputs, kwargs):
    """Runs the model once, in evaluation mode and without recording, and notes what it sees."""
    table, by_module = Summary(), {}
    for path, module in model.named_modules():
        row = Row(path, type(module).__name__, path.count(".") + 1 if path else 0)
        own = [p for p in module._parameters.values() if p is not None]
        row.parameters = sum(0 if is_lazy(p) else p.numel() for p in own)
        by_module[id(module)] = row
        table.rows.append(row)

    def note(module, args, output):
        row = by_module[id(module)]
        row.calls += 1
        row.output_shape = _shapes(output)
        row.output_bytes += _memory(_tensors(output))
        row.multiply_adds += _multiply_adds(module, args, output)

    handles = [m.register_forward_hook(note) for m in model.modules()]
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        with no_grad():
            model(*inputs, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode

    params = [p for p in model.parameters() if not is_lazy(p)]
    table.parameters = sum(p.numel() for p in params)
    table.trainable_parameters = sum(p.numel() for p in params if p.requires_grad)
    table.parameter_bytes = _memory(params) + _memory(b for b in model.buffers() if not is_lazy(b))
    table.multiply_adds = sum(row.multiply_adds for row in table.rows)
    leaves = {id(m) for m in model.modules() if not m._modules}
    table.output_bytes = sum(row.output_bytes for i, row in by_module.items() if i in leaves)
    return table
