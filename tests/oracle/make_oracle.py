"""Writes the JSON files next to it from PyTorch 2.13's behaviour; run by hand, never by the tests.

    python tests/oracle/make_oracle.py [ops promotion signatures exceptions repr values ...]

The tests then compare Rushlight with the files, without PyTorch. Run it again when a row changes.
"""

import json
import re
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
            found.append(" ".join(kinds))
        if any(found):
            dtypes[dtype] = brief(["=" if f == dtype else f for f in found])
    if not dtypes:
        sys.exit(f"{row.name}: PyTorch refuses every call")
    main = next(d for d in sample.DTYPES if d in dtypes)
    found = [forms_of(row, i, main) for i in range(len(row.calls))]
    out = [probe_out(row, i, main) for i in range(len(row.calls)) if "o" in found[i]]
    names = ("out_resize", "out_wider", "out_narrow_fails")
    return {
        "dtypes": dtypes,
        "forms": brief(found),
        **{n: bool(out) and all(o[k] for o in out) for k, n in enumerate(names)},
        "grad": brief([has_grad(row, i) for i in range(len(row.calls))]),
    }


def brief(answers):
    """One answer where all calls agree; "=" stands for the input's dtype."""
    return answers[0] if len(set(answers)) == 1 else answers


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
    if not all(a is b for a, b in zip(sample.leaves(got), outs, strict=False)):
        raise TypeError  # a wrapper that takes out= and returns something else
    return outs


CRASHES = ("arange", "range")  # PyTorch dies when a step rounds to 0 in the dtype of out


def probe_out(row, i, dtype):
    """(resizes a non-empty out, casts into a wider dtype, refuses a narrower one)."""
    from ops import sample

    def tries(change):
        return attempt(lambda: call_out(row, sample.Inputs(row, i, dtype), i, change)) is not None

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*resized")
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


# --- exceptions.json: the class of every bad call ------------------------------------------------


def make_exceptions():
    from bad_calls import CALLS, names

    found = {}
    for text in (text for texts in CALLS.values() for text in texts):
        try:
            eval(text, names(torch))
        except Exception as error:
            found[text] = next(
                c for c in type(error).__mro__ if c.__module__ == "builtins"
            ).__name__
        else:
            print(f"PyTorch accepts {text}")
    write("exceptions", found)


# --- promotion.json -------------------------------------------------------------------------------

NUMBERS = {"bool": True, "int": 2, "float": 2.5, "complex": 2j}
UNSIGNED = ["uint16", "uint32", "uint64"]
OPS = {  # results of one tensor; results of two
    1: ["sum", "mean", "prod", "cumsum@0", "exp", "sqrt", "abs", "neg", "sign", "floor", "isnan",
        "reciprocal", "square", "sigmoid", "logical_not", "bitwise_not", "var", "median", "argmax",
        "round", "any", "cumprod@0", "amax", "nansum", "std", "angle", "real", "log2", "relu"],
    2: ["add", "sub", "mul", "div", "floor_divide", "remainder", "pow", "eq", "lt", "logical_and",
        "bitwise_and", "maximum", "atan2", "true_divide", "fmod", "float_power", "xlogy",
        "copysign",
        "bitwise_left_shift", "clamp_min", "logaddexp", "heaviside", "gcd"],
}  # fmt: skip


def ones(dtype, *shape):
    return torch.ones(shape, dtype=getattr(torch, dtype))


def dtype_or_none(f, *args):
    got = attempt(lambda: f(*args))
    return None if got is None else str(getattr(got, "dtype", got)).split(".")[-1]


