"""preserve_module_call_signature: parts of an unflattened program that are called as the module is,
and can be exchanged."""

import dataclasses
import json
import zipfile
from typing import NamedTuple

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, export, load, register_dataclass, save, unflatten
from rushlight.export.graph_signature import ConstantArgument, SymIntArgument, TensorArgument


class Pair(NamedTuple):
    first: rl.Tensor
    second: rl.Tensor


@dataclasses.dataclass
class Result:
    value: rl.Tensor
    rest: dict


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x, *, scale=None, pair=None, n=0):
        y = self.lin(x) * pair["b"] * scale
        return {"y": y.reshape(n, 3), "z": (y + 1, x)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Part(), nn.Identity()

    def forward(self, x):
        n = x.shape[0]
        one = self.a(x, scale=2.0, pair={"a": self.a.lin.bias, "b": x * 2}, n=n)
        two = self.a(self.b(one["y"]), scale=3, pair={"a": x, "b": x * 2}, n=n)
        return one["z"][0] + two["y"]


@pytest.mark.parametrize("shapes", [None, ({0: Dim("n")},)], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("through_file", [False, True])
def test_parts_are_called_as_the_module_calls_them(shapes, through_file, tmp_path):
    net = Net()
    ep = export(
        net, (rl.randn(2, 3),), dynamic_shapes=shapes, preserve_module_call_signature=("a",)
    )
    if through_file:
        save(ep, tmp_path / "net.rush")
        ep = load(tmp_path / "net.rush")
        net.load_state_dict(ep.state_dict)
    entries = {entry.fqn: entry.signature for entry in ep.module_call_graph}
    assert list(entries) == ["", "a", "a.lin", "b", "a@1"]
    assert entries[""] is not None and entries["a.lin"] is None and entries["b"] is None
    kinds = [type(argument) for argument in entries["a@1"].inputs]
    number = ConstantArgument if shapes is None else SymIntArgument
    assert kinds == [TensorArgument, ConstantArgument, TensorArgument, TensorArgument, number]
    assert entries["a"].inputs[2].name == "p_a_lin_bias" and entries["a"].inputs[1].value == 2.0
    assert entries["a"].outputs[2] == entries["a"].inputs[0]  # x goes through
    names = {node.name for node in ep.graph.nodes}
    assert {a.name for s in (entries["a"], entries["a@1"]) for a in s.outputs[:1]} <= names

    tree, x = unflatten(ep), rl.randn(2 if shapes is None else 5, 3)
    assert rl.equal(tree(x), net(x))
    given = {"scale": 2.0, "pair": {"a": x, "b": x}, "n": len(x)}
    found, right = tree.a(x, **given), net.a(x, **given)
    assert list(found) == ["y", "z"] and found["z"][1] is x
    assert rl.equal(found["y"], right["y"]) and rl.equal(found["z"][0], right["z"][0])
    with pytest.raises(ValueError, match="fixed now; got 7"):
        tree.a(x, **{**given, "scale": 7})
    with pytest.raises(ValueError, match="packed like this"):
        tree.a(x)
    tree.a = net.a = Part()  # what signatures are kept for
    assert rl.equal(tree(x), net(x))


class Packed(nn.Module):
    def forward(self, pair: Pair) -> Result:
        total = pair.first + pair.second
        return Result(total, {"twice": total * 2})


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.packed, self.kept = Packed(), None

    def forward(self, x):
        result = self.packed(Pair(x, x.exp()))
        return result.value * result.rest["twice"]


def test_containers_that_graphs_do_not_know(tmp_path):
    register_dataclass(Result, serialized_type_name="tests.kept_signatures.Result")
    net, x = Around(), rl.randn(4)
    save(export(net, (x,), preserve_module_call_signature=("packed",)), tmp_path / "net.rush")
    tree = unflatten(load(tmp_path / "net.rush"))
    assert rl.equal(tree(x), net(x))
    result = tree.packed(Pair(x, x))
    assert isinstance(result, Result) and rl.equal(result.rest["twice"], 4 * x)
    tree.packed = Packed()
    assert rl.equal(tree(x), net(x))


class Writes(nn.Module):
    def forward(self, x):
        return x.add_(1)


class TwoNames(nn.Module):
    """A part with two names, which is called with a value that is used again."""

    def __init__(self, part):
        super().__init__()
        self.part = self.again = part

    def forward(self, x):
        y = x * 2
        return self.again(y) * y


@pytest.mark.parametrize("how", ["writes", "pre-hook", "hook"])
def test_arguments_are_those_before_the_part_and_its_hooks_change_them(how):
    net, x = TwoNames(Writes() if how == "writes" else nn.Tanh()), rl.randn(3)
    if how == "pre-hook":
        net.part.register_forward_pre_hook(lambda _, args: (args[0] * 3,))
    elif how == "hook":
        net.part.register_forward_hook(lambda _, args, output: output * 3)
    ep = export(net, (x,), preserve_module_call_signature=("again",))
    assert [e.fqn for e in ep.module_call_graph if e.signature] == ["", "part"]
    tree = unflatten(ep)
    assert rl.equal(tree(x), net(x)) and rl.equal(tree.part(x.clone()), net.part(x.clone()))
    tree.part = nn.ReLU()
    if how != "writes":  # else y is what the part gives
        assert rl.equal(tree(x), (2 * x).relu() * (2 * x))


class Hidden(nn.Module):
    """Parts that know more than their arguments."""

    def __init__(self, how):
        super().__init__()
        self.how, self.part = how, nn.Linear(3, 3)
        self.inner = self.Inner(self)

    class Inner(nn.Module):
        def __init__(self, outer):
            super().__init__()
            self.outer, self.calls = [outer], 0

        def forward(self, x):
            self.calls += 1
            if self.outer[0].how == "kept":
                self.outer[0].left = x.exp()
            if self.outer[0].how == "counted" and self.calls % 2:
                return x.sin()
            return x * self.outer[0].before if self.outer[0].how == "read" else x + 1

    def forward(self, x):
        self.before, self.left = x.cos(), x
        y = self.inner(x)
        return self.inner(y) + self.left


@pytest.mark.parametrize("how", ["kept", "read", "counted"])
def test_what_cannot_be_kept_is_refused(how):
    net = Hidden(how)
    ep = export(net, (rl.randn(3),), preserve_module_call_signature=("inner",))
    with pytest.raises(NotImplementedError, match=r"'inner'.*leave it out"):
        unflatten(ep)


def test_bad_paths_and_files(tmp_path):
    net = Net()
    example = (rl.randn(2, 3),)
    for paths, error, text in (
        ("a", TypeError, r"write \('a',\)"), (("nope",), AttributeError, "no such submodule"),
        ((1,), TypeError, "strings"), (("",), AttributeError, "no such submodule"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            export(net, example, preserve_module_call_signature=paths)
    path = tmp_path / "net.rush"
    save(export(net, example, preserve_module_call_signature=["a"]), path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (name,) = [n for n in files if n.endswith("export.json")]
    data = json.loads(files[name])
    k, inputs, sources, outputs, results = data["signatures"][0]
    for wrong in (
        [[10**6, inputs, sources, outputs, results]],
        [[-1, inputs, sources, outputs, results]],
        [[k, inputs, [["local", 10**9], *sources[1:]], outputs, results]],
        [[k, inputs, [["expr", 0], *sources[1:]], outputs, results]],
        [[k, inputs, sources[1:], outputs, results]],
        [[k, outputs, sources, inputs, results]],
        [[k, inputs, sources]],
        {"a": 1},
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for other, content in files.items():
                changed = json.dumps({**data, "signatures": wrong})
                archive.writestr(other, changed if other == name else content)
        with pytest.raises(RuntimeError, match=r"export\.load"):
            load(path)
