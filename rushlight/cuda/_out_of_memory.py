"""The error of a full GPU: what fills it, which tensors are the largest, what to try.

The core calls explain() while it raises; it must not touch the GPU.
"""

import gc
import sys

from rushlight import _C
from rushlight._C import _cuda

LARGEST = 8  # tensors that are listed

ADVICE = (
    "Try: a smaller batch; autocast (half the bytes for activations); utils.checkpoint (which "
    "trades them for time); no_grad() where no gradient is needed; dropping references to tensors "
    "that are no longer needed (a loss kept for its value keeps its whole graph: use loss.item())."
)


def size_text(n):
    """1.50 GiB"""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.2f} {unit}"
        n /= 1024
    return f"{n:.2f} TiB"


def _address(tensor):
    """Where a GPU tensor's memory begins; None for any other."""
    if not isinstance(tensor, _C.Tensor) or tensor.device.type != "cuda":
        return None
    return tensor.untyped_storage().data_ptr()


def _tensors_in(value, depth=4):
    if isinstance(value, _C.Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item, depth - 1)


def owners():
    """Addresses of parameters, gradients, buffers and optimisers' states, from the modules and
    optimisers that are alive; and names of the parameters and buffers."""
    nn, optim = sys.modules.get("rushlight.nn"), sys.modules.get("rushlight.optim")
    kinds, names = {}, {}

    def note(tensor, kind, name=None):
        address = _address(tensor)
        if address is not None:
            kinds.setdefault(address, kind)
            if name:
                names.setdefault(address, name)

    def note_parameter(p, name=None):
        note(p, "parameters", name)
        note(p.grad if p.is_leaf else None, "gradients", name and f"{name}.grad")

    for thing in gc.get_objects():
        cls = type(thing)
        if optim and issubclass(cls, optim.Optimizer):
            for group in thing.__dict__.get("param_groups", ()):
                for p in group.get("params", ()):
                    note_parameter(p)
            for p, state in list(thing.__dict__.get("state", {}).items()):
                for tensor in _tensors_in(state):
                    if tensor is not p:
                        note(tensor, "optimiser state")
        elif nn and issubclass(cls, nn.Module):
            for name, p in list((thing.__dict__.get("_parameters") or {}).items()):
                if p is not None:
                    note_parameter(p, f"{cls.__name__}.{name}")
            for name, b in list((thing.__dict__.get("_buffers") or {}).items()):
                note(b, "others", f"{cls.__name__}.{name}")
    return kinds, names


def categories(blocks, kinds):
    """Bytes of each kind."""
    sums = dict.fromkeys(["parameters", "gradients", "optimiser state", "activations", "others"], 0)
    for address, size, recording, *_ in blocks:
        sums[kinds.get(address) or ("activations" if recording else "others")] += size
    return sums


def table(blocks):
    """The lines of the report."""
    kinds, names = owners()
    sums = categories(blocks, kinds)
    lines = ["In use: " + ", ".join(f"{kind} {size_text(n)}" for kind, n in sums.items()) + "."]
    largest = sorted(blocks, key=lambda b: -b[1])[:LARGEST]
    if largest:
        lines.append("The largest live tensors:")
    for address, size, _, shape, dtype, source in largest:
        what = f"{dtype} {list(shape)}" if shape is not None else "a block"
        owner = f" ({names[address]})" if address in names else ""
        place = f", made at {source}" if source else ""
        lines.append(f"  {size_text(size):>10}  {what}{owner}{place}")
    return lines


def explain(text):
    """The text with the report behind it."""
    blocks = _cuda.last_out_of_memory()
    return "\n".join([text, *table(blocks), ADVICE])
