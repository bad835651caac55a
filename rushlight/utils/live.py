"""Curves and histograms of a training loop while it runs, in a notebook or in a terminal.

    plot = rushlight.utils.live.Plot("training")
    for step in range(1000):
        ...
        plot.add(loss=loss, accuracy=accuracy)
        plot.histogram("weights", layer.weight)

Notebooks draw it below the cell, terminals redraw it in place, and what is neither (a log file)
gets it once, at the end. Nothing but the standard library is needed, and IPython only in notebooks.
"""

from __future__ import annotations

import atexit
import html
import math
import sys
import time
import weakref
from typing import Any, TextIO

from rushlight.types import Self

__all__ = ["Plot"]

_COLORS = ("#4c78dd", "#e58a3c", "#2fa58c", "#d65f83", "#8f72d6", "#c2a11f")
_ANSI = ("\x1b[34m", "\x1b[33m", "\x1b[36m", "\x1b[31m", "\x1b[35m", "\x1b[32m")
_MOST = 4096  # points of a curve; beyond that every second one is left out
_BINS = 40


class _Curve:
    """Values by step; where there are too many, every second one goes."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.values: list[float] = []
        self.last = math.nan
        self._stride, self._seen = 1, 0

    def add(self, step: float, value: float) -> None:
        self.last = value
        self._seen += 1
        if (self._seen - 1) % self._stride:
            return
        self.steps.append(step)
        self.values.append(value)
        if len(self.values) >= _MOST:
            self.steps, self.values = self.steps[::2], self.values[::2]
            self._stride *= 2

    def points(self) -> list[tuple[float, float]]:
        """Those that can be drawn: not NaN or infinity."""
        pairs = zip(self.steps, self.values, strict=True)
        return [(s, v) for s, v in pairs if math.isfinite(v)]


def _number(value: Any) -> float:
    item = getattr(value, "item", None)
    if item is not None:
        value = item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"Plot.add: a value must be a number or a tensor of one element, got "
                        f"{type(value).__name__}")  # fmt: skip
    return float(value)


def _counts(values: Any) -> tuple[list[int], float, float]:
    """How many finite values lie in each of the bins, and the limits."""
    from rushlight import _C

    tensor = _C.as_tensor(values).detach().float().flatten()
    tensor = tensor[_C.isfinite(tensor)].cpu()
    if tensor.numel() == 0:
        return [], 0.0, 0.0
    low, high = tensor.min().item(), tensor.max().item()
    if low == high:
        low, high = low - 0.5, high + 0.5
    return [int(n) for n in _C.histc(tensor, _BINS, low, high).tolist()], low, high


def _short(value: float) -> str:
    return f"{value:.4g}"


# ---- drawings ----


def _bounds(points: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    return left, right if right > left else left + 1, low, high if high > low else low + 1


def _svg_curve(name: str, curve: _Curve, color: str, width: int = 360, height: int = 150) -> str:
    points = curve.points()
    title = f"{html.escape(name)}: {_short(curve.last)}"
    inside = ""
    if points:
        left, right, low, high = _bounds(points)
        places = " ".join(
            f"{40 + (s - left) / (right - left) * (width - 50):.1f},"
            f"{height - 20 - (v - low) / (high - low) * (height - 45):.1f}"
            for s, v in points[:: max(1, len(points) // 1000)]
        )
        inside = (
            f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{places}"/>'
            f'<text x="2" y="30" font-size="10">{_short(high)}</text>'
            f'<text x="2" y="{height - 20}" font-size="10">{_short(low)}</text>'
            f'<text x="40" y="{height - 4}" font-size="10">{_short(left)}</text>'
            f'<text x="{width - 8}" y="{height - 4}" font-size="10" text-anchor="end">'
            f"{_short(right)}</text>"
        )
    return (f'<svg width="{width}" height="{height}" fill="currentColor" role="img">'
            f'<text x="40" y="14" font-size="12">{title}</text>{inside}</svg>')  # fmt: skip


def _svg_histogram(name: str, counts: list[int], low: float, high: float, color: str) -> str:
    width, height, most = 360, 150, max(counts, default=1) or 1
    step = (width - 50) / max(len(counts), 1)
    bars = "".join(
        f'<rect x="{40 + i * step:.1f}" y="{height - 20 - n / most * (height - 45):.1f}" '
        f'width="{step * 0.9:.1f}" height="{n / most * (height - 45):.1f}" fill="{color}"/>'
        for i, n in enumerate(counts)
    )
    limits = (f'<text x="40" y="{height - 4}" font-size="10">{_short(low)}</text>'
              f'<text x="{width - 8}" y="{height - 4}" font-size="10" text-anchor="end">'
              f"{_short(high)}</text>") if counts else ""  # fmt: skip
    return (
        f'<svg width="{width}" height="{height}" fill="currentColor" role="img">'
        f'<text x="40" y="14" font-size="12">{html.escape(name)}</text>{bars}{limits}</svg>'
    )


def _braille(points: list[tuple[float, float]], columns: int, rows: int) -> list[str]:
    """Points as text, two by four in each character."""
    cells = [[0] * columns for _ in range(rows)]
    bits = ((0, 1, 2, 6), (3, 4, 5, 7))  # of a character of Unicode's braille, by column and row
    left, right, low, high = _bounds(points)
    before: tuple[int, int] | None = None
    for step, value in points:
        x = round((step - left) / (right - left) * (2 * columns - 1))
        y = round((high - value) / (high - low) * (4 * rows - 1))
        reached = range(min(y, before[1]), max(y, before[1]) + 1) if before else (y,)
        if before is not None and x - before[0] > 1:  # a straight line between far points
            for between in range(before[0] + 1, x):
                share = (between - before[0]) / (x - before[0])
                at = round(before[1] + share * (y - before[1]))
                cells[at // 4][between // 2] |= 1 << bits[between % 2][at % 4]
            reached = (y,)
        for at in reached:
            cells[at // 4][x // 2] |= 1 << bits[x % 2][at % 4]
        before = x, y
    return ["".join(chr(0x2800 + cell) for cell in row) for row in cells]


def _text_curve(name: str, curve: _Curve, color: str, columns: int) -> list[str]:
    end = "\x1b[0m" if color else ""
    points = curve.points()
    lines = [f"{color}{name}{end}: {_short(curve.last)}"]
    if points:
        _, _, low, high = _bounds(points)
        rows = _braille(points, columns - 11, 6)
        labels = [_short(high), *[""] * (len(rows) - 2), _short(low)]
        lines += [f"{label:>9} {color}{row}{end}" for label, row in zip(labels, rows, strict=True)]
    return lines


def _text_histogram(name: str, counts: list[int], low: float, high: float) -> list[str]:
    blocks = " ▁▂▃▄▅▆▇█"
    most = max(counts, default=1) or 1
    bars = "".join(blocks[math.ceil(8 * n / most)] for n in counts)
    return [f"{name}: {_short(low)} {bars} {_short(high)}"]


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    current = shell.get_ipython() if shell is not None else None
    return current is not None and "IPKernelApp" in current.config


class Plot:
    """Draws what it is told, at most every `every` seconds; also a with block.

    Arguments:
        title: stands above it.
        every: seconds between drawings.
        file: where text goes; the standard error by default.
    """

    def __init__(self, title: str = "", *, every: float = 0.5, file: TextIO | None = None) -> None:
        self.title = title
        self.every = every
        self._file = file if file is not None else sys.stderr
        self._curves: dict[str, _Curve] = {}
        self._histograms: dict[str, tuple[list[int], float, float]] = {}
        self._step = 0
        self._drawn_at = -math.inf
        self._rows = 0  # of the last drawing in a terminal
        self._display: Any = None
        self._closed = False
        self._notebook = _in_notebook()
        me = weakref.ref(self)

        def close() -> None:
            if (plot := me()) is not None:
                plot.close()

        self._at_exit = close
        atexit.register(self._at_exit)

    def add(self, *, step: float | None = None, **values: Any) -> None:
        """One more point of each curve that is named; steps are counted where none is given."""
        if self._closed:
            raise RuntimeError("Plot.add: the plot was closed")
        at = self._step if step is None else step
        for name, value in values.items():
            self._curves.setdefault(name, _Curve()).add(at, _number(value))
        self._step = int(at) + 1
        self._draw_in_time()

    def histogram(self, name: str, values: Any) -> None:
        """How the values of a tensor are spread, in place of the last ones of that name. It is
        computed only when it is drawn, so call it as often as you like."""
        if self._closed:
            raise RuntimeError("Plot.histogram: the plot was closed")
        if name not in self._histograms or time.monotonic() - self._drawn_at >= self.every:
            self._histograms[name] = _counts(values)
        self._draw_in_time()

    def _draw_in_time(self) -> None:
        if time.monotonic() - self._drawn_at >= self.every:
            self._drawn_at = time.monotonic()
            if self._notebook or self._file.isatty():
                self._draw()

    def _repr_html_(self) -> str:
        pictures = [
            _svg_curve(name, curve, _COLORS[i % len(_COLORS)])
            for i, (name, curve) in enumerate(self._curves.items())
        ]
        pictures += [
            _svg_histogram(name, *found, _COLORS[i % len(_COLORS)])
            for i, (name, found) in enumerate(self._histograms.items())
        ]
        title = f"<b>{html.escape(self.title)}</b><br>" if self.title else ""
        return f"<div>{title}{''.join(pictures)}</div>"

    def text(self, columns: int = 80, color: bool = False) -> str:
        """The drawing as text."""
        lines = [self.title] if self.title else []
        for i, (name, curve) in enumerate(self._curves.items()):
            lines += _text_curve(name, curve, _ANSI[i % len(_ANSI)] if color else "", columns)
        for name, found in self._histograms.items():
            lines += _text_histogram(name, *found)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def _draw(self) -> None:
        if self._notebook:
            from IPython.display import HTML, display

            shown = HTML(self._repr_html_())
            if self._display is None:
                self._display = display(shown, display_id=True)
            else:
                self._display.update(shown)
            return
        import shutil

        columns = min(shutil.get_terminal_size().columns, 100)
        lines = self.text(columns - 1, color=True).split("\n")
        up = f"\x1b[{self._rows}A" if self._rows else ""
        self._file.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        self._file.flush()
        self._rows = len(lines)

    def close(self) -> None:
        """Draws it a last time."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        if not self._curves and not self._histograms:
            return
        if self._notebook or self._file.isatty():
            self._draw()
        else:
            self._file.write(self.text() + "\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
