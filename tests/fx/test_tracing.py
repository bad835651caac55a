"""Tracers: what is recorded, what is refused, what subclasses change."""

import math
import operator
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import fx, nn
from rushlight.fx.proxy import TraceError

X = rl.arange(6.0).reshape(2, 3)


def calls(graph):
    return [node.name for node in graph.nodes if node.op.startswith("call")]


def my_helper(x, k):
    return x if k > 2 and x.sum() > 0 else -x  # cannot be traced into


def my_decorated(x):
    return x if x.sum() > 0 else -x


fx.wrap("my_helper")
fx.wrap("len")
fx.wrap(my_decorated)


def test_wrapped_functions_are_one_step():
    module = fx.symbolic_trace(lambda x: my_helper(x, 3) + my_decorated(x) * len(x))
    assert calls(module.graph)[:3] == ["my_helper", "my_decorated", "len_1"]
    assert rl.equal(module(X), X + X * 2)
    assert calls(fx.symbolic_trace(module).graph)[0] == "my_helper"  # hidden again
    assert len([1, 2]) == 2 and "len" not in globals()


def test_math_is_wrapped_by_any_name():
    module = fx.symbolic_trace(lambda x: x * math.sqrt(x.size(0)) + sqrt(x.size(1)))
    assert rl.equal(module(X), X * math.sqrt(2) + math.sqrt(3))
    assert math.sqrt(4) == 2 and sqrt(4) == 2


def test_wrap_wants_the_top_level():
    with pytest.raises(NotImplementedError, match="at the top of a module"):
        fx.wrap("my_helper")
    with pytest.raises(RuntimeError, match="a function or its name"):
        fx.wrap(3)


def refused_if(x):
    if x.sum() > 0:
        return x
    return -x


def refused_loop(x):
    for row in x:
        x = x + row
    return x