def make_promotion():
    from ops.sample import DTYPES

    pairs, numbers = {}, {}
    for a in DTYPES + UNSIGNED:
        for b in DTYPES + UNSIGNED:
            da, db = getattr(torch, a), getattr(torch, b)
            pairs[f"{a} {b}"] = [
                dtype_or_none(torch.promote_types, da, db),
                dtype_or_none(torch.result_type, ones(a, 2), ones(b, 2)),
                dtype_or_none(torch.result_type, ones(a, 2), ones(b)),
                torch.can_cast(da, db),
            ]
        numbers[a] = {
            kind: [dtype_or_none(torch.result_type, x, number) for x in (ones(a, 2), ones(a))]
            for kind, number in NUMBERS.items()
        }
    ops = {}
    for text in OPS[1]:
        name, _, dim = text.partition("@")
        rest = [int(dim)] if dim else []
        ops[text] = [dtype_or_none(getattr(torch, name), ones(d, 2), *rest) for d in DTYPES]
    for name in OPS[2]:
        f = getattr(torch, name)
        ops[name] = [[dtype_or_none(f, ones(a, 2), ones(b, 2)) for b in DTYPES] for a in DTYPES]
        ops[f"{name} number"] = [
            [dtype_or_none(f, ones(a, 2), number) for number in NUMBERS.values()] for a in DTYPES
        ]
    write("promotion", {"dtypes": DTYPES, "pairs": pairs, "numbers": numbers, "ops": ops})


# --- signatures.json ------------------------------------------------------------------------------

EXTRA = """is_tensor is_floating_point is_complex numel manual_seed get_rng_state set_rng_state
get_default_dtype set_default_dtype set_num_threads get_num_threads promote_types result_type
can_cast from_numpy frombuffer from_dlpack randperm multinomial bernoulli normal rand randn randint
broadcast_shapes initial_seed seed is_nonzero set_printoptions""".split()
METHODS = """item tolist numpy cpu to type type_as size dim stride storage_offset element_size
is_contiguous data_ptr numel nelement ndimension contiguous clone detach requires_grad_ copy_ fill_
zero_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ resize_
resize_as_ index_put_ scatter_ scatter_add_ masked_fill_ index_add_ index_copy_ index_fill_
new_zeros new_ones new_full new_empty new_tensor is_set_to unfold repeat expand view""".split()


def overloads(name):
    """Every public overload: [[name, kind, default], ...] with kind p(ositional) or k(eyword)."""
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        arguments = [a for a in schema.arguments if not a.is_out]
        if any("Dimname" in str(a.type) or str(a.type) == "Dimname" for a in arguments):
            continue
        outs = [a.name for a in schema.arguments if a.is_out]
        if outs or schema.overload_name.endswith(("_stub", "_dimname")):
            continue
        found.append([
            [a.name, "k" if a.kwarg_only else "p",
             repr(a.default_value) if a.has_default_value() else "required"]
            for a in arguments
        ])  # fmt: skip
    return found


def python_signature(f):
    import inspect

    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        [
            p.name,
            "k" if p.kind is p.KEYWORD_ONLY else "*" if p.kind is p.VAR_POSITIONAL else "p",
            "required" if p.default is p.empty else repr(p.default),
        ]
        for p in parameters
    ]


def make_signatures():
    from ops import rows
    from ops.sample import FUNC, table_rows

    every = [n for r in rows.ROWS for n in (r.name, *r.aliases)] + EXTRA
    table = [re.search(FUNC, r)[1].split(".")[0] for r in table_rows()]
    found = {}
    for name in sorted({*every, *METHODS, *(n for n in table if overloads(n))}):
        f, short = torch, name.split(".")[-1]
        for part in name.split("."):
            f = getattr(f, part, None)
        of_python = python_signature(f) if callable(f) else None
        known = [] if "." in name else overloads(short)
        found[name] = {
            "forms": "f" * callable(f) + "m" * hasattr(torch.Tensor, short)
            + "i" * hasattr(torch.Tensor, short + "_") * (not name.endswith("_")),
            "python": of_python,
            "overloads": known,
        }  # fmt: skip
    for row in rows.ROWS:
        found[row.name]["calls"] = [
            keywords(row, i, found[row.name]) for i in range(len(row.calls))
        ]
    write("signatures", found)


