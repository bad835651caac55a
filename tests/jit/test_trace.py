"""What a trace records, what it warns of, and what it refuses."""

import collections
import copy
import inspect
import io
import pickle
import threading
import warnings

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and rl.equal(a, b)


def traced_quietly(function, *inputs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return rl.jit.trace(function, inputs, **options)


def warned_lines(function, *inputs):
    """The lines of `function`, from 1, that the tracer warned of, and the texts."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rl.jit.trace(function, inputs, check_trace=False)
    first = inspect.getsourcelines(function)[1]
    assert all(w.category is rl.jit.TracerWarning for w in seen)
    assert all(w.filename == __file__ for w in seen)
    return [w.lineno - first for w in seen], " ".join(str(w.message) for w in seen)


# What is recorded.


def test_numbers_stay_weak():
    traced = traced_quietly(lambda x: x * 2 + 1.5, rl.ones(3, dtype=rl.float16))
    assert same(traced(rl.ones(3, dtype=rl.float16)), rl.full((3,), 3.5, dtype=rl.float16))
    assert same(traced(rl.ones(3, dtype=rl.int32)), rl.full((3,), 3.5))


def test_writes_in_place_through_views_and_data():
    def f(x):
        y = x * 2
        y[0] = 5
        y[1:].add_(x[1:])
        y.data.mul_(3)
        out = rl.empty(3)
        rl.add(y, 1, out=out)
        return y, out

    traced = traced_quietly(f, rl.ones(3))
    x = rl.randn(3)
    assert all(map(same, traced(x), f(x)))


def test_constants_start_each_run_as_they_were():
    outside = rl.tensor([1.0, 2.0, 3.0])

    def f(x):
        fresh = rl.tensor([1.0, 1.0, 1.0])
        fresh.add_(x)
        return fresh + outside

    traced = traced_quietly(f, rl.ones(3))
    outside.zero_()  # the program has its own
    for _ in range(2):
        assert same(traced(rl.zeros(3)), rl.tensor([2.0, 3.0, 4.0]))


def test_one_tensor_given_twice_is_two_inputs():
    x = rl.ones(3)
    traced = traced_quietly(lambda a, b: a - 2 * b, x, x)
    assert same(traced(x, 3 * x), rl.full((3,), -5.0))
    assert same(traced(b=3 * x, a=x), rl.full((3,), -5.0))


def test_parameters_by_name_and_shared_ones_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.register_buffer("scale", rl.tensor(2.0), persistent=False)

        def forward(self, x):
            return self.b(self.a(x)) * self.scale

    net = Tied()
    traced = traced_quietly(net, rl.randn(2, 4))
    assert list(traced.state_dict()) == list(net.state_dict())
    assert [n for n, _ in traced.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert traced.a.weight is net.a.weight and traced.b.weight is net.a.weight
    loaded = rl.jit.load(io.BytesIO(traced.save_to_buffer()))
    assert loaded.a.weight is loaded.b.weight and list(loaded.state_dict()) == list(
        net.state_dict()
    )
    x = rl.randn(5, 4)
    assert same(loaded(x), net(x))
    with rl.no_grad():
        net.a.weight.zero_()
    assert same(traced(x), net(x)) and not same(loaded(x), net(x))


def test_grad_mode_and_autocast_are_kept():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            with rl.no_grad():
                scale = self.a(x).mean()
            with rl.autocast("cpu", dtype=rl.bfloat16):
                y = self.b(F.layer_norm(self.a(x), (8,)))
            return y.float() * scale

    net = Net()
    traced = traced_quietly(net, rl.randn(3, 8))
    x = rl.randn(3, 8)
    assert same(traced(x), net(x))
    grads = []
    for function in (traced, net):
        net.zero_grad()
        function(x).sum().backward()
        grads.append([p.grad.clone() for p in net.parameters()])
    assert all(map(same, *grads))
    assert not rl.is_autocast_enabled("cpu") and rl.is_grad_enabled()


def test_random_numbers_are_drawn_anew():
    traced = traced_quietly(lambda x: F.dropout(x, 0.5), rl.ones(100))
    first, second = traced(rl.ones(100)), traced(rl.ones(100))
    assert not same(first, second) and set(first.tolist()) == {0.0, 2.0}
    rl.manual_seed(3)
    again = traced(rl.ones(100))
    rl.manual_seed(3)
    assert same(again, F.dropout(rl.ones(100), 0.5))


def test_containers_of_inputs_and_outputs():
    Pair = collections.namedtuple("Pair", "left right")

    def f(pair, more):
        return pair.left + more["x"][0], (pair.right, None)

    pair = Pair(rl.ones(2), rl.zeros(2))
    traced = traced_quietly(f, pair, {"x": [rl.ones(2)]})
    out, (right, nothing) = traced((rl.ones(2), 5 * rl.ones(2)), {"x": [3 * rl.ones(2)]})
    assert same(out, 4 * rl.ones(2)) and same(right, 5 * rl.ones(2)) and nothing is None
    with pytest.raises(TypeError, match="'more' must be packed as in the trace: a dict of 1 items"):
        traced(pair, [rl.ones(2)])
    with pytest.raises(TypeError, match="has the inputs pair, more"):
        traced(pair)


def test_lists_and_dicts_only_if_not_strict():
    def f(x):
        return {"twice": [2 * x]}

    with pytest.raises(RuntimeError, match="a dict.*strict=False"):
        rl.jit.trace(f, rl.ones(2))
    assert same(rl.jit.trace(f, rl.ones(2), strict=False)(rl.ones(2))["twice"][0], 2 * rl.ones(2))


def test_example_inputs_by_name():
    traced = rl.jit.trace(
        lambda x, *, scale: x * scale,
        example_kwarg_inputs={"scale": rl.tensor(2.0), "x": rl.ones(2)},
    )
    assert same(traced(x=rl.ones(2), scale=rl.tensor(3.0)), 3 * rl.ones(2))
    with pytest.raises(RuntimeError, match="example_inputs"):
        rl.jit.trace(lambda x: x)


def test_methods_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x)

        def loss(self, x, y):
            return F.mse_loss(self(x), y)

    net, x = Net(), rl.randn(4, 3)
    traced = rl.jit.trace_module(net, {"forward": x, "loss": (x, x)})
    assert same(traced.loss(x, 2 * x), net.loss(x, 2 * x)) and same(traced(x), net(x))
    loaded = rl.jit.load(io.BytesIO(traced.save_to_buffer()))
    assert same(loaded.loss(x, 2 * x), net.loss(x, 2 * x))
    assert same(rl.jit.trace(net.forward, x)(x), net(x))


def test_subclasses_and_programs_inside_of_programs():
    class Mine(rl.Tensor):
        pass

    inner = traced_quietly(
        lambda a: (a * 2).as_subclass(rl.Tensor) + 1, rl.ones(3).as_subclass(Mine)
    )
    outer = traced_quietly(lambda a: inner(a).as_subclass(Mine).sum(), rl.ones(3))
    assert outer.code.count("mul(") == 1 and outer(rl.ones(3)).item() == 9


def test_transforms_autocast_and_the_profiler_see_ordinary_ops():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    traced, x = traced_quietly(net, rl.randn(2, 4)), rl.randn(5, 4)
    rl.testing.assert_close(rl.func.vmap(traced)(x), net(x))
    rl.testing.assert_close(rl.func.jacrev(traced)(x[0]), rl.func.jacrev(net)(x[0]))
    rl.testing.assert_close(rl.func.jvp(traced, (x,), (x,))[1], rl.func.jvp(net, (x,), (x,))[1])
    with rl.autocast("cpu", dtype=rl.bfloat16):
        assert traced(x).dtype == rl.bfloat16 and same(traced(x), net(x))
    with rl.profiler.profile() as seen:
        traced(x)
    assert {"aten::linear", "aten::relu"} <= {event.key for event in seen.key_averages()}


# Numbers that follow sizes.


def attention_like(x, w):
    b, t, e = x.shape
    h = (x @ w).view(b, t, 2, e // 2).transpose(1, 2)
    return h.reshape(b * t, -1) / b + rl.arange(b * t)[:, None]


def test_numbers_follow_the_first_two_sizes():
    w = rl.randn(8, 8)
    traced = traced_quietly(attention_like, rl.randn(2, 3, 8), w)
    assert "[s*t, -1]" in traced.code and "s = %0.size(0)" in traced.code
    for b, t in ((2, 3), (5, 3), (2, 9), (7, 1), (1, 1)):
        x = rl.randn(b, t, 8)
        assert same(traced(x, w), attention_like(x, w))


def test_a_number_that_equals_a_size_by_chance_stays():
    traced = traced_quietly(lambda x: x.sum(0).view(4, 2) * x.size(0), rl.randn(4, 8))
    x = rl.randn(6, 8)
    assert same(traced(x), x.sum(0).view(4, 2) * 6)


def test_numbers_that_follow_otherwise_stay_and_are_not_guessed():
    def f(x):
        return x[: x.size(0) // 2] * x.size(0)

    traced = traced_quietly(f, rl.randn(8))
    assert "s = " not in traced.code  # n // 2 is no multiple of n
    assert same(traced(rl.ones(8)), 8 * rl.ones(4))


def test_growing_the_inputs_leaves_no_trace():
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Flatten(0), nn.Unflatten(0, (2, 8)))
    kept = {k: v.clone() for k, v in net.state_dict().items()}
    rl.manual_seed(5)
    rl.jit.trace(net, rl.randn(4, 4))
    once = copy.deepcopy(net)
    once.load_state_dict(kept)
    rl.manual_seed(5)
    once(rl.randn(4, 4))
    assert all(map(same, net.state_dict().values(), once.state_dict().values()))


def test_parameters_that_forward_writes_are_written_once():
    table = nn.Embedding(4, 3, max_norm=1.0)
    start = table.weight.detach().clone()
    rl.jit.trace(table, rl.tensor([0, 1]))
    assert same(table.weight[2:], start[2:]) and not same(table.weight[:2], start[:2])


# Warnings.


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x


def item(x):
    return x * x[0].item()


def conversions(x):
    y = x * float(x[0])
    y = y * int(x[1])
    y = y + rl.tensor(x.tolist())
    return y + rl.from_numpy(x.numpy())


def iteration(x):
    return sum(2 * row for row in x)


def length(x):
    return x * len(x)


def question(x):
    return x if rl.equal(x, x) else 2 * x


@pytest.mark.parametrize(
    ("function", "lines", "text"),
    [
        (branch, [1], "Python number"),
        (item, [1], "Python number"),
        (conversions, [1, 2, 3, 4], "NumPy"),
        (iteration, [1], "iteration"),
        (length, [1], "len"),
        (question, [1], "equal"),
    ],
)
def test_values_that_python_reads_are_warned_of(function, lines, text):
    found, texts = warned_lines(function, rl.ones(3))
    assert found == lines and text in texts and "keeps" in texts


def test_reading_what_is_no_part_of_the_program_is_fine():
    table = rl.tensor([1, 2])
    traced_quietly(lambda x: x * int(table[0]) * x.size(0) * x.dim(), rl.ones(3))


def test_the_check_finds_what_changes_from_call_to_call():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    with pytest.warns(rl.jit.TracerWarning, match="output 0 differs.*by up to"):
        rl.jit.trace(f, rl.ones(3))
    with pytest.raises(rl.jit.TracingCheckError, match="view"):
        rl.jit.trace(lambda x: x.view(2, 3) + 1, rl.ones(6), check_inputs=[(rl.ones(8),)])


# Refusals.


class Double(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def with_backward(x):
    y = x.detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad


def with_data(x):
    y = x * 2
    y.data = rl.zeros(3)
    return y


LAYER = nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: LAYER(x), "requires a gradient.*test_trace.py"),
        (Double.apply, "Function"),
        (with_backward, "backward ran inside.*test_trace.py"),
        (with_data, "other memory"),
        (lambda x: rl.func.vmap(rl.sin)(x), "vmap.*test_trace.py"),
        (lambda x: rl.func.jvp(rl.sin, (x,), (x,))[1], "forward mode.*test_trace.py"),
        (lambda x: x + rl.rand(3, generator=rl.Generator()), "generator.*test_trace.py"),
        (lambda x: (x, 3), "not int"),
    ],
)
def test_what_cannot_be_a_program_is_refused(function, text):
    with pytest.raises(RuntimeError, match=text):
        rl.jit.trace(function, rl.ones(3))
    assert not rl.jit.is_tracing()
    assert same(rl.jit.trace(rl.sin, rl.ones(3))(rl.ones(3)), rl.sin(rl.ones(3)))


def test_errors_of_the_function_leave_and_end_the_trace():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        rl.jit.trace(f, rl.ones(3))
    assert not rl.jit.is_tracing()


@pytest.mark.threads
def test_is_tracing_is_about_this_thread():
    seen = []

    def f(x):
        seen.append(rl.jit.is_tracing())
        other = threading.Thread(target=lambda: seen.append((rl.jit.is_tracing(), rl.ones(2) + 1)))
        other.start()
        other.join()
        return x + 1

    traced = rl.jit.trace(f, rl.ones(3), check_trace=False)
    assert seen[0] is True and seen[1][0] is False and not rl.jit.is_tracing()
    assert traced.code.count("add(") == 1


# The module.


def test_the_module_is_copied_and_not_pickled():
    traced = rl.jit.trace(nn.Linear(3, 3), rl.ones(1, 3))
    other = copy.deepcopy(traced)
    with rl.no_grad():
        other.weight.zero_()
    x = rl.randn(2, 3)
    assert not same(other(x), traced(x)) and isinstance(traced, rl.jit.ScriptModule)
    with pytest.raises(TypeError, match="jit.save"):
        pickle.dumps(traced)
    with pytest.raises(NotImplementedError, match="runs as a whole"):
        rl.jit.trace(nn.Sequential(nn.Linear(3, 3)), x).get_submodule("0")(x)


def test_tracing_twice_gives_the_same():
    traced = rl.jit.trace(nn.Linear(3, 3), rl.ones(1, 3))
    with pytest.warns(UserWarning, match="traced before"):
        assert rl.jit.trace(traced, rl.ones(1, 3)) is traced


def test_another_mode_is_warned_of_where_it_matters():
    dropping = rl.jit.trace(nn.Dropout(), rl.ones(3))
    with pytest.warns(UserWarning, match="training mode and keeps it"):
        dropping.eval()
    quiet = rl.jit.trace(nn.Linear(3, 3), rl.ones(1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not quiet.eval().training and quiet.train().training


def test_other_dtypes_and_devices():
    net = nn.Linear(3, 3)
    traced = rl.jit.trace(copy.deepcopy(net), rl.ones(1, 3))
    x = rl.randn(2, 3, dtype=rl.float64)
    assert same(traced.double()(x), net.double()(x))
    shifted = rl.jit.trace(
        lambda x: x + rl.zeros(3, device=x.device) + rl.tensor([1.0, 2.0, 3.0]), rl.ones(3)
    )
    loaded = rl.jit.load(io.BytesIO(shifted.save_to_buffer()), map_location="meta")
    assert loaded(rl.ones(3, device="meta")).device.type == "meta"
