"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict, lazy modules."""

import copy
import pickle
from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn


def three():
    return nn.ReLU(), nn.Tanh(), nn.Sigmoid()


def names(container):
    return [type(m).__name__ for m in container]


@pytest.mark.parametrize("kind", ["sequential", "list"])
def test_list_behaviour(kind):
    parts = three()
    m = nn.Sequential(*parts) if kind == "sequential" else nn.ModuleList(parts)
    assert len(m) == 3 and list(m) == list(parts) and m[-1] is parts[2]
    assert type(m[1:]) is type(m) and names(m[::2]) == ["ReLU", "Sigmoid"]
    m[0] = nn.GELU()
    assert names(m) == ["GELU", "Tanh", "Sigmoid"]
    m.insert(1, nn.ReLU())
    assert names(m) == ["GELU", "ReLU", "Tanh", "Sigmoid"] and list(m._modules) == list("0123")
    assert isinstance(m.pop(1), nn.ReLU) and names(m) == ["GELU", "Tanh", "Sigmoid"]
    del m[1:]
    assert names(m) == ["GELU"]
    assert m.append(nn.Tanh()) is m and m.extend([nn.ReLU()]) is m
    assert names(m) == ["GELU", "Tanh", "ReLU"] and list(m._modules) == list("012")
    del m[-1]
    m += type(m)(nn.SiLU()) if kind == "sequential" else [nn.SiLU()]
    assert names(m) == ["GELU", "Tanh", "SiLU"]
    with pytest.raises(IndexError):
        m[3]
    with pytest.raises(TypeError):
        m["0"]
    with pytest.raises(TypeError):
        m.append(3)


