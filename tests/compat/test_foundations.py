"""Small parts that packages for PyTorch stand on: weak dictionaries of tensors, tensors of modules
that are replaced, operators that take functions, seeds of workers."""

import copy
import gc

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight._ops import HigherOrderOperator
from rushlight.nn.utils._named_member_accessor import swap_tensor
from rushlight.utils.data._utils.worker import _generate_state
from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_weak_dictionaries_by_identity():
    x, y = rl.ones(2), rl.ones(2)
    notes = WeakTensorKeyDictionary({x: 1})
    notes[y] = 2
    assert notes[x] == 1 and notes[y] == 2 and rl.ones(2) not in notes and 3 not in notes
    assert {id(key) for key in notes} == {id(x), id(y)} and sorted(notes.values()) == [1, 2]
    assert notes == notes.copy() == copy.deepcopy(notes) and notes != {x: 1}
    assert len(notes | {x: 5}) == 2 and (notes | {x: 5})[x] == 5
    with pytest.raises(KeyError):
        notes[rl.ones(2)]
    assert notes.pop(x) == 1 and notes.get(x) is None
    reference = TensorWeakRef(y)
    assert reference() is y
    del y
    gc.collect()
    assert len(notes) == 0 and reference() is None
    # An identity that another object has got since does not find what was noted before.
    many = WeakIdKeyDictionary()
    for i in range(50):
        many[rl.ones(1)] = i
    assert len(many) == 0
    with pytest.raises(TypeError, match="expected a tensor"):
        TensorWeakRef(3)


def test_tensors_of_modules_are_swapped():
    layer = nn.BatchNorm1d(2)
    layer.extra = rl.zeros(1)
    new = rl.full((2,), 3.0)  # no Parameter, which setattr would refuse
    old = swap_tensor(layer, "weight", new)
    assert layer.weight is new and isinstance(old, nn.Parameter)
    assert swap_tensor(layer, "weight", old) is new and list(layer._parameters) == [
        "weight",
        "bias",
    ]
    mean = swap_tensor(layer, "running_mean", new)
    assert layer.running_mean is new and mean.tolist() == [0, 0]
    assert swap_tensor(layer, "extra", new).tolist() == [0]
    absent = swap_tensor(layer, "other", new, allow_missing=True)
    swap_tensor(layer, "other", absent, allow_missing=True)
    assert not hasattr(layer, "other")
    for name, value, error in (
        ("other", new, AttributeError), ("a.b", new, KeyError), ("", new, KeyError),
        ("weight", 3, TypeError), ("eps", new, TypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="swap_tensor"):
            swap_tensor(layer, name, value)
    with pytest.raises(TypeError, match="Module"):
        swap_tensor(3, "weight", new)


def test_operators_that_take_functions():
    class Twice(HigherOrderOperator):
        def __init__(self):
            super().__init__("twice")

        def __call__(self, f, x):
            return super().__call__(f, x)

    twice = Twice()
    x = rl.tensor([0.5], requires_grad=True)
    with pytest.raises(NotImplementedError, match="twice.*CPU"):
        twice(rl.sin, x)

    @twice.py_impl(rl._C.DispatchKey.CompositeExplicitAutograd)
    def _(f, x):
        return f(f(x))

    twice(rl.sin, x).backward()
    assert x.grad.item() == pytest.approx(np.cos(np.sin(0.5)) * np.cos(0.5))
    assert str(twice) == twice.name() == "twice"

    @twice.py_autograd_impl
    def _(f, x):
        return f(x)

    assert rl.equal(twice(rl.sin, x), rl.sin(x))

    class Own(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, len(args)

    assert twice(rl.sin, rl.ones(1).as_subclass(Own)) == (twice, 2)
    with pytest.raises(TypeError, match="abstract"):
        HigherOrderOperator("alone")


def test_seeds_of_workers_are_those_of_numpy():
    for base in (0, 12345678901234, 2**63 - 1):
        for worker in (0, 3):
            words = [worker, base & 0xFFFFFFFF, base >> 32, 0]
            assert _generate_state(base, worker) == list(
                np.random.SeedSequence(words).generate_state(4)
            )


def test_a_tensor_made_of_a_tensor_keeps_its_dtype():
    class Own(rl.Tensor):
        pass

    x = rl.arange(3)
    for cls in (rl.Tensor, Own):
        made = cls(x)
        assert made.dtype == rl.int64 and made.data_ptr() == x.data_ptr() and type(made) is cls
    assert Own([1, 2]).dtype == rl.float32
    with pytest.raises(TypeError, match="float32, got"):
        rl.FloatTensor(x)


def test_questions_of_the_core():
    x = rl.ones(4)
    assert rl._C._is_alias_of(x, x[1:]) and not rl._C._is_alias_of(x, x.clone())
    assert not rl._C._is_torch_function_mode_enabled()
    with rl.overrides.TorchFunctionMode():
        assert rl._C._is_torch_function_mode_enabled()
    assert isinstance(x.untyped_storage(), rl.StorageBase)
    assert rl._guards.active_fake_mode() is None
    forward_ad = rl.autograd.forward_ad
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
    assert rl._utils._get_device_module("cpu") is rl.cpu
    with pytest.raises(RuntimeError, match="'tpu'"):
        rl._utils._get_device_module("tpu")
