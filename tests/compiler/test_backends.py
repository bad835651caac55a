"""compile(backend=f): a user's backend is given graphs."""

import pickle

import pytest

import rushlight as rl
from rushlight import _dynamo, nn


class Recording:
    """A backend that counts, and runs graphs as they are."""

    def __init__(self, answer=None):
        self.graphs, self.answer = [], answer

    def __call__(self, module, inputs):
        assert isinstance(module, rl.fx.GraphModule)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        assert len(placeholders) == len(inputs) and all(isinstance(x, rl.Tensor) for x in inputs)
        self.graphs.append(module)
        return module.forward if self.answer is None else self.answer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3)
        self.fc = nn.Linear(3, 2)

    def forward(self, x, scale=1.0, **names):
        y = self.fc(self.bn(x)) * scale
        return {"y": y, "n": len(names)}, (y.relu(),)


def test_modules_train_through_a_backend():
    rl.manual_seed(0)
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    backend = Recording()
    compiled = rl.compile(net, backend=backend)
    for step, size in enumerate((4, 4, 6, 4)):
        x = rl.randn(size, 3)
        found, expected = compiled(x, scale=2.0), twin(x, scale=2.0)
        assert rl.equal(found[0]["y"], expected[0]["y"]) and found[0]["n"] == 0
        found[1][0].sum().backward()
        expected[1][0].sum().backward()
        assert len(backend.graphs) == (1 if step < 2 else 2)
    assert rl.equal(net.fc.weight.grad, twin.fc.weight.grad)
    assert rl.equal(net.bn.running_mean, twin.bn.running_mean)
    assert net.bn.num_batches_tracked.item() == 4
    net.eval()
    compiled(x)
    assert len(backend.graphs) == 3
    in_place = Net()
    in_place.compile(backend=backend)
    in_place(x)
    assert len(backend.graphs) == 4


def test_functions_names_and_what_comes_back():
    net, backend = nn.Linear(3, 3), Recording()

    def loss(x):
        return (net(x) ** 2).mean()

    compiled = rl.compile(loss, backend=backend)
    x = rl.randn(2, 3)
    assert rl.equal(compiled(x), loss(x)) and len(backend.graphs) == 1
    assert "linear" in backend.graphs[0].code
    _dynamo.register_backend(backend, name="recording")
    assert "recording" in rl.compiler.list_backends()
    assert rl.equal(rl.compile(loss, backend="recording")(x), loss(x)) and len(backend.graphs) == 2
    given = rl.compile(lambda x: x + 1, backend=Recording(lambda x: [x * 10]))
    assert given(rl.ones(2)).tolist() == [10.0, 10.0]
    with pytest.raises(TypeError, match="must return a callable"):
        rl.compile(lambda x: x + 1, backend=lambda module, inputs: None)(x)


def test_writes_to_arguments_happen_once():
    def add(x):
        return x.add_(1)

    x = rl.zeros(2)
    rl.compile(add, backend=Recording())(x)
    assert x.tolist() == [1.0, 1.0]


def test_what_is_no_graph_runs_in_python_or_raises():
    def branch(x):
        return x + 1 if x.sum() > 0 else x - 1

    def quiet(x):
        with rl.no_grad():
            return x * 2

    backend = Recording()
    for function, why in ((branch, "test_backends.py"), (quiet, "no_grad")):
        with pytest.warns(UserWarning, match=why):
            found = rl.compile(function, backend=backend)(-rl.ones(2))
        assert found.tolist() == [-2.0, -2.0]
        with pytest.raises(RuntimeError, match="cannot be given to the backend"):
            rl.compile(function, backend=backend, fullgraph=True)(-rl.ones(2))
    assert not backend.graphs


def test_compiled_modules_are_pickled():
    compiled = rl.compile(nn.Linear(2, 2), backend=Recording())
    again = pickle.loads(pickle.dumps(compiled))
    x = rl.ones(1, 2)
    assert rl.equal(again(x), compiled(x))
