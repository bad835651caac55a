"""Graph, Node and GraphModule: made by hand, changed, copied, kept."""

import copy
import operator
import pickle
import threading
import traceback
import warnings

import pytest

import rushlight as rl
from rushlight import fx, nn
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.node import map_aggregate


def small():
    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(rl.relu, (x,))
    b = graph.call_function(operator.add, (a, x))
    graph.output(b)
    return graph, x, a, b


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(rl.ones(2))
        self.register_buffer("shift", rl.zeros(2))
        self.register_buffer("hidden", rl.ones(2), persistent=False)

    def forward(self, x):
        return (self.rest(self.first(x)) * self.scale + self.shift) * self.hidden


X = rl.arange(6.0).reshape(2, 3)


def names(graph):
    return [node.name for node in graph.nodes]


def test_users_follow_arguments():
    _graph, x, a, b = small()
    assert list(x.users) == [a, b] and list(a.users) == [b]
    assert b.all_input_nodes == [a, x]
    b.args = (a, [a, {"k": a}])
    assert list(x.users) == [a] and b.all_input_nodes == [a]
    assert isinstance(b.args[1], immutable_list) and isinstance(b.args[1][1], immutable_dict)
    b.kwargs = {"alpha": x}
    assert list(x.users) == [a, b]
    b.update_kwarg("alpha", 2)
    b.update_arg(1, x)
    assert b.args == (a, x) and b.kwargs == {"alpha": 2}
    b.insert_arg(0, 3)
    assert b.args == (3, a, x)
    b.replace_input_with(a, x)
    assert b.args == (3, x, x) and not a.users
    b.args = [x]
    assert b.args == (x,)
    with pytest.raises(TypeError, match="tuple"):
        b.args = x


def test_arguments_do_not_change_by_themselves():
    _graph, x, a, b = small()
    b.args = ([a, x], {"k": 1})
    with pytest.raises(TypeError, match="not changed in place"):
        b.args[0].append(x)
    with pytest.raises(TypeError, match="not changed in place"):
        b.args[1]["k"] = 2
    assert pickle.loads(pickle.dumps(immutable_list([1]))) == [1]
    assert pickle.loads(pickle.dumps(immutable_dict({"k": 1}))) == {"k": 1}
    assert hash(immutable_list([1, 2])) == hash(immutable_list([1, 2]))


def test_replace_all_uses_with():
    graph, x, a, b = small()
    with graph.inserting_after(a):
        new = graph.call_function(rl.tanh, (x,))
    assert a.replace_all_uses_with(new) == [b]
    assert b.args == (new, x) and not a.users
    graph.erase_node(a)
    graph.lint()
    assert names(graph) == ["x", "tanh", "add", "output"] and len(graph.nodes) == 4
    x.replace_all_uses_with(new, lambda user: user is b)
    assert list(x.users) == [new]


def test_order():
    graph, x, a, b = small()
    with graph.inserting_before(b):
        graph.call_function(rl.neg, (a,))
        graph.call_function(rl.abs, (a,))
    assert names(graph) == ["x", "relu", "neg", "abs_1", "add", "output"]
    with graph.inserting_after(x):  # each right after x
        graph.call_function(rl.exp, (x,))
        graph.call_function(rl.log, (x,))
    assert names(graph)[:3] == ["x", "log", "exp"]
    assert x < a < b and b > x and x <= x
    assert b.next.op == "output" and x.next.name == "log" and a.prev.name == "exp"
    x.append(b)
    assert names(graph)[1] == "add"
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    assert next(n.name for n in reversed(graph.nodes)) == "output"


def test_erasing():
    graph, _x, a, b = small()
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(a)
    for node in graph.nodes:  # while one goes through them
        if node is b:
            b.replace_all_uses_with(a)
            graph.erase_node(b)
    graph.lint()
    assert names(graph) == ["x", "relu", "output"]
    with pytest.warns(UserWarning, match="already erased"):
        graph.erase_node(b)
    with pytest.raises(RuntimeError, match="wrong graph"):
        graph.erase_node(fx.Graph().placeholder("y"))