REFUSED = {
    "if": (refused_if, TraceError, "torch.where.*refused_if: if x.sum"),
    "loop": (refused_loop, TraceError, "cannot be iterated.*refused_loop: for row in x"),
    "while": (lambda x: [x for _ in iter(lambda: bool(x), True)], TraceError, "control flow"),
    "not": (lambda x: not x, TraceError, "control flow"),
    "and": (lambda x: x and 1, TraceError, "control flow"),
    "in": (lambda x: 3 in x, TraceError, "cannot be iterated"),
    "star": (lambda x: rl.stack([*x]), TraceError, "cannot be iterated"),
    "two stars": (lambda x: dict(**x), TraceError, "cannot be iterated"),
    "range": (lambda x: range(x.size(0)), TypeError, "integer"),
    "int": (lambda x: int(x), TypeError, "int()"),
    "float": (lambda x: float(x), TypeError, "float()"),
    "list": (lambda x: list(x), RuntimeError, "len|iterated"),
    "object": (lambda x: object(), NotImplementedError, "argument of type"),
    "assignment": (lambda x: operator.setitem(x, 0, 1), TypeError, "assign"),
    "key": (lambda x: {x: 1}, RuntimeError, "as a key"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    program, error, text = REFUSED[case]
    if case == "list":  # Python asks for the length first, and ignores what it hears
        error = (RuntimeError, TraceError)
    with pytest.raises(error, match=f"(?s){text}"):
        fx.symbolic_trace(program)


def test_only_functions_and_modules():
    for bad in (3, rl.relu, "x"):
        with pytest.raises(AssertionError, match="Expected FunctionType"):
            fx.symbolic_trace(bad)


def test_concrete_args():
    def program(x, negate=True, how=None, scale=2):
        y = -x if negate else x
        return y * scale if how is None else y

    with pytest.raises(TraceError):
        fx.symbolic_trace(program)
    fixed = {"negate": False, "how": None}
    module = fx.symbolic_trace(program, concrete_args=fixed)
    assert rl.equal(module(X, False, None, 3), X * 3)
    with pytest.raises(AssertionError, match="fixed to False"):
        module(X, True, None, 3)
    with pytest.raises(AssertionError, match="fixed to None"):
        module(X, False, 1, 3)


def test_structured_inputs():
    def program(pair, d, z):
        return [pair[0] * d["w"], {"z": z + pair[1]}]

    concrete = {"pair": (fx.PH, fx.PH), "d": {"w": fx.PH}}
    module = fx.symbolic_trace(program, concrete_args=concrete)
    found = module((X, 1), {"w": 2}, X)
    assert rl.equal(found[0], X * 2) and rl.equal(found[1]["z"], X + 1)
    assert "tree_flatten_spec([pair, d, z]" in module.code


def test_asserts_are_recorded_if_wished():
    class Asserting(fx.Tracer):
        trace_asserts = True

    lines = [
        "def program(x):",
        " assert x.size(0) == 2",
        " assert x.sum(), 'text'",
        " return x + 1",
    ]
    space = {}
    exec("\n".join(lines), space)  # since pytest writes asserts anew
    program = space["program"]
    tracer = Asserting()
    module = fx.GraphModule(nn.Module(), tracer.trace(program))
    assert len(module.graph.find_nodes(op="call_function", target=fx.proxy.assert_fn)) == 2
    assert rl.equal(module(X), X + 1)
    with pytest.raises(AssertionError):
        module(rl.ones(3, 1))


class Inner(nn.Module):
    def forward(self, x):
        return F.relu(x) + 1


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.linear = nn.Linear(3, 3)
        self.constant = rl.ones(3)  # an attribute, no buffer
        self.register_buffer("buffer", rl.ones(3))

    def forward(self, x):
        return self.linear(self.inner(x)) + self.constant * x


def test_leaves_are_chosen():
    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Inner)

    model = Outer()
    graph = Leaves().trace(model)
    assert calls(graph) == ["inner", "linear", "mul", "add"]
    assert [n.target for n in graph.nodes if n.op == "get_attr"] == [
        "linear.weight", "linear.bias", "constant",
    ]  # fmt: skip
    assert rl.equal(fx.GraphModule(model, graph)(X), model(X))
    assert calls(fx.Tracer().trace(model)) == ["relu", "add", "linear", "mul", "add_1"]


def test_scopes():
    graph = fx.Tracer().trace(Outer())
    meta = {n.name: list(n.meta.get("nn_module_stack", {}).values()) for n in graph.nodes}
    assert meta["relu"] == [("inner", Inner)] and meta["linear"] == [("linear", nn.Linear)]
    assert meta["mul"] == []


def test_hooks_of_tracers():
    class Hooked(fx.Tracer):
        proxy_buffer_attributes = True

        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return (obj[i] for i in range(2))

        def create_arg(self, a):
            return f"<{a}>" if isinstance(a, range) else super().create_arg(a)

        def call_module(self, m, forward, args, kwargs):
            self.seen = [*getattr(self, "seen", []), self.path_of_module(m)]
            return super().call_module(m, forward, args, kwargs)

    class Program(Outer):
        def forward(self, x):
            x = super().forward(x)
            rows = [row * 2 for row in x]
            return (rl.stack(rows) if x.sum() > 0 else x) + self.buffer, range(3)

    tracer = Hooked()
    model = Program()
    module = fx.GraphModule(model, tracer.trace(model))
    assert tracer.seen == ["inner", "linear"]
    assert "buffer" in [n.target for n in module.graph.nodes if n.op == "get_attr"]
    found, text = module(X)
    assert text == "<range(0, 3)>" and found.shape == (2, 3)


def test_parameter_shapes():
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(rl.ones(3, 3))

        def forward(self, x):
            return x @ self.w if self.w.shape[0] == 3 and self.w.dim() == 2 else x

    model = Program()
    graph = fx.Tracer(param_shapes_constant=True).trace(model)
    assert calls(graph) == ["matmul"]
    with pytest.raises(TraceError):
        fx.symbolic_trace(model)


def test_stack_traces():
    class Recording(fx.Tracer):
        record_stack_traces = True

    graph = Recording().trace(lambda x: x.relu() + 1)
    trace = graph.find_nodes(op="call_method")[0].stack_trace
    assert "test_tracing.py" in trace and "x.relu()" in trace
    assert str(Path(fx.__file__).parent) not in trace
    module = fx.GraphModule(nn.Module(), graph)
    assert "# File: test_tracing.py:" in module.print_readable(print_output=False)
    with pytest.raises(Exception, match="(?s)While executing %relu.*Original traceback"):
        fx.Interpreter(module).run("text")


def test_modules_not_registered():
    loose = nn.Linear(3, 3)
    with pytest.raises(NameError, match="not a part of the traced one"):
        fx.symbolic_trace(lambda x: loose(x))


class Pair(NamedTuple):
    first: object
    second: object


def test_named_tuples_and_annotations():
    def program(x: rl.Tensor, k: "int" = 2) -> "rl.Tensor":
        return Pair(x * k, [x]).first

    module = fx.symbolic_trace(program)
    assert "x : rushlight.Tensor, k : int = 2) -> rushlight.Tensor" in module.code
    assert rl.equal(module(X), X * 2)
    pairs = fx.symbolic_trace(lambda x: Pair(x + 1, 2))
    assert isinstance(pairs(X), Pair)


def test_proxyable_classes():
    global Box

    class Box(metaclass=fx.ProxyableClassMeta):
        def __init__(self, value):
            self.value = value

    module = fx.symbolic_trace(lambda x: Box(x).value + 1)
    assert next(n.target for n in module.graph.nodes if n.op == "call_function") is Box
    assert rl.equal(module(X), X + 1)


def test_graphs_by_proxies():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = rl.cat([F.relu(x), rl.sigmoid(x)]) if False else rl.sigmoid(x) * 2 + x.sum()
    graph.output(y.node)
    module = fx.GraphModule(nn.Module(), graph)
    assert rl.equal(module(X), rl.sigmoid(X) * 2 + X.sum())
    other = fx.Proxy(fx.Graph().placeholder("y"))
    with pytest.raises(RuntimeError, match="multiple different tracers"):
        x + other


def test_constants_in_indices():
    table = rl.arange(12.0).reshape(3, 4)
    module = fx.symbolic_trace(lambda x: table[: x.size(0), x.size(1)] + table[x.size(0)][:2])
    assert rl.equal(module(X), table[:2, 3] + table[2][:2])

    def write(x):
        kept = rl.zeros(3)
        kept[x.size(0)] = 1.0
        kept += x[0]
        return kept

    graph = fx.symbolic_trace(write).graph
    assert {"__setitem__", "add_"} <= {n.target for n in graph.nodes}


def test_every_function_of_nn_is_recorded():
    """A function that is written in Python asks nobody by itself: see fx/_patching.py."""
    import inspect

    left_out = {"names_missing_from", "multi_head_attention_forward", "max_unpool1d",
                "max_unpool2d", "max_unpool3d"}  # fmt: skip
    count = 0
    for name in dir(F):
        function = getattr(F, name)
        if name.startswith("_") or not inspect.isroutine(function) or name in left_out:
            continue
        needed = [p for p in inspect.signature(function).parameters.values()
                  if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]  # fmt: skip
        graph = fx.symbolic_trace(lambda x: function(*[x] * max(1, len(needed)))).graph  # noqa: B023
        (node,) = [n for n in graph.nodes if n.op == "call_function"]
        assert node.target is function or node.target.__name__ == function.__name__, name
        count += 1
    assert count > 110


def test_tracers_that_replace_methods_themselves():
    """torch_geometric's tracer is written over these names."""
    from rushlight.fx import _symbolic_trace as st

    @st.compatibility(is_backward_compatible=True)
    def marked(x):
        """Doubles."""
        return 2 * x

    assert marked(2) == 4 and "guaranteed" in marked.__doc__ and isinstance(marked, st.FunctionType)
    called = []

    def seen(mod, *args):
        called.append(type(mod).__name__)
        return st._orig_module_call(mod, *args)

    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    before = vars(nn.Module)["__call__"]
    with st._Patcher() as patcher:
        patcher.patch_method(nn.Module, "__call__", seen, deduplicate=False)
        patcher.patch_method(nn.ReLU, "__call__", seen, deduplicate=True)  # has it by inheritance
        net(rl.ones(1, 2))
    assert called == ["Sequential", "Linear", "ReLU"] and vars(nn.Module)["__call__"] is before
    net(rl.ones(1, 2))
    assert len(called) == 3 and "__call__" not in vars(nn.ReLU)
