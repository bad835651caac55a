"""How what Rushlight gave differs from what PyTorch gave: results, dtypes, gradients, refusals."""

import itertools

import numpy as np

# Of the larger of the element and a share of the largest one, which sums of rounded terms need.
TOLERANCE = {"float64": (1e-9, 1e-3), "complex128": (1e-9, 1e-3), "float32": (2e-4, 1e-2),
             "complex64": (2e-4, 1e-2), "float16": (1e-2, 0.5),
             "complex32": (1e-2, 0.5), "bfloat16": (6e-2, 0.5)}  # fmt: skip
NOTHING = 1e-14  # of numbers around 1, what is left of those that cancel
# Of the largest number in a sample's outcome, what rounding may leave of terms that cancel.
ROUNDING = {"float64": 1e-11, "complex128": 1e-11, "float32": 2e-5, "complex64": 2e-5,
            "float16": 1e-2, "complex32": 1e-2, "bfloat16": 6e-2}  # fmt: skip
LEFT = {"float32": 5e-7, "complex64": 5e-7}  # and of numbers up to ten whose difference is tiny


def near(ours, theirs, dtype, exact, scale=0.0):
    """Are the arrays equal, or are ours at least as near to the exact ones?"""
    dtype = dtype.split()[-1]  # (without the layout)
    if dtype not in TOLERANCE:
        return np.array_equal(ours, theirs)
    kind = "c16" if "complex" in dtype else "f8"
    with np.errstate(all="ignore"):
        a, b = ours.astype(kind), theirs.astype(kind)
    relative, share = TOLERANCE[dtype]
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        floor = finite.max() * share if finite.size else 0
        off = np.abs(a - b) > relative * np.maximum(np.abs(b), floor) + NOTHING
        off |= np.isnan(a) != np.isnan(b)
        same_infinity = (a == b) | (np.isnan(a) & np.isnan(b))
        off = (off | (np.isinf(a) | np.isinf(b))) & ~same_infinity
        reference = exact if exact is not None and exact.shape == a.shape else b
        if dtype == "float16":
            reference = reference.astype("f2").astype("f8")  # (what it overflows to)
        rounding = ROUNDING[dtype] * scale + (LEFT.get(dtype, 0.0) if scale else 0.0)
        off &= ~((np.abs(a - reference) <= rounding) | (a == reference))
        if not off.any():
            return True
        if exact is None or exact.shape != a.shape:
            return False
        worse = ~(np.abs(a - exact) <= 1.5 * np.abs(b - exact)) & ~(np.isnan(exact) & np.isnan(a))
        return not (off & worse & ~(a == exact)).any()


def result_difference(ours, theirs, exact, values, what, scale=0.0):
    """How two results differ, or None."""
    if not (isinstance(ours, tuple) and isinstance(theirs, tuple)):
        same = ours == theirs or (ours != ours and theirs != theirs)
        close = isinstance(ours, float | complex) and np.isclose(ours, theirs, 1e-3, equal_nan=True)
        if type(ours) is type(theirs) and (same or close or not values):
            return None
        return f"{what}: {ours!r}, not {theirs!r}"
    if ours[:2] != theirs[:2]:
        return f"{what}: {ours[0]}{list(ours[1])}, not {theirs[0]}{list(theirs[1])}"
    wide = exact[2] if isinstance(exact, tuple) else None
    if values and not near(ours[2], theirs[2], ours[0], wide, scale):
        return f"{what}: other values"
    if ours[3:] != theirs[3:] and what.startswith("result"):
        return f"strides: of {what} {list(ours[3])}, not {list(theirs[3])}"
    return None


def difference(ours, theirs, exact, values):
    """How two outcomes differ, or None."""
    if ours[0] == "raised" or theirs[0] == "raised":
        if ours[0] != theirs[0]:
            who = "only PyTorch refuses" if theirs[0] == "raised" else "refused"
            return f"{who}: {(theirs if theirs[0] == 'raised' else ours)[2]}"
        # Of several faults one library sees another first; a refusal by dtype is always right.
        fine = theirs[1][0] in ours[1] or "DTypeError" in ours[1]
        return None if fine else f"other class: {ours[1][0]}, not {theirs[1][0]}"
    wide = exact if exact and exact[0] == "gave" else None
    found = results_difference(ours[1], theirs[1], wide and wide[1], values)
    return found or gradient_difference(ours[2], theirs[2], wide[2] if wide else None, values)


def results_difference(ours, theirs, exact, values, scale=0.0):
    """How the first of the results that differ does, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        third = exact[i] if exact and len(exact) == len(ours) else None
        if found := result_difference(a, b, third, values, f"result {i}", scale):
            return found
    return None


def sample_difference(case, ours, theirs, exact):
    """How the outcomes of a case of PyTorch's database differ, or None."""
    if case.refused:
        if ours[0] != "raised":
            return "taken: PyTorch refuses it: " + theirs[2]
        fine = any(name in ours[1] for name in case.refused.split("|"))
        return None if fine else f"other class: {ours[1][0]}, not {case.refused}: {ours[2]}"
    if ours[0] == "raised":
        return f"refused: {ours[1][0]}: {ours[2]}"
    wide = exact if exact and exact[0] == "gave" else None
    scale = max(largest(theirs), largest(wide) if wide else 0.0)
    if found := results_difference(ours[1], theirs[1], wide and wide[1], case.values, scale):
        return found
    if isinstance(theirs[2], str):
        return None
    if isinstance(ours[2], str):
        return f"gradient: {ours[2]}"
    third = wide[2] if wide and isinstance(wide[2], list) else []
    orders = itertools.zip_longest(ours[2], theirs[2], third[: len(theirs[2])])
    for order, rounds in enumerate(orders):
        if order and (rounds[1] is None or (rounds[0] is None and not any_slope(rounds[1]))):
            continue  # PyTorch has none, or zeros of a linear function
        if found := gradient_difference(*rounds, case.values, scale):
            return f"order {order + 1} {found}"
    return None


def any_slope(gradients):
    return any(g is not None and g[2].any() for g in gradients)


def largest(outcome):
    """The largest finite number among results and gradients."""
    rounds = [] if isinstance(outcome[2], str) else outcome[2]
    found = [x[2] for part in (outcome[1], *rounds) for x in part if isinstance(x, tuple)]
    parts = [
        np.abs(x[np.isfinite(x)]).astype("f8")
        for x in found
        if x is not None and x.dtype.kind in "fc"
    ]
    return max((float(x.max()) for x in parts if x.size), default=0.0)


def gradient_difference(ours, theirs, exact, values, scale=0.0):
    if isinstance(theirs, str):
        return None  # PyTorch has none, and says so
    if isinstance(ours, str):
        return f"gradient: {ours}"
    if (ours is None) != (theirs is None):
        if ours is None or any_slope(ours):
            return f"gradient: {'none' if ours is None else 'only here'}"
        return None
    for i, (a, b) in enumerate(zip(ours or [], theirs or [], strict=True)):
        if a is None or b is None:
            kept = a or b
            if kept is not None and kept[2].any():
                return f"gradient {i}: {'none' if a is None else 'only here'}"
            continue
        third = exact[i] if isinstance(exact, list) and len(exact) == len(ours) else None
        if found := result_difference(a, b, third, values, f"gradient {i}", scale):
            return found
    return None
