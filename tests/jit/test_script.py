"""jit.script against plain Python: each script of the language gives the same bits, and does so
after it was saved and loaded."""

import copy
import inspect
import io
import math
import sys
import traceback
from pathlib import Path

import pytest

import rushlight as rl

sys.path.insert(0, str(Path(__file__).resolve().parent))
from language.running import all_cases, called, dump, modules, outcome

CASES = {fn.__name__: (fn, inputs) for fn, inputs in all_cases()}
MODULES = {cls.__name__: (cls, inputs) for cls, inputs in modules()}


def again(program):
    """Saved and loaded."""
    return rl.jit.load(io.BytesIO(program.save_to_buffer()))


def test_there_are_two_hundred():
    assert len(CASES) + len(MODULES) >= 200
    assert len(CASES) == len(all_cases())  # no two of one name


@pytest.mark.parametrize("name", CASES)
def test_function(name):
    fn, inputs = CASES[name]
    scripted = rl.jit.script(fn)
    loaded = again(scripted)
    for given in inputs:
        expected, error = outcome(fn, given)
        for program in (scripted, loaded):
            found, raised = outcome(program, given)
            assert found == expected, (given, raised)
            if error is not None:
                # Of the same class, with the line of the script; messages of our own are the same.
                base = type(error) if not isinstance(error, rl._C.ShapeError) else RuntimeError
                assert isinstance(raised, base), raised
                assert f"errors.py:{_last_line(error)}" in str(raised), raised
                if f"raise {type(error).__name__}" in inspect.getsource(fn):
                    assert isinstance(raised, rl.jit.Error)
                    assert str(raised).startswith(str(error.args[0]) if error.args else "")


def _last_line(error):
    """The last line of the case's own file that an exception went through."""
    lines = [
        f.lineno
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename.endswith("errors.py")
    ]
    return lines[-1]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, training):
    cls, inputs = MODULES[name]
    rl.manual_seed(0)
    model = cls().train(training)
    scripted = rl.jit.script(copy.deepcopy(model))
    loaded = again(scripted)
    assert set(model.state_dict()) == set(scripted.state_dict()) == set(loaded.state_dict())
    for given in inputs:
        results = []
        for runs in (model, scripted, loaded):
            rl.manual_seed(1)
            results.append(dump(called(runs, given)))
        assert results[0] == results[1] == results[2]
    for key, value in model.state_dict().items():
        assert dump(value) == dump(scripted.state_dict()[key]) == dump(loaded.state_dict()[key])


def test_errors_begin_with_the_functions_name():
    def twice(x, n: int):
        return x * n

    scripted = rl.jit.script(twice)
    for wrong in ((rl.ones(2),), (rl.ones(2), 2.5), (object(), 4)):
        with pytest.raises(Exception, match="^twice: ") as caught:
            scripted(*wrong)
        assert "forward" not in str(caught.value)


def test_results_written_to_a_tensor():
    def update(a, b, kept, flags):
        total = rl.addcmul(a, b, b, out=a)
        rl.sum(kept, -2, keepdim=True, out=b)
        rl.lt(total, 3.0, out=flags)
        return total, b * 1

    def given():
        kept = rl.arange(6.0).reshape(2, 3)
        return rl.ones(2, 3), rl.ones(2, 3), kept, rl.zeros(2, 3, dtype=rl.bool)

    ours, theirs = given(), given()
    got, expected = rl.jit.script(update)(*ours), update(*theirs)
    for a, b in zip((*ours, *got), (*theirs, *expected), strict=True):
        assert a.equal(b)
    assert got[0].data_ptr() == ours[0].data_ptr() and ours[1].shape == (1, 3)
    with pytest.raises(Exception, match="out="):
        rl.jit.script(_two_results)


def _two_results(x):
    return rl.max(x, 0, out=(x, x))


class Recipe:
    """A plain object whose fields a program reads, as einops' layers have them."""

    def __init__(self, sums, names):
        self.sums: list[tuple[list[int], list[int]]] = sums
        self.names: dict[str, int] = names


def _by_recipe(recipe: Recipe, x: rl.Tensor, given: list[tuple[str, int]]):
    total = 0
    for name, value in given:
        total += recipe.names[name] * value
    for i, (known, rest) in enumerate(recipe.sums):
        if len(known) == 0:
            total += 100 * i
            continue
        total += known[0]
        if len(rest) == 2:
            if x.numel() > 3:
                continue
            total += rest[1]
        total += 1000
    return x + total


class ByRecipe(rl.nn.Module):
    def __init__(self, sums, names, given):
        super().__init__()
        self.recipes, self.given = {2: Recipe(sums, names)}, given

    def forward(self, x):
        recipe = self.recipes[x.ndim]
        return _by_recipe(recipe, x, self.given)


@pytest.mark.parametrize("names, given", [({}, ()), ({"a": 3, "b": 7}, (("b", 2), ("a", 1)))])
def test_objects_with_fields(names, given):
    net = ByRecipe([([], [1]), ([4], [5, 6]), ([2, 3], []), ([], [])], names, given)
    program = rl.jit.script(net)
    for x in (rl.zeros(1, 2), rl.zeros(2, 2)):
        assert program(x).equal(net(x))
    with pytest.raises(KeyError):
        program(rl.zeros(3))


