"""Calls every op with huge and negative ints, in a process that may not use much memory or time.

    python tests/hostile.py [seed] [calls] [first]

- Each int of each call of the rows in tests/ops is replaced by each hostile one; so is each int
  parameter in the table's schemas, over tensors of a few shapes.
- The number of a call is written before it runs: who reads the output knows which one hung, was
  killed or crashed. Python exceptions are fine, and so is an answer; but not an exception that
  comes when memory is full: sizes are looked at before the first loop.
"""

import inspect
import random
import resource
import signal
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "codegen")]

import schema  # noqa: E402
from ops import rows  # noqa: E402
from ops.sample import Inputs, collected, main_dtype, run  # noqa: E402

import rushlight as rl  # noqa: E402
from rushlight import _public  # noqa: E402

HOSTILE = (2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**31))
MEMORY = 1 << 29  # beyond what the interpreter and the library use
SECONDS = 5
FILLED = 100_000  # KiB of memory that a call which fails may have touched


def is_int(x):
    return type(x) is int


def places(x):
    """Where ints are in nested arguments: lists of indices."""
    if is_int(x):
        yield ()
    elif isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        for i, y in enumerate(x):
            yield from ((i, *rest) for rest in places(y))


def replaced(x, place, value):
    if not place:
        return value
    i, *rest = place
    return type(x)(replaced(y, rest, value) if k == i else y for k, y in enumerate(x))


def row_calls():
    """Calls of the sample rows with one int changed."""
    for row in collected(rows.ROWS):
        dtype = main_dtype(row)
        for i, sample in enumerate(row.calls):
            given = {"args": sample.args, **sample.kwargs}
            for name, value in given.items():
                for place in places(value):
                    for hostile in HOSTILE:
                        yield (
                            f"{row.name} call {i} {name}{list(place)} = {hostile}",
                            from_row(row, i, dtype, name, place, hostile),
                        )


def from_row(row, i, dtype, name, place, hostile):
    def call():
        args, kwargs = Inputs(row, i, dtype).tensors()
        if name == "args":
            args = replaced(args, place, hostile)
        else:
            kwargs[name] = replaced(kwargs[name], place, hostile)
        run(row, args, kwargs)

    return call


TENSORS = ((3,), (2, 3), (1, 2, 4, 4), (0,))


def table_calls():
    """Calls made from the schemas, with one int hostile and all else small."""
    table = sorted((ROOT / "csrc" / "ops").rglob("*.yaml"))
    for op in schema.load_all(table):
        if "internal" in op.forms or op.name.startswith("_"):
            continue
        for arg in op.args:
            if arg.kind not in ("Int", "Ints"):
                continue
            for shape in TENSORS if takes_tensors(op) else ((),):
                for hostile in HOSTILE:
                    what = f"{op.name}.{op.overload}({arg.name} = {hostile}) of {shape}"
                    yield what, from_schema(op, arg, shape, hostile)


def takes_tensors(op):
    return any(a.kind in ("Tensor", "Operand", "Tensors") for a in op.args)


def from_schema(op, hostile_arg, shape, hostile):
    def value(arg):
        if arg is hostile_arg:
            return hostile if arg.kind == "Int" else [hostile] * max(arg.count, 1)
        plain = {"Tensor": rl.ones(shape), "Operand": rl.ones(shape), "Tensors": [rl.ones(shape)],
                 "Scalar": 2, "Int": 1, "Ints": [1], "Float": 1.0, "Floats": [1.0], "Bool": False,
                 "String": "sum"}  # fmt: skip
        return plain.get(arg.kind)

    def call():
        needed = [a for a in op.args if a.default is None or a is hostile_arg]
        names = {a.name: value(a) for a in needed}
        own = names.pop("self", None)
        if "function" in op.forms:
            given = {"input": own, **names} if own is not None else names
            return getattr(rl, op.name)(**given)
        return getattr(own, op.name)(**names)

    return call


MODULES = ("", "linalg", "fft", "special", "signal.windows", "nn.functional")


def python_calls():
    """Calls of the functions that are written in Python, with one number of theirs hostile."""
    for space in MODULES:
        module = rl
        for part in space.split(".") if space else ():
            module = getattr(module, part)
        for name, function in sorted(vars(module).items()):
            parameters = parameters_of(name, function, module)
            for p in parameters:
                if (
                    p.name in _public._TENSORS
                    or type(p.default) in (str, bool)
                    or p.kind in VARIADIC
                ):
                    continue
                for shape in TENSORS:
                    for hostile in HOSTILE:
                        what = f"{space}.{name}({p.name} = {hostile}) of {shape}"
                        yield what, from_signature(function, parameters, p.name, shape, hostile)


VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters_of(name, function, module):
    """Those of a function about tensors: at the top there are others, which set or save things."""
    if name.startswith("_") or not inspect.isfunction(inspect.unwrap(function)):
        return []
    found = list(inspect.signature(function).parameters.values())
    if getattr(function, "__unavailable__", None):
        return []
    about_tensors = name in _public._published or name.endswith("_window") or (
        found and found[0].name in _public._TENSORS
    )  # fmt: skip
    return found if module is not rl or about_tensors else []


def from_signature(function, parameters, which, shape, hostile):
    def call():
        given = {}
        for p in parameters:
            if p.name == which:
                given[p.name] = hostile
            elif p.default is p.empty and p.kind not in VARIADIC:
                number = p.name in _public._INTS
                given[p.name] = 1 if number else rl.ones(shape)
        function(**given)

    return call


def limit_memory():
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def main(seed=0, count=None, first=0):
    warnings.simplefilter("ignore")
    calls = [*row_calls(), *table_calls(), *python_calls()]
    random.Random(seed).shuffle(calls)
    rl.ones(100_000).exp().sum()  # threads and libraries are there before the limit
    (rl.ones(64, 64) @ rl.ones(64, 64)).sum()
    limit_memory()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # Python would wait for the call to end
    for n, (what, call) in enumerate(calls[:count]):
        if n < first:
            continue
        print(n, what, flush=True)
        signal.alarm(SECONDS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            call()
        except Exception as error:
            # A fault of ours is no answer to a bad argument.
            if isinstance(error, rl._C.InternalError):
                raise
            touched = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if touched > FILLED:
                raise SystemExit(f"ran away over {touched} KiB of memory: {error}") from None
    signal.alarm(0)
    print("done", len(calls), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
