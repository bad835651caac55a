"""Draws what the tables of benchmarks/results say: speed beside PyTorch's, one picture per page.

Tables hold a ratio per row: of times (below one: we are faster), or of speeds (above one). Here all
become speeds. Pictures and page are written when the site is laid out, so they follow the results.
"""

from __future__ import annotations

import io
import re
import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
# Page of results, title, column of the ratio, whether the ratio is one of speeds.
PAGES = (
    ("table1", "Training six models on the CPU", "ratio", True),
    ("table1_cuda", "Training six models on a GPU", "ratio", True),
    ("transformers_small", "Transformers on the CPU", "to torch", False),
    ("cuda_language_models", "Language models on a GPU", "to torch", False),
    ("inference", "Latency of one sample", "ratio", False),
    ("tiny", "Ops on four elements", "to torch", False),
    ("large", "Ops on large tensors", "ratio", False),
    ("nn", "Layers and losses", "ratio", False),
    ("compile", "Chains of ops, compiled", "to torch compiled", True),
    ("autograd", "Recording and backward", "to torch", False),
    ("rnn", "Recurrent layers", "ratio", False),
    ("optim", "Steps of optimisers", "ratio", False),
)
MOST_BARS = 32
FASTER, SLOWER = "#3b7dd8", "#d9822b"


def rows_of(text: str, column: str) -> list[tuple[str, float]]:
    """(what, ratio) of all tables of a page that have the column."""
    found, at, section = [], None, ""
    sections = len(re.findall(r"(?m)^## ", text)) > 1
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split(" | ")]
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("|"):
            at = None
        elif at is None:
            at = cells.index(column) if column in cells else -1
        elif 0 <= at < len(cells) and (number := re.match(r"\d[\d.,]*", cells[at])):
            what = cells[0].strip("`") + (f" ({section})" if sections and section else "")
            found.append((what, float(number[0].replace(",", ""))))
    # "add : copy" is a ratio of two rows and no speed
    return [(what, ratio) for what, ratio in found if ratio > 0 and " : " not in what]


def machine_of(text: str) -> str:
    found = re.search(r"(?m)^Machine: (.*?)\.?$", text)
    return found[1] if found else ""


def picture(title: str, speeds: list[tuple[str, float]]) -> str:
    """An SVG: a bar per row, or for many rows how many lie where."""
    values = [speed for _, speed in speeds]
    if len(speeds) > MOST_BARS:
        figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
        edges = [2 ** (k / 4) for k in range(-8, 21)]
        _, _, bars = ax.hist([min(max(v, edges[0]), edges[-1]) for v in values], edges)
        for left, bar in zip(edges, bars, strict=False):
            bar.set_color(FASTER if left >= 1 else SLOWER)
        ax.set_ylabel("cases")
    else:
        figure, ax = plt.subplots(figsize=(7, 0.8 + 0.24 * len(speeds)), layout="constrained")
        names = [what for what, _ in speeds]
        places = range(len(names))
        colors = [FASTER if v >= 1 else SLOWER for v in values]
        ax.barh(places, [v - 1 for v in values], left=1, color=colors)
        ax.set_yticks(places, names, fontsize=7)
        ax.invert_yaxis()
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.axvline(1, color="gray", linewidth=0.8)
    ax.set_xlabel("speed, PyTorch's is 1")
    ax.set_title(title, fontsize=10)
    out = io.StringIO()
    with plt.rc_context({"svg.hashsalt": title}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    return out.getvalue()


def pages() -> dict[str, str]:
    """The page and its pictures by their paths on the site."""
    text = (
        "# Benchmarks in pictures\n\nDrawn from the tables of results when this site was built: "
        "how fast we are where PyTorch is 1. Longer bars to the right are better, orange ones are "
        "where PyTorch is faster. Each picture links to its table, which says how it was made.\n"
    )
    made = {}
    for name, title, column, of_speeds in PAGES:
        path = RESULTS / f"{name}.md"
        results = path.read_text() if path.exists() else ""
        speeds = [(what, r if of_speeds else 1 / r) for what, r in rows_of(results, column)]
        if not speeds:
            continue
        made[f"benchmarks/pictures/{name}.svg"] = picture(title, speeds)
        values = [speed for _, speed in speeds]
        text += (
            f"\n## {title}\n\n[![{title}](pictures/{name}.svg)](results/{name}.md)\n\n"
            f"{len(values)} cases, the median {statistics.median(values):.2f}, "
            f"{sum(v >= 1 for v in values)} of them no slower. {machine_of(results)}\n"
        )
    return {"benchmarks/pictures.md": text, **made}