def keywords(row, i, known):
    """The names under which call i's positional arguments may be given, or None."""
    from ops import sample

    def works(dtype):
        args, kwargs = sample.Inputs(row, i, dtype).tensors()
        return attempt(lambda: sample.run(row, args, kwargs)) is not None

    dtype = next(filter(works, sample.DTYPES), None)
    if dtype is None:
        return None  # a call that PyTorch refuses
    f = sample.lookup(row.name)
    lists = [[a[0] for a in o if a[1] == "p"] for o in known["overloads"] + [known["python"] or []]]
    for list_ in lists if f is not None else []:
        spelled = ["input" if n == "self" else n for n in list_]
        args, kwargs = sample.Inputs(row, i, dtype).tensors()
        both = {**dict(zip(spelled, args, strict=False)), **kwargs}
        if len(args) <= len(spelled) and attempt(lambda b=both: f(**b)) is not None:
            return spelled[: len(args)]
    return None


# --- repr.json ------------------------------------------------------------------------------------


def make_repr():
    from printed import CASES, shown

    write("repr", {json.dumps(case): shown(torch, case) for case in CASES})


# --- values.json: values of rows without a NumPy counterpart --------------------------------------


def make_values():
    from ops import rows, sample

    found = {}
    for row in rows.ROWS:
        if row.ref is not sample.ORACLE:
            continue
        found[row.name] = [
            [
                t.tolist()
                for t in sample.leaves(sample.run(row, *sample.Inputs(row, i, "float64").tensors()))
            ]
            for i in range(len(row.calls))
        ]
    write("values", found)


# --- subgradients.json ----------------------------------------------------------------------------


def make_subgradients():
    from subgradients import CASES, gradients, name_of

    write("subgradients", {name_of(case): gradients(torch, case) for case in CASES})


# --- sharing.json: outputs that share memory with inputs, where PyTorch refuses -------------------


def make_sharing():
    """Per form (o ut, i n-place) and call: the cases that raise; with a ? where the reason is
    another one than shared memory."""
    from ops import rows, sample, sharing

    cases = {"o": sharing.out_cases, "i": sharing.in_place_cases}
    found = {}
    for row in (r for r in rows.ROWS if r.name in sample.RESULTS["ops"]):
        dtype, calls = sample.main_dtype(row), range(len(row.calls))
        kept = {
            form: [
                " ".join(key + how for key, case in of(row, i, dtype) if (how := refusal(case)))
                if form in sample.forms(row, i) else ""
                for i in calls
            ]
            for form, of in cases.items()
        }  # fmt: skip
        kept = {form: brief(keys) for form, keys in kept.items() if any(keys)}
        if kept:
            found[row.name] = kept
    write("sharing", found)


def refusal(case):
    try:
        case.call()
    except Exception as error:
        about_memory = "single memory location" in str(error) or "broadcast shape" in str(error)
        return "!" if about_memory else "?"


# --- overwriting.json: tensors written to between a call and backward, where PyTorch refuses -----


def make_overwriting():
    """Per call: the cases that raise, or a ? where PyTorch has none."""
    from ops import overwriting, rows, sample

    found = {}
    for row in (r for r in rows.ROWS if r.name in sample.RESULTS["ops"]):
        refused = [""] * len(row.calls)
        for i in overwriting.calls(row):
            cases = [c for rare in (False, True) for c in overwriting.outcomes(row, i, rare)]
            raised = " ".join(name for name, _, got in cases if isinstance(got, Exception))
            refused[i] = raised if cases else "?"
        if any(refused):
            found[row.name] = brief(refused)
    write("overwriting", found)


def make_answers():
    import answers

    write("answers", {e: answers.answer(torch, e) for e in answers.EXPRESSIONS})


MAKERS = {
    "ops": make_ops,
    "answers": make_answers,
    "promotion": make_promotion,
    "signatures": make_signatures,
    "exceptions": make_exceptions,
    "repr": make_repr,
    "values": make_values,
    "sharing": make_sharing,
    "overwriting": make_overwriting,
    "subgradients": make_subgradients,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()
