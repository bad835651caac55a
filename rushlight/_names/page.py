"""The page that says which names of PyTorch's are there, docs/compatibility.md, as installed."""

from __future__ import annotations

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
    """What the page says of a name, which may begin with torch. or rushlight."""
    name = re.sub(r"^(torch|rushlight)\.", "", name)
    wanted = {name, "." + name.removeprefix("Tensor.").lstrip(".")}
    said = []
    for item in re.split(r"\n(?=- |#|\n)", page):
        if item.startswith("- **") and wanted & set(re.findall(r"`([^`]+)`", item)):
            said.append(" ".join(item.split("**")[1].split()))
    absent = f"{name}: not there. " + "; ".join(said)
    return absent if said else f"{name}: not among the names that are missing"
