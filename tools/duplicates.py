"""Counts pairs of places that share six or more lines of the same shape.

    python tools/duplicates.py rushlight            # how many pairs
    python tools/duplicates.py csrc --worst 20      # and the longest of them
    python tools/duplicates.py rushlight --at-most 120   # fails when there are more

The shape of a line is what is left when names, numbers and strings are all the same. Comments,
docstrings, imports, and lines that are data or a single item (of a list of names, say) do not
count. A run of equal lines counts once, however long; three places alike are three pairs; entries
of a table, which follow upon each other, are one place. Python (.py) and C++ (.cpp, .h, .cu) are
read, without what git ignores.
"""

import argparse
import pathlib
import re
import subprocess
import sys
from collections import defaultdict
from itertools import combinations
from typing import NamedTuple

LINES = 6
NEAR = 12  # entries of a table are at most this many lines apart
SUFFIXES = (".py", ".cpp", ".h", ".cu")
KEYWORDS = frozenset(
    """and as assert async await break case catch class const constexpr continue def del do elif
    else enum except finally for from global if import in inline is lambda namespace new nonlocal
    not or pass raise return static struct switch template throw try typename using void while with
    yield None True False self""".split()
)
TOKEN = re.compile(r"""[rbfu]*("(\\.|[^"\\])*"|'(\\.|[^'\\])*')|[A-Za-z_]\w*|\d[\w.]*|\S""")
PYTHON_TEXT = re.compile(r'[rbfu]*("""|\'\'\')(.*?)\1', re.S)
CPP_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


class Line(NamedTuple):
    shape: str
    number: int


def blank(match):
    """As many lines, with nothing in them."""
    return "\n" * match.group(0).count("\n")


def shape_of(line):
    """The line with one word for all names, numbers and strings; '' where it should not count."""
    parts = []
    for match in TOKEN.finditer(line):
        token = match.group(0)
        if token[0] in "\"'" or token[-1] in "\"'":
            parts.append("s")
        elif token[0].isdigit():
            parts.append("0")
        elif token[0].isalpha() or token[0] == "_":
            parts.append(token if token in KEYWORDS else "n")
        else:
            parts.append(token)
    words = [p for p in parts if p[0].isalnum()]
    is_data = all(word in ("s", "0") for word in words)
    if len(words) < 2 or is_data or parts[0] in ("import", "from", "using", "#"):
        return ""
    return " ".join(parts)


def lines_of(path):
    """The lines of a file that count."""
    text = path.read_text()
    if path.suffix == ".py":
        text = PYTHON_TEXT.sub(blank, text)
        text = re.sub(r"(?m)(^|\s)#.*$", "", text)
    else:
        text = CPP_COMMENT.sub(blank, text)
    shapes = ((shape_of(line), i) for i, line in enumerate(text.splitlines(), 1))
    return [Line(shape, i) for shape, i in shapes if shape]


def files_in(folder):
    """The files to read: those that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    paths = {folder / name for name in listed.splitlines()}
    return sorted(path for path in paths if path.suffix in SUFFIXES and path.exists())


def pairs_of(files):
    """[(length, place, place)] of runs of lines with the same shapes, the longest first."""
    windows = defaultdict(list)
    for path, lines in files.items():
        last = {}
        for i in range(len(lines) - LINES + 1):
            window = tuple(line.shape for line in lines[i : i + LINES])
            if i - last.get(window, -NEAR - 1) > NEAR:
                windows[window].append((path, i))
            last[window] = i
    matches = {(a, b) for places in windows.values() for a, b in combinations(places, 2)}
    found = []
    for a, b in matches:
        if ((a[0], a[1] - 1), (b[0], b[1] - 1)) in matches:
            continue  # inside of a longer run
        length = LINES
        while ((a[0], a[1] + length - LINES + 1), (b[0], b[1] + length - LINES + 1)) in matches:
            length += 1
        found.append((length, *(f"{p}:{files[p][i].number}" for p, i in sorted((a, b)))))
    return sorted(found, key=lambda pair: (-pair[0], *pair[1:]))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--worst", type=int, default=0, help="print this many pairs")
    parser.add_argument("--at-most", type=int, help="fail when there are more")
    options = parser.parse_args(arguments)
    files = {str(path): lines_of(path) for path in files_in(options.folder)}
    found = pairs_of(files)
    for length, one, other in found[: options.worst]:
        print(f"{length:4d} lines  {one}  {other}")
    print(f"{len(found)} pairs of places share {LINES} or more lines of the same shape")
    return int(options.at_most is not None and len(found) > options.at_most)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
