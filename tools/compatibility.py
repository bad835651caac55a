"""Writes docs/compatibility.md: which names of PyTorch's are there.

    python tools/compatibility.py           # write the page
    python tools/compatibility.py --check   # say whether it is up to date

The names stand in tools/pytorch_names.txt, by how widely public programs use them.
"""

import ast
import functools
import importlib
import pathlib
import sys
import textwrap
import warnings
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"

# Where a name stands on the page, by how it begins; the first that fits.
AREAS = {
    "Tensor": "Tensor.",
    "nn.functional": "torch.nn.functional.",
    "nn": "torch.nn.",
    "optim": "torch.optim.",
    "autograd and func": ("torch.autograd.", "torch.func."),
    "utils.data": "torch.utils.data.",
    "utils": "torch.utils.",
    "distributions": "torch.distributions.",
    "cuda, amp, backends": ("torch.cuda.", "torch.amp.", "torch.backends.", "torch.accelerator.",
                            "torch.mps.", "torch.xpu.", "torch.mtia.", "torch.cpu."),
    "distributed": "torch.distributed.",
    "jit, compile, export": ("torch.jit.", "torch.compiler.", "torch.fx.", "torch.onnx.",
                             "torch.export.", "torch.library.", "torch._dynamo.",
                             "torch._inductor.", "torch._functorch.", "torch._higher_order_ops."),
    "linalg, fft, special, sparse": ("torch.linalg.", "torch.fft.", "torch.special.",
                                     "torch.sparse.", "torch.nested.", "torch.masked.",
                                     "torch.ao.", "torch.quantization."),
    "multiprocessing, profiler": ("torch.multiprocessing.", "torch.profiler."),
    "torch": "torch.",
}  # fmt: skip

HEAD = """# Compatibility with PyTorch

*Written by `python tools/compatibility.py`; a test checks that it is up to date.*

Which names of PyTorch 2.13 are there, out of the {count} that 168 public programs use. Tier 1 is
95 % of all uses, tier 2 goes to 99 %, tier 3 is the tail. [porting.md](porting.md) says how
programs written for PyTorch run, and what behaves otherwise.

| area | tier 1 | tier 2 | tier 3 |
| --- | --- | --- | --- |
"""

NOTES = """
Names that exist and do less than in PyTorch:

- `compile`: Python runs as it is, with its pointwise ops fused, or replayed in mode "frozen";
  `_dynamo.*` has nothing to set.
- `jit`: `trace` and `script` give programs, in a file format of our own.
- `mps`, `xpu`, `mtia`: questions are answered (`is_available()`), work raises.
- `cuda`: without a GPU questions are answered and switches do no harm; work raises.
- `backends.*`: switches are kept and change nothing on the CPU.

What is not there stands below, by area: why, what to use instead, and the names. One that "can be
imported" says the same when it is used, so programs that only import it run.
`python -m rushlight names NAME` looks a name up in this page.
"""
NO_REASON = "not in Rushlight, and nothing stands for it: please open an issue if you need it"
WIDTH = 110


def read_names():
    lines = (ROOT / "tools" / "pytorch_names.txt").read_text().splitlines()
    return [(int(line[0]), line[2:]) for line in lines if line[0] != "#"]


def area_of(name):
    return next(area for area, starts in AREAS.items() if name.startswith(starts))


