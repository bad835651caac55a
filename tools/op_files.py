"""Lists the files that name an operator: what somebody who adds such a one has to write or touch.

    python tools/op_files.py log_softmax igamma     the files of these ops, and how many
    python tools/op_files.py --over                 the ops that have more than their class allows

A file names an op when it defines it or keeps it in a list; calling it is no part of adding it:

- the table (*.yaml): the file with the op's row;
- C++ and CUDA: a function or kernel of the op's name, or of one that begins with it (`igamma_cpu`),
  is defined; the name is a whole string; or the name of the op's block or functor (`SpecialErfcx`,
  `Erfcx`) stands anywhere but in a call: `UnaryFn::Exp` as a function's first argument,
  `functors::Exp{}(x)`;
- Python: a module defines a function or variable of the op's name, or the name is a whole string.

Comments do not count, nor do OVER_THE_OPS, folders that are written over the ops as a
user's program is: an op is complete without them. Of the folders csrc, codegen and rushlight
everything else does; of the tests, those do that must be complete over kernels and functors. The
other tests choose their cases, and the op's row in tests/ops and what is recorded in tests/oracle
are its tests' data. Files that a tool of this repository writes (they say so in their first lines)
are left out: nobody touches them by hand.
"""

import argparse
import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "codegen"))
from emit_ops import is_reduction  # noqa: E402
from schema import load_all  # noqa: E402

FOLDERS = ("csrc", "codegen", "rushlight")
OVER_THE_OPS = (
    "csrc/frontend/", "rushlight/distributed/tensor/", "rushlight/doctor/", "rushlight/nested/",
    "rushlight/onnx/",
)  # fmt: skip
COMPLETE_TESTS = ("tests/test_nvrtc_functors.py", "tests/test_nvrtc_kernels.py")
CPP = (".cpp", ".h", ".cu")
LIMITS = {"pointwise": 4, "reduction": 4, "nn": 8}

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.S)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
# A kernel; `Tensor& name(` at the start of a line, where the formatter puts what is not inside of a
# function or class; an entry of a device's table, `void (*name)(`.
DEFINED = re.compile(
    r"__global__ void(?:\s+__launch_bounds__\([^)]*\))?\s+(\w+)\("
    r"|^(?!return\b)[a-zA-Z_][\w:<>,&* \[\]]*?[\w>&*]\s+(\w+)\("
    r"|^ +\w[\w ]*\(\*(\w+)\)\(",
    re.M,
)
WORD = re.compile(r"\b[A-Z]\w*")
# An enumerator that is handed to a loop, a functor that is applied at once.
CALLED = re.compile(r"\(\w+Fn::(\w+)\b|\bfunctors::(\w+)(?:<[^<>;]*>)?\{")


class Op:
    """An op of the table: all rows of one name."""

    def __init__(self, rows, longer):
        self.rows, self.longer = rows, longer
        names = {n for row in rows for n in (*row.names, *(p for _, p, _ in row.places))}
        self.names = {n.strip("_") for n in names}
        self.starts = tuple(n + "_" for n in self.names)
        # Overloads and parts (MaxDim, Max) have blocks of their own.
        self.blocks = {r.struct for r in rows} | {k.functor for r in rows for k in r.kernels}
        self.tables = {row.family for row in rows}

    def is_named(self, word):
        """The op's name, a form of it (exp_, exp_out) or something that begins with it, unless
        another op's name is a better match."""
        word = word.strip("_")
        if word in self.names:
            return True
        if not word.startswith(self.starts):
            return False
        others = (o for name in self.names if word.startswith(name) for o in self.longer[name])
        return not any(word == other or word.startswith(other + "_") for other in others)

    @property
    def kind(self):
        """The class whose limit holds for it, or None: composites and views have none."""
        if any(row.pointwise for row in self.rows):
            return "pointwise"
        if any(is_reduction(row) for row in self.rows):
            return "reduction"
        return None


def table(root):
    """name -> Op, for every op and alias."""
    paths = sorted((root / "csrc" / "ops").glob("*/*.yaml"))
    by_name = {}
    for row in load_all(paths):
        by_name.setdefault(row.name, []).append(row)
    bare = {name.strip("_") for rows in by_name.values() for r in rows for name in r.names}
    longer = {n: sorted(o for o in bare if o.startswith(n + "_")) for n in bare}
    for rows in by_name.values():
        for row in rows:
            for _, public, _ in row.places:
                longer.setdefault(public.strip("_"), [])
    return {alias: Op(rows, longer) for rows in by_name.values() for r in rows for alias in r.names}


