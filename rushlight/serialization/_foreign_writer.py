"""save(pickle_module=cloudpickle): what has a name is written by us, what has none by that module.

Such modules are given for what plain pickle refuses: lambdas, functions and classes of `__main__`
or of a function, modules. Each of these becomes a call of `pickle.loads` on the bytes that the
module's Pickler makes of it; tensors and everything else are as in any file of ours.
"""

import io
import pickle
from types import CodeType, FunctionType, ModuleType

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
        data = io.BytesIO()
        self._pickler(data, self._protocol).dump(obj)
        self.put_global("pickle", "loads")
        self.write((data.getvalue(),))
        self.put(pickle.REDUCE)
        self.memoize(obj)
        return True


def _has_no_name(obj):
    if isinstance(obj, ModuleType | CodeType):
        return True
    if not isinstance(obj, type | FunctionType):
        return False
    return getattr(obj, "__module__", None) == "__main__" or not is_found_by_name(obj)
