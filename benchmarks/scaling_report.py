"""The tables of scaling_models.py.

`efficiency` is the step without communication over DDP's, the median over rounds.

`hidden` is what averaging during backward saves, of what it could save. It saves the difference of
two steps of DDP, taken within a round: with the averages behind backward, and as it is; so waiting
for the slowest rank and copying are in both. It could save what ready times allow: buckets whose
gradients are ready at measured moments of backward are averaged one after the other, each as long
as its average takes behind backward; what then ends after backward cannot be hidden. A difference
of two steps tells nothing about something far shorter than either: where ready times allow less
than SHORT of the step without communication, there is no figure.

The prediction of the largest number of ranks knows the model on smaller ones alone. The machine is
measured on all of them, without the model: probes that compute, and that go through a shared cache
and through memory, and the all_reduce. The step without communication is a sum of such probes'
work, fitted on one process and on the smaller numbers of them. What DDP adds to a step is a
constant (buffers, hooks, waiting for the slowest) and a share of the time that an all_reduce of the
model's bytes takes by the fitted link, fitted on the smaller numbers of ranks. Nothing of these is
negative (scaling_fit.py). The spread is that of predictions from each round by itself. Beside it:
the same, with the step without communication as it was measured on as many processes.
"""

import json
import os
import statistics
from pathlib import Path

from peer import markdown, write_report
from scaling_fit import PROBES, added, parts, step

SHORT = 0.05
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


def compared(predicted, measured):
    return [f"{predicted * 1e3:.1f}", f"{measured * 1e3:.1f}", f"{predicted / measured - 1:+.0%}"]


class Study:
    """What was measured so far."""

    def __init__(self, args):
        self.args = args
        self.network = {"rushlight": {}, "torch": {}}
        self.machine = {}  # number of processes -> probe -> seconds of each turn
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
                       percent(self.ratios(name, "alone", "ddp", n)), *self.overlap(name, n),
                       "", "", ""]  # fmt: skip
                if theirs := self.figures(name, "torch ddp", n):
                    row[9:] = [ms(theirs), "", ratio(self.ratios(name, "torch ddp", "ddp", n))]
                if own := self.ratios(name, "torch alone", "torch ddp", n):
                    row[10] = percent(own)
                rows.append([*row, str(len(model["rounds"]))])
        head = ["model", "batch per rank", "ranks", "DDP (ms)", "without communication (ms)",
                "efficiency", "averaged after backward (ms)",
                "all_reduce / what could be hidden of it, of the step", "hidden",
                "PyTorch-gloo DDP (ms)", "its efficiency", "PyTorch : rushlight",
                "rounds"]  # fmt: skip
        return "## Training\n\n" + markdown(head, rows)

    def overlap(self, name, ranks):
        """Cells: the step without overlap, how long communication is, and how much was hidden."""
        after, more = self.figures(name, "after", ranks), self.models[name]["more"]
        if not after or not more:
            return [ms(after) if after else "", "", ""]
        alone = statistics.median(self.figures(name, "alone", ranks))
        shares = f"{more['communication'] / alone:.0%} / {more['allowed'] / alone:.0%}"
        if more["allowed"] < SHORT * alone:
            return [ms(after), shares, "too little to tell"]
        saved = zip(after, self.figures(name, "ddp", ranks), strict=True)
        return [ms(after), shares, percent([(a - b) / more["allowed"] for a, b in saved])]

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

    def medians(self, name, way, numbers):
        return {
            n: statistics.median(found) for n in numbers if (found := self.figures(name, way, n))
        }

    def noise(self, name, numbers):
        """Of steps without communication on these numbers of ranks, as multiples of one rank's."""
        rounds = self.models[name]["rounds"]
        found = [[r["alone", n] / r["alone", 1] for r in rounds] for n in numbers]
        return statistics.mean(spread(f) / statistics.median(f) for f in found)

    def known_machine(self):
        """Medians of the probes, by number of processes."""
        return {
            n: {probe: statistics.median(seconds) for probe, seconds in probes.items()}
            for n, probes in sorted(self.machine.items())
        }

    def probes(self):
        rows = [
            [str(n), *(f"{seconds[p] * 1e3:.3f} ± {spread(self.machine[n][p]) / seconds[p]:.0%}"
                       for p in PROBES)]
            for n, seconds in self.known_machine().items()
        ]  # fmt: skip
        head = ["processes", *(f"{p} (ms)" for p in PROBES)]
        return "## Probes\n\n" + markdown(head, rows) if rows else ""

    def added(self, name, numbers):
        """What communication adds to a step, by number of ranks."""
        found = {}
        for n in numbers:
            pairs = zip(self.figures(name, "ddp", n), self.figures(name, "alone", n), strict=True)
            found[n] = statistics.median(ddp - alone for ddp, alone in pairs)
        return found

    def prediction(self):
        *less, last = self.args.ranks
        known, machine = self.network["rushlight"], self.known_machine()
        if len(less) < 2 or any("link" not in known.get(n, {}) for n in self.args.ranks):
            return ""
        links = {n: known[n]["link"][:2] for n in self.args.ranks}
        rows = []
        for name, model in self.models.items():
            found = parts(machine, self.medians(name, "alone", [1, *less]), self.noise(name, less))
            alone = step(machine, found, last)
            more = added(links, model["bytes"], self.added(name, less), last)
            measured = self.medians(name, "alone", [last])[last]
            whole = self.medians(name, "ddp", [last])[last]
            shares = " / ".join(f"{found[p] / sum(found.values()):.0%}" for p in PROBES)
            told, *rest = compared(alone + more, whole)
            band = spread(self.single_predictions(name, links, less, last)) / (alone + more)
            rows.append([name, shares, *compared(alone, measured), f"{told} ± {band:.0%}", *rest,
                         f"{(measured + more) / whole - 1:+.0%}"])  # fmt: skip
        told = "; ".join(
            f"{n} ranks {known[n]['link'][0] * 1e6:.1f} us, {known[n]['link'][1] / 1e9:.2f} GB/s, "
            f"fit within {known[n]['link'][2]:.0%}"
            for n in self.args.ranks
        )
        head = ["model", " / ".join(PROBES), f"without communication on {last} (ms)",
                "measured (ms)", "difference", f"DDP on {last} (ms)", "measured (ms)",
                "difference", "with the measured step without communication"]  # fmt: skip
        return f"## Prediction\n\nLinks: {told}.\n\n{markdown(head, rows)}"

    def single_predictions(self, name, links, less, last):
        """From each round alone: how far they lie apart is what the noise of a round does."""
        machine, nbytes, found = self.known_machine(), self.models[name]["bytes"], []
        for r in self.models[name]["rounds"]:
            alone = {n: r["alone", n] for n in (1, *less)}
            work = parts(machine, alone, self.noise(name, less))
            more = {n: r["ddp", n] - r["alone", n] for n in less}
            found.append(step(machine, work, last) + added(links, nbytes, more, last))
        return found

    def pages(self):
        load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
        placed = "the scheduler places threads" if self.args.free else "processors of its own"
        intro = (
            f"`benchmarks/scaling_models.py`: {self.args.threads} threads per rank, {placed}; "
            "medians over rounds, and half the distance of the quartiles. Load at the end: "
            f"{load} on {os.cpu_count()} processors, {siblings()}.\n"
        )
        tables = [self.all_reduce(), self.training(), self.ways(), self.probes(), self.prediction()]
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
                json.dumps(
                    {"network": self.network, "machine": self.machine, "models": models}, indent=1
                )
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
