"""Runs calls of the op rows in one library and writes what came of them; PyTorch stands in for
Rushlight where it is asked to (`--peer`)."""

import os
import pickle
import signal
import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
LIMIT = 300  # seconds for the calls of one op


def run_form(row, plan, args, kwargs):
    """The call in the form that its plan asks for."""
    from ops import sample

    import rushlight as rl

    if plan.form == "method":
        return sample.method(row, args, kwargs)
    if plan.form == "inplace":
        return sample.method(row, args, kwargs, "_")
    if plan.form == "out":
        with rl.no_grad():
            like = sample.run(row, *plan_again(plan))
        shape = [rl.empty(0, dtype=t.dtype) for t in sample.leaves(like)]
        kwargs = {**kwargs, "out": shape[0] if len(shape) == 1 else tuple(shape)}
    return sample.run(row, args, kwargs)


def plan_again(plan, wide=False):
    """Fresh tensors for the call."""
    import rushlight as rl
    from conformance.calls import built

    return built(plan.args, rl, wide), built(plan.kwargs, rl, wide)


def kept(x):
    """A result as plain data: dtype, shape, array and strides, or the object itself."""
    from ops import sample

    import rushlight as rl

    if not isinstance(x, rl.Tensor):
        return x if isinstance(x, bool | int | float | complex | str | type(None)) else str(x)
    data = sample.to_numpy(x).copy()
    return sample.dtype_name(x.dtype), tuple(x.shape), data, strides_that_matter(x)


def strides_that_matter(x):
    """The steps along dims of several elements; those of no elements lead nowhere."""
    if not x.numel():
        return None
    return tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1)


def gradients(found, args, kwargs):
    """The gradients of a weighted sum of the results, by the floating arguments."""
    from ops import sample

    import rushlight as rl

    results = [t for t in sample.leaves(found) if isinstance(t, rl.Tensor) and t.requires_grad]
    inputs = [t for t in sample.tensor_leaves(args, kwargs) if t.requires_grad]
    if not results or not inputs:
        return None
    seeds = []
    for r in results:
        ramp = rl.linspace(0.5, 1.5, r.numel(), dtype=rl.float64).reshape(r.shape)
        seeds.append(ramp.to(r.dtype))
    found = rl.autograd.grad(results, inputs, seeds, allow_unused=True)
    return [None if g is None else kept(g) for g in found]


def outcome(row, plan, wide=False):
    """("raised", names of classes), or ("gave", results, gradients or the error they raised)."""
    from ops import sample

    try:
        args, kwargs = plan_again(plan, wide)
        if plan.grad:
            for t in sample.tensor_leaves(args, kwargs):
                if t.is_floating_point() or t.is_complex():
                    t.requires_grad_()
        found = run_form(row, plan, args, kwargs)
        results = [kept(x) for x in sample.leaves(found)]
    except Exception as error:
        return "raised", [c.__name__ for c in type(error).__mro__], str(error)[:200]
    if not plan.grad:
        return "gave", results, None
    try:
        return "gave", results, gradients(found, args, kwargs)
    except Exception as error:
        return "gave", results, f"{type(error).__name__}: {str(error)[:200]}"


def main(output, first, per_op, names):
    from ops import rows

    from conformance.calls import plan

    chosen = [r for r in rows.ROWS if not names or r.name in names]
    for row in chosen:
        child = os.fork()  # a call that crashes or hangs ends this op alone
        if child == 0:
            signal.alarm(LIMIT)
            found = []
            for number in range(first, first + per_op):
                one = plan(row, number)
                exact = outcome(row, one, True) if PEER else None
                found.append((one.text, outcome(row, one), exact))
            write(output, row, found)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            write(output, row, status)


def write(output, row, found):
    with open(output, "ab") as file:
        pickle.dump((row.name, row.values, found), file)


if __name__ == "__main__":
    PEER = sys.argv[1] == "--peer"
    sys.path.insert(0, str(TESTS))
    warnings.simplefilter("ignore")
    if PEER:
        import torch

        sys.modules["rushlight"] = torch
        torch.set_num_threads(1)
    main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), set(sys.argv[5:]))
