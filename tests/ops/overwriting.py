"""Calls after which a tensor is written to before backward: one table for the test and the oracle.

A case is a call of a row (or its in-place form), a set of arguments that require gradients (all of
them, or one alone), and the tensor that is written to afterwards: an argument or a result. Adding
one changes no gradient of the result, so a case has only two right ends: the gradients are those
of the call without the write, or an error says what was overwritten.
"""

import rushlight as rl
from ops.sample import Inputs, fact, forms, leaves, method, run, tensor_leaves
from ops.sharing import put_in_place_of

FLOATING = rl.float64


class Call:
    """One call over copies of leaves, so that every tensor may be written to."""

    def __init__(self, row, i, form, alone):
        args, kwargs = Inputs(row, i, "float64").tensors()
        given = tensor_leaves(args, kwargs)
        free = [k for k, t in enumerate(given) if t.dtype == FLOATING]
        self.free = [given[k].requires_grad_() for k in free if alone in (None, k)]
        self.arguments = [t.clone() for t in given]
        for old, new in zip(given, self.arguments, strict=True):
            args = put_in_place_of(args, old, new)
            kwargs = {n: put_in_place_of(v, old, new) for n, v in kwargs.items()}
        got = run(row, args, kwargs) if form == "f" else method(row, args, kwargs, "_")
        self.results = [r for r in leaves(got) if isinstance(r, rl.Tensor)]

    def gradients(self):
        live = [r for r in self.results if r.requires_grad]
        seeds = [rl.linspace(1, 2, r.numel(), dtype=r.dtype).reshape(r.shape) for r in live]
        return rl.autograd.grad(live, self.free, seeds, allow_unused=True)

    def target(self, key):
        return (self.results if key[0] == "r" else self.arguments)[int(key[1:])]


def modes(row, i, form):
    """Which arguments require gradients (None: all), with the gradients: where there are any."""
    args, kwargs = Inputs(row, i, "float64").tensors()
    free = [k for k, t in enumerate(tensor_leaves(args, kwargs)) if t.dtype == FLOATING]
    for alone in [None, *(free if len(free) > 1 else [])]:
        try:
            call = Call(row, i, form, alone)
            if not any(r.requires_grad for r in call.results):
                continue
            want = call.gradients()
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue  # this form, or this gradient, is not there
        if all(w is None or not w.numel() for w in want):
            continue
        keys = [f"a{k}" for k in range(len(call.arguments))]
        keys += [f"r{j}" for j in range(len(call.results)) if form == "f"]
        yield alone, want, keys


def outcome(row, i, form, alone, key):
    """The gradients after the write, or the error."""
    call = Call(row, i, form, alone)
    try:
        target = call.target(key)
        target.logical_not_() if target.dtype == rl.bool else target.add_(1)
        return call.gradients()
    except RuntimeError as error:
        return error


def name_of(form, alone, key):
    return f"{form}{'' if alone is None else alone}{key}"


def calls(row):
    return [i for i in range(len(row.calls)) if fact(row, "grad", i)]


def outcomes(row, i, rare=False):
    """Every case of call i: (its name, the gradients without the write, what happened).

    Rare are in-place forms, and calls where one argument of several requires a gradient."""
    known = forms(row, i).replace("m", "f")
    for form in (f for f in "fi" if f in known and (rare or f == "f")):
        for alone, want, keys in modes(row, i, form):
            for key in keys if rare == (form == "i" or alone is not None) else ():
                yield name_of(form, alone, key), want, outcome(row, i, form, alone, key)
