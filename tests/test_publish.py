"""Functions written in Python: their errors begin with the name that was called, and classes with
a __torch_function__, and modes, take them over."""

import copy
import inspect
import pickle
from typing import ClassVar

import pytest

import rushlight as rl
from rushlight.overrides import BaseTorchFunctionMode, TorchFunctionMode

SPACES = {"linalg": rl.linalg, "fft": rl.fft, "special": rl.special}
PUBLIC = [
    (space, name)
    for space, module in SPACES.items()
    for name in module.__all__
    if not isinstance(getattr(module, name), type)
]
BAD = [
    ("linalg.inv", (rl.ones(2, 3),), ValueError),
    ("linalg.inv_ex", (rl.ones(2, 3),), ValueError),
    ("linalg.solve", (rl.eye(3), rl.ones(2, 1)), ValueError),
    ("linalg.solve_ex", (rl.eye(3), rl.ones(2, 1)), ValueError),
    ("linalg.det", (rl.ones(3),), ValueError),
    ("linalg.eigvalsh", (rl.ones(2, 3),), ValueError),
    ("linalg.svd", (rl.ones(2, 2, dtype=rl.int64),), TypeError),
    ("linalg.cholesky", (rl.zeros(2, 2),), RuntimeError),
    ("inverse", (rl.zeros(2, 2),), RuntimeError),
    ("slogdet", (rl.ones(2, 3),), ValueError),
    ("fft.fft", (rl.ones(3), 10**15), MemoryError),
    ("fft.irfft", (rl.ones(3), 1, 7), IndexError),
    ("special.erfcx", (rl.ones(3, dtype=rl.complex64),), TypeError),
    ("special.gammainc", (rl.ones(3), rl.ones(2)), ValueError),
    ("special.multigammaln", (rl.ones(3), -1), RuntimeError),
    ("cdist", (rl.ones(3), rl.ones(3)), RuntimeError),
    ("corrcoef", (rl.ones(2, 2, 2),), ValueError),
]


def lookup(name):
    found = rl
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("name", "args", "kind"), BAD, ids=[b[0] for b in BAD])
def test_errors_begin_with_the_name(name, args, kind):
    with pytest.raises(kind) as caught:
        lookup(name)(*args)
    text = str(caught.value)
    assert text.startswith(f"{name}: "), text
    rest = text.removeprefix(f"{name}: ")
    first = rest.partition(": ")[0]
    assert " " in first or first == rest, f"a second name: {text}"


@pytest.mark.parametrize(("space", "name"), PUBLIC, ids=[".".join(p) for p in PUBLIC])
@pytest.mark.parametrize("args", [("text", "text"), (object(), object()), (), (None, None, None)])
def test_wrong_types_raise_type_errors(space, name, args):
    function = getattr(SPACES[space], name)
    try:
        count = len(
            [
                p
                for p in inspect.signature(function).parameters.values()
                if p.kind == p.POSITIONAL_OR_KEYWORD and p.default is p.empty
            ]
        )
    except ValueError:
        count = 1
    with pytest.raises((TypeError, RuntimeError)) as caught:
        function(*args[:count])
    assert str(caught.value).startswith(f"{space}.{name}"), str(caught.value)


def test_they_look_like_functions():
    assert rl.linalg.inv.__name__ == "inv" and rl.linalg.inv.__module__ == "rushlight.linalg"
    assert "A" in inspect.signature(rl.linalg.inv).parameters
    assert pickle.loads(pickle.dumps(rl.linalg.inv)) is rl.linalg.inv
    assert copy.deepcopy(rl.fft.fft) is rl.fft.fft
    assert rl.special.ndtr.__doc__


def test_errors_of_the_program_stay():
    class Unhappy(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        rl.linalg.inv(rl.eye(2).as_subclass(Unhappy))

    def pack(t):
        raise AttributeError("also mine")

    x = rl.eye(2).requires_grad_()
    with (
        rl.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        pytest.raises(AttributeError, match="^also mine$"),
    ):
        rl.linalg.inv(x)


class Tagged(rl.Tensor):
    """Notes which functions it was asked about."""

    seen: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_see_the_public_function():
    Tagged.seen.clear()
    x = (rl.eye(2) * 2).as_subclass(Tagged)
    inverse = rl.linalg.inv(x)
    assert Tagged.seen[-1] is rl.linalg.inv and type(inverse) is Tagged
    assert inverse.tolist() == [[0.5, 0], [0, 0.5]]
    values = rl.linalg.eigh(x)
    assert type(values.eigenvalues) is Tagged and type(values).__name__ == "linalg_eigh"
    rl.linalg.multi_dot([rl.eye(2), x])
    assert Tagged.seen[-1] is rl.linalg.multi_dot
    x[0] = 3.0
    assert Tagged.seen[-1] is rl.Tensor.__setitem__ and x[0].tolist() == [3, 3]
    assert type(rl.sort(x)[0]) is Tagged


class Noting(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_every_call():
    with Noting() as outer:
        x = rl.ones(2, 2)
        with Noting() as inner:
            y = rl.linalg.det(x + 1)
        x[0] = 2.0
        _ = -x
    rl.ones(1)
    assert inner.names == ["__add__", "det"]
    # what the inner one ran went to the outer one, and what happens inside det too
    assert outer.names[:3] == ["ones", "__add__", "det"]
    assert outer.names[-2:] == ["__setitem__", "__neg__"]
    assert y.item() == 0.0


def test_modes_and_subclasses():
    class Both(BaseTorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert Tagged in types
            return super().__torch_function__(func, types, args, kwargs)

    x = rl.ones(2).as_subclass(Tagged)
    Tagged.seen.clear()
    with Both():
        assert type(x * 2) is Tagged
    assert Tagged.seen == [rl.Tensor.__mul__]


def test_modes_replace_results_and_carry_errors():
    class Zeros(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is rl.ones:
                return rl.zeros(*args, **(kwargs or {}))
            if func is rl.rand:
                raise KeyError("no chance")
            return func(*args, **(kwargs or {}))

    with Zeros():
        assert rl.ones(2).tolist() == [0, 0]
        with pytest.raises(KeyError):
            rl.rand(2)
        assert rl.ones(2).tolist() == [0, 0]
    assert rl.ones(2).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="no mode"):
        rl._C._pop_torch_function_mode()
    with pytest.raises(NotImplementedError), TorchFunctionMode():
        rl.ones(2)
