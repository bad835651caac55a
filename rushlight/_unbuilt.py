"""What `import rushlight` says where the compiled core cannot be loaded."""

import platform
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["explained"]

_WHAT_TO_DO = "run `make build` in the checkout, or `pip install .` to install the package"


def explained(error, folder=None):
    """An ImportError that says what is missing and what to run; the error if all is there."""
    folder = Path(__file__).parent if folder is None else Path(folder)
    built = sorted(p.name for p in folder.glob("_C.*") if p.suffix in (".so", ".pyd"))
    if not built:
        text = f"the compiled core is not in {folder}: {_WHAT_TO_DO}"
    elif not any(name == "_C" + suffix for name in built for suffix in EXTENSION_SUFFIXES):
        text = (
            f"the core in {folder} was built for {' and '.join(map(_python_of, built))}, this is "
            f"{platform.python_implementation()} {platform.python_version()} on "
            f"{platform.machine()}. Use that interpreter, or build it for this one: {_WHAT_TO_DO}"
        )
    elif not (folder / "lib" / "librushlight.so").exists():
        text = (
            f"{folder / 'lib' / 'librushlight.so'} is missing, which belongs to {built[0]}: "
            f"{_WHAT_TO_DO}"
        )
    else:
        return error
    return ImportError(f"rushlight: {text}", name="rushlight._C", path=str(folder))


def _python_of(name):
    """'_C.cpython-312-x86_64-linux-gnu.so' -> 'CPython 3.12 on x86_64'; others as they are."""
    found = re.match(r"_C\.cpython-(\d)(\d+)(t?)-(\w+?)-", name)
    if not found:
        return name
    free = " (free-threaded)" if found[3] else ""
    return f"CPython {found[1]}.{found[2]}{free} on {found[4]}"
