"""Hostile calls by number: the same number is the same call, in every process.

Four families: calls of the op rows with one thing or several changed; of the op table, with
arguments of the right kinds; of every public name, by what its signature says; and indexing.
"""

import inspect
import random
import sys
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [p for p in map(str, (ROOT, ROOT / "tests", ROOT / "codegen")) if p not in sys.path]

import schema  # noqa: E402
from ops import rows  # noqa: E402
from ops.sample import DTYPES, DType, Spec, collected, dtypes_of, walk  # noqa: E402

import rushlight as rl  # noqa: E402

from .drawn import ODD, Alias, Drawn, Named, Source, tensors_in  # noqa: E402
from .names import classes, functions, methods  # noqa: E402

WAYS = (
    ("plain",) * 12
    + ("backward",) * 4
    + ("vmap", "jvp", "autocast", "inference", "threads", "trace", "deterministic", "fork")
)


@dataclass
class Plan:
    """One call. `name` is dotted; a method is asked of the first argument."""

    name: str
    args: tuple
    kwargs: dict
    form: str = "function"  # function, method, inplace, out, class, index, assign
    way: str = "plain"
    row: object = None  # the op row, where the call is one
    call: object = None  # the row's call and dtype, when nothing but sizes and layouts changed
    out: object = None
    then: tuple = field(default=())  # what an object that was made is called with

    def __str__(self):
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        if self.out is not None:
            parts.append(f"out={self.out!r}")
        after = f" then ({', '.join(map(repr, self.then))})" if self.then else ""
        text = f"{self.form} {self.name}({', '.join(parts)}){after} [{self.way}]"
        return text.replace("\n", " ").replace("\0", "\\0")

    @property
    def writes(self):
        name = self.name.split(".")[-1]
        if self.kwargs.get("inplace") or "out" in self.kwargs or "init." in self.name:
            return True
        return self.form in ("inplace", "out", "assign") or name.endswith("_") or name in WRITERS

    @property
    def tensors(self):
        return list(tensors_in((self.args, self.kwargs)))


# Names without an underscore that write to what they are given, or to what it stands for.
WRITERS = {
    "batch_norm",
    "instance_norm",
    "native_batch_norm",
    "set_data",
    "backward",
    "update",
    "__setitem__",
    "embedding",
    "embedding_bag",
    "fake_quantize_per_tensor_affine",
    "fused_moving_avg_obs_fake_quant",
    "unsafe_set",
    "swap_tensors",
    "vector_to_parameters",
    "copy_state",
    "requires_grad",
    "share_memory",
    "retain_grad",
    "data",
    "grad",
    "untyped_storage",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__ifloordiv__",
    "__imod__",
    "__ipow__",
    "__iand__",
    "__ior__",
    "__ixor__",
    "__ilshift__",
    "__irshift__",
    "__idiv__",
    "clip_grads_with_norm",
}

ROWS = collected(rows.ROWS)
TABLE = [
    op
    for op in schema.load_all(sorted((ROOT / "csrc" / "ops").rglob("*.yaml")))
    if "internal" not in op.forms and not op.name.startswith("_")
]
FUNCTIONS, METHODS, CLASSES = functions(), methods(), classes()


def plan(seed, number):
    rng = random.Random(zlib.crc32(f"{seed}/{number}".encode()))
    r = rng.random()
    if r < 0.55:
        found = from_row(rng)
    elif r < 0.75:
        found = from_table(rng)
    elif r < 0.93:
        found = from_name(rng)
    else:
        found = from_index(rng)
    found.way = rng.choice(WAYS)
    return found


# --- rows -----------------------------------------------------------------------------------------


