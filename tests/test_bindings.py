"""The call path from Python: argument parsing, forms, identity of wrappers, __torch_function__."""

import gc
import inspect
import pickle
import threading
import weakref

import pytest

import rushlight as rl

pytestmark = pytest.mark.native


def test_forms():
    a, b, out = rl.ones(4), rl.ones(4), rl.zeros(4)
    assert rl.add(a, b, alpha=3).tolist() == a.add(b, alpha=3).tolist() == [4] * 4
    assert rl.add(input=a, other=b).tolist() == rl.add(a, b, out=None).tolist() == [2] * 4
    assert rl.add(a, b, out=out) is out and out.tolist() == [2] * 4
    assert a.add_(1) is a and a.tolist() == [2] * 4
    same = a
    a *= 2
    assert a is same and a.tolist() == [4] * 4


def test_shapes_as_varargs_and_synonyms():
    assert rl.zeros(2, 3).shape == rl.zeros((2, 3)).shape == rl.zeros(size=[2, 3]).shape == (2, 3)
    assert rl.zeros(2, 3).view(3, 2).shape == rl.zeros(2, 3).view((3, -1)).shape == (3, 2)
    assert rl.ones(2, 3).sum(axis=0, keepdims=True).shape == (1, 3)
    assert rl.ones(2, 3).sum((0, 1)).item() == rl.ones(2, 3).sum(dim=[0, 1]).item() == 6
    assert rl.zeros(rl.tensor(2), 3, dtype=int).dtype is rl.int64


BAD_CALLS = {
    "add(): argument 'other' must be Tensor|Number, not str. Accepted: "
    "add(Tensor|Number self, Tensor|Number other, *, Number alpha=1, Tensor out=None)": (
        lambda x: rl.add(x, "a")
    ),
    "add(): missing argument 'other'": lambda x: rl.add(x),
    "add(): unexpected keyword 'alph' (did you mean 'alpha'?)": lambda x: rl.add(x, x, alph=1),
    "add(): got multiple values for argument 'other'": lambda x: rl.add(x, x, other=x),
    "add(): takes 1 positional argument, not 2. Accepted: add(Tensor|Number other, *, Number "
    "alpha=1)": lambda x: x.add(x, x),
    "sum(): argument 'keepdim' must be bool, not int": lambda x: x.sum(0, 1),
    "transpose(): argument 'dim0' must be int, not float": lambda x: x.transpose(0.0, 1),
    "cat(): argument 'tensors' must be list of Tensors, not Tensor": lambda x: rl.cat(x),
    "cat(): argument 'tensors' must be list of Tensors, not list of (Tensor, int)": (
        lambda x: rl.cat([x, 1])
    ),
    "arange(): no signature fits (int, str). Accepted:\n  arange(Number end": (
        lambda x: rl.arange(1, "a")
    ),
    "exp(): argument 'out' must be Tensor or None, not int": lambda x: rl.exp(x, out=3),
}


@pytest.mark.parametrize("text", BAD_CALLS)
def test_type_errors_say_what_is_wrong(text):
    with pytest.raises(TypeError) as e:
        BAD_CALLS[text](rl.ones(3))
    assert str(e.value).startswith(text)


def test_errors_are_of_two_classes():
    with pytest.raises(rl.ShapeError) as e:
        rl.ones(3) + rl.ones(4)
    assert isinstance(e.value, ValueError) and isinstance(e.value, RuntimeError)


def test_signatures_can_be_inspected():
    assert list(inspect.signature(rl.add).parameters) == ["input", "other", "alpha", "out"]
    assert "Adds" in rl.add.__doc__ or rl.add.__doc__


def graph_leaf(result):
    node = result.grad_fn
    while node.name() != "AccumulateGrad":
        node = node.next_functions[0][0]
    return node.variable


def test_a_wrapper_with_attributes_comes_back():
    x = rl.ones(3, requires_grad=True)
    x.note = ["kept"]
    ref, address = weakref.ref(x), id(x)
    y = (x * x).sum()
    del x
    gc.collect()
    for _ in range(3):  # more than once
        leaf = graph_leaf(y)
        assert leaf.note == ["kept"] and id(leaf) == address and ref() is leaf
        del leaf
        gc.collect()
    del y
    gc.collect()
    assert ref() is None


