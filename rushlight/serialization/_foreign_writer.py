"""save(pickle_module=cloudpickle): what has a name is written by us, what has none by that module.

Such modules are given for what plain pickle refuses: lambdas, functions and classes of `__main__`
or of a function, modules. Each of these becomes a call of `pickle.loads` on the bytes that the
module's Pickler makes of it; tensors and everything else are as in any file of ours. What a
function has in common with the rest of the file (tensors, modules, what holds the function) is not
among the bytes: `loads_with` is given it.
"""

import io
import pickle
from types import CodeType, FunctionType, ModuleType

from rushlight._C import Tensor
from rushlight.nn import Module
from rushlight.serialization._pickle_writer import is_found_by_name
from rushlight.serialization._tensor_writer import TensorWriter


class ForeignWriter(TensorWriter):
    """`module` has a Pickler, as torch.save asks for one."""

    def __init__(self, module, protocol):
        super().__init__()
        if not hasattr(module, "Pickler"):
            raise AttributeError(f"save: pickle_module {module!r} has no Pickler")
        self._pickler, self._protocol = module.Pickler, protocol

    def write_special(self, obj):
        if super().write_special(obj):
            return True
        if not _has_no_name(obj):
            return False
        data, shared = self._pickled(obj)
        if shared:
            self.put_global(__name__, "loads_with")
            self.write((data, shared))
        else:
            self.put_global("pickle", "loads")
            self.write((data,))
        if self.is_written(obj):  # by what it shares, which holds it
            self.put(2 * pickle.POP)
            self.write(obj)
            return True
        self.put(pickle.REDUCE)
        self.memoize(obj)
        return True

    def _pickled(self, obj):
        """(bytes, the objects in them that are written outside of them)."""
        written, shared, numbers = self.is_written, [], {}

        class Pickler(self._pickler):
            def persistent_id(self, inner):
                if isinstance(inner, str | bytes | tuple):
                    return None
                if not (isinstance(inner, Tensor | Module) or written(inner)):
                    return None
                if id(inner) not in numbers:
                    numbers[id(inner)] = len(shared)
                    shared.append(inner)
                return numbers[id(inner)]

        data = io.BytesIO()
        Pickler(data, self._protocol).dump(obj)
        return data.getvalue(), shared


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, shared):
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, number):
        return self._shared[number]


def loads_with(data, shared):
    """What ForeignWriter wrote of an object, with the objects that stand outside of it."""
    return _Unpickler(io.BytesIO(data), shared).load()


def _has_no_name(obj):
    if isinstance(obj, ModuleType | CodeType):
        return True
    if not isinstance(obj, type | FunctionType):
        return False
    return getattr(obj, "__module__", None) == "__main__" or not is_found_by_name(obj)
