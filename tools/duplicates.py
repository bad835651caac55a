"""Counts the pairs of files that share six or more lines of the same shape.

    python tools/duplicates.py rushlight            # how many pairs
    python tools/duplicates.py csrc --worst 20      # and those that share most
    python tools/duplicates.py rushlight --at-most 120   # fails when there are more

The shape of a line is what is left when names, numbers and strings are all the same; a line of one
word stands for itself. Comments, docstrings, imports and lone punctuation do not count. All runs
that two files share are one pair, and a file may make a pair with itself. Six lines that stand in
more than eight places are an idiom and no pair. Python (.py, .pyi) and C++ (.cpp, .h, .cu) are
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
PLACES = 8
PYTHON = (".py", ".pyi")
CPP = (".cpp", ".h", ".cu")
TOKEN = re.compile(r"""([rbfu]*)("(\\.|[^"\\])*"|'(\\.|[^'\\])*')|[A-Za-z_]\w*|\d[\w.]*|\S""")
PYTHON_TEXT = re.compile(r'[rbfu]*("""|\'\'\')(.*?)\1', re.S)
PYTHON_COMMENT = re.compile(r"(^|\s)#.*$", re.M)
PYTHON_IMPORT = re.compile(r"^[ \t]*(from|import)\b[^(\n]*(\([^)]*\))?.*$", re.M)
CPP_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
CPP_IMPORT = re.compile(r"^[ \t]*(using\b|# *(include|pragma)\b).*$", re.M)


class Line(NamedTuple):
    text: str
    shape: str
    number: int


def blank(match):
    """As many lines, with nothing in them."""
    return "\n" * match.group(0).count("\n")


def shape_of(line):
    """The line with one word for all names, all numbers and all strings."""
    parts = []
    for match in TOKEN.finditer(line):
        token = match.group(0)
        if match.group(2):
            parts.append(match.group(1) + "s")
        elif token[0].isdigit():
            parts.append("0")
        else:
            parts.append("n" if token[0].isalpha() or token[0] == "_" else token)
    words = [part for part in parts if part[0].isalnum()]
    return " ".join(parts) if len(words) > 1 else line


def lines_of(path):
    """The lines of a file that count."""
    text = path.read_text()
    if path.suffix in PYTHON:
        passed_over = (PYTHON_TEXT, PYTHON_COMMENT, PYTHON_IMPORT)
    else:
        passed_over = (CPP_COMMENT, CPP_IMPORT)
    for pattern in passed_over:
        text = pattern.sub(blank, text)
    lines = ((" ".join(line.split()), i) for i, line in enumerate(text.splitlines(), 1))
    return [Line(line, shape_of(line), i) for line, i in lines if re.search(r"\w", line)]


def files_in(folder):
    """The files to read: those that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    paths = {folder / name for name in listed.splitlines()}
    return sorted(path for path in paths if path.suffix in PYTHON + CPP and path.exists())


def shared_windows(files, key):
    """Yields two places, (path, index) each, for every six lines that have the same keys."""
    windows = defaultdict(list)
    for path, lines in files.items():
        keys = [key(line) for line in lines]
        for i in range(len(lines) - LINES + 1):
            windows[tuple(keys[i : i + LINES])].append((path, i))
    for places in windows.values():
        if len(places) <= PLACES:
            for a, b in combinations(places, 2):
                if a[0] != b[0] or b[1] - a[1] >= LINES:  # a run does not repeat itself
                    yield a, b


def pairs_of(files):
    """[(lines shared, a place in one file, a place in the other)], the most shared first.

    Files are {path: lines}. Lines that are equal to the letter count even where their shape stands
    in too many places.
    """
    shared = defaultdict(set)
    for key in (lambda line: line.text, lambda line: line.shape):
        for a, b in shared_windows(files, key):
            shared[a[0], b[0]].add((a[1], b[1]))
    found = []
    for (one, other), windows in shared.items():
        i, j = min(windows)
        places = (f"{one}:{files[one][i].number}", f"{other}:{files[other][j].number}")
        lines = {i + k for i, _ in windows for k in range(LINES)}
        found.append((len(lines), *places))
    return sorted(found, key=lambda pair: (-pair[0], *pair[1:]))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--worst", type=int, default=0, help="print this many pairs")
    parser.add_argument("--at-most", type=int, help="fail when there are more")
    options = parser.parse_args(arguments)
    found = pairs_of({str(path): lines_of(path) for path in files_in(options.folder)})
    for lines, one, other in found[: options.worst]:
        print(f"{lines:4d} lines  {one}  {other}")
    print(f"{len(found)} pairs of files share {LINES} or more lines of the same shape")
    return int(options.at_most is not None and len(found) > options.at_most)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
