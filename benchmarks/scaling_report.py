"""The tables of scaling_models.py.

`efficiency` is the step without communication over DDP's, the median over rounds.

`hidden` is how much of the communication costs no time, of what could be hidden: buckets whose
gradients are ready at measured moments of backward are averaged one after the other, each as long
as such an all_reduce takes alone; what then ends after backward cannot be hidden.

The prediction of the largest number of ranks knows the smaller ones alone: what DDP adds to a step
is a constant and a share of the time that an all_reduce of the model's bytes takes by the fitted
link; both are fitted on the smaller numbers of ranks, and neither is negative. Latency and
bandwidth of the link are drawn on in a straight line. To that comes the step without communication:
drawn on in a straight line, too, or as it was measured there, which needs no ranks that talk.
"""

import json
import os
import statistics
from pathlib import Path

from peer import markdown, write_report

BARRED = ("resnet50", "mobilenet_v2", "gnmt_v2")  # 85% at 8 ranks


def spread(values):
    """Half the distance between the quartiles."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def ms(values):
    middle = statistics.median(values)
    return f"{middle * 1e3:.1f} ± {spread(values) / middle:.0%}"


def percent(values):
    return f"{statistics.median(values):.0%} ± {spread(values) * 100:.0f}"


def ratio(values):
    return f"{statistics.median(values):.2f} ± {spread(values):.2f}"


def drawn_on(points, ranks):
    """The straight line through the last two points."""
    (a, at_a), (b, at_b) = sorted(points.items())[-2:]
    return at_b + (at_b - at_a) * (ranks - b) / (b - a)


def fitted(xs, ys):
    """Constant and slope of the line nearest to the points, of those that are not negative."""
    n, x, y = len(xs), sum(xs), sum(ys)
    xx, xy = sum(a * a for a in xs), sum(a * b for a, b in zip(xs, ys, strict=True))
    if (spare := n * xx - x * x) > 0:
        slope = (n * xy - x * y) / spare
        constant = (y - slope * x) / n
        if slope >= 0 and constant >= 0:
            return constant, slope
    ways = [(max(0.0, y / n), 0.0), (0.0, max(0.0, xy / xx))]
    return min(ways, key=lambda way: sum(
        (way[0] + way[1] * a - b) ** 2 for a, b in zip(xs, ys, strict=True)))  # fmt: skip


def ring(ranks, nbytes, latency, per_byte):
    """Seconds of an all_reduce."""
    return 2 * (ranks - 1) * (latency + nbytes / ranks * per_byte)


class Study:
    """What was measured so far."""

    def __init__(self, args):
        self.args = args
        self.network = {"rushlight": {}, "torch": {}}
        self.models = {}  # name -> bytes, rounds (seconds by way and ranks) and more

    def add(self, name, nbytes, rounds, more):
        self.models[name] = {"bytes": nbytes, "rounds": rounds, "more": more}

    def figures(self, name, way, ranks):
        found = [r.get((way, ranks)) for r in self.models[name]["rounds"]]
        return found if found and None not in found else []

    def ratios(self, name, above, below, ranks):
        pairs = zip(self.figures(name, above, ranks), self.figures(name, below, ranks),
                    strict=False)  # fmt: skip
        return [a / b for a, b in pairs]

    # The tables.

    def all_reduce(self):
        rows = []
        for n, found in sorted(self.network["rushlight"].items()):
            theirs = self.network["torch"].get(n, {}).get("sizes", {})
            for size, seconds in found["sizes"].items():
                there = theirs.get(size)
                rows.append([str(n), f"{int(size) >> 10} KiB", f"{seconds * 1e3:.3f}",
                             f"{there * 1e3:.3f}" if there else "",
                             f"{there / seconds:.2f}" if there else ""])  # fmt: skip
        head = ["ranks", "tensor", "rushlight (ms)", "gloo (ms)", "gloo : rushlight"]
        return "## all_reduce\n\n" + markdown(head, rows)

    def training(self):
        from scaling_rank import BATCHES

        rows = []
        for name, model in self.models.items():
            for n in self.args.ranks:
                row = [name, str(BATCHES[name]), str(n), ms(self.figures(name, "ddp", n)),
                       ms(self.figures(name, "alone", n)),
                       percent(self.ratios(name, "alone", "ddp", n)), *self.overlap(model, n),
                       "", "", ""]  # fmt: skip
                if theirs := self.figures(name, "torch ddp", n):
                    row[8:] = [ms(theirs), "", ratio(self.ratios(name, "torch ddp", "ddp", n))]
                if own := self.ratios(name, "torch alone", "torch ddp", n):
                    row[9] = percent(own)
                rows.append([*row, str(len(model["rounds"]))])
        head = ["model", "batch per rank", "ranks", "DDP (ms)", "without communication (ms)",
                "efficiency", "averaged after backward (ms)", "hidden", "PyTorch-gloo DDP (ms)",
                "its efficiency", "PyTorch : rushlight", "rounds"]  # fmt: skip
        return "## Training\n\n" + markdown(head, rows)

    def overlap(self, model, ranks):
        more, rounds = model["more"], model["rounds"]
        if ranks != max(self.args.ranks) or not more:
            return ["", ""]
        added = statistics.median(r["ddp", ranks] - r["alone", ranks] for r in rounds)
        hidden = more["communication"] - added
        share = f"{hidden / more['allowed']:.0%}" if more["allowed"] > 1e-4 else ""
        return [f"{more['after'] * 1e3:.1f}", share]

    def ways(self):
        """The same on the largest number of ranks in other ways."""
        n, rows = max(self.args.ranks), []
        names = {"other ddp": "the scheduler places threads" if not self.args.free else "bound"}
        names |= {name: name for name, _ in self.args.also}
        for name in self.models:
            for key, words in names.items():
                if not (found := self.figures(name, key, n)):
                    continue
                basis = "other alone" if key == "other ddp" else "alone"
                shown = percent(self.ratios(name, basis, key, n))
                times = ratio(self.ratios(name, key, "ddp", n))
                rows.append([name, words, ms(found), shown, times])
        head = ["model", "way", f"DDP step of {n} ranks (ms)", "efficiency", "of the first way"]
        return "## Other ways\n\n" + markdown(head, rows) if rows else ""

    def predicted(self, name):
        """What is added to a step on the largest number of ranks, from what smaller ones showed."""
        *less, last = self.args.ranks
        nbytes = self.models[name]["bytes"]
        links = {n: self.network["rushlight"][n]["link"] for n in less}
        latency = max(0.0, drawn_on({n: link[0] for n, link in links.items()}, last))
        per_byte = drawn_on({n: 1 / link[1] for n, link in links.items()}, last)
        times, added = [], []
        for n, link in links.items():
            pairs = zip(self.figures(name, "ddp", n), self.figures(name, "alone", n), strict=True)
            times.append(ring(n, nbytes, link[0], 1 / link[1]))
            added.append(statistics.median(ddp - alone for ddp, alone in pairs))
        constant, share = fitted(times, added)
        return constant + share * ring(last, nbytes, latency, per_byte)

    def prediction(self):
        *less, last = self.args.ranks
        known = self.network["rushlight"]
        if len(less) < 2 or any("link" not in known.get(n, {}) for n in self.args.ranks):
            return ""
        rows = []
        for name, model in self.models.items():
            added = self.predicted(name)
            shown = []
            for r in model["rounds"]:
                drawn = drawn_on({n: r["alone", n] for n in less}, last) + added
                shown.append([drawn, r["alone", last] + added, r["ddp", last]])
            row = [name, *(ms([times[i] for times in shown]) for i in range(3))]
            for i in range(2):
                away = [times[i] / times[2] - 1 for times in shown]
                row.append(f"{statistics.median(away):+.0%} ± {spread(away) * 100:.0f}")
            rows.append(row)
        links = "; ".join(
            f"{n} ranks {known[n]['link'][0] * 1e6:.1f} us, {known[n]['link'][1] / 1e9:.2f} GB/s, "
            f"fit within {known[n]['link'][2]:.0%}"
            for n in self.args.ranks
        )
        head = [f"predicted step of {last} ranks (ms)", "with its own step without communication "
                "(ms)", "measured (ms)", "difference", "difference of the second"]  # fmt: skip
        table = markdown(["model", *head], rows)
        return f"## Prediction\n\nLinks: {links}.\n\n{table}"

    def pages(self):
        load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
        placed = "the scheduler places threads" if self.args.free else "processors of its own"
        intro = (
            f"`benchmarks/scaling_models.py`: {self.args.threads} threads per rank, {placed}; "
            "medians over rounds, and half the distance of the quartiles. Load at the end: "
            f"{load} on {os.cpu_count()} processors, {siblings()}.\n"
        )
        tables = [self.all_reduce(), self.training(), self.ways(), self.prediction()]
        return [intro, *(table for table in tables if table)]

    def text(self):
        return "\n".join(self.pages())

    def write(self):
        if self.args.json:
            models = {
                name: model | {"rounds": [
                    {f"{way} on {n}": seconds for (way, n), seconds in r.items()}
                    for r in model["rounds"]]}
                for name, model in self.models.items()
            }  # fmt: skip
            Path(self.args.json).write_text(
                json.dumps({"network": self.network, "models": models}, indent=1)
            )
        if self.args.page:
            Path(self.args.page).write_text(self.text())
        if self.args.write:
            title = "Training of six models on several ranks"
            write_report("scaling_models", title, *self.pages())


def siblings():
    try:
        first = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").read_text()
    except OSError:
        return "of unknown cores"
    return "two per core" if {",", "-"} & set(first) else "one per core"
