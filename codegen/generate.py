"""Writes the glue that follows from the op table: C++ forms, bindings, kernel lists, stubs.

    python codegen/generate.py --table csrc/ops/*/*.yaml --out build/generated [--list]

With --list it only prints the paths it would write. A file is written only when its text has
changed, so that nothing is compiled again without need.
"""

import argparse
import sys
from pathlib import Path

import emit_bindings
import emit_folds
import emit_frontend
import emit_ops
import emit_places
import emit_pointwise
import emit_special
import emit_stubs
import emit_table
import emit_torch
from schema import TableError, load_all


def outputs(tables) -> dict[str, str]:
    """Path relative to the output folder -> text."""
    rows = load_all(tables)
    families = sorted({row.family for row in rows})
    files = {"ops/ops.h": emit_ops.ops_header(rows)}
    for family in families:
        own = [row for row in rows if row.family == family]
        files[f"ops/{family}.inc"] = emit_ops.Family(family, own).text()
        if own[0].own_header:
            files[f"ops/{family}_ops.h"] = emit_ops.family_header(family, own)
    files["ops/registry_table.cpp"] = emit_ops.registry_table(families, rows)
    files.update(emit_pointwise.outputs(rows))
    files.update(emit_special.outputs(rows))
    files.update(emit_folds.outputs(rows))
    files.update(emit_frontend.outputs(rows))
    files.update(emit_bindings.outputs(rows))
    files.update(emit_places.outputs(rows))
    files.update(emit_stubs.outputs(rows))
    files.update(emit_torch.outputs(rows))
    files.update(emit_table.outputs(rows))
    return files


def write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="*", default=[], help="the yaml files of the table")
    parser.add_argument("--out", required=True, type=Path, help="the folder to write to")
    parser.add_argument("--list", action="store_true", help="print the outputs, write nothing")
    args = parser.parse_args(argv)
    try:
        files = outputs(args.table)
    except TableError as e:
        print(f"codegen: {e}", file=sys.stderr)
        return 1
    if args.list:
        print("\n".join(files))
        return 0
    for path, text in files.items():
        write(args.out / path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
