"""What goes wrong silently in systems that skip Python: here it works, or is said loudly."""

import datetime
import math
import random
import threading
import time
import types

import numpy as np
import pytest
from frozen_calls import bits, reasons, recordings, replays

import rushlight as rl
from rushlight import nn
from rushlight.compiler import AuditError

MODES = ["default", "frozen"]
pytestmark = pytest.mark.parametrize("mode", MODES)
SCALE = 2.0
WEIGHT = rl.ones(3)
OFFSETS = [1.0, 2.0]
CONFIG = {"on": True}
SETTINGS = types.SimpleNamespace(power=2)
CALLS = 0


class Constants:
    FACTOR = 2.0


def helper(x):
    return x * SCALE


def warm(mode, f, *args, calls=6):
    """A compiled function that was called often enough to be replayed."""
    g = rl.compile(f, mode=mode)
    for _ in range(calls):
        assert bits(g(*args)) == bits(f(*args))
    if mode == "frozen":
        assert replays(g) > 0, recordings(g).lines()
    return g


X = rl.tensor([1.0, -2.0, 3.0])


def check(g, f, *args, calls=6):
    for _ in range(calls):
        assert bits(g(*args)) == bits(f(*args))


class TestPythonState:
    def test_a_global_number(self, mode, monkeypatch):
        def f(x):
            return helper(x) + 1

        g = warm(mode, f, X)
        monkeypatch.setitem(globals(), "SCALE", 5.0)
        check(g, f, X)
        monkeypatch.setitem(globals(), "SCALE", 7.0)
        check(g, f, X)

    def test_a_global_tensor_is_replaced_or_written_to(self, mode, monkeypatch):
        def f(x):
            return x + WEIGHT

        g = warm(mode, f, X)
        monkeypatch.setitem(globals(), "WEIGHT", rl.full((3,), 4.0))
        check(g, f, X)
        WEIGHT.add_(1)
        check(g, f, X)

    def test_a_global_function_is_replaced(self, mode, monkeypatch):
        def f(x):
            return helper(x)

        g = warm(mode, f, X)
        monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
        check(g, f, X)

    def test_a_list_a_dict_and_an_object(self, mode, monkeypatch):
        def f(x):
            y = x
            for offset in OFFSETS:
                y = y + offset
            return y**SETTINGS.power if CONFIG["on"] else y

        g = warm(mode, f, X)
        OFFSETS.append(3.0)
        check(g, f, X)
        OFFSETS[0] = 10.0
        check(g, f, X)
        monkeypatch.setitem(CONFIG, "on", False)
        check(g, f, X)
        monkeypatch.setitem(CONFIG, "on", True)
        monkeypatch.setattr(SETTINGS, "power", 3)
        check(g, f, X)

    def test_a_number_of_a_class(self, mode, monkeypatch):
        def f(x):
            return x * Constants.FACTOR

        g = warm(mode, f, X)
        monkeypatch.setattr(Constants, "FACTOR", 3.0)
        check(g, f, X)

    def test_a_number_of_another_module(self, mode, monkeypatch):
        other = types.ModuleType("other")
        other.__file__ = "other.py"
        other.rate = 2.0
        monkeypatch.setitem(globals(), "other", other)
        space = {"__name__": __name__, "other": other}
        exec("def f(x):\n    return x * other.rate", space)
        g = warm(mode, space["f"], X)
        other.rate = 3.0
        check(g, space["f"], X)

    def test_a_closure_over_a_number(self, mode):
        factor = 2.0

        def f(x):
            return x * factor

        g = warm(mode, f, X)
        factor = 3.0
        check(g, f, X)
        factor = math.inf
        check(g, f, X)

    def test_closures_of_functions_that_are_called(self, mode):
        factor = 2

        def inner(x):
            return x * factor

        def f(x):
            return sum((inner(part) for part in (x, x + 1)), start=inner(x))

        g = warm(mode, f, X)
        factor = 5
        check(g, f, X)

    def test_defaults_and_partials(self, mode):
        import functools

        def f(x, y=3.0, *, z=(1, 2)):
            return x * y + z[0]

        g = warm(mode, f, X)
        f.__defaults__ = (4.0,)
        check(g, f, X)
        p = functools.partial(f, z=(7,))
        check(rl.compile(p, mode=mode), p, X)

    def test_a_counter_that_the_function_moves_on(self, mode):
        count = 0

        def f(x):
            nonlocal count
            count += 1
            return x * count

        g = rl.compile(f, mode=mode)
        for i in range(1, 20):
            assert g(X).tolist() == (X * i).tolist()
        if mode == "frozen":
            assert "count" in reasons(g) and replays(g) == 0

    def test_a_list_that_the_function_appends_to(self, mode):
        losses, seen = [], []

        def f(x):
            y = x * 2
            losses.append(y.sum())
            seen.append(1)
            return y

        g = rl.compile(f, mode=mode)
        for i in range(1, 20):
            g(X * i)
            assert len(losses) == len(seen) == i
            assert losses[-1].item() == 4.0 * i
        if mode == "frozen":
            assert "losses" in reasons(g) and replays(g) == 0

    def test_an_attribute_that_keeps_a_tensor(self, mode):
        class Model(nn.Module):
            def forward(self, x):
                self.last = x * 2
                return self.last + 1

        model = Model()
        g = rl.compile(model, mode=mode)
        for i in range(1, 12):
            g(X * i)
            assert model.last.tolist() == (X * 2 * i).tolist()

    def test_a_tensor_kept_where_nobody_looks(self, mode):
        class Slots:
            __slots__ = ("tensor",)

        slots = Slots()

        def f(x):
            slots.tensor = x * 2
            return x + 1

        g = rl.compile(f, mode=mode)
        for i in range(1, 12):
            g(X * i)
            assert slots.tensor.tolist() == (X * 2 * i).tolist()
        if mode == "frozen":
            assert "kept in Python" in reasons(g)

    def test_a_module_attribute(self, mode):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)
                self.power, self.scale = 2, 0.5
                self.names = ["a"]

            def forward(self, x):
                return self.linear(x) ** self.power * self.scale * len(self.names)

        model = Model()
        g = rl.compile(model, mode=mode)
        check(g, model, X)
        for change in (
            lambda: setattr(model, "power", 3),
            lambda: setattr(model, "scale", 0.25),
            lambda: model.names.append("b"),
            lambda: setattr(model, "linear", nn.Linear(3, 3)),
            lambda: setattr(model.linear, "weight", nn.Parameter(rl.ones(3, 3))),
            lambda: setattr(model.linear.weight, "data", rl.full((3, 3), 2.0)),
            lambda: model.linear.bias.requires_grad_(False),
            lambda: model.linear.register_parameter("bias", None),
            lambda: model.linear.register_forward_hook(lambda m, i, o: o * 3),
            lambda: setattr(Model, "forward", lambda self, x: self.linear(x) - 1),
        ):
            change()
            check(g, model, X)
        if mode == "frozen":
            assert replays(g) > 10

    def test_train_and_eval(self, mode):
        model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
        g = rl.compile(model, mode=mode)
        x = rl.randn(4, 3)
        for train in (True, False, True, False):
            model.train(train)
            for _ in range(6):
                state = {k: v.clone() for k, v in model.state_dict().items()}
                rl.manual_seed(5)
                got = bits(g(x))
                after = [bits(v) for v in model.state_dict().values()]
                model.load_state_dict(state)
                rl.manual_seed(5)
                assert got == bits(model(x))
                assert after == [bits(v) for v in model.state_dict().values()]


