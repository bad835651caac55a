"""The module that `import torch` gives: Rushlight under another name and version."""

from types import ModuleType

import rushlight
from rushlight._names.missing import MissingNameError
from rushlight.as_torch import version as torch_version


class TorchModule(ModuleType):
    """Every name is rushlight's, also those written to; only __version__ and its kin are own."""

    def __init__(self):
        super().__init__("torch", rushlight.__doc__)
        own = {"__version__": torch_version.__version__, "version": torch_version, "__path__": []}
        own["__file__"] = rushlight.__file__
        own["torch"] = self  # `from torch import torch` is written now and then
        self.__dict__.update(own)

    def __getattr__(self, name):  # called for names that are not in the module's own dict
        try:
            value = getattr(rushlight, name)
        except MissingNameError:
            raise
        except AttributeError:
            raise MissingNameError("rushlight", name) from None
        if not name.startswith("__"):
            self.__dict__[name] = value  # the next access is as quick as in any module
        return value

    def __setattr__(self, name, value):
        self.__dict__[name] = value
        if not name.startswith("__") and name != "version":
            setattr(rushlight, name, value)

    def __delattr__(self, name):
        here = self.__dict__.pop(name, self) is not self
        if name in vars(rushlight) and not name.startswith("__"):
            delattr(rushlight, name)
        elif not here:
            raise AttributeError(name)

    def __dir__(self):
        return sorted({*dir(rushlight), *self.__dict__})

    def __repr__(self):
        return f"<module 'torch' (rushlight {rushlight.__version__}) from {rushlight.__file__!r}>"

    def __reduce__(self):
        return _get_torch, ()


def _get_torch():
    import importlib

    return importlib.import_module("torch")
