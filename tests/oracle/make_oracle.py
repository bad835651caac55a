"""Writes the JSON files next to it from PyTorch 2.13's behaviour; run by hand, never by the tests.

    python tests/oracle/make_oracle.py [ops promotion signatures exceptions repr values]

The tests then compare Rushlight with the files, without PyTorch. Run it again when a row changes.
"""

import json
import sys
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
sys.modules["rushlight"] = torch  # the rows say `import rushlight as rl`
warnings.simplefilter("ignore")


def write(name, data):
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in data.items()]
    (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{name}.json: {len(data)} entries")


# --- ops.json: dtypes, forms and gradients of every row -------------------------------------------


def attempt(f):
    """f's result, or None when PyTorch refuses."""
    try:
        return f()
    except Exception:
        return None


def make_ops():
    from ops import rows

    write("ops", {row.name: describe(row) for row in rows.ROWS})


def describe(row):
    from ops import sample

    dtypes = {}
    for dtype in row.dtypes or sample.DTYPES:
        found = []
        for i in range(len(row.calls)):
            inputs = sample.Inputs(row, i, dtype)
            got = attempt(lambda inputs=inputs: sample.run(row, *inputs.tensors()))
            kinds = [] if got is None else [kind_of(g) for g in sample.leaves(got)]
            found.append("" if "complex32" in kinds else " ".join(kinds))
        if any(found):
            dtypes[dtype] = found
    if not dtypes:
        sys.exit(f"{row.name}: PyTorch refuses every call")
    main = next(d for d in sample.DTYPES if d in dtypes)
    found = [forms_of(row, i, main) for i in range(len(row.calls))]
    out = [probe_out(row, i, main) for i in range(len(row.calls)) if "o" in found[i]]
    names = ("out_resize", "out_wider", "out_narrow_fails")
    return {
        "dtypes": dtypes,
        "forms": found,
        **{n: bool(out) and all(o[k] for o in out) for k, n in enumerate(names)},
        "grad": [has_grad(row, i) for i in range(len(row.calls))],
    }


def kind_of(x):
    return str(x.dtype).split(".")[1] if isinstance(x, torch.Tensor) else type(x).__name__


def forms_of(row, i, dtype):
    from ops import sample

    inputs, short = sample.Inputs(row, i, dtype), row.name.split(".")[-1]
    args, kwargs = inputs.tensors()
    if attempt(lambda: sample.run(row, args, kwargs)) is None:
        return ""
    found = "f" if sample.lookup(row.name) is not None else ""
    has_self = len(args) > row.method_self and isinstance(args[row.method_self], torch.Tensor)
    if has_self and hasattr(torch.Tensor, short):
        if attempt(lambda: sample.method(row, *inputs.tensors())) is not None:
            found += "m"
    if has_self and hasattr(torch.Tensor, short + "_"):
        ok = attempt(lambda: sample.method(row, *inputs.tensors(), "_")) is not None
        found += "i" if ok else "I"
    public = not row.name.startswith("nn.")  # their out= is not documented
    if public and "f" in found and attempt(lambda: call_out(row, inputs, i)) is not None:
        found += "o"
    return found


def call_out(row, inputs, i, change=lambda t: torch.empty(0, dtype=t.dtype)):
    from ops import sample

    args, kwargs = inputs.tensors()
    if "out" in kwargs:
        raise TypeError
    result = sample.run(row, args, kwargs)
    outs = [change(t) for t in sample.leaves(result)]
    out = tuple(outs) if isinstance(result, tuple) else outs[0]
    args, kwargs = inputs.tensors()
    got = sample.lookup(row.name)(*args, **kwargs, out=out)
    if not all(a is b for a, b in zip(sample.leaves(got), outs)):
        raise TypeError  # a wrapper that takes out= and returns something else
    return outs


CRASHES = ("arange", "range")  # PyTorch dies when a step rounds to 0 in the dtype of out


def probe_out(row, i, dtype):
    """(resizes a non-empty out, casts into a wider dtype, refuses a narrower one)."""
    from ops import sample

    def tries(change):
        return attempt(lambda: call_out(row, sample.Inputs(row, i, dtype), i, change)) is not None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_error = tries(lambda t: torch.zeros(*t.shape, 2, dtype=t.dtype))
    narrow = {True: torch.int32, False: torch.float32}
    return (
        tries(lambda t: torch.zeros(*t.shape, 2, dtype=t.dtype)) and not with_error,
        tries(lambda t: torch.empty(0, dtype=torch.float64)),
        row.name not in CRASHES
        and not tries(lambda t: torch.zeros(t.shape, dtype=narrow[t.is_floating_point()])),
    )


def has_grad(row, i):
    from ops import sample

    def f():
        args, kwargs = sample.Inputs(row, i, "float64").tensors()
        free = [t for t in sample.tensor_leaves(args, kwargs) if t.dtype == torch.float64]
        for t in free:
            t.requires_grad_()
        results = sample.leaves(sample.run(row, args, kwargs))
        live = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        if free and live:
            ones = [torch.ones_like(r) for r in live]
            torch.autograd.grad(live, free, ones, allow_unused=True)
        return bool(free and live)

    return bool(attempt(f))


MAKERS = {"ops": make_ops}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()
