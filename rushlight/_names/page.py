"""The page that says which names of PyTorch's are there, docs/compatibility.md, as installed."""

from __future__ import annotations

import functools
import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def read_page() -> str | None:
    """Its text: from the package, or from the checkout that the package lies in."""
    for folder in (_PACKAGE, _PACKAGE.parent):
        path = folder / "docs" / "compatibility.md"
        if path.is_file():
            return path.read_text()
    return None


def entries(page: str, name: str) -> str:
    """What the page says of a name, which may begin with torch. or rushlight.; whether it is there,
    if it says nothing."""
    name = re.sub(r"^(torch|rushlight)\.", "", name)
    wanted = {name, "." + name.removeprefix("Tensor.").lstrip(".")}
    said = []
    for item in re.split(r"\n(?=- |#|\n)", page):
        if item.startswith("- **") and wanted & set(re.findall(r"`([^`]+)`", item)):
            said.append(" ".join(item.split("**")[1].split()))
    return f"{name}: not there. " + "; ".join(said) if said else f"{name}: {looked_up(name)}"


def looked_up(name: str) -> str:
    """The same of a name that the page does not have, as most."""
    import rushlight

    if name.startswith("."):
        name = f"Tensor{name}"
    try:
        found = functools.reduce(getattr, name.split("."), rushlight)
    except AttributeError as error:
        return f"not there. {error}"
    absent = getattr(getattr(found, "__spec__", None), "origin", "") == "absent"
    return f"not there. {found.__doc__}" if absent else "there"
