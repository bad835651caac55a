"""What table1.py found: rows as JSON, a table in Markdown and a picture."""

import json
import statistics

from peer import RESULTS, geometric_mean, machine, markdown

LABELS = {"rushlight": "rushlight", "torch": "PyTorch", "torch_last": "PyTorch, channels_last",
          "before": "before"}  # fmt: skip
# What tells two rows of one file apart; a new one replaces the one that agrees in all of these.
IDENTITY = ("model", "batch", "threads", "device", "dtype", "autocast", "graph")


def ratio(row, side):
    """Median over neighbouring turns of our speed to the side's; above one we are faster."""
    ours, theirs = row["sides"]["rushlight"], row["sides"][side]
    pairs = zip(ours["seconds"], theirs["seconds"], strict=False)
    return statistics.median(b / a for a, b in pairs)


def best_ratio(row, side):
    """The same of the best turns, which a busy machine disturbs least."""
    sides = row["sides"]
    return min(sides[side]["seconds"]) / min(sides["rushlight"]["seconds"])


def median(row, side):
    return statistics.median(row["sides"][side]["seconds"])


def spread(row, side):
    runs = row["sides"][side]["seconds"]
    if len(runs) < 2:
        return 0.0
    low, _, high = statistics.quantiles(runs, n=4)
    return (high - low) / 2 / median(row, side)


def measured(row):
    """The sides that ran, ours first."""
    return [side for side in row["sides"] if "seconds" in row["sides"][side]]


def peers(row):
    return [side for side in measured(row) if side != "rushlight"]


def speed_cell(row, side):
    if "error" in row["sides"][side]:
        return row["sides"][side]["error"][:60]
    per_second = row["items"] / median(row, side)
    return f"{per_second:,.1f} {row['unit']}/s ±{spread(row, side) * 100:.0f}%"


def cells(row):
    """One line: speeds, ratios, memory, first step, share of the limit."""
    out = [row["model"], str(row["batch"])]
    out += [speed_cell(row, side) for side in row["sides"]]
    ok = "rushlight" in measured(row)
    out.append(" / ".join(f"{ratio(row, s):.2f}" for s in peers(row)) if ok else "")
    out.append(" / ".join(f"{best_ratio(row, s):.2f}" for s in peers(row)) if ok else "")
    for key, unit in (("peak_bytes", 1e6), ("first_step", 1e-3)):
        known = [row["sides"][s].get(key) for s in measured(row)]
        out.append(" / ".join(f"{v / unit:,.0f}" for v in known if v))
    if row.get("flops") and row.get("peak_flops"):
        shares = [row["flops"] / median(row, s) / row["peak_flops"] for s in measured(row)]
        out.append(" / ".join(f"{share * 100:.0f}%" for share in shares))
    else:
        out.append("")
    return out


def header(sides):
    return ["model", "batch", *(LABELS[s] for s in sides), "ratio", "ratio of best turns",
            "peak memory, MB", "first step, ms", "share of the limit"]  # fmt: skip


def merge(name, rows):
    """The rows of results/<name>.json with these in place of older ones; written back."""
    path = RESULTS / f"{name}.json"
    old = json.loads(path.read_text())["rows"] if path.exists() else []

    def key(row):
        return tuple(row.get(k) for k in IDENTITY)

    new = {key(row) for row in rows}
    rows = [row for row in old if key(row) not in new] + rows
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    return rows


def setting_of(row):
    """The part of the identity that a table has in common."""
    parts = [f"{row['threads']} thread(s)", row["dtype"]]
    parts += [f"autocast to {row['autocast']}"] if row.get("autocast") else []
    parts += ["the whole step as a CUDA graph"] if row.get("graph") else []
    return ", ".join(parts)


def tables(rows):
    """A table for each setting, with its mean, versions and command."""
    text = []
    for setting in dict.fromkeys(map(setting_of, rows)):
        group = [row for row in rows if setting_of(row) == setting]
        sides = list(dict.fromkeys(s for row in group for s in row["sides"]))
        lines = []
        for row in group:
            row = row | {"sides": {s: row["sides"].get(s, {"error": ""}) for s in sides}}
            lines.append(cells(row))
        text += [f"## {setting}\n", markdown(header(sides), lines)]
        for side in [s for s in sides if s != "rushlight"]:
            good = [r for r in group if {side, "rushlight"} <= set(measured(r))]
            if good:
                mean = geometric_mean(ratio(r, side) for r in good)
                text.append(f"Geometric mean against {LABELS[side]}: {mean:.2f}.\n")
        versions = {v for r in group for v in [r.get("versions")] if v}
        text.append(f"Versions: {'; '.join(sorted(versions))}. Commands:\n")
        text.append("".join(f"    {c}\n" for c in dict.fromkeys(r["command"] for r in group)))
    return "\n".join(text)


def draw(name, rows):
    """results/<name>.png, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if "torch" in measured(r) and "rushlight" in measured(r)]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(9, 0.5 * len(rows) + 1.5))
    names = [f"{r['model']} (batch {r['batch']}, {setting_of(r)})" for r in rows]
    others = [s for s in LABELS if s != "rushlight" and any(s in measured(r) for r in rows)]
    for k, side in enumerate(others):
        places = [i + 0.8 * k / len(others) for i, r in enumerate(rows) if side in measured(r)]
        values = [ratio(r, side) for r in rows if side in measured(r)]
        bars = axes.barh(places, values, height=0.75 / len(others), label=f"to {LABELS[side]}")
        axes.bar_label(bars, [f"{v:.2f}" for v in values], padding=2)
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("throughput of Rushlight, relative; above one is faster")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=120)
    plt.close(figure)
    print(f"written: {RESULTS / name}.png")
