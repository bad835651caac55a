"""Which names a file may use when nothing in it may run."""

import _compat_pickle
import pickle
import re

from rushlight.serialization._pickle_reader import Global
from rushlight.serialization._rebuild import TABLE
from rushlight.serialization._safe_globals import user_globals

# dtypes of PyTorch that are not here; naming them is no attack, only no use.
_FOREIGN_DTYPE = re.compile(r"torch\.(float4_\w+|q\w*int\w+|u?int[1-7]|bits\w+)$")

_PARAMETER_CLASSES = {"torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}


def full_name(module, name):
    """The name in today's spelling: protocol 2 calls builtins __builtin__."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    return f"{_compat_pickle.IMPORT_MAPPING.get(module, module)}.{name}"


class Allowed:
    """The table, the Parameter class and the user's additions, looked up by name."""

    def __init__(self):
        self._users = {
            name: Global(name, value, _calling(value), is_users=True)
            for name, value in user_globals().items()
        }
        self._nested = Global("builtins.getattr", _class_in_class, self._get_nested)

    def find(self, module, name):
        name = full_name(module, name)
        found = self.get(name)
        if found is None:
            raise pickle.UnpicklingError(_refusal(name))
        return found

    def get(self, name):
        found = self._users.get(name) or TABLE.get(name)
        if found is None and name in _PARAMETER_CLASSES:
            return _parameter_class(name)
        if found is None and name == "builtins.getattr" and self._users:
            return self._nested
        return found

    def _get_nested(self, reader, parent, name):
        """Protocol 2's way to a class inside a class; both must have been allowed."""
        if isinstance(parent, type) and type(name) is str:
            wanted = f"{parent.__module__}.{parent.__qualname__}.{name}"
            found = self._users.get(wanted)
            if found is None:
                raise pickle.UnpicklingError(_refusal(wanted))
            reader._globals[id(found.value)] = found
            reader._users_types.add(found.value)
            return found.value
        raise pickle.UnpicklingError(_refusal("builtins.getattr"))


def _class_in_class():
    """Stands for getattr on the reader's stack."""


def _calling(value):
    return lambda reader, *args: value(*args)


def _parameter_class(name):
    try:
        from rushlight.nn import parameter
    except ImportError:
        return None
    return Global(name, getattr(parameter, name.rpartition(".")[2]))


def _refusal(name):
    if _FOREIGN_DTYPE.match(name):
        return f"the file uses the dtype {name}, which Rushlight does not have"
    short = name.rpartition(".")[2]
    return (
        f"the file names {name}, which is not among the types that load accepts; nothing was run. "
        "If you trust the file's author with what it does, allow it by "
        f"rushlight.serialization.add_safe_globals([{short}]) (or, for one load, by `with "
        f"rushlight.serialization.safe_globals([{short}]):`). If you trust the whole file to run "
        "any code it likes, pass weights_only=False"
    )