def test_loops_over_constants_that_end_early():
    def f(x, limit: int):
        for i, step in enumerate([1, 2, 3, 4]):
            if i == limit:
                break
            x = x + step
        return x

    program = rl.jit.script(f)
    for limit in (0, 2, 9):
        assert program(rl.zeros(1), limit).equal(f(rl.zeros(1), limit))


def test_slices_that_are_called():
    def f(x, n: int):
        return (
            x[(Ellipsis, slice(None, 1, None))] + x[slice(n), slice(0, n, 1)].sum() + x[0, slice(1)]
        )

    x = rl.arange(12.0).reshape(3, 4)
    assert rl.jit.script(f)(x, 2).equal(f(x, 2))

    def g(x):
        return x.reshape(x.shape[slice(None, -1, None)] + [2, -1]), [1, 2, 3][slice(1, None)]

    assert rl.jit.script(g)(x)[0].shape == (3, 2, 2) and rl.jit.script(g)(x)[1] == [2, 3]


def test_graphs_of_fx():
    """Their code lets go of what it does not need any more: `x = None`."""

    class Net(rl.nn.Module):
        def forward(self, x, y):
            return (x + y).relu() * y.sum(), x.shape[:-1]

    graph = rl.fx.symbolic_trace(Net())
    assert "x = None" in graph.code
    x, y = rl.randn(2, 3), rl.randn(2, 3)
    assert rl.jit.script(graph)(x, y)[0].equal(Net()(x, y)[0])


def _fails(f, error, match, *args):
    with pytest.raises(error, match=match):
        rl.jit.script(f)(*args)


def test_numbers_of_a_tensor_are_what_their_annotation_says():
    def ints(x: rl.Tensor) -> list[int]:
        return x.tolist()

    def one(x: rl.Tensor) -> float:
        return x.tolist()

    assert rl.jit.script(ints)(rl.arange(3, dtype=rl.int8)) == [0, 1, 2]
    for wrong in (rl.tensor([1.7]), rl.tensor([True]), rl.tensor([1j])):
        _fails(ints, RuntimeError, "says int", wrong)
    for wrong in (rl.ones(2, 1, dtype=rl.int64), rl.tensor(3)):
        _fails(ints, RuntimeError, "lists of 1 dimensions", wrong)
    _fails(one, RuntimeError, "lists of 0 dimensions", rl.ones(1, 1))


def test_limits_of_other_dtypes_raise():
    def largest(x: rl.Tensor) -> float:
        return rl.finfo(x.dtype).max

    def most(x: rl.Tensor) -> int:
        return rl.iinfo(x.dtype).max

    assert rl.jit.script(largest)(rl.tensor([1j])) == rl.finfo(rl.complex64).max
    _fails(largest, TypeError, "finfo: does not describe torch.int64", rl.tensor([1]))
    _fails(most, TypeError, "iinfo: does not describe torch.bool", rl.tensor([True]))


def test_results_that_do_not_fit_are_not_written():
    def add(a, out):
        return rl.add(a, a, out=out)

    whole = rl.zeros(2, dtype=rl.int64)
    _fails(add, rl.DTypeError, "cannot be cast", rl.full((2,), 0.7), whole)
    assert whole.tolist() == [0, 0]
    _fails(add, rl.DTypeError, "cannot be cast", rl.tensor([1j, 2]), rl.zeros(2))
    _fails(add, rl.DTypeError, "cannot be cast", rl.ones(2, dtype=rl.int64), rl.ones(2) > 0)
    _fails(add, RuntimeError, "automatic diff", rl.ones(2, requires_grad=True), rl.zeros(2))
    wide = rl.zeros(2, dtype=rl.complex128)
    assert rl.jit.script(add)(rl.ones(2, dtype=rl.int64), wide).tolist() == [2, 2]


def test_transforms_and_windows_check_their_arguments():
    def spectrum(x: rl.Tensor, dim: int):
        return rl.fft.fft(x, dim=dim)

    for dim in (2, -3):
        _fails(spectrum, IndexError, "fft.fft: dim .*from -2 to 1", rl.ones(2, 3), dim)
    _fails(spectrum, IndexError, "from -1 to 0", rl.tensor(1.0), -1)

    def window(n: int, dtype: rl.dtype):
        return rl.hann_window(n, dtype=dtype, requires_grad=True)

    assert rl.jit.script(window)(3, rl.float64).requires_grad
    _fails(window, rl.DTypeError, "hann_window: needs a floating", 3, rl.int64)
    _fails(window, RuntimeError, "hann_window: window_length", -1, rl.float32)


def test_texts_split_from_the_right_as_python_does():
    def split(s: str, sep: str, most: int):
        return s.rsplit(None, most), s.rsplit(sep, most)

    for most in (0, 1, 2, 9):
        assert rl.jit.script(split)("  a b  c ", " ", most) == split("  a b  c ", " ", most)
    _fails(split, ValueError, "empty separator", "abc", "", 1)


def test_products_of_floats():
    def product(values: list[float]):
        return math.prod(values)

    assert rl.jit.script(product)([1.5, 2.0]) == 3.0
