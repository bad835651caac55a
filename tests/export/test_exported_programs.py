"""export.export: programs for inputs of many sizes."""

import copy
import dataclasses
import io
import threading
from typing import List, NamedTuple  # noqa: UP035

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import (
    AdditionalInputs,
    ConstraintViolationError,
    Dim,
    ExportedProgram,
    ShapesCollection,
    UserError,
    dims,
    export,
    load,
    register_dataclass,
    save,
)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x, scale=2.0):
        x = self.bn(self.conv(x)).relu() * scale
        b, c, h, w = x.shape
        return self.fc(x.view(b, c, h * w).mean(-1)), {"pixels": h * w, "name": "images"}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", rl.ones(32, 32).tril().bool())

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * (c // 2) ** -0.5
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1)
        y = (scores @ v).transpose(1, 2).reshape(b, t, c)
        return x + y + rl.arange(t).view(1, t, 1) / t


class Windows(nn.Module):
    """Sizes by arithmetic, some of it through floats."""

    def forward(self, x):
        n = x.shape[1]
        half = n // 2
        left, right = x[:, :half], x[:, n - half :]
        pairs = x[:, : 2 * half].reshape(len(x), half, 2).sum(-1)
        return left + right, pairs * n**-0.5, x.new_zeros(x.shape[0] + 1, -(-n // 3)), n % 5


def both(module, ep, *args, **kwargs):
    expected, found = module(*args, **kwargs), ep.module()(*args, **kwargs)
    left, right = (rl.utils._pytree.tree_leaves(t) for t in (expected, found))
    for a, b in zip(left, right, strict=True):
        assert rl.equal(a, b) if isinstance(a, rl.Tensor) else a == b and type(b) in (int, str)
    return found


def test_sizes_of_results_are_followed():
    rl.manual_seed(0)
    net = Images().eval()
    batch, height, width = dims("batch", "height", "width", min=2)
    x = rl.randn(2, 3, 9, 11)
    ep = export(net, (x,), {"scale": 3.0}, dynamic_shapes={
        "x": {0: batch, 2: height, 3: width}, "scale": None})  # fmt: skip
    assert isinstance(ep, ExportedProgram)
    y = rl.randn(5, 3, 20, 31)
    assert both(net, ep, y, scale=3.0)[1] == {"pixels": 9 * 15, "name": "images"}
    assert ep.range_constraints["height"] == (2, 2**63 - 1)
    with pytest.raises(ValueError, match=r"exported with 3\.0 as input 1"):
        ep.module()(y, scale=4.0)


@pytest.mark.parametrize(
    ("module", "shape", "spec", "others"),
    [
        (Attention, (2, 5, 8), {0: Dim("b"), 1: Dim("t", max=32)}, [(1, 1, 8), (7, 32, 8)]),
        (Windows, (3, 10), {0: Dim("b"), 1: Dim("n")}, [(4, 11), (2, 24), (6, 3)]),
        (Windows, (3, 10), [Dim.DYNAMIC, Dim.AUTO], [(5, 13)]),
    ],
)
def test_numbers_follow(module, shape, spec, others):
    net = module()
    ep = export(net, (rl.randn(shape),), dynamic_shapes=(spec,))
    for other in others:
        both(net, ep, rl.randn(other))


def test_files_and_gradients(tmp_path):
    net = Attention()
    ep = export(net, (rl.randn(2, 5, 8),), dynamic_shapes={"x": (Dim("b"), Dim("t", max=32), None)})
    save(ep, tmp_path / "model.rush", extra_files={"notes.txt": "hello"})
    extra = {"notes.txt": ""}
    again = load(tmp_path / "model.rush", extra_files=extra)
    assert extra["notes.txt"] == "hello" and again.range_constraints == ep.range_constraints
    x = rl.randn(3, 9, 8, requires_grad=True)
    both(net, again, x)
    assert rl.equal(rl.jit.load(tmp_path / "model.rush")(x), net(x))
    module = again.module()
    (gradient,) = rl.autograd.grad(module(x).sum(), x)
    net(x).sum().backward()
    assert rl.equal(gradient, x.grad)
    module(x).sum().backward()
    assert rl.equal(module.qkv.weight.grad, net.qkv.weight.grad)
    (example,), _ = again.example_inputs
    assert example.shape == (2, 5, 8)
    with pytest.raises(RuntimeError, match="not written by export.save"):
        buffer = io.BytesIO()
        rl.jit.save(rl.jit.trace(nn.Linear(2, 2), rl.ones(1, 2)), buffer)
        buffer.seek(0)
        load(buffer)


class Point(NamedTuple):
    x: rl.Tensor
    y: rl.Tensor


@dataclasses.dataclass
class Batch:
    images: rl.Tensor
    extra: dict
    flag: bool = False


register_dataclass(Batch, serialized_type_name="tests.Batch")


class Nested(nn.Module):
    def forward(self, batch, points, *rest, scale=None):
        total = batch.images.sum(-1) + batch.extra["bias"]
        for r in rest:
            total = total * r
        if scale is not None:
            total = total * scale
        return Batch(total, {"p": points[0].x}, not batch.flag), [Point(points[0].y, total)]


def test_containers_dataclasses_and_all_forms_of_dynamic_shapes(tmp_path):
    net, n = Nested(), Dim("n")
    point = Point(rl.randn(3), rl.randn(2))

    def call(size):
        batch = Batch(rl.randn(size, 4), {"bias": rl.randn(size)}, True)
        return (batch, [point], rl.randn(size), rl.randn(size)), {"scale": rl.randn(1)}

    args, kwargs = call(5)
    shapes = {
        "batch": [{0: n}, {"bias": {0: n}}, None],
        "points": None,
        "rest": ({0: n}, (n,)),
        "scale": None,
    }
    by_tensor = ShapesCollection()
    for tensor in (args[0].images, args[0].extra["bias"], args[2], args[3]):
        by_tensor[tensor] = {0: n}
    by_calls = AdditionalInputs()
    by_calls.add(*call(6))
    for given in (shapes, tuple(shapes.values()), by_tensor):
        ep = export(net, args, kwargs, dynamic_shapes=given)
        assert list(ep.range_constraints) == ["n"]
    save(ep, tmp_path / "nested.rush")
    other, named = call(8)
    for program in (ep, load(tmp_path / "nested.rush")):
        found = program.module()(*other, **named)
        assert type(found[0]) is Batch and found[0].flag is False
        assert type(found[1][0]).__name__ == "Point"
        assert rl.equal(found[0].images, net(*other, **named)[0].images)
    assert ep.graph_signature.input_specs[0].arg.name == "batch_images"
    with pytest.raises(ConstraintViolationError, match="must be equal"):
        export(net, args, kwargs, dynamic_shapes=by_calls)


class Branch(nn.Module):
    def forward(self, x, y=None):
        if x.shape[0] > 5:
            return x + 1
        return x * 2


class Loop(nn.Module):
    def forward(self, x):
        for i in range(x.shape[0]):
            x = x + i
        return x


class Fixed(nn.Module):
    def forward(self, x):
        return x.view(4, 6)


class Values(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


class Halves(nn.Module):
    def forward(self, x):
        return x.view(2, x.shape[0] // 2)


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


REFUSED = [
    (
        Branch,
        (8, 3),
        {0: Dim("b")},
        r"x\.shape\[0\] > 5 at .*_programs\.py.*Dim\('b', min=6\)",
    ),
    (Branch, (3, 3), {0: Dim("b")}, r"Dim\('b', max=5\)"),
    (Branch, (6, 3), {0: Dim("b", max=7)}, r"Dim\('b', min=6, max=7\)"),
    (Branch, (8, 3), {0: Dim("b", max=4)}, "b = 8 in dimension 0, outside of its range"),
    (Branch, (8, 3), {4: Dim("b")}, "names dimension 4 of x, which has 2"),
    (Branch, (8, 3), (Dim("b"),), "has 1 items, and the tensor has 2 dimensions"),
    (Branch, (8, 3), {0: "b"}, "must be a Dim"),
    (Branch, (8, 3), {0: 7}, "says that x has size 7"),
    (Branch, (8, 3), {0: 3 * Dim("b")}, r"which is no 3\*b"),
    (Loop, (4,), {0: Dim("n")}, "with n = .*goes another way.*test_exported"),
    (Fixed, (24,), {0: Dim("n")}, "(?s)with n = 25 instead of 24 the module raises.*test_exported"),
    (Halves, (8,), {0: Dim("n")}, r"(?s)with n = 9 instead of 8.*multiple"),
    (Values, (4,), None, "a Python number .*test_exported_programs.py.*where"),
]


@pytest.mark.parametrize(("module", "shape", "spec", "message"), REFUSED)
def test_refusals_name_the_dim_and_the_line(module, shape, spec, message):
    with pytest.raises(UserError, match=message):
        export(module(), (rl.randn(shape),), dynamic_shapes=None if spec is None else (spec,))


def test_wrong_arguments():
    x = rl.ones(4, 3)
    for args, shapes, message in (
        (x, None, "args must be a tuple"),
        ((x,), {"z": None}, "has the keys"),
        ((x,), ({}, {}), "has 2 items"),
        ((x,), 3, "must be a dict"),
        ((x, 1, 2), None, "do not fit forward"),
        ((object(),), None, "which programs do not know"),
    ):
        with pytest.raises(UserError, match=message):
            export(Branch(), args, dynamic_shapes=shapes)
    with pytest.raises(ValueError, match="expected a module"):
        export(lambda x: x, (x,))
    with pytest.raises(NotImplementedError):
        2 - Dim("b")
    with pytest.raises(NotImplementedError):
        Dim("b") * 0.5
    for bad in ({"min": 3, "max": 2}, {"min": -1}):
        with pytest.raises(ValueError, match="Dim"):
            Dim("b", **bad)
    with pytest.raises(ConstraintViolationError, match="'a' and 'b' must be equal"):
        export(Sum(), (x, x), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    with pytest.raises(ConstraintViolationError, match="the example inputs must agree"):
        n = Dim("n")
        export(Sum(), (x, rl.ones(1, 3)), dynamic_shapes=({0: n}, {0: n}))


def test_derived_dims_hints_and_runtime_checks():
    class Pairs(nn.Module):
        def forward(self, x, y):
            return x.view(-1, 2).sum(-1) + y[1:]

    n = Dim("n", min=1, max=50)
    ep = export(Pairs(), (rl.randn(8), rl.randn(5)), dynamic_shapes=({0: 2 * n}, {0: n + 1}))
    both(Pairs(), ep, rl.randn(20), rl.randn(11))
    module = ep.module()
    for sizes, message in (
        ((7, 4), r"no 2\*n for a whole n"),
        ((20, 10), r"must be n \+ 1 = 11"),
        ((102, 52), "n must be at most 50"),
    ):
        with pytest.raises(AssertionError, match=message):
            module(*map(rl.randn, sizes))
    with pytest.raises(AssertionError, match="must have 1 dimensions"):
        module(rl.randn(2, 2), rl.randn(5))
    same = export(Sum(), (rl.ones(4), rl.ones(4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert len(same.range_constraints) == 1
    both(Sum(), same, rl.randn(9), rl.randn(9))
    auto = export(Fixed(), (rl.ones(24),), dynamic_shapes=({0: Dim.AUTO},))
    assert auto.range_constraints == {}
    narrow = export(Branch(), (rl.ones(8, 3),), dynamic_shapes=({0: Dim.AUTO}, None)[:1])
    assert narrow.range_constraints["s0"].lower == 6
    with pytest.raises(UserError):
        export(Fixed(), (rl.ones(24),), dynamic_shapes=({0: Dim.DYNAMIC},))


def test_the_module_stays_as_it_was_and_buffers_are_written():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = copy.deepcopy(net.state_dict())
    x = rl.randn(4, 3)
    state = rl.get_rng_state()
    ep = export(net, (x,), dynamic_shapes=({0: Dim("b", min=2)},))
    assert rl.equal(state, rl.get_rng_state())
    assert all(rl.equal(v, net.state_dict()[k]) for k, v in before.items())
    assert ep.graph_signature.buffers_to_mutate.keys() == {
        "b_0_running_mean", "b_0_running_var", "b_0_num_batches_tracked"}  # fmt: skip
    module = ep.module()
    module(rl.randn(6, 3))
    assert module.get_buffer("0.num_batches_tracked").item() == 1
    assert net[0].num_batches_tracked is module.get_buffer("0.num_batches_tracked")
    for refused in (module.train, module.eval):
        with pytest.raises(NotImplementedError):
            refused()
    with pytest.raises(RuntimeError, match=r"call what its module\(\) gives"):
        ep(rl.randn(6, 3))


def test_the_graph_and_decompositions():
    net = Images().eval()
    x = rl.randn(2, 3, 9, 11)
    ep = export(net, (x,), dynamic_shapes=({0: Dim("b", min=2)},))
    signature = ep.graph_signature
    assert signature.inputs_to_parameters["p_conv_weight"] == "conv.weight"
    assert signature.user_inputs == ("x",) and len(signature.user_outputs) == 3
    tensors = {**dict(ep.named_parameters()), **dict(ep.named_buffers()), **ep.constants}
    given = [tensors[s.target] for s in signature.input_specs if s.target is not None]
    y = rl.randn(4, 3, 9, 11)
    assert rl.equal(ep.graph_module(*given, y)[0], net(y)[0])
    relu = rl.ops.aten.relu
    changed = ep.run_decompositions({relu: lambda x: x.clamp(min=0)})
    assert "relu" in ep.code and "relu" not in changed.code and "clamp" in changed.code
    both(net, changed, y)
    both(net, ep.run_decompositions(), y)


@pytest.mark.threads
def test_other_threads_see_plain_sizes_meanwhile():
    seen, go, done = [], threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def forward(self, x):
            if not seen:
                go.set()
                done.wait(10)
            return x.view(x.shape[0], -1)

    def look():
        go.wait(10)
        seen.append(type(rl.ones(3).shape[0]))
        done.set()

    thread = threading.Thread(target=look)
    thread.start()
    export(Waiting(), (rl.randn(4, 2, 3),), dynamic_shapes=({0: Dim("b")},))
    thread.join()
    assert seen == [int] and type(rl.ones(3).shape[0]) is int
    assert "property" not in repr(rl.Tensor.__dict__["shape"])


# ruff: noqa: UP006
@rl.jit.script
def halved(x, xs: List[rl.Tensor]):
    while bool(x.sum() > 1):
        x = x / 2
    return [x, xs[0]], x[:1]


class Calling(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        found, first = halved(self.fc(x).abs(), [x])
        n = found[0].shape[0]
        return (found[0] * found[1]).view(n * 3) + first.sum() + n


def test_scripted_parts_keep_their_loops(tmp_path):
    net, x = Calling(), rl.rand(4, 3)
    ep = export(net, (x,), dynamic_shapes=({0: Dim("b")},))
    assert "halved" in ep.code and len(ep.graph_signature.user_outputs) == 1
    save(ep, tmp_path / "net.rush")
    for scale, rows in ((0.01, 2), (1.0, 5), (50.0, 7)):
        both(net, ep, scale * rl.rand(rows, 3))
        both(net, load(tmp_path / "net.rush"), scale * rl.rand(rows, 3))
