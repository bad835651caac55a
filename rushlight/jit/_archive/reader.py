"""The parts of an archive: objects, constants, code."""

from __future__ import annotations

import pickle
from typing import Any

from rushlight._C import UntypedStorage
from rushlight.serialization._allowed import Allowed
from rushlight.serialization._pickle_reader import Global, PickleReader
from rushlight.serialization._storages import Storages, bytes_of
from rushlight.serialization._zip_reader import ZipReader

__all__ = ["Archive", "Archived"]

_MOST_CODE = 64 << 20


class Archived:
    """An object of a class of the archive, as it was stored."""

    qualified = ""  # the name of its class

    def __init__(self, *args: Any) -> None:
        self.state: Any = None
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _listed(reader, items):
    if not isinstance(items, list | tuple):
        raise pickle.UnpicklingError("a list was expected")
    return list(items)


def _tagged(reader, value, tag):
    return value


class _Names(Allowed):
    """What the pickles may name: what every file may, the lists of TorchScript, and classes of the
    archive, which become plain objects."""

    def __init__(self):
        super().__init__()
        self.classes: dict[str, Global] = {}
        self.lists = {
            f"torch.jit._pickle.build_{kind}list": Global(kind, object(), _listed)
            for kind in ("int", "double", "bool", "tensor")
        }
        tag = "torch.jit._pickle.restore_type_tag"
        self.lists[tag] = Global(tag, object(), _tagged)

    def find(self, module, name):
        full = f"{module}.{name}"
        if full in self.lists:
            return self.lists[full]
        if module == "__torch__" or module.startswith("__torch__."):
            if full not in self.classes:
                cls = type(name, (Archived,), {"qualified": full})
                self.classes[full] = Global(full, cls, lambda reader, *args: cls(*args), True)
            return self.classes[full]
        return super().find(module, name)


class Archive:
    """One file."""

    def __init__(self, source: Any, map_location: Any) -> None:
        self.zip = ZipReader(source, True)
        for name in ("data.pkl", "constants.pkl"):
            if name not in self.zip:
                raise RuntimeError(f"jit.load: the archive has no '{name}'")
        order = self.zip.read("byteorder", at_most=16) if "byteorder" in self.zip else b"little"
        if order != b"little":
            raise RuntimeError("jit.load: archives of another byte order are not read")
        self.map_location = map_location
        self.names = _Names()
        self._code: dict[str, str] | None = None

    def load(self, which: str) -> Any:
        """The pickle 'data' or 'constants'."""

        def fetch(key, nbytes, itemsize):
            name = f"{which}/{key}"
            if self.zip.size(name) < nbytes:
                raise RuntimeError(f"jit.load: the record '{name}' is too short for its tensor")
            storage = UntypedStorage(nbytes)
            if nbytes:
                self.zip.read_into(name, bytes_of(storage))
            return storage

        storages = Storages(self.map_location, fetch, False)
        data = self.zip.read(f"{which}.pkl", at_most=_MOST_CODE)
        return PickleReader(data, self.names.find, storages.load).load()

    def source(self, module: str) -> str | None:
        """The text of the file that holds a module's code; None where there is none."""
        name = f"code/{module.replace('.', '/')}.py"
        if name not in self.zip:
            return None
        try:
            return self.zip.read(name, at_most=_MOST_CODE).decode()
        except UnicodeDecodeError as error:
            raise RuntimeError(f"jit.load: '{name}' is no text ({error})") from None

    def extra(self, name: str) -> bytes | None:
        """A file of the user's."""
        full = f"extra/{name}"
        return bytes(self.zip.read(full)) if full in self.zip else None
