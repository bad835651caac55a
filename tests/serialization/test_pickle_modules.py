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


def remade(parts, values):
    code, name = parts
    cells = tuple(types.CellType(value) for value in values)
    return types.FunctionType(marshal.loads(code), {}, name, None, cells)


class WithCells:
    """The same with what a function encloses."""

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            if not isinstance(obj, types.FunctionType) or obj is remade:
                return NotImplemented
            values = [cell.cell_contents for cell in obj.__closure__ or ()]
            return remade, ((marshal.dumps(obj.__code__), obj.__name__), values)

    __name__ = "with_cells"


@pytest.mark.parametrize("zipped", [True, False])
def test_what_functions_enclose_is_shared_with_the_rest_of_the_file(tmp_path, zipped):
    def saved_and_loaded(obj):
        rl.save(obj, tmp_path / "a.pt", WithCells(), _use_new_zipfile_serialization=zipped)
        return rl.load(tmp_path / "a.pt", weights_only=False)

    tensor, layer, holder = rl.arange(3.0), nn.Linear(2, 2), []
    holder.append(lambda: holder)
    layer.act = lambda: layer
    first, second, x = saved_and_loaded([lambda: tensor, lambda: (tensor, 1), tensor])
    assert first() is x and second()[0] is x and x.tolist() == [0, 1, 2]
    held = saved_and_loaded(holder)
    assert held[0]() is held
    loaded = saved_and_loaded(layer)
    assert loaded.act() is loaded and loaded.weight.equal(layer.weight)
    act = saved_and_loaded(layer.act)
    assert act().act is act
    with pytest.raises(pickle.UnpicklingError):
        rl.load(tmp_path / "a.pt")


def test_a_pickler_that_raises_leaves_the_file_alone(tmp_path):
    class Raises:
        class Pickler(pickle.Pickler):
            def dump(self, obj):
                raise ValueError("never")

        __name__ = "raises"

    rl.save(1, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="never"):
        rl.save([rl.ones(2), lambda: 1], tmp_path / "a.pt", pickle_module=Raises())
    assert rl.load(tmp_path / "a.pt") == 1 and len(list(tmp_path.iterdir())) == 1