def test_dead_code():
    def program(x):
        unused = x + 1
        unused * 2
        rl._assert(x.sum() > 0, "positive")
        x.add_(1)
        rl.rand(2)
        return x

    graph = fx.symbolic_trace(program).graph
    assert graph.eliminate_dead_code() is True
    assert [n.name for n in graph.nodes if n.op.startswith("call")] == [
        "sum_1", "gt", "_assert", "add_",
    ]  # fmt: skip
    assert graph.eliminate_dead_code() is False


def test_side_effects_stay():
    @fx.has_side_effect
    def announce(x):
        return None

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(announce, (x,))
    graph.output(x)
    assert graph.eliminate_dead_code() is False


def test_lint_finds_faults():
    graph, _x, a, b = small()
    _other, y, *_ = small()
    b.args = (a, y)
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        graph.lint()
    module = fx.symbolic_trace(Model())
    module.delete_submodule("first")
    with pytest.raises(RuntimeError, match="nonexistent attribute first"):
        module.graph.lint()


def test_bad_nodes_are_refused():
    graph = fx.Graph()
    with pytest.raises(AssertionError, match="_legal_ops"):
        graph.create_node("jump", "x")
    with pytest.raises(ValueError, match="Callable is expected"):
        graph.call_function("relu")
    with pytest.raises(ValueError, match="str is expected"):
        graph.create_node("call_method", rl.relu)
    with pytest.raises(AssertionError, match="name the function"):
        graph.find_nodes(op="call_function")
    with pytest.raises(StopIteration):
        graph.output_node()


def test_find_nodes():
    graph, x, a, b = small()
    assert graph.find_nodes(op="call_function", target=rl.relu) == [a]
    assert graph.find_nodes(op="placeholder") == [x]
    assert graph.output_node().args == (b,)


def test_copies_of_graphs():
    graph, x, a, b = small()
    a.meta["note"] = 1
    new = copy.deepcopy(graph)
    new.lint()
    assert str(new) == str(graph) and next(iter(new.nodes)) is not x
    assert new.find_nodes(op="call_function", target=rl.relu)[0].meta == {"note": 1}
    target = fx.Graph()
    y = target.placeholder("y")
    value_map = {x: y}
    target.output(target.graph_copy(graph, value_map))
    target.lint()
    assert names(target) == ["y", "relu", "add", "output"] and value_map[a].graph is target
    with pytest.raises(RuntimeError, match="arg_transform"):
        target.node_copy(b)
        target.lint()


def test_text():
    graph, _x, a, _b = small()
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=2] = placeholder[target=x]\n"
        "    %relu : [num_users=1] = call_function[target=rushlight.relu](args = (%x,), "
        "kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %x), "
        "kwargs = {})\n"
        "    return add"
    )
    assert repr(a) == "relu" and "call_function" in a.format_node()


def test_tables(capsys):
    small()[0].print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"] and len(lines) == 6


def test_names_are_unique_and_no_keywords():
    graph = fx.Graph()
    x = graph.placeholder("input")
    made = [graph.call_function(rl.add, (x, 1)) for _ in range(3)]
    assert [str(n) for n in made] == ["add", "add_1", "add_2"]
    assert str(x) == "input_1"
    assert str(graph.create_node("call_method", "add", (x,), name="add_1")) == "add_3"
    assert str(graph.create_node("call_method", "if", (x,))) == "if_1"
    assert str(graph.get_attr("a.0.b")) == "a_0_b"
    assert str(graph.call_module("0")) == "_0"
    assert str(graph.create_node("call_method", "device", (x,))) == "device_1"


def test_map_aggregate():
    found = map_aggregate(([1, (2, {"k": 3})], slice(4, None)), lambda v: v and v * 10)
    assert found == ([10, (20, {"k": 30})], slice(40, None))
    _graph, x, a, _b = small()
    assert fx.map_arg((x, 1, [a]), lambda n: n.name) == ("x", 1, ["relu"])


