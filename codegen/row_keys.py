"""Keys of a row that say how the rest of the library treats the op: autocast, batch, python."""

import re

from row import IDENTIFIER, TableError, in_place_name

# Policy -> the AutocastPolicy of csrc/ops/framework/registry.h.
POLICIES = {
    "lower_precision": "LowerPrecision",
    "float32": "Float32",
    "float32_by_option": "Float32ByOption",
    "widest": "Widest",
}
AUTOCAST_DEVICES = ("cpu", "cuda")
# Where Python finds an op: `top` is the package itself, `private` only the core.
PLACES = ("top", "nn.functional", "special", "private")


def parse_autocast(data, row):
    """'float32', or {cpu: ..., cuda: ...} -> {device: policy}."""
    if isinstance(data, str):
        data = dict.fromkeys(AUTOCAST_DEVICES, data)
    if not isinstance(data, dict) or not data:
        raise TableError("'autocast' is a policy, or a mapping from cpu and cuda to policies")
    for device, policy in data.items():
        if device not in AUTOCAST_DEVICES:
            raise TableError(
                f"autocast: unknown device '{device}'; known are {', '.join(AUTOCAST_DEVICES)}"
            )
        if policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise TableError(f"autocast: unknown policy '{policy}'; known are {known}")
        if policy == "float32_by_option" and not any(
            a.kind == "DType" and a.optional for a in row.args
        ):
            raise TableError("autocast: 'float32_by_option' needs an argument 'DType? dtype'")
    if row.kind == "mutate":
        raise TableError("autocast: an op that exists only in place keeps its dtype")
    return dict(data)


def parse_batch(data, row):
    if not isinstance(data, str) or not IDENTIFIER.match(data):
        raise TableError(f"'batch' names a function of csrc/ops/vmap/batch_rules.h, not '{data}'")
    return data


def default_batch(row):
    return "pointwise" if row.pointwise else ""


def parse_python(data, row):
    """'top special.psi' or 'through linalg.svd' -> (places, through) of the row."""
    words = data.split() if isinstance(data, str) else [str(i) for i in data]
    if "function" not in row.forms:
        raise TableError("python: only an op with the form 'function' has a public place")
    if words[:1] == ["through"]:
        return (), parse_through(words[1:])
    return parse_places(words, row), ()


def parse_through(names):
    for name in names:
        if not all(IDENTIFIER.match(part) for part in name.split(".")):
            raise TableError(f"python: '{name}' is no name as it stands behind 'rushlight.'")
    if not names:
        raise TableError("python: after 'through' stand functions, such as 'through linalg.svd'")
    return tuple(names)


def parse_places(words, row):
    """['top', 'special.psi'] -> ((place, public name, op), ...)."""
    names = {*row.names, *(in_place_name(n) for n in row.names if "inplace" in row.forms)}
    found = []
    for item in words:
        match = re.match(rf"({'|'.join(map(re.escape, PLACES))})(?:\.(\w+))?\Z", item)
        if not match:
            raise TableError(f"python: '{item}' is no place; known are {', '.join(PLACES)}, each "
                             "with '.name' where the public name differs; or write 'through' and "
                             "the functions in Python that call the op")  # fmt: skip
        place, name = match.groups()
        if place == "private" and (name or found):
            raise TableError("python: 'private' stands alone")
        if place == "top" and not name:
            found += [(place, n, n) for n in sorted(names)]
        else:
            found.append((place, name or row.name, name if name in names else row.name))
    return tuple(found)


def default_python(row):
    """Functions stand in the package itself, unless their rows say otherwise."""
    if "function" not in row.forms:
        return (), ()
    if row.name.startswith("_"):
        raise TableError("'python' is missing: 'through' the functions that make the op public, "
                         "such as 'through linalg.svd', or 'private'")  # fmt: skip
    return parse_python("top", row)


def check_overloads(rows):
    """What is said of a name holds for all of its overloads."""
    first = {}
    for row in rows:
        for name in row.names:
            other = first.setdefault(name, row)
            if dict(row.autocast) != dict(other.autocast):
                raise TableError(f"{row.where}: 'autocast' differs from that of {other.where}, "
                                 "another overload of the same name")  # fmt: skip
    owners = {}
    for row in rows:
        for place, public, op in row.places:
            owner, where = owners.setdefault((place, public), (op, row.where))
            if owner != op:
                raise TableError(f"{row.where}: python: '{place}.{public}' is '{owner}' of {where}")
