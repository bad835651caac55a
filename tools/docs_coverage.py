"""Counts the public names whose docstrings teach: python tools/docs_coverage.py [--missing AREA]

A name is documented when

- its summary says something: more than the words of its name and arguments;
- every argument of its signature is described (or, for classes, those of __init__);
- an example calls it, shows what comes out, and sets an option where there are some (those that
  many names share, such as `out` and `device`, aside).

Aliases, in-place forms and methods that name a function have the example of what they stand for.
Constants, exceptions, names that only say that something is absent and old names of something else
are not counted.
"""

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import inspect
import math
import pydoc
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import rushlight as rl  # noqa: E402

AREAS = {
    "nn.functional": "rushlight.nn.functional.",
    "nn.init": "rushlight.nn.init.",
    "nn.utils": "rushlight.nn.utils.",
    "nn": "rushlight.nn.",
    "optim": "rushlight.optim.",
    "data": "rushlight.utils.data.",
    "linalg": "rushlight.linalg.",
    "fft": "rushlight.fft.",
    "special": "rushlight.special.",
    "distributions": "rushlight.distributions.",
    "autograd and func": ("rushlight.autograd.", "rushlight.func."),
}
# Arguments that need no words: what is passed on, and private ones.
SELF_EXPLAINING = {"self", "cls"}
# Options that are the same for every name which has them: an example need not set one of these.
MINOR = frozenset(
    """out device dtype layout pin_memory requires_grad memory_format generator
inplace foreach fused capturable differentiable last_epoch sparse_grad storage_offset validate_args
retain_graph pin_memory persistent volatile""".split()
)
OLD_OR_ABSENT = r"Not (available|there)|Removed:|The old (name|form) of|.* by its old name"
STOP_WORDS = frozenset(
    """a an the of in to and or is are as by for with on at its it self
input""".split()
)
MODULES = """rushlight rushlight.nn.functional rushlight.nn rushlight.nn.init rushlight.nn.utils
rushlight.nn.utils.rnn rushlight.nn.utils.parametrize rushlight.nn.utils.parametrizations
rushlight.nn.utils.prune rushlight.optim rushlight.optim.lr_scheduler rushlight.optim.swa_utils
rushlight.utils.data rushlight.linalg rushlight.fft rushlight.special rushlight.distributions
rushlight.autograd rushlight.autograd.functional rushlight.autograd.graph rushlight.func
rushlight.amp rushlight.signal rushlight.masked rushlight.config rushlight.testing
rushlight.random rushlight.serialization rushlight.profiler rushlight.compiler rushlight.jit
rushlight.export rushlight.fx rushlight.library rushlight.cuda rushlight.accelerator
rushlight.backends.cuda rushlight.backends.cudnn rushlight.distributed
rushlight.multiprocessing rushlight.hub rushlight.onnx rushlight.overrides
rushlight.utils.checkpoint rushlight.utils.benchmark rushlight.utils.safetensors""".split()


def example_names() -> dict[str, Any]:
    """What examples may use without importing it."""
    return {"rl": rl, "rushlight": rl, "nn": rl.nn, "F": rl.nn.functional, "optim": rl.optim,
            "math": math}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    """(name, object) of the public names, each where it is found first; methods of Tensor too."""
    seen: set[int] = set()
    for place, owner in owners():
        listed = getattr(owner, "__all__", None) if inspect.ismodule(owner) else None
        for name in sorted(set(listed or dir(owner))):
            value = inspect.getattr_static(owner, name, None)
            value = getattr(value, "__func__", value)
            value = getattr(owner, name, None) if inspect.ismodule(owner) else value
            absent = not hasattr(owner, name)  # attributes that say why they are not there
            if name.startswith("_") or absent or id(value) in seen or not is_counted(value):
                continue
            seen.add(id(value))
            yield f"{place}.{name}", value


