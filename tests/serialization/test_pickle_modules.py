"""save with a pickle_module such as cloudpickle."""

import importlib
import marshal
import math
import pickle
import types

import pytest

import rushlight as rl
from rushlight import nn


def made_again(code):
    return types.FunctionType(marshal.loads(code), {})


class ByValue:
    """Stands for cloudpickle: functions and classes travel as what they are made of."""

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            if isinstance(obj, types.FunctionType) and obj.__name__ == "<lambda>":
                return made_again, (marshal.dumps(obj.__code__),)
            if isinstance(obj, types.ModuleType):
                return importlib.import_module, (obj.__name__,)
            return NotImplemented

    __name__ = "by_value"


def test_another_pickle_module_writes_what_has_no_name(tmp_path):
    shared = rl.arange(3.0)
    model = nn.Linear(3, 1)
    model.act, model.library = lambda x: x + 1, math
    rl.save([model, shared, shared, model.act], tmp_path / "a.pt", pickle_module=ByValue())
    loaded, x, y, act = rl.load(tmp_path / "a.pt", weights_only=False)
    assert loaded.act(2) == 3 and loaded.act is act and loaded.library is math
    assert loaded.weight.equal(model.weight) and x is y and x.tolist() == [0, 1, 2]
    with pytest.raises(pickle.UnpicklingError):
        rl.load(tmp_path / "a.pt")
    with pytest.raises(pickle.PicklingError):
        rl.save(model, tmp_path / "b.pt")
    with pytest.raises(AttributeError, match="no Pickler"):
        rl.save(1, tmp_path / "b.pt", pickle_module=math)
