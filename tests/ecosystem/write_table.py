"""Writes docs/ecosystem.md from what `make ecosystem` found:

python tests/ecosystem/write_table.py FOLDER
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "ecosystem.md"
TEXT = """# Packages that are tested

<!-- Written by tests/ecosystem/write_table.py, which `make ecosystem` runs. -->

Packages written for PyTorch run [as they are](porting.md). `make ecosystem` installs those below
from the network where there is no PyTorch (a `torch` of metadata alone satisfies what they
require), runs short uses of each, and compares losses, gradients, predictions, texts and files with
what PyTorch 2.13 computed from the same weights and data: to four digits in float32, to eight in
float64, exactly for whole numbers and texts. What random numbers take part in is compared as a
statistic. The uses are in `tests/ecosystem/uses`, the figures in `tests/ecosystem/figures`;
`tests/ecosystem/record.py` records them.

{passed} of {count} uses give PyTorch's figures.

| package | version | what is run | uses |
| --- | --- | --- | --- |
{rows}

`make test-clients` runs accelerate, Lightning, transformers and Ray on two processes:
[distributed.md](distributed.md).
{failures}"""


def last_line(text):
    """What an exception said first: errors of scripts go on with the place in the source."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (said or lines or ["it ended without a word"])[-1][:300]


def verdicts(name, recorded, facts):
    """For each use what differs, in words; nothing where nothing does."""
    for use in recorded["uses"]:
        failure = facts["failures"].get("import") or facts["failures"].get(use)
        found = facts.get("differences", {}).get(use)
        if failure or found is None:
            yield f"- **{name}**, {use}: `{last_line(failure or 'not compared')}`"
        elif found:
            yield f"- **{name}**, {use}: {len(found)} figures differ: `{found[0][:300]}`"
        else:
            yield ""


def main(results):
    rows, failures, passed, count = [], [], 0, 0
    for path in sorted(HERE.glob("figures/*.json")):
        recorded, found = json.loads(path.read_text()), results / path.name
        not_run = {"failures": {"import": "not run"}}
        facts = json.loads(found.read_text()) if found.exists() else not_run
        said = list(verdicts(path.stem, recorded, facts))
        failures += filter(None, said)
        good, total = said.count(""), len(said)
        passed, count = passed + good, count + total
        versions, about = recorded["packages"], " ".join(recorded["about"].split())
        of = f"{'all' if good == total else good} of {total}"
        rows.append(f"| {', '.join(versions)} | {', '.join(versions.values())} | {about} | {of} |")
    rest = "\n## What differs\n\n" + "\n".join(failures) + "\n" if failures else ""
    text = TEXT.format(passed=passed, count=count, rows="\n".join(rows), failures=rest)
    PAGE.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