def owners() -> Iterator[tuple[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES:
            yield name, importlib.import_module(name)
            if name == "rushlight":
                yield "rushlight.Tensor", rl.Tensor


def is_counted(value: Any) -> bool:
    if isinstance(value, type) and issubclass(value, BaseException):
        return False
    if not (inspect.isroutine(value) or isinstance(value, type)):
        return False
    module = str(getattr(value, "__module__", None) or "rushlight")
    doc = inspect.getdoc(value) or ""
    absent = re.match(OLD_OR_ABSENT, doc)
    helper = module == "rushlight._names.missing"  # modules import what answers for absent names
    return module.startswith("rushlight") and not absent and not helper


def is_op(value: Any) -> bool:
    """A function or method of the op table."""
    return inspect.isbuiltin(value) or inspect.ismethoddescriptor(value)


def area_of(name: str, value: Any) -> str:
    found = (area for area, start in AREAS.items() if name.startswith(start))
    return "ops" if is_op(value) else next(found, "the rest")


def parameters(value: Any) -> list[inspect.Parameter]:
    if isinstance(value, enum.EnumMeta):  # its members are what one uses
        return []
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (p for p in found if p.name not in SELF_EXPLAINING and not p.name.startswith("_"))
    return [p for p in named if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def stands_for_another(doc: str) -> bool:
    text = " ".join(doc.split())
    forms = r"The in-place form of `|Another name of `|, in memory of its own\."
    place = re.fullmatch(r"See (rushlight(?:\.[a-z]\w*)+)\.", text)  # a function, for a method
    told = inspect.getdoc(pydoc.locate(place[1])) or "" if place else ""
    return bool(re.search(forms, text)) or ">>> " in told or bool(re.match(OLD_OR_ABSENT, told))


def words(text: str) -> set[str]:
    found = re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))
    return {w.rstrip("s") for w in found} - STOP_WORDS


def faults(name: str, value: Any) -> str:
    """What is missing, as text; empty where nothing is."""
    doc = inspect.getdoc(value) or ""
    said = [text for text in (summary_fault(name, value, doc), argument_fault(value, doc)) if text]
    if not stands_for_another(doc):
        said += filter(None, [example_fault(name, value, doc)])
    return "; ".join(said)


def summary_fault(name: str, value: Any, doc: str) -> str:
    first, *others = re.split(r"\n\s*\n", doc)
    # signatures of overloads stand before the summary
    summary = others[0] if others and re.match(r"\w+\(.*\)$", first.splitlines()[0]) else first
    known = words(name.rsplit(".", 1)[-1]).union(*(words(p.name) for p in parameters(value)))
    is_formula = bool(re.search(r"[-+*/^=<>@|(]", summary))
    if not summary:
        return "no summary"
    says_more = is_formula or bool(words(summary) - known)
    return "" if says_more else "the summary says what the name says"


def argument_fault(value: Any, doc: str) -> str:
    """Names before a colon in the list of arguments, or in backticks, are described."""
    listed = re.search(r"(?ms)^Arguments:\n(.*?)(?:^\S|\Z)", doc)
    items = re.sub(r"\n {8,}", " ", listed[1]) if listed else ""
    heads = re.findall(r"(?m)^ +([\w, ]+?)(?: \([^)]*\))?: ", items)
    told = set(re.findall(r"\w+", " ".join([*heads, *re.findall(r"`([^`]+)`", doc)])))
    left = [p.name for p in parameters(value) if p.name not in told]
    left = [name for name in left if name.rstrip("_") not in told]  # from_, as from is a keyword
    return f"arguments are not described: {', '.join(left)}" if left else ""


def example_fault(name: str, value: Any, doc: str) -> str:
    own = name.rsplit(".", 1)[-1]
    op = str(getattr(value, "__name__", own)).removeprefix("_special_")
    if ">>> " not in doc:
        return "no example"
    code = "\n".join(re.findall(r"(?m)^\s*(?:>>>|\.\.\.) ?(.*)$", doc))
    if not re.search(r"(?m)^\s*(?!>>>|\.\.\.)\S.*$", doc.split(">>> ", 1)[1].partition("\n")[2]):
        return "the example shows no result"
    same = {n for n in re.findall(r"rl\.(?:special\.)?(\w+)\(", code) if is_told_as(n, doc)}
    calls = {own, op, *same}  # special.psi has the docstring of digamma
    if not any(re.search(rf"\b{re.escape(called)}\b", code) for called in calls):
        return "the example does not call it"
    options = [p for p in parameters(value) if p.default is not p.empty and p.name not in MINOR]
    if options and not any(sets_an_option(value, called, code, options) for called in calls):
        return "the example shows only defaults"
    return ""


def is_told_as(name: str, doc: str) -> bool:
    return any(inspect.getdoc(getattr(m, name, None)) == doc for m in (rl, rl.special))


def sets_an_option(value: Any, own: str, code: str, options: list[inspect.Parameter]) -> bool:
    """Does a call of it give more than what has no default, or name an option?"""
    names = {p.name for p in options}
    required = sum(p.default is p.empty for p in parameters(value))
    for node in ast.walk(ast.parse(code.replace("\n...", "\n"))):
        if isinstance(node, ast.ClassDef):
            return True
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        if called != own:
            continue
        method = isinstance(node.func, ast.Attribute) and inspect.ismethoddescriptor(value)
        if any(k.arg in names or k.arg is None for k in node.keywords):
            return True
        if len(node.args) > required or (method and len(node.args) >= required > 0):
            return True
    return False


def examples(names: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """(name, text that doctest reads) of all docstrings, those of methods of classes too."""
    for name, value in names:
        members = vars(value).items() if isinstance(value, type) else ()
        for where, found in ((name, value), *((f"{name}.{k}", v) for k, v in members)):
            doc = inspect.getdoc(found) if where == name or inspect.isfunction(found) else None
            if doc and ">>> " in doc:
                yield where, doc[doc.index(">>> ") :] if doc.startswith(">>> ") else doc + "\n"


def count(names: Iterable[tuple[str, Any]]) -> dict[str, tuple[int, int]]:
    """Area -> (documented, all)."""
    counted: dict[str, tuple[int, int]] = {}
    for name, value in names:
        good, total = counted.get(area := area_of(name, value), (0, 0))
        counted[area] = (good + (not faults(name, value)), total + 1)
    return counted


def main(argv: list[str] | None = None, write: Callable[[str], Any] = print) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", metavar="AREA", help="list what is not documented there")
    args = parser.parse_args(argv)
    names = list(public())
    if args.missing:
        for name, value in names:
            if area_of(name, value) == args.missing and (said := faults(name, value)):
                write(f"{name}: {said}")
        return 0
    for area, (good, total) in sorted(count(names).items()):
        write(f"{area}: {good} of {total}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