def from_row(rng):
    row = rng.choice(ROWS)
    source = Source(rng)
    call = rng.choice(row.calls)
    known = dtypes_of(row)
    dtype = rng.choice(known) if known and rng.random() < 0.85 else rng.choice(DTYPES)
    mixed = rng.random() < 0.1
    sizes = {n: rng.choice([0, 1, 1, 2, 5, 9]) for n in range(1, 9) if rng.random() < 0.12}
    changes = rng.random() < 0.4
    judged = not changes and not mixed and dtype in known

    def draw(x):
        if isinstance(x, DType):
            name = x.name or dtype
            return Named(name, lambda: getattr(rl, name))
        if x.values is None and sizes:
            x = replace(x, shape=tuple(sizes.get(n, n) for n in x.shape))
        if changes and rng.random() < 0.1:
            return source.tensor()
        of = x.dtype or (rng.choice(DTYPES) if mixed else dtype)
        return source.tensor(x.shape, of, np.array(x.array(of, source.numbers)))

    def other(x):
        if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
            found = [other(y) for y in x]
            if changes and found and rng.random() < 0.05:
                found.pop()
            return type(x)(found)
        if not changes or rng.random() < 0.6:
            return x
        if rng.random() < 0.1:
            return source.anything()
        if isinstance(x, bool):
            return not x
        if isinstance(x, int):
            return rng.choice((x + 1, x - 1, source.integer()))
        if isinstance(x, float):
            return source.number()
        return x

    args = tuple(other(walk(a, draw)) for a in call.args)
    kwargs = {k: other(walk(v, draw)) for k, v in call.kwargs.items()}
    form = rng.choice(("function", "function", "function", "method", "inplace", "out"))
    found = Plan(row.name, args, kwargs, form, row=row)
    if judged and form == "function" and row.ref != "oracle" and plain_values(found):
        found.call = (call, dtype)
    if form == "out":
        found.out = drawn_out(source, found)
    return found


def plain_values(found):
    return all(isinstance(t, Drawn) and not t.kind for t in found.tensors)


def drawn_out(source, found):
    """Where the result goes: as it should be, or into something of the call, or anywhere."""
    r = source.rng.random()
    if r < 0.3:
        return source.rng.choice(("right", "strided", "empty"))
    drawn = [t for t in found.tensors if isinstance(t, Drawn)]
    if r < 0.7 and drawn:
        how = source.rng.choice(("same", "same", "transposed", "beside", "flat"))
        return Alias(source.rng.choice(drawn), how)
    return source.tensor() if r < 0.95 else source.anything()


# --- the table ------------------------------------------------------------------------------------


def from_table(rng):
    op, source = rng.choice(TABLE), Source(rng)
    needed = [a for a in op.args if a.default is None or rng.random() < 0.35]
    given = {}
    for a in needed:
        given[a.name] = source.of_kind(a.kind)
        if a.optional and rng.random() < 0.2:
            given[a.name] = None
    forms = [f for f in ("function", "method", "inplace", "out") if f in op.forms]
    form = rng.choice(forms) if forms else "function"
    positional = []
    first = op.args[op.self_index].name if op.args else ""
    if form in ("method", "inplace"):
        positional.append(given.pop(first, None))
    elif "self" in given:
        given["input"] = given.pop("self")
    name = rng.choice(op.names)
    if form == "inplace":
        name = name.removesuffix("_")
    found = Plan(name, tuple(positional), given, form)
    if form == "out":
        found.out = drawn_out(source, found)
    return found


# --- names ----------------------------------------------------------------------------------------


def from_name(rng):
    source = Source(rng)
    r = rng.random()
    if r < 0.4:
        name, function = rng.choice(FUNCTIONS)
        args, kwargs = from_signature(source, function)
        return Plan(name, args, kwargs)
    if r < 0.7:
        name, function = rng.choice(METHODS)
        args, kwargs = from_signature(source, function, skip_self=True)
        return Plan(name, (source.tensor(), *args), kwargs, "method")
    name, cls = rng.choice(CLASSES)
    args, kwargs = from_signature(source, cls)
    then = tuple(source.tensor() for _ in range(rng.choice((1, 1, 2, 3))))
    return Plan(name, args, kwargs, "class", then=then)


VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def from_signature(source, function, skip_self=False):
    """Arguments by what the signature says; any few where it says nothing."""
    rng = source.rng
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip_self:]
    except (TypeError, ValueError):
        parameters = None
    if not parameters or all(p.kind in VARIADIC for p in parameters):
        return tuple(
            source.tensor() if rng.random() < 0.5 else source.anything()
            for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))
        ), {}
    args, kwargs = [], {}
    for p in parameters:
        if p.kind in VARIADIC or (p.default is not p.empty and rng.random() < 0.6):
            continue
        value = of_parameter(source, p)
        if p.kind is p.POSITIONAL_ONLY or (
            p.default is p.empty and p.kind is not p.KEYWORD_ONLY and not kwargs
        ):
            args.append(value)
        else:
            kwargs[p.name] = value
    return tuple(args), kwargs


def of_parameter(source, p):
    rng = source.rng
    if rng.random() < 0.1:
        return source.anything()
    hint = str(p.annotation)
    sample = p.default if p.default is not p.empty else None
    if isinstance(sample, bool) or hint == "bool":
        return rng.random() < 0.5
    if p.name in ("params", "parameters", "tensors", "sequences"):
        return [source.tensor(), source.tensor()]
    if p.name in ("func", "fn", "function", "f"):
        return Named("lambda x: x.sum()", lambda: lambda *a: a[0].sum())
    if "Tensor" in hint and "Sequence" not in hint and "list" not in hint.lower():
        return source.tensor()
    if "Tensor" in hint:
        return [source.tensor(), source.tensor()]
    if "dtype" in p.name:
        return source.of_kind("DType")
    if isinstance(sample, str) or hint == "str":
        return rng.choice((sample, source.of_kind("String")))
    if isinstance(sample, int) or ("int" in hint.lower() and "point" not in hint):
        return source.integers() if "Sequence" in hint and rng.random() < 0.5 else source.integer()
    if isinstance(sample, float) or "float" in hint:
        return source.number()
    if hint in ("<class 'inspect._empty'>", "Any"):
        return source.tensor() if rng.random() < 0.6 else source.anything()
    return rng.choice((source.tensor, source.integer, lambda: rng.choice(ODD)))()


# --- indexing -------------------------------------------------------------------------------------


def from_index(rng):
    source = Source(rng)
    x = source.tensor()
    size = max(len(x.shape), 1)
    parts = [index_part(source, x.shape) for _ in range(rng.choice((1, 1, 2, 2, 3, size, 7)))]
    index = tuple(parts) if len(parts) > 1 or rng.random() < 0.3 else parts[0]
    if rng.random() < 0.5:
        return Plan("Tensor.__getitem__", (x, index), {}, "index")
    value = rng.choice((source.tensor, source.number, source.anything))()
    return Plan("Tensor.__setitem__", (x, index, value), {}, "assign")


def index_part(source, shape):
    rng = source.rng
    r = rng.random()
    if r < 0.25:
        return source.integer()
    if r < 0.5:
        ends = [rng.choice((None, source.integer())) for _ in range(2)]
        step = rng.choice((None, None, 1, 2, 3, 0, -1, 2**62))
        return Named(f"slice({ends[0]}, {ends[1]}, {step})", lambda: slice(*ends, step))
    if r < 0.6:
        return rng.choice((None, True, False, Named("...", lambda: ...)))
    if r < 0.7:
        return [rng.randrange(-3, 3) for _ in range(rng.choice((0, 1, 2, 3)))]
    if r < 0.85:
        n = rng.choice([*shape, 2, 3])
        values = source.numbers.randint(-3, 3, rng.choice(((2,), (1, 2), (), (0,), (n,))))
        return source.tensor(None, rng.choice(("int64", "int32", "uint8", "int8")), values)
    if r < 0.95:
        take = shape[: rng.choice((1, 2))] or (2,)
        return source.tensor(None, "bool", source.numbers.random_sample(take) > 0.5)
    return source.anything()


__all__ = ["Plan", "Spec", "plan"]