class TestValues:
    @pytest.mark.parametrize(
        "read",
        [
            lambda t: t.sum().item(),
            lambda t: bool(t.sum() > 0),
            lambda t: float(t[0]),
            lambda t: t.tolist()[0],
            lambda t: 1.0 if t.sum() > 0 else 2.0,
            lambda t: float(np.asarray(t)[0]),
            lambda t: len(str(t)),
            lambda t: int(t[0]) if t.any() else 0,
            lambda t: 1 if rl.equal(t, t.abs()) else 2,
            lambda t: 1 if rl.allclose(t, X) else 2,
        ],
    )
    def test_values_that_python_sees(self, mode, read):
        def f(x):
            return x * read(x)

        g = rl.compile(f, mode=mode)
        for i in range(-5, 6):
            x = X + i
            assert bits(g(x)) == bits(f(x))
        if mode == "frozen":
            assert replays(g) == 0 and "test_footguns.py" in reasons(g)

    def test_a_branch_on_a_value(self, mode):
        def f(x):
            if x.sum() > 0:
                return x * 2
            return x - 1

        g = rl.compile(f, mode=mode)
        for i in range(12):
            x = X * (-1) ** i
            assert bits(g(x)) == bits(f(x))

    def test_print(self, mode, capsys):
        def f(x):
            print("called")
            return x + 1

        g = rl.compile(f, mode=mode)
        for _ in range(10):
            g(X)
        assert capsys.readouterr().out == "called\n" * 10
        if mode == "frozen":
            assert "print()" in reasons(g) and "test_footguns.py" in reasons(g)

    def test_sizes_that_depend_on_values(self, mode):
        def f(x):
            chosen = x[x > 0]
            return chosen.sum() / max(chosen.shape[0], 1) + x.nonzero().shape[0]

        g = rl.compile(f, mode=mode)
        for i in range(-4, 8):
            x = X + i
            assert bits(g(x)) == bits(f(x))

    def test_random_numbers_of_python(self, mode):
        def f(x):
            return x * random.random()

        g = rl.compile(f, mode=mode)
        for i in range(10):
            random.seed(i)
            got = g(X)
            random.seed(i)
            assert bits(got) == bits(f(X))

    def test_random_numbers(self, mode):
        def f(x):
            return x + rl.randn(3) + nn.functional.dropout(x, 0.5) + rl.rand_like(x)

        results = []
        for run in (rl.compile(f, mode=mode), f):
            rl.manual_seed(1)
            results.append([bits(run(X)) for _ in range(12)])
        assert results[0] == results[1]

    def test_seeds_inside(self, mode):
        def f(x):
            rl.manual_seed(3)
            return x + rl.randn(3)

        g = rl.compile(f, mode=mode)
        check(g, f, X, calls=10)

    def test_a_generator(self, mode):
        generator = rl.Generator()

        def f(x):
            return x + rl.randn(3, generator=generator)

        results = []
        for run in (rl.compile(f, mode=mode), f):
            generator.manual_seed(1)
            results.append([bits(run(X)) for _ in range(12)])
        assert results[0] == results[1]

    def test_arrays_of_numpy_inside(self, mode):
        table = np.array([1.0, 2.0, 3.0], np.float32)

        def f(x):
            return x * rl.from_numpy(table) + rl.tensor(table)

        g = rl.compile(f, mode=mode)
        check(g, f, X)
        table[:] = 7
        check(g, f, X)


