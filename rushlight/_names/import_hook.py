"""Modules that consist of names that are absent: importable, without files of their own."""

import sys
from importlib.machinery import ModuleSpec

from rushlight._names.absent import MODULES

_PREFIX = "rushlight."
_PACKAGES = frozenset(name.rpartition(".")[0] for name in MODULES)


class AbsentFinder:
    """Answers imports of the modules in absent.MODULES, and of no others.

    It stands before the finder of files: a folder that an older version left behind would pass for
    a package otherwise."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if not fullname.startswith(_PREFIX) or fullname[len(_PREFIX) :] not in MODULES:
            return None
        is_package = fullname[len(_PREFIX) :] in _PACKAGES
        return ModuleSpec(fullname, AbsentLoader, origin="absent", is_package=is_package)


class AbsentLoader:
    """Fills a new module from the table."""

    @staticmethod
    def create_module(spec):
        return None  # an ordinary one

    @staticmethod
    def exec_module(module):
        from rushlight._names.missing import fill

        fill(vars(module))


def install():
    """May be called again."""
    if AbsentFinder not in sys.meta_path:
        sys.meta_path.insert(0, AbsentFinder)
