"""Answers imports of torch and torch.anything with Rushlight's modules."""

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

from rushlight._names.absent import why_missing
from rushlight._names.missing import COMPATIBILITY_PAGE

_HOMES = {"torch.version": "rushlight.as_torch.version"}


def home_of(fullname):
    """The name of ours for a name of torch's, or of functorch's, which is part of it."""
    if fullname.partition(".")[0] == "functorch":
        return "rushlight.as_torch." + fullname
    return _HOMES.get(fullname) or "rushlight" + fullname.removeprefix("torch")


def _exists(home):
    if home in sys.modules:
        return True
    try:
        return importlib.util.find_spec(home) is not None
    except (ImportError, AttributeError, ValueError):
        return False  # a parent is no package, or is not there


def is_import_statement():
    """Whether the finder was called to import, and not by importlib.util.find_spec, which promises
    None for what is not there."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name == "_find_and_load_unlocked":
            return True
        frame = frame.f_back
    return False


class TorchFinder(MetaPathFinder):
    """First in sys.meta_path, so that an installed PyTorch is not seen."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torch":
            return ModuleSpec(fullname, _TopLoader(), origin="rushlight", is_package=True)
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        home = home_of(fullname)
        if _exists(home):
            spec = importlib.util.find_spec(home)
            is_package = spec is not None and spec.submodule_search_locations is not None
            return ModuleSpec(fullname, _AliasLoader(home), origin=home, is_package=is_package)
        if is_import_statement():
            reason = why_missing(fullname.removeprefix("torch."))
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: Rushlight, which stands in for torch, does not "
                f"have it{f' ({reason})' if reason else ''}. {COMPATIBILITY_PAGE} lists what is "
                "there",
                name=fullname,
            )
        return None

    def find_distributions(self, context=None):
        """For importlib.metadata.version("torch")."""
        from rushlight.as_torch._distribution import TorchDistribution

        if context is None or context.name in (None, "torch"):
            yield TorchDistribution()


class _TopLoader(Loader):
    def create_module(self, spec):
        from rushlight.as_torch._module import TorchModule

        return TorchModule()

    def exec_module(self, module):
        pass


class _AliasLoader(Loader):
    """Gives the very module of ours, so that torch.nn is rushlight.nn."""

    def __init__(self, home):
        self.home = home

    def create_module(self, spec):
        module = importlib.import_module(self.home)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.own_spec  # the import system has just overwritten it

    def _file_loader(self):
        spec = importlib.util.find_spec(self.home)
        return spec.loader, spec.name

    def get_code(self, fullname):
        """For `python -m torch.distributed.run`."""
        loader, name = self._file_loader()
        return loader.get_code(name)

    def get_source(self, fullname):
        loader, name = self._file_loader()
        return loader.get_source(name)

    def is_package(self, fullname):
        loader, name = self._file_loader()
        return loader.is_package(name)