class TestKept:
    """What the function leaves behind where no guard looks."""

    def kept(self, mode, f, why, calls=12):
        g = rl.compile(f, mode=mode)
        for i in range(1, calls):
            g(X * i)
            yield X * i
        if mode == "frozen":
            assert why in reasons(g) and replays(g) == 0

    def test_an_argument(self, mode):
        class Slots:
            __slots__ = ("tensor",)

        slots = Slots()

        def f(x):
            slots.tensor = x
            return x + 1

        for x in self.kept(mode, f, "an argument was kept"):
            assert bits(slots.tensor) == bits(x)

    def test_an_argument_that_comes_back_is_not_kept(self, mode):
        g = warm(mode, lambda x: x, X)
        assert g(X) is X
        g = rl.compile(lambda x: (x, [x, x + 1]), mode=mode)
        for _ in range(6):
            assert g(X)[1][0] is X
        assert mode == "default" or replays(g) > 0

    def test_attributes_of_results(self, mode):
        def f(x):
            y = x * 2
            y.scale = 3
            return y

        g = rl.compile(f, mode=mode)
        for _ in range(8):
            assert g(X).scale == 3

    def test_attributes_of_arguments(self, mode):
        def f(x):
            return x * x.scale

        g = rl.compile(f, mode=mode)
        for i in range(20):
            x = X.clone()
            x.scale = i // 6
            assert bits(g(x)) == bits(X * (i // 6))

    def test_modes_that_stay(self, mode):
        def f(x):
            y = x * 2
            rl.set_grad_enabled(False)
            return y

        g = rl.compile(f, mode=mode)
        for _ in range(8):
            g(X)
            assert not rl.is_grad_enabled()
            rl.set_grad_enabled(True)

    @pytest.mark.threads
    def test_threads_inside(self, mode):
        total = rl.zeros(3)

        def f(x):
            thread = threading.Thread(target=total.add_, args=(x,))
            thread.start()
            thread.join()
            return x + 1

        for i, _ in enumerate(self.kept(mode, f, "a thread"), 1):
            assert bits(total) == bits(X * (i * (i + 1) // 2))

    @pytest.mark.parametrize(
        "draw",
        [
            lambda: np.random.default_rng().random(),
            lambda: datetime.datetime.now().microsecond,
            lambda: time.perf_counter_ns() % 1000003,
            lambda: random.gauss(0, 1),
        ],
    )
    def test_the_world_outside(self, mode, draw):
        def f(x):
            return x * draw()

        seen = {bits(y) for y in map(rl.compile(f, mode=mode), [X] * 12)}
        assert len(seen) > 8  # clocks may stand still

    def test_a_source_that_is_not_seen(self, mode):
        g = rl.compile(lambda x: x * np.random.rand(), mode=mode)
        g(X)
        if mode == "frozen":
            with pytest.raises(AuditError, match="Nothing was replayed yet"):
                g(X)


class TestArguments:
    def test_results_that_are_kept(self, mode):
        g = rl.compile(lambda x: x * 2, mode=mode)
        kept = [(i, g(X * i)) for i in range(12)]
        assert all(y.tolist() == (X * 2 * i).tolist() for i, y in kept)

    def test_an_input_that_is_written_to(self, mode):
        def f(x):
            x.mul_(2)
            return x + 1

        g = rl.compile(f, mode=mode)
        for _ in range(10):
            a, b = X.clone(), X.clone()
            assert bits(g(a)) == bits(f(b)) and bits(a) == bits(b)

    def test_aliased_inputs(self, mode):
        def f(x, y):
            x.add_(1)
            return x * y

        g = rl.compile(f, mode=mode)
        for i in range(24):
            a, b = X.clone(), X.clone()
            if i % 4 == 0:
                got, want = g(a, a), f(b, b)
            elif i % 4 == 1:
                got, want = g(a, a[:]), f(b, b[:])
            else:
                got, want = g(a, X), f(b, X)
            assert bits(got) == bits(want) and bits(a) == bits(b)

    def test_an_input_that_is_a_global(self, mode):
        def f(x):
            return x * 2 + WEIGHT

        g = rl.compile(f, mode=mode)
        for i in range(24):
            x = WEIGHT if i % 3 == 0 else X * i
            assert bits(g(x)) == bits(f(x))

    def test_shapes_dtypes_strides_and_flags(self, mode):
        def f(x):
            return x.t().reshape(-1) * x.shape[0] + x.stride()[0]

        g = rl.compile(f, mode=mode)
        makes = [
            lambda: rl.randn(3, 4),
            lambda: rl.randn(4, 3),
            lambda: rl.randn(4, 3).t(),
            lambda: rl.randn(3, 4).double(),
            lambda: rl.randn(6, 4)[::2],
            lambda: rl.randint(0, 5, (3, 4)),
            lambda: rl.randn(3, 4).requires_grad_(),
        ]
        for i in range(70):
            x = makes[(i // 2) % len(makes)]()
            got, want = g(x), f(x)
            assert bits(got) == bits(want) and got.dtype == want.dtype
            assert got.requires_grad == want.requires_grad

    def test_python_numbers_as_arguments(self, mode):
        def f(x, n, s, flag, name):
            y = x * s if flag else x - s
            return y**n if name == "power" else y + n

        g = rl.compile(f, mode=mode)
        for i in range(30):
            args = (X, 2 + i % 2, 0.5 * (i // 3), i % 5 != 0, "power" if i % 7 else "sum")
            assert bits(g(*args)) == bits(f(*args))

    def test_floats_become_inputs(self, mode):
        def f(x, s):
            return (x * s).add(1.0, alpha=s)

        g = rl.compile(f, mode=mode)
        for i in range(40):
            assert bits(g(X, 0.1 * i)) == bits(f(X, 0.1 * i))
        if mode == "frozen":
            assert len(recordings(g).programs()) == 1 and replays(g) > 20

    @pytest.mark.parametrize(
        "decide",
        [
            lambda s: s < 1,
            lambda s: 1.0 <= s,
            lambda s: min(s, 1.0) == 1.0,
            lambda s: int(s) % 2,
            lambda s: round(s, 1) in (0.5, 0.7),
            lambda s: f"{s:.1f}" > "1.0",
        ],
    )
    def test_a_float_that_decides(self, mode, decide):
        def f(x, s):
            return x * s if decide(s) else x - s

        g = rl.compile(f, mode=mode)
        for i in range(60):
            assert bits(g(X, s=0.1 * i)) == bits(f(X, 0.1 * i))

    def test_floats_that_are_worked_with(self, mode):
        def f(x, s):
            return x * (s * 2 + 1)

        g = rl.compile(f, mode=mode)
        for i in range(60):
            assert bits(g(X, 0.1 * i)) == bits(f(X, 0.1 * i))

    def test_containers_that_are_filled(self, mode):
        def f(batch):
            batch["y"] = batch["x"] * 2
            return batch["y"] + 1

        g = rl.compile(f, mode=mode)
        for i in range(12):
            batch = {"x": X * i}
            assert bits(g(batch)) == bits(X * i * 2 + 1)
            assert bits(batch["y"]) == bits(X * i * 2)


class TestModesAround:
    def test_grad_mode_inference_and_autocast(self, mode):
        model = nn.Linear(3, 3)
        g = rl.compile(model, mode=mode)
        contexts = [
            rl.enable_grad,
            rl.no_grad,
            rl.inference_mode,
            lambda: rl.autocast("cpu", dtype=rl.bfloat16),
        ]
        for i in range(48):
            with contexts[(i // 6) % 4]():
                got, want = g(X[None]), model(X[None])
            assert bits(got.float()) == bits(want.float()) and got.dtype == want.dtype
            assert got.requires_grad == want.requires_grad
            assert got.is_inference() == want.is_inference()

    def test_the_default_dtype(self, mode):
        def f(x):
            return x + rl.ones(3)

        g = rl.compile(f, mode=mode)
        check(g, f, X)
        rl.set_default_dtype(rl.float64)
        try:
            assert g(X).dtype == rl.float64
        finally:
            rl.set_default_dtype(rl.float32)
        check(g, f, X)


class TestAudits:
    """Differences that no guard sees."""

    def planted(self, mode, f, calls=17):
        g = rl.compile(f, mode=mode)
        if mode == "default":
            for _ in range(calls):
                g(X)
            return
        with pytest.raises(AuditError) as failed:
            for _ in range(calls):
                g(X)
        text = str(failed.value)
        assert "test_footguns.py" in text and "before, now" in text
        for _ in range(3):
            g(X)  # it goes on from there

    def test_an_iterator(self, mode):
        steps = iter(range(100))

        def f(x):
            return x * 2 if next(steps) < 4 else x + 2

        self.planted(mode, f)

    def test_another_number(self, mode):
        steps = iter([1.0] * 5 + [2.0] * 100)
        self.planted(mode, lambda x: x * next(steps))

    def test_a_constant(self, mode):
        steps = iter([1.0] * 5 + [2.0] * 100)
        self.planted(mode, lambda x: x + rl.tensor([next(steps), 1.0, 1.0]))

    def test_one_op_more(self, mode):
        steps = iter([1] * 5 + [2] * 100)

        def f(x):
            for _ in range(next(steps)):
                x = x + 1
            return x

        self.planted(mode, f)

    def test_another_order_of_results(self, mode):
        steps = iter([True] * 5 + [False] * 100)

        def f(x):
            a, b = x + 1, x * 2
            return (a, b) if next(steps) else (b, a)

        g = rl.compile(f, mode=mode)
        if mode == "default":
            return
        with pytest.raises(AuditError, match="results"):
            for _ in range(17):
                g(X)

    def test_another_python_value_among_the_results(self, mode):
        steps = iter([1] * 5 + [2] * 100)
        g = rl.compile(lambda x: (x + 1, next(steps)), mode=mode)
        if mode == "default":
            return
        with pytest.raises(AuditError, match="returned"):
            for _ in range(17):
                g(X)

    def test_a_difference_in_the_first_calls(self, mode):
        steps = iter([1.0, 1.0, 2.0, 2.0])
        g = rl.compile(lambda x: x * next(steps), mode=mode)
        g(X), g(X)
        if mode == "default":
            return
        with pytest.raises(AuditError, match="mul"):
            g(X)