def test_a_plain_wrapper_is_made_anew():
    x = rl.ones(3, requires_grad=True)
    y = (x * x).sum()
    del x
    assert graph_leaf(y).tolist() == [1, 1, 1]


class Slotted(rl.Tensor):
    __slots__ = ("extra",)
    __torch_function__ = rl._C._disabled_torch_function_impl
    deaths = 0

    def __del__(self):
        Slotted.deaths += 1


def test_a_subclass_comes_back_with_its_slots():
    Slotted.deaths = 0
    p = rl.Tensor._make_subclass(Slotted, rl.ones(2), True)
    p.extra = [5]
    y = (p * p).sum()
    assert type(y) is rl.Tensor
    del p
    gc.collect()
    assert Slotted.deaths == 0
    for _ in range(2):
        leaf = graph_leaf(y)
        assert type(leaf) is Slotted and leaf.extra == [5]
        del leaf
    del y
    gc.collect()
    assert Slotted.deaths == 1


def test_cycles_through_attributes_are_collected():
    x = rl.ones(2)
    x.me = x
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


class Sub(rl.Tensor):
    pass


def test_subclasses_survive_ops():
    s = rl.ones(2).as_subclass(Sub)
    for result in (s + 1, 1 + s, -s, s.exp(), rl.add(s, 1), s.view(2, 1), s[0], rl.cat([s, s])):
        assert type(result) is Sub


def test_torch_function_takes_over():
    calls = []

    class Loud(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append((func.__name__, types))
            return super().__torch_function__(func, types, args, kwargs)

    x = rl.ones(2).as_subclass(Loud)
    assert rl.exp(x).shape == (2,) and (x * 2).tolist() == [2, 2]
    assert calls[0] == ("exp", (Loud,)) and calls[1][0] == "__mul__"

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, args, kwargs

    d = Duck()
    assert rl.add(d, 1, alpha=2) == ("add", (d, 1), {"alpha": 2})


@pytest.mark.threads
def test_many_threads_on_large_tensors():
    x, errors = rl.ones(1 << 17), []

    def work():
        for _ in range(20):
            if (x + x).sum().item() != 2 << 17:
                errors.append("wrong sum")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_named_results():
    result = rl.tensor([[1.0, 5.0], [3.0, 2.0]]).max(1)
    values, indices = result
    assert result.values is values and indices.tolist() == [1, 0]
    assert repr(result).startswith(
        "rushlight.return_types.max(\nvalues=tensor([5., 3.]),\nindices="
    )
    back = pickle.loads(pickle.dumps(result))
    assert type(back) is type(result) and back.values.tolist() == [5, 3]


def test_a_tensor_is_a_tensor_before_it_is_a_number():
    """Where one overload takes a tensor and another a number, one element does not decide."""
    one, zero = rl.tensor([3]), rl.tensor([0])
    assert rl.equal(rl.max(one, zero), one)
    assert rl.equal(rl.min(one, zero), zero)
    assert rl.equal(one.max(rl.tensor(5)), rl.tensor([5]))
    assert rl.equal(rl.tensor(3).min(rl.tensor(0)), rl.tensor(0))
    assert rl.max(one, 0).values == 3
    limit = rl.tensor(0.5, requires_grad=True)
    for y in (
        rl.clamp(rl.zeros(3), min=limit),
        rl.zeros(3).clamp(limit),
        rl.zeros(3).clamp_min(limit),
        rl.zeros(3).clip(min=limit),
    ):
        assert rl.autograd.grad(y.sum(), limit)[0] == 3


def test_a_number_with_a_gradient_is_refused():
    """Read as a plain number it would lose its gradient without a word."""
    slope = rl.tensor(0.5, requires_grad=True)
    with pytest.raises(TypeError, match="negative_slope"):
        rl.nn.functional.leaky_relu(rl.zeros(3), slope)
    with pytest.raises(TypeError):
        rl.add(rl.zeros(3), rl.zeros(3), alpha=slope)
    with pytest.raises(TypeError):
        rl.full((2,), slope)
    rl.nn.functional.leaky_relu(rl.zeros(3), slope.detach())
