"""Says which tests of one list are missing in another: a move or a rename must lose none.

    pytest --collect-only -q --all-devices > before.txt    # at the old commit
    pytest --collect-only -q --all-devices > after.txt     # at the new one
    python tools/compare_test_ids.py before.txt after.txt [--renames renames.txt]

A line of the file of renames is `pattern -> replacement`, as for re.sub; the pattern is matched at
the start of an old id, and the first line that matches counts. `pattern ->` drops a test: say why
in a line before it that starts with #. A pattern that matches no old id is an error too, since it
is probably misspelt.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path


def read_ids(path):
    """The ids in what `pytest --collect-only -q` printed, without its summary."""
    return [line for line in Path(path).read_text().splitlines() if re.match(r"\S+\.py::", line)]


def read_renames(path):
    renames = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, arrow, replacement = line.partition("->")
        if not arrow:
            raise SystemExit(f"{path}:{number}: a rename is `pattern -> replacement`, got {line!r}")
        renames.append((re.compile(pattern.strip()), replacement.strip()))
    return renames


def renamed(test, renames, used):
    """The new id, or None for a test that was dropped."""
    for pattern, replacement in renames:
        if pattern.match(test):
            used[pattern.pattern] += 1
            return pattern.sub(replacement, test, count=1) if replacement else None
    return test


def compare(before, after, renames=()):
    """(lost, new, dropped, unused): old ids that are missing, ids that are new, the number dropped
    by a rename, and the patterns that matched nothing."""
    used = Counter({pattern.pattern: 0 for pattern, _ in renames})
    wanted = {test: renamed(test, renames, used) for test in before}
    have = set(after)
    lost = [old for old, new in wanted.items() if new is not None and new not in have]
    dropped = sum(new is None for new in wanted.values())
    added = sorted(have - set(wanted.values()))
    return lost, added, dropped, [pattern for pattern, count in used.items() if not count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--renames", help="a file with a line `pattern -> replacement` per rename")
    args = parser.parse_args()
    before, after = read_ids(args.before), read_ids(args.after)
    if not before or not after:
        empty = args.after if before else args.before
        raise SystemExit(f"{empty} holds no test ids: it must be from `pytest --collect-only -q`")
    renames = read_renames(args.renames) if args.renames else []
    lost, added, dropped, unused = compare(before, after, renames)
    for test in lost:
        print(f"lost: {test}")
    for pattern in unused:
        print(f"no test before matches {pattern!r}")
    print(f"{len(before)} before, {len(after)} after: {len(lost)} lost, {len(added)} new, "
          f"{dropped} dropped by a rename")  # fmt: skip
    return 1 if lost or unused else 0


if __name__ == "__main__":
    sys.exit(main())
