"""Writes rushlight.lua, a binding for LuaJIT: the C interface from rushlight.h, and a function for
each operator of ops.json.

    python make_binding.py "$(python -c 'import rushlight; print(rushlight.__path__[0])')" .
"""

import json
import re
import sys
from pathlib import Path

RUNTIME = Path(__file__).with_name("runtime.lua")


def declarations(header: str) -> str:
    """The header without what only compilers read: comments, conditions, extern "C"."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    text = text.replace('extern "C" {', "", 1).strip()
    return text.removesuffix("}").strip()


def functions(table: dict) -> list[str]:
    """A line for each operator: its name, and the types of the arguments of its overloads."""
    overloads: dict[str, list[list[str]]] = {}
    for op in table["ops"]:
        if op["form"] != "out":
            overloads.setdefault(op["name"], []).append([a["type"] for a in op["args"]])
    lines = []
    for name, rows in overloads.items():
        kinds = ", ".join("{" + ", ".join(f'"{t}"' for t in row) + "}" for row in rows)
        lines.append(f'define("{name}", {{{kinds}}})')
    return lines


def main(package: Path, folder: Path) -> None:
    header = (package / "include" / "rushlight.h").read_text()
    table = json.loads((package / "share" / "ops.json").read_text())
    text = RUNTIME.read_text()
    text = text.replace("@DECLARATIONS@", declarations(header))
    text = text.replace("@LIBRARY@", str(package / "lib" / "librushlight.so"))
    text = text.replace("-- @FUNCTIONS@", "\n".join(functions(table)))
    (folder / "rushlight.lua").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
