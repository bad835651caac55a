"""Interpreter, Transformer, replaced patterns, and the passes."""

import importlib.util
import operator

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import fx, nn
from rushlight.fx.experimental import optimization
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
from rushlight.fx.passes.shape_prop import ShapeProp, TensorMetadata
from rushlight.fx.passes.split_module import split_module
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.fx.subgraph_rewriter import replace_pattern_with_filters

X = rl.arange(6.0).reshape(2, 3)


def targets(module):
    return [n.target for n in module.graph.nodes if n.op.startswith("call")]


def test_interpreters_change_what_nodes_do():
    class Swap(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(rl.neg if target is rl.relu else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("tanh" if target == "sigmoid" else target, args, kwargs)

    module = fx.symbolic_trace(lambda x: rl.relu(x) + x.sigmoid())
    assert rl.equal(Swap(module).run(X), -X + X.tanh())


def test_interpreters_forget_values():
    seen = []

    class Counting(fx.Interpreter):
        def run_node(self, n):
            seen.append(len(self.env))
            return super().run_node(n)

    def chain(x):
        for _ in range(10):
            x = x + 1
        return x

    Counting(fx.symbolic_trace(chain)).run(X)
    assert max(seen) == 1
    seen.clear()
    Counting(fx.symbolic_trace(chain), garbage_collect_values=False).run(X)
    assert max(seen) == 11


def test_interpreter_inputs():
    module = fx.symbolic_trace(lambda x, y=2, *rest: (x * y, rest))
    run = fx.Interpreter(module).run
    assert rl.equal(run(X)[0], X * 2) and list(run(X, 3, 4, 5)[1]) == [4, 5]
    with pytest.raises(RuntimeError, match="(?s)argument x is missing.*While executing %x"):
        run()
    x = module.graph.find_nodes(op="placeholder")[0]
    assert rl.equal(run(3, initial_env={x: X})[0], X * 3)
    two = fx.symbolic_trace(lambda x, y: x - y)
    given = [X, X * 2]
    assert rl.equal(fx.Interpreter(two).boxed_run(given), -X) and given == []


def test_errors_of_interpreters_name_the_node():
    module = fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(rl.ShapeError, match="While executing %view"):
        fx.Interpreter(module).run(X)


def test_transformers():
    class Smooth(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is rl.relu:
                return F.softplus(args[0]) + F.relu6(args[0])
            return super().call_function(target, args, kwargs)

        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.linear = nn.Dropout(), nn.Linear(3, 3)

        def forward(self, x):
            return rl.relu(self.drop(self.linear(x)))

    model = Model()
    new = Smooth(fx.symbolic_trace(model)).transform()
    y = model.linear(X)
    assert rl.equal(new(X), F.softplus(y) + F.relu6(y)) and "drop" not in new.code


def test_functions_are_as_before_after_proxies():
    code = F.relu.__code__
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = F.relu(x)  # written in Python, outside of any trace
    assert F.relu.__code__ is not code and y.node.target is F.relu
    assert rl.equal(F.relu(X), X)
    del x, y
    assert F.relu.__code__ is code


# ---- patterns


def test_replace_pattern():
    def program(x, w):
        a = rl.cat([w, w]).sum()
        b = rl.cat([x, x]).sum()
        return a + b

    module = fx.symbolic_trace(program)
    found = fx.replace_pattern(module, lambda v: rl.cat([v, v]).sum(), lambda v: v.sum() * 2)
    assert len(found) == 2 and found[0].anchor.name == "sum_1"
    assert {n.name for n in found[0].nodes_map} == {"v", "cat", "sum_1"}
    assert targets(module) == ["sum", operator.mul, "sum", operator.mul, operator.add]
    assert rl.equal(module(X, X + 1), program(X, X + 1))
    module.graph.lint()


def test_patterns_in_a_row_and_overlaps():
    module = fx.symbolic_trace(lambda x: rl.relu(rl.relu(rl.relu(x))))
    assert len(fx.replace_pattern(module, lambda x: rl.relu(x), lambda x: rl.tanh(x))) == 3
    assert rl.equal(module(X), X.tanh().tanh().tanh())
    module = fx.symbolic_trace(lambda x: rl.relu(rl.relu(rl.relu(x))))
    assert len(fx.replace_pattern(module, lambda x: rl.relu(rl.relu(x)), lambda x: x.neg())) == 1
    assert targets(module).count("neg") == 1


def test_inner_nodes_must_not_be_used_outside():
    module = fx.symbolic_trace(lambda x: (rl.relu(x) + 1, rl.relu(x)))

    def shared(x):
        y = rl.relu(x)
        return y + 1, y

    module = fx.symbolic_trace(shared)
    assert not fx.replace_pattern(module, lambda x: rl.relu(x) + 1, lambda x: x)
    assert len(fx.replace_pattern(module, shared, lambda x: (x * 2, x * 3))) == 1
    assert rl.equal(module(X)[0], X * 2) and rl.equal(module(X)[1], X * 3)


def test_literals_and_filters():
    def program(x):
        return (x + 1) * (x + 2)

    module = fx.symbolic_trace(program)
    assert len(fx.replace_pattern(module, lambda x: x + 1, lambda x: x - 1)) == 1
    module = fx.symbolic_trace(program)
    found = replace_pattern_with_filters(
        module, lambda x: x + 7, lambda x: x.neg(), ignore_literals=True,
        match_filters=[lambda match, graph, pattern: match.returning_nodes[0].args[1] == 2],
    )  # fmt: skip
    assert len(found) == 1 and len(found[0].replacements) == 1
    assert rl.equal(module(X), (X + 1) * -X)


def test_keywords_and_positions_are_the_same_pattern():
    module = fx.symbolic_trace(lambda x: rl.softmax(x, dim=1))
    assert len(fx.replace_pattern(module, lambda x: rl.softmax(x, 1), lambda x: x + 1)) == 1


def test_replacements_bring_modules():
    class Pattern(nn.Module):
        def forward(self, x):
            return F.relu(x)

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.new = nn.Linear(3, 3)

        def forward(self, x):
            return self.new(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return F.relu(self.linear(x))

    module = fx.symbolic_trace(Model())
    replacement = fx.symbolic_trace(Replacement())
    fx.replace_pattern(module, fx.symbolic_trace(Pattern()), replacement)
    assert rl.equal(module(X), replacement.new(module.linear(X)))
    assert "new.weight" in module.state_dict()


def test_matcher_refuses_dead_code():
    with pytest.raises(ValueError, match="has no nodes"):
        SubgraphMatcher(fx.Graph())
    graph = fx.symbolic_trace(lambda x: (x + 1, x)[1]).graph
    with pytest.raises(AssertionError, match="nothing in the pattern uses"):
        SubgraphMatcher(graph)


# ---- passes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
        self.drop, self.fc = nn.Dropout(), nn.Linear(12, 4)
        self.scale = nn.Parameter(rl.ones(4))

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        return self.fc(self.drop(rl.flatten(x, 1))) * self.scale


IMAGES = rl.arange(64.0).reshape(2, 2, 4, 4) / 64


def test_shapes():
    module = fx.symbolic_trace(Net())
    ShapeProp(module).propagate(IMAGES)
    meta = {n.name: n.meta["tensor_meta"] for n in module.graph.nodes}
    assert isinstance(meta["conv"], TensorMetadata)
    assert meta["conv"].shape == (2, 3, 2, 2) and meta["output"].dtype == rl.float32
    assert meta["x"].memory_format == rl.contiguous_format and meta["fc"].stride == (4, 1)
    ShapeProp(fx.symbolic_trace(lambda x: rl.relu(x))).propagate(X.to("meta"))
    pairs = fx.symbolic_trace(lambda x: x.max(dim=1))
    ShapeProp(pairs).propagate(X)
    assert pairs.graph.find_nodes(op="call_method")[0].meta["tensor_meta"][0].shape == (2,)
    with pytest.raises(NotImplementedError, match="meta"):
        ShapeProp(module, fake_mode=object())


def test_fused_batch_norms():
    model = Net().eval()
    model.bn.running_mean.copy_(rl.tensor([0.1, -0.2, 0.3]))
    model.bn.running_var.copy_(rl.tensor([0.5, 2.0, 1.5]))
    fused = optimization.fuse(model)
    assert "bn" not in dict(fused.named_modules()) and hasattr(model, "bn")
    np.testing.assert_allclose(fused(IMAGES).detach().numpy(), model(IMAGES).detach().numpy(),
                               rtol=1e-5, atol=1e-6)  # fmt: skip
    assert rl.equal(optimization.remove_dropout(model)(IMAGES), model(IMAGES))


def test_extracted_subgraph():
    model = Net().eval()
    traced = fx.symbolic_trace(model)
    nodes = [n for n in traced.graph.nodes if n.name in ("conv", "bn")]
    inputs = traced.graph.find_nodes(op="placeholder")
    part = optimization.extract_subgraph(traced, nodes, inputs, nodes[-1:])
    assert rl.equal(part(IMAGES)[0], model.bn(model.conv(IMAGES)))


@pytest.mark.parametrize("order", [True, False])
def test_split_module(order):
    model = Net().eval()
    traced = fx.symbolic_trace(model)
    numbers = {}
    names = {}
    parts = split_module(
        traced, model, lambda n: numbers.setdefault(n, len(numbers) // 3), names,
        keep_original_order=order,
    )  # fmt: skip
    assert [n for n, _ in parts.named_children()] == ["submod_0", "submod_1", "submod_2"]
    assert rl.equal(parts(IMAGES), model(IMAGES)) and names["submod_1.fc"] == "fc"
    parts.graph.lint()


def test_split_with_several_outputs_and_cycles():
    def program(x):
        a, b = x + 1, x + 2
        return a * b, a - b

    traced = fx.symbolic_trace(program)
    part = {"add": 0, "add_1": 0, "mul": 1, "sub": 1}
    parts = split_module(traced, nn.Module(), lambda n: part[n.name])
    assert [rl.equal(a, b) for a, b in zip(parts(X), program(X), strict=True)] == [True, True]
    part = {"add": 0, "add_1": 1, "mul": 0}
    traced = fx.symbolic_trace(lambda x: ((x + 1) + 2) * 3)
    with pytest.raises(RuntimeError, match="wait for each other"):
        split_module(traced, nn.Module(), lambda n: part[n.name])


def test_attributes_for_lowering():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    lift_lowering_attrs_to_nodes(traced)
    node = traced.graph.find_nodes(op="call_module")[0]
    assert node.attrs_for_lowering["weight"].shape == (3, 3)
    with pytest.raises(RuntimeError, match="has no list of attributes in module_fetch_book"):
        lift_lowering_attrs_to_nodes(fx.symbolic_trace(nn.Sequential(nn.GELU())))


@pytest.mark.skipif(importlib.util.find_spec("pydot") is not None, reason="pydot is here")
def test_drawing_needs_pydot():
    with pytest.raises(RuntimeError, match="pydot"):
        FxGraphDrawer(fx.symbolic_trace(lambda x: x), "picture")


def test_normalized_arguments():
    module = fx.symbolic_trace(Net())
    drop = module.graph.find_nodes(op="call_function", target=rl.flatten)[0]
    found = drop.normalized_arguments(module, normalize_to_only_use_kwargs=True)
    assert found.args == () and found.kwargs["start_dim"] == 1 and found.kwargs["end_dim"] == -1
    fc = module.graph.find_nodes(op="call_module", target="fc")[0]
    assert list(fc.normalized_arguments(module, normalize_to_only_use_kwargs=True).kwargs) == [
        "input"
    ]


def test_annotations_reach_nodes():
    def program(x):
        with fx.traceback.annotate({"stage": 1}):
            x = x + 1
        return x * 2

    meta = {n.name: n.meta.get("custom") for n in fx.symbolic_trace(program).graph.nodes}
    assert meta["add"] == {"stage": 1} and meta["mul"] is None


def test_what_is_not_there_says_so():
    from rushlight.fx.experimental.proxy_tensor import make_fx

    with pytest.raises(NotImplementedError, match="make_fx"):
        make_fx(lambda x: x)
