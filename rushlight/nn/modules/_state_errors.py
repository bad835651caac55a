"""Why a state dict does not fit: a short text that looks for the pattern behind many wrong keys."""

from collections import Counter
from collections.abc import Mapping

from rushlight._C import Tensor

SHOWN = 4  # keys or problems of a kind that are printed
COMPARED = 60  # keys of each side that are compared for a pattern


def explain(name, state, missing, unexpected, errors):
    """The text of load_state_dict's error; at most 20 lines."""
    lines = [f"load_state_dict: the state dict does not fit {name}:"]
    if missing:
        lines.append(_keys("Missing key(s)", missing))
    if unexpected:
        lines.append(_keys("Unexpected key(s)", unexpected))
    lines += [f"  {_one_line(e)}" for e in errors[:SHOWN]]
    if len(errors) > SHOWN:
        lines.append(f"  ... and {len(errors) - SHOWN} more such problems")
    lines += [f"  {hint}" for hint in _hints(state, missing, unexpected, errors)]
    return "\n".join(lines)


def _one_line(text, most=300):
    text = " ".join(str(text).split())
    return text if len(text) <= most else text[:most] + " ..."


def _keys(title, keys):
    shown = ", ".join(f'"{_one_line(k, 120)}"' for k in keys[:SHOWN])
    count = f" ({len(keys)})" if len(keys) > 1 else ""
    return f"  {title}{count}: {shown}" + (", ..." if len(keys) > SHOWN else "")


def _hints(state, missing, unexpected, errors):
    hints = []
    if missing and unexpected:
        hint = _nested(state, missing, unexpected) or _renaming(missing, unexpected)
        if hint:
            hints.append(hint)
    elif unexpected and not missing and not errors:
        hints.append("every tensor of the model was found; strict=False ignores the other keys")
    if errors and all(e.startswith("size mismatch for ") for e in errors) and len(errors) > 1:
        hints.append(f"all {len(errors)} are differences of shape: was the model made with the "
                     "same sizes?")  # fmt: skip
    return hints


def _nested(state, missing, unexpected):
    """The dict is a whole checkpoint with the weights inside."""
    wanted = set(missing)
    for key in unexpected:
        inner = state.get(key)
        if isinstance(inner, Mapping):
            hits = sum(1 for k in inner if k in wanted or _ends_like(k, wanted))
            if hits and any(isinstance(v, Tensor) for v in inner.values()):
                return f'the weights seem to be under "{key}": load state_dict["{key}"] instead'
    return None


def _ends_like(key, wanted):
    return isinstance(key, str) and any(key.endswith("." + w) or w == key for w in list(wanted)[:5])


def _renaming(missing, unexpected):
    """A single change of name that makes unexpected keys match missing ones."""
    wanted = set(missing)
    best, hits = None, 0
    for old, new in _candidates(missing, unexpected):
        got = sum(1 for key in unexpected if _renamed(key, old, new) in wanted)
        if got > hits:
            best, hits = (old, new), got
    if best is None or 2 * hits < len(unexpected):
        return None
    n = len(unexpected)
    which = (
        f"all {n} unexpected keys match" if hits == n else f"{hits} of {n} unexpected keys match"
    )
    if n == 1:
        which = "the unexpected key matches"
    old, new = (".".join(part) for part in best)
    if not new:
        return f'{which} after stripping "{old}."'
    if not old:
        return f'{which} after adding "{new}." in front'
    return f'{which} after replacing "{old}" by "{new}"'


def _renamed(key, old, new):
    """The key with the first run `old` of its parts replaced; if that is empty, `new` in front."""
    parts = tuple(key.split("."))
    for i in range(len(parts) - len(old) + 1):
        if parts[i : i + len(old)] == old:
            return ".".join(parts[:i] + new + parts[i + len(old) :])
    return key


def _candidates(missing, unexpected):
    """Pairs (old parts, new parts), those that explain most pairs of keys first."""
    votes = Counter()
    step_u = max(1, len(unexpected) // COMPARED)
    step_m = max(1, len(missing) // COMPARED)
    # Neighbours in one list tend to be neighbours in the other: also compare by position.
    pairs = list(zip(unexpected, missing, strict=False))
    sample = missing[:COMPARED] + missing[::step_m][:COMPARED]
    pairs += [(u, m) for u in unexpected[::step_u][:COMPARED] for m in sample]
    for u, m in pairs:
        difference = _difference(tuple(u.split(".")), tuple(m.split(".")))
        if difference is not None:
            votes[difference] += 1
    return [difference for difference, _ in votes.most_common(12)]


def _difference(a, b):
    """What is left of both when the parts they share at both ends are taken off."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    if start + end == 0:
        return None
    old, new = a[start : len(a) - end], b[start : len(b) - end]
    if not old and start:
        # Something was inserted in the middle: name it by the part before it.
        return a[start - 1 : start], b[start - 1 : len(b) - end]
    return old, new
