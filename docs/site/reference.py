"""The pages of the reference, one per public module: signatures, docstrings and the op table.

Each name stands where its path is shortest, with its signature, its docstring and a link to its
source: the row of the table for an op, the line of the file for what is written in Python. Other
places of the same object only say where that is.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import types
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import rushlight

ROOT = Path(__file__).resolve().parents[2]

# Modules by area, in the order of the site; the last area takes what no other names.
AREAS = {
    "Tensors": "rushlight rushlight.functional rushlight.special rushlight.linalg rushlight.fft",
    "Networks": "rushlight.nn rushlight.nn.* rushlight.optim rushlight.optim.*",
    "Gradients": "rushlight.autograd rushlight.autograd.* rushlight.func rushlight.func.*",
    "Data and files": "rushlight.utils.data rushlight.utils.data.* rushlight.serialization "
    "rushlight.serialization.* rushlight.hub rushlight.storage",
    "Probability": "rushlight.distributions rushlight.distributions.* rushlight.random "
    "rushlight.quasirandom",
    "Devices": "rushlight.cuda rushlight.cuda.* rushlight.cpu rushlight.cpu.* rushlight.amp "
    "rushlight.amp.* rushlight.accelerator rushlight.backends rushlight.backends.*",
    "Programs": "rushlight.compiler rushlight.compiler.* rushlight.jit rushlight.jit.* "
    "rushlight.export rushlight.export.* rushlight.fx rushlight.fx.* rushlight.onnx "
    "rushlight.onnx.* rushlight.library rushlight.ops",
    "Several processes": "rushlight.distributed rushlight.distributed.* "
    "rushlight.multiprocessing rushlight.multiprocessing.*",
    "Looking inside": "rushlight.profiler rushlight.profiler.* rushlight.doctor "
    "rushlight.doctor.* rushlight.config rushlight.testing rushlight.testing.*",
    "Everything else": "*",
}
EXAMPLES_BEGIN = """import math
import rushlight as rl
from rushlight import nn, optim
from rushlight.nn import functional as F"""
LEFT_OUT = ("rushlight.as_torch", "rushlight.version", "rushlight.return_types")
SHOWN_LINES = 12  # of a value that is no function and no class


def modules() -> Iterator[types.ModuleType]:
    """Public modules, those with short names first."""
    names = ["rushlight"]
    for found in pkgutil.walk_packages(rushlight.__path__, "rushlight.", onerror=lambda _: None):
        if not any(part.startswith("_") for part in found.name.split(".")):
            if not found.name.startswith(LEFT_OUT):
                names.append(found.name)
    for name in sorted(names, key=lambda n: (n.count("."), n)):
        try:
            yield importlib.import_module(name)
        except ImportError:  # needs a package that is not here (tensorboard)
            continue


def is_ours(value: Any, module: str) -> bool:
    """Not what a module imports for its own use."""
    home = getattr(value, "__module__", "")
    if isinstance(value, types.ModuleType) or home in ("typing", "rushlight._names.missing"):
        return False
    if isinstance(value, type) or callable(value):
        return str(getattr(value, "__module__", None) or "rushlight").startswith("rushlight")
    return type(value).__module__.startswith("rushlight")


def public_names(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    for name in sorted(set(getattr(module, "__all__", None) or dir(module))):
        if name.startswith("_") or name == "annotations":
            continue
        value = getattr(module, name, None)
        if value is not None and is_ours(value, module.__name__):
            yield name, value


def op_rows() -> dict[str, str]:
    """`csrc/ops/copy/cat.yaml#L2` by the names of ops."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "csrc" / "ops").rglob("*.yaml")):
        where = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if row := re.match(r"- func: (\w+)", line):
                where = f"{path.relative_to(ROOT).as_posix()}#L{number}"
                found.setdefault(row[1], where)
            elif alias := re.match(r" +alias: \[(.*)\]", line):
                for name in alias[1].split(","):
                    found.setdefault(name.strip(), where)
    return found


def source_of(value: Any) -> str | None:
    """`rushlight/nn/modules/linear.py#L12`, for what is written in Python."""
    value = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
    try:
        path = Path(inspect.getsourcefile(value) or "").resolve().relative_to(ROOT)
        return f"{path.as_posix()}#L{inspect.getsourcelines(value)[1] or 1}"
    except (TypeError, OSError, ValueError):
        return None


def escaped(text: str) -> str:
    """Text that is no Markdown: only code in backticks stays what it is."""
    parts = re.split(r"(``[^`]+``|`[^`\n]+`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\*_\[\]<>{}$|#`~^:]|^ *(?:[-+]|\d+[.)])(?= ))", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?m)^\\( *)(\d+)([.)])", r"\1\2\\\3", parts[i])
    return "".join(parts)


def block(language: str, text: str) -> str:
    return f"````{language}\n{text}\n````"


SECTION = re.compile(
    r"(Arguments|Attributes|Returns|Raises|Shape|Differs from PyTorch|Example):(?: (.*))?$"
)


def to_markdown(doc: str | None) -> str:
    """A docstring's paragraphs: sections as lists, examples and what is indented as code."""
    said = []
    # An example may have several paragraphs, and is one block.
    text = re.sub(r"\n\n(?=    >>> )", "\n", inspect.cleandoc(doc or ""))
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if lines and (section := SECTION.match(lines[0])):
            said.append(of_section(section[1], section[2] or "", lines[1:]))
        elif paragraph.lstrip().startswith(">>>"):
            said.append(block("pycon", inspect.cleandoc(paragraph)))
        elif any(line.startswith("  ") for line in lines):
            at = next(i for i, line in enumerate(lines) if line.startswith("  "))
            said += [escaped("\n".join(lines[:at])), block("text", "\n".join(lines[at:]))]
        else:
            said.append(escaped(paragraph))
    return "\n\n".join(filter(None, said))


