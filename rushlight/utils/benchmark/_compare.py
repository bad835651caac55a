"""Compare: measurements side by side."""

from __future__ import annotations

from typing import Any

from rushlight.utils.benchmark._measurement import Measurement, select_unit

__all__ = ["Compare"]


class Compare:
    """A table: one row a sub_label, one column a description; tables by label and threads.

    Arguments:
        results: the measurements.

    Raises:
        ValueError: where one of them is no Measurement.

    Example:
        >>> from rushlight.utils.benchmark import Compare, Measurement, TaskSpec
        >>> old = TaskSpec("f(x)", label="f", sub_label="small", description="old")
        >>> new = TaskSpec("f(x)", label="f", sub_label="small", description="new")
        >>> Compare([Measurement(1, [0.004], old), Measurement(1, [0.002], new)]).print()
        [----------- f -----------]
                     |  old  |  new
        1 threads: ----------------
              small  |  4.0  |  2.0
        <BLANKLINE>
        Times are in milliseconds (ms).
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results = []
        self.extend_results(results)
        self._trim = self._colorize = self._highlight = False

    def extend_results(self, results: Any) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: expected a Measurement, got {type(result).__name__}")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows only the digits that the spread of the times allows."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours are not used."""
        self._colorize = True

    def highlight_warnings(self) -> None:
        """Marks times with a large spread by an asterisk."""
        self._highlight = True

    def print(self) -> None:
        """Prints the table."""
        print(str(self))

    def _cell(self, m, size):
        text = f"{m.median / size:.1f}"
        if self._trim:
            text = f"{float(f'{m.median / size:.{m.significant_figures}g}'):g}"
        return text + ("*" if self._highlight and m.has_warnings else "")

    def _table(self, label, results):
        unit, size = select_unit(min(m.median for m in results))
        columns = list(dict.fromkeys(m.description or "" for m in results))
        rows = {}
        for m in results:
            rows.setdefault((m.num_threads, m.sub_label or m.stmt), {})[m.description or ""] = m
        head = ["", *columns]
        body, threads = [], None
        for (count, name), found in rows.items():
            if count != threads:
                body.append([f"{count} threads:"])
                threads = count
            cells = [self._cell(found[c], size) if c in found else "" for c in columns]
            body.append([f"      {name}", *cells])
        full = [head, *(row for row in body if len(row) > 1)]
        widths = [max(len(row[i]) for row in full) for i in range(len(head))]
        widths[0] = max(widths[0], *(len(row[0]) for row in body))
        total = sum(widths) + 5 * len(columns)
        lines = [f"[{f' {label} ':-^{max(total - 2, len(label) + 2)}}]"]
        for row in (head, *body):
            if len(row) == 1:
                lines.append(row[0] + " " + "-" * max(total - len(row[0]) - 1, 0))
            else:
                cells = (f"{c:^{w}}" for c, w in zip(row[1:], widths[1:], strict=True))
                lines.append("  |  ".join([f"{row[0]:<{widths[0]}}", *cells]).rstrip())
        return "\n".join([*lines, "", f"Times are in {_WORDS[unit]}."])

    def __str__(self) -> str:
        groups = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.label or "", []).append(m)
        return "\n\n".join(self._table(label, results) for label, results in groups.items())


_WORDS = {
    "s": "seconds (s)",
    "ms": "milliseconds (ms)",
    "us": "microseconds (us)",
    "ns": "nanoseconds (ns)",
}