# ---- GraphModule


def test_module_has_what_the_graph_names():
    model = Model()
    module = fx.symbolic_trace(model)
    assert list(module.state_dict()) == [
        "scale", "shift", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias",
    ]  # fmt: skip
    assert module.first is model.first and type(module).__name__ == "Model"
    assert rl.equal(module(X), model(X))
    module(X).sum().backward()
    assert model.scale.grad is not None
    assert module.to(rl.float64)(X.double()).dtype == rl.float64


def test_changes_need_recompile():
    module = fx.symbolic_trace(lambda x: rl.relu(x))
    for node in module.graph.nodes:
        if node.target is rl.relu:
            node.target = rl.neg
    assert rl.equal(module(-X), rl.relu(-X))
    module.recompile()
    assert rl.equal(module(X), -X) and "rushlight.neg(x)" in module.code


def test_graph_setter():
    module = fx.symbolic_trace(Model())
    module.graph = small()[0]
    assert rl.equal(module(X), X + X) and module.graph.owning_module is module
    with pytest.raises(AssertionError, match="must be a Graph"):
        module.graph = 3


def test_root_may_be_a_dict():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_module("a.b", (x,))
    graph.output(graph.call_function(operator.mul, (y, graph.get_attr("w"))))
    module = fx.GraphModule({"a.b": nn.ReLU(), "w": rl.ones(3) * 2}, graph)
    assert rl.equal(module(X), X * 2) and "w" in dict(module.named_buffers())
    with pytest.raises(RuntimeError, match="root has no"):
        fx.GraphModule({}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type"):
        fx.GraphModule(3, graph)


def test_submodules():
    module = fx.symbolic_trace(Model())
    assert module.add_submodule("extra.deep", nn.Linear(2, 2))
    assert not module.add_submodule("scale.x", nn.ReLU())
    with module.graph.inserting_before(module.graph.output_node()):
        new = module.graph.call_module("extra.deep", (module.graph.output_node().args[0],))
    module.graph.output_node().args = (new,)
    module.recompile()
    assert module(X).shape == (2, 2)
    assert module.delete_submodule("rest.0") and not module.delete_submodule("rest.7")
    module.add_submodule("unused.part", nn.ReLU())
    module.delete_all_unused_submodules()
    assert "unused" not in dict(module.named_modules()) and hasattr(module.extra, "deep")
    with pytest.raises(AttributeError):
        module.graph.call_module("nowhere")
    with pytest.warns(UserWarning, match="has no .*add the submodule"):
        module.graph.get_attr("nowhere")


@pytest.mark.parametrize("keep", ["pickle", "deepcopy", "copy", "save"])
def test_copies_of_modules(keep, tmp_path):
    model = Model().eval()
    module = fx.symbolic_trace(model)
    module.meta["note"] = 3
    if keep == "pickle":
        new = pickle.loads(pickle.dumps(module))
    elif keep == "save":
        rl.save(module, tmp_path / "module.pt")
        new = rl.load(tmp_path / "module.pt", weights_only=False)
    else:
        new = getattr(copy, keep)(module)
    assert isinstance(new, fx.GraphModule) and type(new).__name__ == "Model"
    assert rl.equal(new(X), module(X)) and new.code == module.code
    assert new.meta == {"note": 3} and not new.training
    assert (new.first.weight is module.first.weight) == (keep == "copy")
    new.graph.lint()
    assert list(new.state_dict()) == list(module.state_dict())


def test_nested_inputs_survive_copies():
    module = fx.symbolic_trace(
        lambda d: {"sum": d["a"] + d["b"][0]}, concrete_args={"d": {"a": fx.PH, "b": [fx.PH]}}
    )
    given = {"a": rl.ones(2), "b": [rl.ones(2)]}
    for new in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert rl.equal(new(given)["sum"], rl.ones(2) * 2)
        assert rl.equal(fx.Interpreter(new).run(given)["sum"], rl.ones(2) * 2)


def test_functions_survive_copies():
    import math

    module = fx.symbolic_trace(lambda x: x * math.sqrt(x.size(0)))
    new = pickle.loads(pickle.dumps(module))
    assert rl.equal(new(X), module(X)) and "wrap" in new.code


def test_folder(tmp_path, monkeypatch):
    module = fx.symbolic_trace(Model())
    module.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    from written import Written  # type: ignore[import-not-found]

    assert rl.equal(Written()(X), module(X))


def test_readable(capsys):
    from rushlight.fx.passes.shape_prop import ShapeProp

    module = fx.symbolic_trace(Model())
    ShapeProp(module).propagate(X)
    text = module.print_readable()
    assert text in capsys.readouterr().out
    assert 'first: "f32[2, 4]" = self.first(x)' in text and text.startswith("class Model(")
    assert "print_readable" in str(module)


def test_tracebacks_show_the_code():
    module = fx.symbolic_trace(lambda x: x.relu().view(7))
    try:
        module(X)
    except rl.ShapeError:
        text = traceback.format_exc()
    assert "view = relu.view(7)" in text and "in forward" in text


def test_generated_code_is_freed():
    import gc
    import linecache

    gc.collect()
    before = sum(name.startswith("<eval_with_key>") for name in linecache.cache)
    for _ in range(5):
        fx.symbolic_trace(lambda x: x + 1)
    gc.collect()
    assert sum(name.startswith("<eval_with_key>") for name in linecache.cache) <= before + 1


def test_code_goes_through_transformers():
    graph, *_ = small()
    module = fx.GraphModule(nn.Module(), graph)

    def double(body):
        return [line.replace("return add", "return add * 2") for line in body]

    with graph.on_generate_code(lambda before: double):
        module.recompile()
        assert rl.equal(module(X), X * 4)
    module.recompile()
    assert rl.equal(module(X), X * 2)


def test_own_codegen():
    class FromList(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            first = f"def forward(self, args_list){maybe_return_annotation}:"
            return f"{first}\n    {', '.join(free_vars)} = args_list"

        def additional_globals(self):
            return [("List", list)]

        def process_inputs(self, *inputs):
            return inputs[0]

    module = fx.symbolic_trace(lambda x, y: x - y)
    module.graph.set_codegen(FromList())
    module.recompile()
    assert rl.equal(module([X, X * 3]), X * -2)
    assert rl.equal(fx.Interpreter(module).run([X, X * 3]), X * -2)


def test_hooks_tell_of_changes():
    module = fx.symbolic_trace(lambda x: x + 1)
    made, gone = [], []
    module._register_create_node_hook(made.append)
    module._register_erase_node_hook(gone.append)
    with module.graph.inserting_before(module.graph.output_node()):
        node = module.graph.call_function(rl.relu, (1,))
    module.graph.erase_node(node)
    assert made == [node] and gone == [node]


@pytest.mark.threads
def test_threads_do_not_disturb_each_other():
    stop = threading.Event()
    faults = []

    def compute():
        model, x = Model(), X + 1
        expected = model(x)
        while not stop.is_set():
            found = nn.functional.relu(model(x))
            if type(found) is not rl.Tensor or not rl.equal(found, expected.relu()):
                faults.append(found)

    workers = [threading.Thread(target=compute) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(20):
            assert rl.equal(fx.symbolic_trace(Model())(X).isnan().any(), rl.tensor(False))
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert not faults


def test_failed_trace_leaves_nothing():
    call, getattr_, code = nn.Module.__call__, nn.Module.__getattr__, nn.functional.relu.__code__
    for _ in range(2):
        with pytest.raises(fx.proxy.TraceError):
            fx.symbolic_trace(lambda x: 1 if x else 2)
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is getattr_
    assert nn.functional.relu.__code__ is code and not fx._symbolic_trace.is_fx_tracing()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.functional.relu(rl.ones(1)).item() == 1


def test_arguments_given_as_a_list():
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(rl.add, (x, 1))
    node.args = [x, 2]
    assert node.args == (x, 2) and list(x.users) == [node]
