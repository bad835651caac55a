"""Print what pyproject.toml asks for, one per line: requirements.py build run test ..."""

import pathlib
import sys

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def requirements(groups):
    root = pathlib.Path(__file__).resolve().parent.parent
    table = tomllib.loads((root / "pyproject.toml").read_text())
    project = table["project"]
    known = {
        "build": table["build-system"]["requires"],
        "run": project["dependencies"],
        **project["optional-dependencies"],
    }
    return [line for group in groups for line in known[group]]


if __name__ == "__main__":
    print(*requirements(sys.argv[1:]), sep="\n")
