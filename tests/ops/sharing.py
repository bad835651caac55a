"""Calls whose outputs share memory with inputs: one table for the test and for the oracle.

A case puts one tensor argument and one output of a call of a row into common memory:

- same: the output is the argument itself;
- view: another tensor over the argument's elements, of its shape;
- partial: the output begins one element before the argument, in one buffer;
- behind: the output is an empty window in front of the argument, which grows over it.

In place, an argument other than self is self ("same"), or lies one element behind it ("partial").
"""

import rushlight as rl
from ops.sample import (
    PEER,
    Inputs,
    base_name,
    leaves,
    lookup,
    method,
    out_names,
    run,
    tensor_leaves,
)

OUT_NAMES = out_names()
KINDS = ("same", "view", "partial", "behind")


def short(name):
    return base_name(name.split(".")[-1])


def out_function(row):
    """What takes out=: the table's function, also of what nn.functional shows; else Python's."""
    name = short(row.name)
    # An op may be public in nn.functional alone.
    return (name in OUT_NAMES and getattr(rl, name, None)) or lookup(row.name)


def put_in_place_of(x, old, new):
    """Nested arguments with `old` replaced; tensors are told apart by identity."""
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(put_in_place_of(y, old, new) for y in x)
    return new if x is old else x


class OutCase:
    """Argument k and output j of call i share memory."""

    def __init__(self, row, i, dtype, k, j, kind):
        self.row, self.what = row, f"{row.name} call {i}: argument {k}, output {j}, {kind}"
        inputs = Inputs(row, i, dtype)
        result = run(row, *inputs.tensors())
        self.several, self.want = isinstance(result, tuple), leaves(result)
        args, kwargs = inputs.tensors()
        old = tensor_leaves(args, kwargs)[k]
        want = self.want[j]
        new, out = shared(old, want, kind)
        self.possible = new is not None
        if not self.possible:
            return
        self.args = put_in_place_of(args, old, new)
        self.kwargs = {n: put_in_place_of(v, old, new) for n, v in kwargs.items()}
        self.fits = out.shape == want.shape
        self.outs = [out if n == j else rl.empty(0, dtype=w.dtype) for n, w in enumerate(self.want)]
        self.memory = [*tensor_leaves(self.args, self.kwargs), *self.outs]

    def call(self):
        out = tuple(self.outs) if self.several else self.outs[0]
        return out_function(self.row)(*self.args, **self.kwargs, out=out)


def shared(old, want, kind):
    """A tensor with old's values, and one for the result `want`, over common memory."""
    if not isinstance(want, rl.Tensor) or want.dtype != old.dtype or not old.numel():
        return None, None
    if not PEER:  # PyTorch would read beyond what it resized; this memory of NumPy's it refuses
        old = old.clone()
    if kind == "same":
        return old, old
    if kind == "view":
        return old, old.as_strided(old.shape, old.stride(), old.storage_offset())
    n = old.numel()
    room = rl.zeros(max(n + 1, want.numel()), dtype=old.dtype)
    new = room[1 : n + 1].view(old.shape)
    new.copy_(old)
    if kind == "partial":
        if n < 2 or want.numel() < 2:
            return None, None
        return new, room[: want.numel()].view(want.shape)
    return (new, room[:0]) if want.numel() > 1 else (None, None)


def out_cases(row, i, dtype):
    """Every pair of an argument and an output of call i, by kind."""
    inputs = Inputs(row, i, dtype)
    args, kwargs = inputs.tensors()
    count = len(leaves(run(row, args, kwargs)))
    for k in range(len(tensor_leaves(args, kwargs))):
        for j in range(count):
            for kind in KINDS:
                case = OutCase(row, i, dtype, k, j, kind)
                if case.possible:
                    yield f"{k}{j}{kind[0]}", case


class InPlaceCase:
    """Argument k of the in-place form of call i shares memory with self."""

    def __init__(self, row, i, dtype, k, kind):
        self.row, self.what = row, f"{row.name}_ call {i}: argument {k}, {kind}"
        self.args, self.kwargs = Inputs(row, i, dtype).tensors()
        self.self = self.args[row.method_self]
        old = tensor_leaves(self.args, self.kwargs)[k]
        self.possible = (
            old is not self.self and self.self.numel() > 1
            and (old.dtype, old.shape) == (self.self.dtype, self.self.shape)
        )  # fmt: skip
        if not self.possible:
            return
        n = old.numel()
        room = rl.zeros(n + 1, dtype=old.dtype)
        own = room[:n].view(old.shape)
        new = own if kind == "same" else room[1:].view(old.shape)
        new.copy_(old)
        for was, now in ((old, new), (self.self, own)):
            self.args = put_in_place_of(self.args, was, now)
            self.kwargs = {a: put_in_place_of(v, was, now) for a, v in self.kwargs.items()}
        self.self = own
        self.memory = tensor_leaves(self.args, self.kwargs)

    def apart(self):
        """The same call with every argument in memory of its own, out of place."""
        args, kwargs = self.args, self.kwargs
        for t in self.memory:
            copy = t.clone()
            args = put_in_place_of(args, t, copy)
            kwargs = {a: put_in_place_of(v, t, copy) for a, v in kwargs.items()}
        return run(self.row, args, kwargs)

    def call(self):
        return method(self.row, self.args, self.kwargs, "_")


def in_place_cases(row, i, dtype):
    args, kwargs = Inputs(row, i, dtype).tensors()
    for k in range(len(tensor_leaves(args, kwargs))):
        for kind in ("same", "partial"):
            case = InPlaceCase(row, i, dtype, k, kind)
            if case.possible:
                yield f"{k}{kind[0]}", case
