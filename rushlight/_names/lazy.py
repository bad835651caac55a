"""Names of the package that are loaded when first used, to keep the import short."""

import functools
import importlib
import sys

from rushlight._names.missing import MissingNameError, removed, stand_ins


def lazy_getattr(name):
    """The package's __getattr__."""
    from rushlight._names.lazy_table import MODULE_OF, SUBMODULES

    if name in MODULE_OF:
        return getattr(importlib.import_module(MODULE_OF[name]), name)
    if name in SUBMODULES:
        return importlib.import_module(f"rushlight.{name}")
    if not name.startswith("__") and name in _absent():
        return _absent()[name]
    raise MissingNameError("rushlight", name)


@functools.cache
def _absent():
    """Names of the package that can be imported and raise when used."""
    from rushlight._names.absent import REMOVED

    return stand_ins("") | {name: removed(name) for name in REMOVED}


def lazy_dir():
    """The package's __dir__."""
    from rushlight._names.lazy_table import MODULE_OF, SUBMODULES

    return sorted({*vars(sys.modules["rushlight"]), *SUBMODULES, *MODULE_OF, *_absent()})
