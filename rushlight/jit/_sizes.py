"""Which numbers of a traced program follow the sizes of its inputs.

A trace has `view(8, -1)` where the function says `view(x.size(0), -1)`. The function is traced
again with inputs that are longer in their first or second dimension: numbers that grow with them
follow the size. What came out is compared with the function at other sizes, and dropped if it
differs.
"""

from __future__ import annotations

import contextlib
import sys
import warnings

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd import no_grad
from rushlight.jit._calls import tensors_in
from rushlight.jit._program import Code

MOST = 2  # dimensions that are tried


def followed(traced, before, code, args, kwargs, undone, finish=None):
    """The code with such numbers, or None. undone: makes a with block, see _trace.py. finish: what
    makes a program of the code that can run."""
    leaves = list(tensors_in((args, kwargs)))
    symbols = [s for dim in range(MOST) if (s := _symbol(traced, code, leaves, dim))]
    if not symbols:
        return None

    def trace_grown(*by):
        grown = _grown((args, kwargs), symbols, by)
        return traced.code(before, *grown).capsule

    def joined(which, grown):
        rows = [symbols[i] for i in which]
        capsule = _C._jit_generalize(code.capsule, traced.method, grown, rows)
        if capsule is None:
            return None
        return Code(capsule) if finish is None else finish(Code(capsule))

    def holds(candidate, which):
        by = [3 + i if i in which else 0 for i in range(len(symbols))]
        grown = _grown((args, kwargs), symbols, by)
        return not traced.faults(candidate, *grown, 1e-5)

    with undone(traced.buffers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ones = {}  # the traces in which one size has grown
        for i in range(len(symbols)):
            single = _tried(trace_grown, *(int(k == i) for k in range(len(symbols))))
            if single is not None and joined([i], [single]) is not None:
                ones[i] = single
        choices = [[i] for i in ones]
        if len(ones) == 2:
            choices.insert(0, [0, 1])
        for which in choices:
            grown = [ones[i] for i in which]
            if len(which) == 2:
                grown.append(_tried(trace_grown, 1, 1))
                if grown[-1] is None:
                    continue
            candidate = joined(which, grown)
            if candidate is not None and _tried(holds, candidate, which):
                return candidate
    return None


def _tried(function, *args):
    """None where it fails: the function may not take other sizes at all."""
    try:
        result = function(*args)
        _wait()
        return result
    except Exception:
        with contextlib.suppress(Exception):
            _wait()
        return None


def _wait():
    """GPUs tell of a bad index at the next wait: it must come while we are asked for it."""
    cuda = sys.modules.get("rushlight.cuda")
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()


def _symbol(traced, code, leaves, dim):
    """(which input, dim, size) of a size that numbers of the program may have come from."""
    for i, tensor in enumerate(leaves):
        if tensor.dim() > dim:
            size = tensor.shape[dim]
            if size > 0 and _C._jit_may_follow(code.capsule, traced.method, size):
                return i, dim, size
            return None
    return None


def _grown(value, symbols, by):
    """The inputs, longer in the symbols' dimensions where they have the symbols' sizes."""
    if isinstance(value, Tensor):
        with no_grad():
            longer = value.detach()
            for (_, dim, size), more in zip(symbols, by, strict=True):
                if longer.dim() > dim and longer.shape[dim] == size:
                    index = _C.arange(size + more, device=value.device) % size
                    longer = longer.index_select(dim, index)
        return longer.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _grown(item, symbols, by) for key, item in value.items()}
    items = [_grown(item, symbols, by) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