@functools.cache
def tracked(root):
    """The repository's files; those that are new count, those that are gone do not."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(n for n in set(names) if (root / n).is_file())


def is_written_by_a_tool(text):
    return re.search(r"written by (tools|codegen)/|by tools/\w+\.py", text[:400], re.I) is not None


class Words:
    """What a file names: functions that it defines, whole strings, and capitalised words."""

    def __init__(self, defined, strings, blocks):
        self.defined, self.strings, self.blocks = set(defined), set(strings), set(blocks)


def cpp_words(text):
    text = COMMENT.sub(lambda m: m[1] or "", text)
    strings = STRING.findall(text)
    # The instance of a kernel: "rush::ctc_alpha<", "rush::folds::Sum".
    strings += [w for s in strings for w in re.findall(r"\brush::(?:\w+::)*(\w+)", s)]
    code = STRING.sub('""', text)
    defined = [m[m.lastindex] for m in DEFINED.finditer(code)]
    called = [m.span(m.lastindex) for m in CALLED.finditer(code)]
    blocks = [m[0] for m in WORD.finditer(code) if m.span() not in called]
    return Words(defined, strings, [*blocks, *(s for s in strings if WORD.fullmatch(s))])


def python_words(text):
    module = ast.parse(text)
    nodes = list(ast.walk(module))
    parts = {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}  # of f-strings
    strings = [
        n.value
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in parts
    ]
    defined = [n.name for n in module.body if isinstance(n, ast.FunctionDef)]
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            names = (n for target in statement.targets for n in ast.walk(target))
            defined += [n.id for n in names if isinstance(n, ast.Name)]
    strings += [w for s in strings for w in re.findall(r"\brush::(?:\w+::)*(\w+)", s)]
    # Lists of functors are written "Norm1 Norm2".split(), too.
    blocks = [w for s in strings for w in s.split() if WORD.fullmatch(w)]
    return Words(defined, strings, blocks)


@functools.cache
def repository(root):
    """path -> Words, of the files that count."""
    found = {}
    for name in tracked(root):
        path = root / name
        counts = name.split("/")[0] in FOLDERS and not name.startswith(OVER_THE_OPS)
        counts = counts or name in COMPLETE_TESTS
        if not counts or path.suffix not in (*CPP, ".py"):
            continue
        text = path.read_text()
        if not is_written_by_a_tool(text):
            found[name] = (cpp_words if path.suffix in CPP else python_words)(text)
    return found


def files_of(op, root=ROOT):
    """The files that name an op of the table, sorted."""
    found = []
    for name in tracked(root):
        if name.endswith(".yaml") and name.startswith("csrc/ops/"):
            if Path(name).stem in op.tables:
                found.append(name)
    for name, words in repository(root).items():
        in_cpp = not name.endswith(".py") or name in COMPLETE_TESTS
        if (
            any(op.is_named(w) if in_cpp else w.strip("_") in op.names for w in words.defined)
            or any(w.strip("_") in op.names for w in words.strings)
            or (in_cpp and op.blocks & words.blocks)
        ):
            found.append(name)
    return sorted(found)


def kind_of(op, files):
    """As Op.kind; an op of csrc/ops/nn that a CUDA kernel is written for is an `nn` op."""
    starts = ("csrc/cuda/kernels/", "csrc/ops/nn/")
    if all(any(f.startswith(start) for f in files) for start in starts):
        return "nn" if op.kind is None else op.kind
    return op.kind


def over(root=ROOT):
    """(name, class, files) of the ops over their limit."""
    found = []
    for name, op in table(root).items():
        if name != op.rows[0].name:
            continue  # an alias
        files = files_of(op, root)
        kind = kind_of(op, files)
        if kind and len(files) > LIMITS[kind]:
            found.append((name, kind, files))
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", help="names of the table, or aliases")
    parser.add_argument("--over", action="store_true", help="list the ops over their limit")
    args = parser.parse_args(argv)
    known = table(ROOT)
    for name in args.ops:
        if name not in known:
            parser.error(f"'{name}' is no op of the table")
        files = files_of(known[name])
        kind = kind_of(known[name], files)
        limit = f", {kind}: at most {LIMITS[kind]}" if kind else ""
        print(f"{name}: {len(files)} files{limit}", *files, sep="\n    ")
    for name, kind, files in over() if args.over else ():
        print(f"{name}: {len(files)} files, {kind}: at most {LIMITS[kind]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
