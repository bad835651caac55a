"""Figures, as same.py writes them, against each other."""

import numpy as np

TOLERANCES = {"float64": 1e-8, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def differences(name, ours, theirs):
    """What is different between two figures as `plain` made them, one line per difference."""
    if ours.keys() != theirs.keys():
        return [f"{name}: {_brief(ours)} in place of {_brief(theirs)}"]
    if "dict" in theirs:
        ours, theirs = ours["dict"], theirs["dict"]
        if ours.keys() != theirs.keys():
            return [f"{name}: keys {sorted(ours)} in place of {sorted(theirs)}"]
        pairs = [(f"{name}[{key!r}]", ours[key], theirs[key]) for key in theirs]
    elif "list" in theirs or "complex" in theirs:
        (kind,) = theirs
        ours, theirs = ours[kind], theirs[kind]
        if len(ours) != len(theirs):
            return [f"{name}: {len(ours)} in place of {len(theirs)}"]
        pairs = [(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(ours, theirs, strict=True))]
    elif "statistic" in theirs:
        far = not abs(ours["statistic"] - theirs["statistic"]) <= theirs["within"]
        return [f"{name}: {ours['statistic']} in place of {theirs['statistic']}"] if far else []
    elif "exact" in theirs:
        return (
            [] if ours == theirs else [f"{name}: {ours['exact']!r} in place of {theirs['exact']!r}"]
        )
    else:
        return _far(name, ours, theirs)
    return [line for pair in pairs for line in differences(*pair)]


def _far(name, ours, theirs):
    for fact in ("dtype", "shape"):
        if ours[fact] != theirs[fact]:
            return [f"{name}: {fact} {ours[fact]} in place of {theirs[fact]}"]
    a, b = (
        np.array([*one["values"], one.get("norm", 0)], dtype=np.float64) for one in (ours, theirs)
    )
    tolerance = TOLERANCES.get(theirs["dtype"], 0)
    scale = np.abs(b[np.isfinite(b)][: len(theirs["values"])]).max(initial=0)
    with np.errstate(invalid="ignore"):  # infinities are equal or not
        near = np.abs(a - b) <= tolerance * (np.abs(b) + scale)
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
    if same.all():
        return []
    at = int(np.argmin(same))
    return [
        f"{name}: {(~same).sum()} of {len(a)} values differ, at {at} {a[at]} in place of {b[at]}"
    ]


def _brief(figure):
    return str(figure)[:80]