def test_sequential():
    m = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.ReLU()))
    x = rl.randn(4, 2)
    assert rl.equal(m(x), m.b(m.a(x))) and m[0] is m.a
    assert list(m[:1]._modules) == ["a"]
    both = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    assert names(both) == ["ReLU", "Tanh"] and names(both * 2) == names(2 * both) == names(both) * 2
    both *= 2
    assert len(both) == 4 and both[0] is both[2]
    assert nn.Sequential()(3) == 3
    for wrong in (
        lambda: m + 3,
        lambda: both * 0,
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        both * "a"
    with pytest.raises(AssertionError):
        m.insert(0, 3)
    with pytest.raises(IndexError):
        m.insert(9, nn.ReLU())


def test_module_list_prints_runs():
    m = nn.ModuleList([nn.ReLU(), nn.Linear(1, 1), nn.Linear(1, 1)])
    assert repr(m) == (
        "ModuleList(\n  (0): ReLU()\n"
        "  (1-2): 2 x Linear(in_features=1, out_features=1, bias=True)\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"
    assert (
        names(m + nn.ModuleList([nn.Tanh()])) == ["ReLU", "Linear", "Linear", "Tanh"]
        and len(m) == 3
    )
    with pytest.raises(NotImplementedError):
        m(1)
    with pytest.raises(TypeError):
        nn.ModuleList(3)


def test_module_dict():
    m = nn.ModuleDict({"a": nn.ReLU()})
    m["b"] = nn.Tanh()
    m.update([("c", nn.Sigmoid())])
    assert list(m) == list(m.keys()) == ["a", "b", "c"] and "b" in m and len(m) == 3
    assert [type(v).__name__ for v in m.values()] == ["ReLU", "Tanh", "Sigmoid"]
    assert isinstance(m.pop("a"), nn.ReLU) and list(dict(m.items())) == ["b", "c"]
    del m["b"]
    m.update(nn.ModuleDict({"z": nn.ReLU()}))
    assert list(m) == ["c", "z"]
    m.clear()
    assert not len(m)
    for wrong, error in (
        (lambda: m["x"], KeyError),
        (lambda: m.update(3), TypeError),
        (lambda: m.update([(1, 2, 3)]), ValueError),
        (lambda: nn.ModuleDict({"a": 3}), TypeError),
        (lambda: nn.ModuleDict({3: nn.ReLU()}), TypeError),
    ):
        with pytest.raises(error):
            wrong()


def test_parameter_list():
    p = nn.Parameter(rl.ones(3))
    m = nn.ParameterList([rl.ones(2), p, 3, "x"])
    assert len(m) == 4 and isinstance(m[0], nn.Parameter) and m[1] is p and m[-1] == "x"
    assert [n for n, _ in m.named_parameters()] == ["0", "1"] and list(m.state_dict()) == ["0", "1"]
    m[0] = rl.zeros(2)
    assert isinstance(m[0], nn.Parameter) and not m[0].any()
    m.append(rl.ones(1)).extend([rl.ones(1)])
    assert len(m) == 6 and [type(v).__name__ for v in m[2:4]] == ["int", "str"]
    assert repr(nn.ParameterList([p, 3])).splitlines()[2] == "    (1): Object of type: int"
    with pytest.raises(IndexError):
        m[9]
    with pytest.raises(TypeError):
        nn.ParameterList(3)
    with pytest.raises(RuntimeError):
        m(1)
    again = pickle.loads(pickle.dumps(m))
    assert len(again) == 6 and rl.equal(again[1], p)


def test_parameter_dict():
    m = nn.ParameterDict({"a": rl.ones(2), "b": 3})
    assert isinstance(m["a"], nn.Parameter) and m["b"] == 3 and m.get("z", 5) == 5
    assert list(reversed(m)) == ["b", "a"] and "a" in m and len(m) == 2
    m["c"] = rl.ones(1)
    assert [n for n, _ in m.named_parameters()] == ["a", "c"]
    assert m.pop("b") == 3 and m.popitem()[0] == "c" and list(m.keys()) == ["a"]
    assert isinstance(m.setdefault("d", rl.ones(1)), nn.Parameter)
    assert list(m | {"e": 1}) == ["a", "d", "e"]
    m |= nn.ParameterDict({"f": 2})
    assert list(m) == ["a", "d", "f"] and list(m.copy()) == list(m)
    assert dict(m.fromkeys(["x", "y"], 1).items()) == {"x": 1, "y": 1}
    for wrong, error in (
        (lambda: m["nothing"], AttributeError),
        (lambda: m.update({3: 1}), TypeError),
        (lambda: nn.ParameterDict().popitem(), KeyError),
    ):
        with pytest.raises(error):
            wrong()
    m.clear()
    assert len(m) == 0 and not list(m.parameters())


def test_the_old_container():
    with pytest.warns(FutureWarning):
        m = nn.Container(a=nn.ReLU())
    assert list(m._modules) == ["a"]


# ---- lazy modules

lazily = pytest.mark.filterwarnings("ignore:.*lazy modules are young")


@lazily
def test_lazy_linear_learns_its_size():
    m = nn.LazyLinear(3)
    assert m.has_uninitialized_params() and isinstance(m.weight, nn.UninitializedParameter)
    assert repr(m.weight) == "<UninitializedParameter>"
    assert repr(m) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    with pytest.raises(RuntimeError, match="no shape"):
        _ = m.weight.shape
    with pytest.raises(ValueError, match="not initialized"):
        rl.relu(m.weight)
    with pytest.raises(ValueError):
        m.weight + 1
    weight = m.weight
    assert m.double()(rl.ones(2, 4, dtype=rl.float64)).shape == (2, 3)
    assert type(m) is nn.Linear and m.in_features == 4
    assert m.weight.dtype == rl.float64 and m.weight.shape == (3, 4)
    assert type(m.weight) is nn.Parameter and m.weight.requires_grad
    assert weight is m.weight or weight.shape is not None
    assert m(rl.ones(5, 4, dtype=rl.float64)).shape == (5, 3) and not m._forward_pre_hooks


@lazily
def test_lazy_parameters_stay_in_the_optimizers_hand():
    m = nn.LazyLinear(3)
    params = list(m.parameters())
    m(rl.ones(1, 2))
    assert params[0] is m.weight and params[0].shape == (3, 2)


@lazily
def test_lazy_state():
    m = nn.LazyLinear(3)
    assert list(m.state_dict()) == ["weight", "bias"]
    full = nn.Linear(4, 3)
    m.load_state_dict(full.state_dict())
    assert rl.equal(m.weight, full.weight)
    m(rl.ones(1, 4))
    assert type(m) is nn.Linear and m.in_features == 4 and rl.equal(m.weight, full.weight)
    other, third = nn.LazyLinear(3), nn.LazyLinear(3)
    other.load_state_dict(third.state_dict())
    copied = copy.deepcopy(third)
    assert copied(rl.ones(1, 2)).shape == (1, 3) and third.has_uninitialized_params()
    unpickled = pickle.loads(pickle.dumps(third.weight))
    assert isinstance(unpickled, nn.UninitializedParameter)


@lazily
def test_lazy_norms():
    m = nn.LazyBatchNorm1d()
    assert m.num_features == 0
    m(rl.randn(3, 4))
    assert type(m) is nn.BatchNorm1d and m.num_features == 4
    assert m.running_mean.shape == (4,) and m.num_batches_tracked.item() == 1
    assert type(m.running_mean) is rl.Tensor
    n = nn.LazyInstanceNorm2d()
    n(rl.randn(2, 3, 4, 4))
    assert type(n) is nn.InstanceNorm2d and n.weight.shape == (3,)


@lazily
def test_a_lazy_module_of_the_users_own():
    from rushlight.nn.modules.lazy import LazyModuleMixin

    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.UninitializedParameter()
            self.register_buffer("b", nn.UninitializedBuffer())

        def initialize_parameters(self, x, *, extra):
            self.s.materialize(x.shape[1:])
            self.b.materialize((extra,))
            nn.init.ones_(self.s)

        def forward(self, x, *, extra):
            return x * self.s

    m = Scale()
    assert m(rl.ones(2, 3), extra=5).shape == (2, 3) and m.b.shape == (5,)
