"""export.unflatten: the tree of modules of an exported program."""

import copy
import json
import zipfile

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, FlatArgsAdapter, export, load, save, unflatten


class Block(nn.Module):
    """Modes, buffers that change, and values that cross its border twice."""

    def __init__(self):
        super().__init__()
        self.lin, self.bn, self.rest = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Identity()
        self.register_buffer("count", rl.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        with rl.no_grad():
            center = x.mean()
        with rl.autocast("cpu", dtype=rl.bfloat16):
            y = self.lin(x)
        return self.rest(self.bn(y.float())).relu() + center, center


class Net(nn.Module):
    """Parts that are called twice, shared, in lists, and one that is not called."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.unused = Block(), Block(), nn.Linear(2, 2)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2))
        self.b.shared = self.layers[0][0]
        self.register_buffer("scale", rl.full((4,), 2.0), persistent=False)

    def forward(self, x, flags=None):
        rows = x.shape[0]
        x, one = self.a(x)
        x, two = self.b(x)
        x, _ = self.a(x)
        for layer in self.layers:
            x = layer(x)
        x = self.b.shared(x) * self.scale + rl.arange(4.0)
        return {"out": x / rows, "rows": rows * 2, "centers": (one, two)}


def leaves(value):
    return rl.utils._pytree.tree_leaves(value)


def equal(a, b):
    for left, right in zip(leaves(a), leaves(b), strict=True):
        assert rl.equal(left, right) if isinstance(left, rl.Tensor) else left == right


@pytest.fixture(scope="module")
def exported():
    rl.manual_seed(0)
    net = Net()
    ep = export(net, (rl.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=2, max=9)}, None)[:1])
    return net, ep


@pytest.mark.parametrize("through_file", [False, True])
def test_tree_state_and_values(exported, tmp_path, through_file):
    net, ep = (copy.deepcopy(part) for part in exported)
    if through_file:
        save(ep, tmp_path / "net.rush")
        ep = load(tmp_path / "net.rush")
    tree = unflatten(ep)
    assert list(tree.state_dict()) == list(ep.state_dict)
    assert {n for n, _ in tree.named_modules()} == {
        n for n, _ in net.named_modules(remove_duplicate=False)
    }
    for n in (5, 2):
        x = rl.randn(n, 4)
        expected = net(x)
        found = tree(x)
        equal(expected, found)
        expected["out"].sum().backward()
        found["out"].sum().backward()
    names = dict(tree.named_parameters())
    for name, parameter in net.named_parameters():
        if parameter.grad is not None and name in names:
            assert rl.equal(names[name].grad, parameter.grad), name
    equal(dict(net.named_buffers()), {k: b for k, b in tree.named_buffers() if "lifted" not in k})
    # Sizes are checked as in the program itself.
    for wrong in (rl.randn(1, 4), rl.randn(10, 4), rl.randn(3, 5), rl.randn(3)):
        with pytest.raises(AssertionError) as one:
            ep.module()(wrong)
        with pytest.raises(AssertionError) as two:
            tree(wrong)
        first, second = (str(e.value).partition("\n")[0] for e in (one, two))
        assert first == second
    with pytest.raises(ValueError, match="packed like this"):
        tree(x, x)


def test_parts_run_by_themselves(exported):
    net, ep = exported
    tree = unflatten(ep)
    x = rl.randn(6, 4)
    part = tree.get_submodule("layers.1")
    assert rl.equal(part(x), net.layers[1](x))  # one value in, one out
    seen = []
    tree.a.lin.register_forward_hook(lambda m, args, out: seen.append(out.dtype))
    tree(x)
    assert seen == [rl.bfloat16, rl.bfloat16]
    assert [n.target for n in part.graph.nodes if n.op == "call_module"] == ["0", "1"]
    assert len(tree.a.lin.graphs) == 1  # calls that are alike have one graph
    with pytest.raises(RuntimeError, match="no operators by itself"):
        tree.a.rest(x)
    with pytest.raises(NotImplementedError, match="export the module again"):
        tree.eval()


def test_adapter_and_refusals(exported, tmp_path):
    _, ep = exported

    class FromDict(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            assert input_spec != target_spec and isinstance(obj, nn.Module)
            return input_args

    x = rl.randn(4, 4)
    equal(unflatten(copy.deepcopy(ep), FromDict())({"x": x}), copy.deepcopy(ep).module()(x))
    with pytest.raises(TypeError, match="ExportedProgram"):
        unflatten(nn.Linear(2, 2))

    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = rl.jit.script(nn.ReLU())

        def forward(self, x):
            return self.part(x) + 1

    with pytest.raises(NotImplementedError, match="scripted"):
        unflatten(export(Scripted(), (rl.ones(2),)))
    # What a file says of calls is checked.
    path = tmp_path / "net.rush"
    save(ep, path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (name,) = [n for n in files if n.endswith("export.json")]
    for calls in (
        [["a", 0, 10**6]],
        [["a", 2, 5], ["b", 3, 7]],
        [["a..b", 0, 1]],
        [["a", -1, 1]],
        3,
    ):
        data = {**json.loads(files[name]), "calls": calls}
        with zipfile.ZipFile(path, "w") as archive:
            for other, content in files.items():
                archive.writestr(other, json.dumps(data) if other == name else content)
        with pytest.raises(RuntimeError, match=r"export\.load"):
            load(path)


class Lists(nn.Module):
    """Operators that give lists, whose lengths are checked, and memory formats."""

    def __init__(self):
        super().__init__()
        self.lin, self.cell = nn.Linear(4, 12), nn.LSTM(4, 3, num_layers=2)

    def forward(self, x):
        q, k, v = self.lin(x).split(4, -1)
        y, (h, c) = self.cell((q * k + v).transpose(0, 1).contiguous())
        return [y, h.chunk(2), c]


def test_lists_and_memory_formats():
    net = Lists()
    ep = export(net, (rl.randn(2, 5, 4),), dynamic_shapes=({0: Dim("b"), 1: Dim("t")},))
    tree, x = unflatten(ep), rl.randn(3, 7, 4)
    equal(tree(x), net(x))
    assert list(tree.state_dict()) == list(net.state_dict())
    graph = ep.graph_module.graph
    assert any(n.kwargs.get("memory_format") or "contiguous" in str(n.target) for n in graph.nodes)