def instances():
    """Objects for names that are attributes of instances, such as Optimizer.param_groups."""
    import rushlight as rl

    parameter = rl.nn.Parameter(rl.zeros(1))
    optimizer = rl.optim.SGD([parameter], lr=0.1)

    class Doubling(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    made = {
        "torch.nn.Module": rl.nn.Module(),
        "torch.optim.Optimizer": optimizer,
        "torch.optim.lr_scheduler.LRScheduler": rl.optim.lr_scheduler.StepLR(optimizer, 1),
        "torch.autograd.Function": Doubling.apply(parameter).grad_fn,
    }
    if hasattr(rl.utils, "data"):
        data = rl.utils.data
        made["torch.utils.data.DataLoader"] = data.DataLoader([1, 2])
    return made


def names_in_source(name):
    """Whether a name of utils.tensorboard is defined; the package it needs may be missing."""
    folder = ROOT / "rushlight" / "utils" / "tensorboard"
    defined = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                defined.add(node.name)
    return all(part in defined or part in ("summary",) for part in name.split(".")[3:])


def find(name, made):
    """The object of a name; raises AttributeError."""
    import rushlight as rl

    owner, _, last = name.rpartition(".")
    if owner in made and hasattr(made[owner], last):
        return getattr(made[owner], last)
    found, path = rl, "rushlight"
    if name.startswith("Tensor."):
        return getattr(rl.Tensor, last)
    for part in name.split(".")[1:]:
        path += "." + part
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ImportError:
                raise AttributeError(name) from None
    return found


def status(name, made):
    """'there', 'raises' or 'missing'."""
    if name.startswith("torch.utils.tensorboard"):
        return "there" if names_in_source(name) else "missing"
    try:
        found = find(name, made)
    except (AttributeError, NotImplementedError, RuntimeError):
        return "missing"
    return "raises" if getattr(found, "__unavailable__", None) else "there"


def short(name):
    return "." + name[7:] if name.startswith("Tensor.") else name.removeprefix("torch.")


def why(name, made):
    """What programs are told about a name that is not there."""
    from rushlight._names.absent import METHODS, explained, why_missing

    if name.startswith("Tensor."):
        attribute = name.removeprefix("Tensor.")
        found = next((r for r, names in METHODS.items() if attribute in names.split()), None)
        return explained(found) if found else NO_REASON
    try:
        return getattr(find(name, made), "__unavailable__", None) or NO_REASON
    except (AttributeError, NotImplementedError, RuntimeError):
        return why_missing(name.removeprefix("torch.")) or NO_REASON


def paragraph(reason, how, names):
    """One reason with its names, as an item of a list that no line of which is long."""
    title = reason + (" (can be imported)" if how == "raises" else "")
    listed = " ".join(f"`{short(name)}`" for name in names)
    fill = functools.partial(textwrap.fill, width=WIDTH, subsequent_indent="  ",
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return fill(f"- **{title}**") + "\n" + fill(listed, initial_indent="  ") + "\n"


def area_text(area, absent):
    """A section: absent is [(tier, name, status, reason)]."""
    text = f"\n## {area}: what is not there\n"
    for tier in (1, 2, 3):
        groups = defaultdict(list)
        for of, name, how, reason in absent:
            if of == tier:
                groups[reason, how].append(name)
        if groups:
            count = sum(map(len, groups.values()))
            text += f"\nTier {tier}, {count} name{'s' if count > 1 else ''}:\n\n"
            text += "".join(paragraph(*key, names) for key, names in sorted(groups.items()))
    return text


def page():
    """The page as text."""
    made, names = instances(), read_names()
    counts = defaultdict(lambda: [0, 0])  # (area, tier) -> there, all
    absent = defaultdict(list)  # area -> those that are not there
    for tier, name in names:
        area, how = area_of(name), status(name, made)
        counts[area, tier][0] += how == "there"
        counts[area, tier][1] += 1
        if how != "there":
            absent[area].append((tier, name, how, why(name, made)))

    def cell(keys):
        there, total = (sum(counts[k][i] for k in keys) for i in (0, 1))
        return f"{there} of {total}" if total else "-"

    text = HEAD.format(count=len(names))
    for area in AREAS:
        cells = (cell([(area, tier)]) for tier in (1, 2, 3))
        text += f"| {area} | {' | '.join(cells)} |\n"
    cells = (cell([(area, tier) for area in AREAS]) for tier in (1, 2, 3))
    text += f"| **all** | {' | '.join(cells)} |\n{NOTES}"
    return text + "".join(area_text(area, absent[area]) for area in AREAS if absent[area])


def main(arguments):
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT))
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(
        "docs/compatibility.md is out of date: run python tools/compatibility.py", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