def of_section(title: str, first: str, lines: list[str]) -> str:
    """Arguments and attributes as lists, examples as code, the others as a sentence."""
    if title == "Example":
        return block("pycon", inspect.cleandoc("\n" + "\n".join(lines)))
    text = inspect.cleandoc("\n".join([first, *lines]))
    if title not in ("Arguments", "Attributes"):
        return f"**{title}:** {escaped(' '.join(text.split()))}"
    items = []
    for line in text.splitlines():
        name = re.match(r"([\w, ]+?)( \([^)]*\))?: (.*)", line)
        if name and not line.startswith(" "):
            items.append(f"- **{escaped(name[1])}**{escaped(name[2] or '')}: {escaped(name[3])}")
        else:
            items.append(("  " if items else "- ") + escaped(line.strip()))
    return f"**{title}:**\n\n" + "\n".join(items)


def signature(value: Any) -> str:
    try:
        shown = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    shown = re.sub(r": '([^']*)'", r": \1", shown)
    shown = re.sub(r"-> '([^']*)'", r"-> \1", shown)
    return re.sub(r"<([\w.]+)[^<>]*>", r"\1", shown).replace("\n", " ")


def directive(kind: str, title: str, body: Iterable[str], *, options: str = "", ticks: int) -> str:
    fence = "`" * ticks
    inside = "\n\n".join(filter(None, body))
    return f"{fence}{{py:{kind}}} {title}\n{options}\n{inside}\n{fence}"


class Pages:
    def __init__(self) -> None:
        self.rows = op_rows()
        self.first: dict[int, str] = {}  # the place of an object that has been described
        self.kept: list[Any] = []  # lets no id be used twice

    def link(self, name: str, value: Any) -> str:
        if where := source_of(value):
            return f"[source](source:{where})"
        if where := self.rows.get(name) or self.rows.get(name.rstrip("_")):
            return f"[row of the op table](source:{where})"
        return ""

    def member(self, name: str, value: Any) -> str:
        """A method or property within its class."""
        link = self.link(name, value)
        if isinstance(value, property) or inspect.isdatadescriptor(value):
            return directive("property", name, [to_markdown(value.__doc__), link], ticks=5)
        target = getattr(value, "__func__", value)
        return directive("method", name + signature(target),
                         [to_markdown(target.__doc__), link], ticks=5)  # fmt: skip

    def of_class(self, name: str, value: type) -> str:
        members = []
        for member, found in sorted(vars(value).items()):
            made = getattr(found, "__func__", found)
            told = callable(made) or isinstance(found, property) or inspect.isdatadescriptor(found)
            if not member.startswith("_") and told and not isinstance(found, type):
                members.append(self.member(member, found))
        doc = value.__doc__ if "__doc__" in vars(value) else None
        body = [to_markdown(doc), self.link(name, value), *members]
        return directive("class", name + signature(value), body, ticks=6)

    def entry(self, name: str, value: Any) -> str:
        if isinstance(value, type):
            return self.of_class(name, value)
        if callable(value):
            body = [to_markdown(value.__doc__), self.link(name, value)]
            return directive("function", name + signature(value), body, ticks=6)
        text = "\n".join(repr(value).splitlines()[:SHOWN_LINES])[:400]
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
        return directive("data", name, [block("text", text)], ticks=6)

    def page(self, module: types.ModuleType) -> str | None:
        entries, elsewhere = [], []
        for name, value in public_names(module):
            place = f"{module.__name__}.{name}"
            simple = isinstance(value, (int, str, float, tuple, list, dict, set))
            if not simple and id(value) in self.first:
                elsewhere.append((name, self.first[id(value)]))
                continue
            self.first[id(value)] = place
            self.kept.append(value)
            entries.append(self.entry(name, value))
        if not entries:
            return None
        head = f"# {module.__name__}\n\n{to_markdown(module.__doc__)}\n\n"
        head += f"```{{py:currentmodule}} {module.__name__}\n```\n\n"
        text = head + "\n\n".join(entries)
        if elsewhere:
            same = ", ".join(f"{{py:obj}}`{n} <{first}>`" for n, first in elsewhere)
            text += f"\n\n## Described elsewhere\n\n{same}\n"
        return text


def area_of(name: str) -> str:
    def fits(pattern: str) -> bool:
        return name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))

    return next(area for area, names in AREAS.items() if any(map(fits, names.split())))


def pages() -> dict[str, str]:
    """The text of each page by its path on the site."""
    made: dict[str, str] = {}
    lists: dict[str, list[str]] = {area: [] for area in AREAS}
    writer = Pages()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names are public as well
        for module in modules():
            text = writer.page(module)
            if text is not None:
                lists[area_of(module.__name__)].append(module.__name__)
                made[f"reference/{module.__name__}.md"] = text
    index = "# Reference\n\nEvery public name, by module. Examples run as they stand, after\n\n"
    index += block("python", EXAMPLES_BEGIN) + "\n"
    for area, names in lists.items():
        index += f"\n## {area}\n\n```{{toctree}}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
    made["reference/index.md"] = index
    return made
