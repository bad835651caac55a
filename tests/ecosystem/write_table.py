"""Writes docs/ecosystem.md from what `make ecosystem` found:

    python tests/ecosystem/write_table.py FOLDER
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "ecosystem.md"
TEXT = """# Packages that are tested

<!-- Written by tests/ecosystem/write_table.py, which `make ecosystem` runs. -->

Packages written for PyTorch run [as they are](porting.md). `make ecosystem` installs those below from the network, where there is
no PyTorch (a `torch` of metadata alone satisfies what they require), runs short uses of each, and compares losses,
gradients, predictions, texts and files with what PyTorch {torch} computed from the same weights and data: to four digits in float32,
to eight in float64, exactly for whole numbers and texts. What random numbers take part in is compared as a statistic.
The uses are in `tests/ecosystem/uses`, the figures in `tests/ecosystem/figures`; `tests/ecosystem/record.py` records them.

{passed} of {count} uses give PyTorch's figures.

| package | version | what is run | |
| --- | --- | --- | --- |
{rows}

`make test-clients` runs accelerate, Lightning, transformers and Ray on two processes: [distributed.md](distributed.md).
{failures}"""


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it ended without a word"


def main(results):
    rows, failures, passed, count = [], [], 0, 0
    for path in sorted(HERE.glob("figures/*.json")):
        recorded = json.loads(path.read_text())
        found = results / path.name
        facts = json.loads(found.read_text()) if found.exists() else {"failures": {"import": "not run"}}
        good = 0
        for use in recorded["uses"]:
            reason = facts["failures"].get("import") or facts["failures"].get(use)
            different = facts.get("differences", {}).get(use)
            if reason or different is None:
                failures.append(f"- **{path.stem}**, {use}: `{last_line(reason or 'not compared')}`")
            elif different:
                failures.append(f"- **{path.stem}**, {use}: {len(different)} figures differ: `{different[0][:300]}`")
            else:
                good += 1
        total = len(recorded["uses"])
        passed, count = passed + good, count + total
        versions = recorded["packages"]
        rows.append(f"| {', '.join(versions)} | {', '.join(versions.values())} | {' '.join(recorded['about'].split())} | "
                    f"{'all' if good == total else good} of {total} |")  # fmt: skip
    said = "\n## What differs\n\n" + "\n".join(failures) + "\n" if failures else ""
    text = TEXT.format(torch="2.13", passed=passed, count=count, rows="\n".join(rows), failures=said)
    PAGE.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
