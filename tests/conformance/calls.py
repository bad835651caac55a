"""Calls by the thousand, made of the op rows: the same ones in every interpreter.

A row of `tests/ops` has a few calls that are right. From each come any number of others: other
dtypes, sizes, layouts, numbers, flags, special values and forms. Most are right, too; that a wrong
one is refused, and by which class of error, is compared as well.
"""

import random
import zlib
from dataclasses import dataclass, replace

import numpy as np
from ops.sample import COMPLEX, DTYPES, FLOAT, LAYOUTS, C, DType, Held, Spec, tensor, walk

SPECIAL = [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1.0, -1.0, 1e-30, 1e30]
FORMS = ["function", "function", "function", "method", "inplace", "out"]


@dataclass
class Plan:
    """One call: arguments with arrays for tensors, and how it is made."""

    args: tuple
    kwargs: dict
    form: str
    grad: bool
    text: str


def plan(row, number):
    """Call `number` of a row."""
    rng = random.Random(zlib.crc32(f"{row.name} {number}".encode()))
    call = rng.choice(row.calls)
    dtype = rng.choice(FLOAT[:2]) if rng.random() < 0.4 else rng.choice(DTYPES)
    mixed = rng.random() < 0.15
    sizes = {n: rng.choice([0, 1, 1, 2, 5]) for n in range(2, 9) if rng.random() < 0.25}
    change_numbers, special = rng.random() < 0.35, rng.random() < 0.1
    draws = np.random.RandomState(rng.randrange(2**31))
    texts = []

    def draw(x):
        if isinstance(x, DType):
            return DType(x.name or dtype)
        return held(x, rng.choice(DTYPES) if mixed else dtype, sizes, special, rng, draws, texts)

    def number_of(x):
        if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
            return type(x)(number_of(y) for y in x)
        return other_number(x, rng) if change_numbers and rng.random() < 0.5 else x

    args = tuple(number_of(walk(a, draw)) for a in call.args)
    kwargs = {k: number_of(walk(v, draw)) for k, v in call.kwargs.items()}
    form = rng.choice(FORMS)
    grad = form == "function" and call.grad and not special
    text = f"{row.name} #{number} {form} {dtype}: {shown(args)} {shown(kwargs)}"
    return Plan(args, kwargs, form, grad, text)


def held(spec, dtype, sizes, special, rng, draws, texts):
    """An array for a spec, of other sizes where it holds random numbers."""
    if spec.values is None and sizes:
        spec = replace(spec, shape=tuple(sizes.get(n, n) for n in spec.shape))
    spec = replace(spec, dtype=spec.dtype or dtype)
    array = np.array(spec.array(dtype, draws))
    if special and array.dtype.kind in "fc" and array.size and spec.values is None:
        where = draws.random_sample(array.shape) < 0.3
        array[where] = draws.choice(SPECIAL, int(where.sum()))
    layout = rng.choice(["contiguous", *LAYOUTS]) if rng.random() < 0.5 else "contiguous"
    if layout == "expanded" and not spec.expands:
        layout = "contiguous"
    if layout == "expanded" and array.ndim and array.shape[0]:
        array = np.array(np.broadcast_to(array[:1], array.shape))
    found = Held(array, spec)
    found.layout = layout
    return found


def other_number(x, rng):
    """Another number of the same kind; other things stay."""
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return rng.choice([-3, -2, -1, 0, 1, 2, 3, x + 1, x - 1])
    if isinstance(x, float):
        return rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, x / 2, -x])
    return x


def shown(x):
    """The arguments in a line."""
    if isinstance(x, Held):
        small = f"={x.array.tolist()}" if x.array.size <= 3 else ""
        return f"{x.spec.dtype}{list(x.array.shape)}{x.layout[0]}{small}"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in x.items()) + "}"
    if isinstance(x, list | tuple):
        return "(" + ", ".join(map(shown, x)) + ")"
    return repr(x)


def built(x, library, wide=False):
    """The arguments with tensors; `wide` makes floating ones float64."""
    if isinstance(x, Held):
        dtype = x.spec.dtype
        if wide:
            dtype = "complex128" if dtype in COMPLEX else "float64" if dtype in FLOAT else dtype
        return tensor(x.array, dtype, x.layout)
    if isinstance(x, DType):
        name = x.name
        if wide and name in FLOAT + COMPLEX:
            name = "complex128" if name in COMPLEX else "float64"
        return getattr(library, name)
    if isinstance(x, dict):
        return {k: built(v, library, wide) for k, v in x.items()}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(built(y, library, wide) for y in x)
    return x


__all__ = ["C", "Plan", "Spec", "built", "plan"]
