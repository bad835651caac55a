"""rushlight/_places/<place>.py: the names that a module of the package has from the op table."""

import ast
from pathlib import Path

from row import TableError
from row_keys import PLACES

HEADER = "# Generated from the op table by codegen/generate.py; edit the rows instead.\n"
PACKAGE = Path(__file__).resolve().parent.parent / "rushlight"
# Modules whose functions over private ops (`through`) are exported by their rows. Those of
# nn.functional and of the package itself have a list by topic, with functions of no row.
PACKAGES = ("fft", "linalg", "special")


def definitions(place):
    """Function -> the module of rushlight/<place> that defines it. A module with an __all__ is for
    another place: linalg/_old_names.py has functions of the package itself."""
    found = {}
    for path in sorted((PACKAGE / place).glob("_[!_]*.py")):
        body = ast.parse(path.read_text()).body
        if any(isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__" for n in body):
            continue
        functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
        found |= dict.fromkeys(functions, f"rushlight.{place}.{path.stem}")
    return found


def imports(place, rows):
    """Public name -> (module, the name there)."""
    names = {
        public: ("rushlight._C", op) for row in rows for p, public, op in row.places if p == place
    }
    if place not in PACKAGES:
        return names
    defined = definitions(place)
    for row in rows:
        for public in row.through:
            module, _, name = public.rpartition(".")
            if module != place:
                continue
            if name not in defined:
                raise TableError(f"{row.where}: python: no file rushlight/{place}/_*.py defines "
                                 f"the function '{name}'")  # fmt: skip
            names[name] = (defined[name], name)
    return names


def place_module(place, rows) -> str:
    names = imports(place, rows)
    lines = [HEADER + f'"""What {place} has of the op table, and functions over private ops."""\n']
    lines += [
        f"from {module} import {own} as {name}"
        for name, (module, own) in sorted(names.items(), key=lambda item: (item[1][0], item[0]))
    ]
    listed = "".join(f"    {name!r},\n" for name in sorted(names))
    return "\n".join(lines) + f"\n\n__all__ = [\n{listed}]\n"


def outputs(rows) -> dict[str, str]:
    places = sorted({*PLACES, *PACKAGES} - {"top", "private"})
    return {
        f"rushlight/_places/{place.replace('.', '_')}.py": place_module(place, rows)
        for place in places
    }
