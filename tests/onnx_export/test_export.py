"""Models written as ONNX do in onnxruntime what they do here."""

import io
import re
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight import onnx as exporter
from rushlight.utils import _pytree

sys.path.insert(0, str(Path(__file__).parent))
from programs import PROGRAMS

onnx = pytest.importorskip("onnx", reason="needs the package onnx")
pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")

rl.manual_seed(0)
X = rl.randn(2, 5, 8)
T = rl.tensor([[1, 2, 3], [0, 1, 2]])
I = rl.randn(1, 4, 16, 16)
TOLERANCE = {"float16": 1e-2, "float64": 1e-5}  # of the float32 values that became them


def agree(program, model, *inputs):
    if isinstance(model, nn.Module):
        model.eval()
    with rl.no_grad():
        expected = _pytree.tree_leaves(model(*inputs))
    found = program(*inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(expected, found, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        near = TOLERANCE.get(str(ours.dtype).rpartition(".")[2], 1e-5)
        np.testing.assert_allclose(theirs.numpy(), ours.detach().numpy(), rtol=10 * near, atol=near)
    again = exporter.load(program.model_proto)  # imported, we agree with ourselves
    with rl.no_grad():
        leaves = [x for x in _pytree.tree_leaves(inputs) if isinstance(x, rl.Tensor)]
        found = _pytree.tree_leaves(again(*leaves))
    for ours, theirs in zip(expected, found, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        near = TOLERANCE.get(str(ours.dtype).rpartition(".")[2], 1e-5)
        np.testing.assert_allclose(theirs.numpy(), ours.detach().numpy(), rtol=10 * near, atol=near)


def exported(model, *inputs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.jit.TracerWarning)
        return exporter.export(model, inputs, **options)


@pytest.mark.parametrize(
    "text",
    [pytest.param(p, marks=[pytest.mark.slow] if n % 8 else []) for n, p in enumerate(PROGRAMS)],
)
def test_programs(text):
    program = eval(f"lambda x, t, i: {text}", {"rl": rl, "F": F})
    agree(exported(program, X, T, I), program, X, T, I)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(x + self.bn2(self.conv2(y)))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1),
        Residual(8), nn.Dropout(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 16), nn.Embedding(16, 16)
        self.blocks = nn.ModuleList([Block(16, 4), Block(16, 4)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 20, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(rl.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.up = nn.GroupNorm(4, 16), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        a = F.silu(self.down1(x))
        b = F.silu(self.norm(self.down2(a)))
        wide = F.interpolate(b, scale_factor=2, mode="bilinear")
        return self.last(rl.cat([a, self.up(b)], 1)) + wide[:, :8]


class Recurrent(nn.Module):
    def __init__(self, cls, **options):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(20, 8), cls(8, 6, **options)

    def forward(self, ids):
        return self.layers(self.embedding(ids))


IDS = rl.randint(0, 20, (2, 7))
IMAGES = rl.randn(2, 3, 32, 32)
MODELS = {
    "resnet": (resnet, IMAGES, {0: "b", 2: "h", 3: "w"}, [(5, 3, 32, 32), (1, 3, 64, 48)]),
    "gpt": (GPT, IDS, {0: "b", 1: "t"}, [(3, 5), (1, 16)]),
    "unet": (UNet, IMAGES, {0: "b"}, [(4, 3, 32, 32)]),
    "lstm": (
        lambda: Recurrent(nn.LSTM, batch_first=True, num_layers=2, bidirectional=True),
        IDS, {0: "b", 1: "t"}, [(3, 5)],
    ),
    "gru": (lambda: Recurrent(nn.GRU, num_layers=2), IDS, {0: "t", 1: "b"}, [(3, 5)]),
    "rnn": (lambda: Recurrent(nn.RNN, nonlinearity="relu"), IDS, {0: "t"}, [(4, 7)]),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        X, {0: "b", 1: "t"}, [(3, 7, 8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_at_several_sizes(name):
    make, example, axes, others = MODELS[name]
    rl.manual_seed(1)
    model = make()
    program = exported(model, example, input_names=["x"], dynamic_axes={"x": axes})
    agree(program, model, example)
    for shape in others:
        like = rl.randn(shape) if example.is_floating_point() else rl.randint(0, 20, shape)
        agree(program, model, like)


@pytest.mark.parametrize("opset", range(18, 24))
def test_opsets(opset):
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"this onnx knows opsets up to {onnx.defs.onnx_opset_version()}")
    model = UNet()
    program = exported(model, IMAGES, opset_version=opset)
    assert program.model_proto.opset_import[0].version == opset
    agree(program, model, IMAGES)


def test_names_and_shapes():
    model = nn.Linear(3, 4)
    program = exported(
        model, rl.ones(2, 3), output_names=["y"], dynamic_axes={"input": {0: "n"}, "y": {0: "n"}}
    )
    graph = program.model_proto.graph
    assert [x.name for x in graph.input] == ["input"] and [y.name for y in graph.output] == ["y"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert graph.output[0].type.tensor_type.shape.dim[1].dim_value == 4
    assert {w.name for w in graph.initializer} == {"weight", "bias"}


@pytest.mark.parametrize(
    "shapes", [{"input": {0: "n"}}, ({0: "n"},), {"input": ["n", None]}, {"input": {0: object()}}]
)
def test_dynamic_shapes(shapes):
    model = nn.Linear(3, 4)
    program = exported(model, rl.ones(2, 3), dynamic_shapes=shapes)
    agree(program, model, rl.ones(5, 3))


def test_containers_keywords_and_numbers():
    class Program(nn.Module):
        def forward(self, pair, scale=1.0, *, shift=None):
            first, second = pair
            return {"sum": first * scale + shift, "rest": [second]}

    model, inputs = Program(), (rl.ones(2), rl.zeros(3))
    program = exporter.export(model, (inputs, 2.0), kwargs={"shift": rl.ones(2)})
    names = [x.name for x in program.model_proto.graph.input]
    assert names == ["pair_0", "pair_1", "shift"]
    found = program(inputs, shift=rl.ones(2))
    assert found[0].tolist() == [3.0, 3.0] and found[1].tolist() == [0.0] * 3


def test_files(tmp_path):
    import onnxruntime

    model = nn.Linear(64, 64)
    x = rl.ones(1, 64)
    path = tmp_path / "model.onnx"
    for external in (True, False, True):  # twice: an older file is not appended to
        exporter.export(model, (x,), path, external_data=external)
        weights = path.with_name("model.onnx.data")
        if external:
            assert path.stat().st_size < 4000 and weights.stat().st_size == 64 * 64 * 4
        found = onnxruntime.InferenceSession(str(path)).run(None, {"input": x.numpy()})[0]
        np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    file = io.BytesIO()
    exporter.export(model, (x,), file)
    assert onnx.load_from_string(file.getvalue()).graph.node


def test_traced_programs_are_exported():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    traced = rl.jit.trace(model, rl.ones(2, 3))
    agree(exporter.export(traced, (rl.ones(2, 3),)), model, rl.ones(2, 3))
    function = rl.jit.trace(lambda x: x.relu() + 1, rl.ones(2, 3))
    agree(exporter.export(function, (rl.ones(2, 3),)), lambda x: x.relu() + 1, rl.ones(2, 3))


def test_scripted_programs_are_traced():
    def program(x):
        for _ in range(2):
            x = x.relu() + 1
        return x

    scripted = rl.jit.script(program)
    agree(exporter.export(scripted, (rl.ones(2, 3),)), program, rl.ones(2, 3))


def test_modes():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.9))
    model.train()
    program = exported(model, rl.ones(2, 3), verify=True)
    assert model.training and model[1].training
    agree(program, model, rl.ones(2, 3))
    model.train()
    with pytest.raises(exporter.UnsupportedOperatorError, match="dropout|bernoulli"):
        exported(model, rl.ones(2, 3), training=exporter.TrainingMode.TRAINING)
    seen = []

    class Asking(nn.Module):
        def forward(self, x):
            seen.append(exporter.is_in_onnx_export())
            return x

    exported(Asking(), rl.ones(1))
    assert all(seen) and not exporter.is_in_onnx_export()


# ---- writes in place


def test_masks_become_constants():
    def program(x):
        mask = x.new_zeros(5, 8)
        mask[:2, :2] = 1.0
        first = x + mask
        mask[3:] = 2.0  # what was read before stays
        return first * mask

    agree(exported(program, X), program, X)


def test_parameters_written_to_after_a_clone():
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(rl.randn(8))

        def forward(self, x):
            weight = self.weight.clone()
            weight[2:4].zero_()
            return x * weight

    model = Program()
    agree(exported(model, X), model, X)


def test_values_read_before_and_after_a_write():
    def program(x):
        y = x * 2
        z = y + 1
        y.mul_(3).add_(1)
        return y - z

    agree(exported(program, X), program, X)


def test_parts_written_to_are_refused():
    def program(x):
        y = x.clone()
        y[:, 0] = 1.0
        return y

    with pytest.raises(exporter.UnsupportedOperatorError, match="(?s)fill_.*part of a tensor"):
        exported(program, X)

    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", rl.zeros(2, 5, 8))

        def forward(self, x):
            self.cache[:, 0] = x[:, 0]
            return self.cache * 2

    with pytest.raises(exporter.UnsupportedOperatorError, match="buffer"):
        exported(Cache(), X)


# ---- refusals


def test_unsupported_operators_name_the_line():
    def program(x):
        x = x + 1
        return x.median()

    with pytest.raises(exporter.OnnxExporterError, match=r"(?s)'median'.*program: return x.median"):
        exported(program, X)


def test_sizes_that_cannot_change():
    def program(x):
        return x.view(2, 20, 2)

    with pytest.raises(exporter.OnnxExporterError, match="(?s)cannot change.*x dim 2"):
        exported(program, X, dynamic_axes={"x": {2: "n"}})
    with pytest.raises(exporter.OnnxExporterError, match="cannot change"):
        exported(UNet(), IMAGES, dynamic_axes={"x": {2: "h"}})
    with pytest.raises(ValueError, match="no dim 5"):
        exported(lambda x: x + 1, X, dynamic_axes={"x": {5: "n"}})


def test_bad_arguments():
    for opset in (7, 17, 1000):
        with pytest.raises(ValueError, match="opset_version must be 18"):
            exported(lambda x: x, X, opset_version=opset)
    with pytest.raises(ValueError, match="input_names"):
        exported(lambda x: x + 1, X, input_names=["a", "b"])
    with pytest.raises(ValueError, match="output_names"):
        exported(lambda x: x + 1, X, output_names=["a", "b"])
    with pytest.warns(UserWarning, match="neither an input"):
        exporter.export(lambda x: x + 1, (X,), dynamic_axes={"nothing": [0]})
    with pytest.raises(NotImplementedError, match="custom_translation_table"):
        exported(lambda x: x, X, custom_translation_table={rl.relu: None})


def test_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "onnx.md"
    space = {"__name__": "guide"}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), space)
    assert (tmp_path / "model.onnx").exists()


# ---- importing


def test_imported_modules_train(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    path = tmp_path / "model.onnx"
    exporter.export(model, (rl.ones(2, 3),), path)
    module = exporter.load(path)
    assert sorted(name for name, _ in module.named_parameters()) == [
        "0.bias", "0.weight", "2.bias", "2.weight",
    ]  # fmt: skip
    module(rl.ones(5, 3)).sum().backward()
    assert module.get_parameter("0.weight").grad.shape == (4, 3)
    assert not any(p.requires_grad for p in exporter.load(path, requires_grad=False).parameters())


def made(op, inputs, outputs, opset=18, **attributes):
    helper = onnx.helper
    node = helper.make_node(op, inputs, outputs, **attributes)
    infos = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in inputs]
    results = [helper.make_tensor_value_info(n, 1, ["n"]) for n in outputs]
    graph = helper.make_graph([node], "g", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_files_of_others():
    x = rl.arange(6.0).reshape(2, 3)
    older = exporter.load(made("ReduceMean", ["a.b"], ["out"], 13, axes=[1], keepdims=0))
    assert rl.equal(older(x), x.mean(1))
    with pytest.raises(NotImplementedError, match="DepthToSpace"):
        exporter.load(made("DepthToSpace", ["x"], ["y"], blocksize=2))
    with pytest.raises(NotImplementedError, match="older than 13"):
        exporter.load(made("Relu", ["x"], ["y"], 11))
    bad = made("Relu", ["x"], ["y"])
    bad.graph.node[0].input[0] = "nothing"
    with pytest.raises(ValueError, match="not valid"):
        exporter.load(bad)
    with pytest.raises(NotImplementedError, match="reverse"):
        exporter.load(made_lstm())(rl.ones(1, 2, 3))


def made_lstm():
    helper = onnx.helper
    weights = [rl.ones(1, 16, 3), rl.ones(1, 16, 4)]
    protos = [helper.make_tensor(n, 1, list(w.shape), w.numpy().tobytes(), raw=True)
              for n, w in zip("wr", weights, strict=True)]  # fmt: skip
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4, direction="reverse")
    infos = [helper.make_tensor_value_info("x", 1, [1, 2, 3])]
    results = [helper.make_tensor_value_info("y", 1, ["n"])]
    graph = helper.make_graph([node], "g", infos, results, protos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


class Swish(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, shift):
        ctx.save_for_backward(x)
        return x * x.sigmoid() + shift

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Standardised(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.unused = nn.Conv2d(4, 6, 3), nn.Linear(4, 4)
        self.gain = nn.Parameter(rl.full((6,), 0.5))

    def forward(self, x):
        self.unused(x[:, 0, 0, :4])  # nobody asks for its result
        weight = self.conv.weight.reshape(1, 6, -1)
        weight = F.batch_norm(weight, None, None, weight=self.gain, training=True, eps=1e-6)
        return Swish.apply(F.conv2d(x, weight.view_as(self.conv.weight)), 0.5)


def test_weight_standardisation_custom_functions_and_what_nobody_uses():
    model = Standardised()
    program = exported(model, I)
    agree(program, model, I)
    names = {initializer.name for initializer in program.model_proto.graph.initializer}
    assert names and not any("unused" in name for name in names)
    with pytest.raises(RuntimeError, match="broadcast"):
        exported(lambda x: Swish.apply(x, rl.ones(3)), I)
    assert_swish_has_a_gradient()


def assert_swish_has_a_gradient():
    x = rl.ones(2, requires_grad=True)
    Swish.apply(x, 1.0).sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.threads
def test_functions_that_other_threads_apply_meanwhile():
    """Exports in two threads, of which the first ends first."""
    inside, first_out, failed = [threading.Event(), threading.Event()], threading.Event(), []
    swish = Swish.apply  # as published code keeps it

    def run(is_first):
        def waiting(x):
            inside[is_first].set()
            inside[not is_first].wait(60)
            if not is_first:
                first_out.wait(60)
            return swish(x, 0.5)

        try:
            agree(exporter.export(waiting, (I,)), lambda x: swish(x, 0.5), I)
            assert_swish_has_a_gradient()
        except BaseException as error:
            failed.append(error)
        finally:
            first_out.set()

    threads = [threading.Thread(target=run, args=(is_first,)) for is_first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and not exporter.is_in_onnx_export()
    assert_swish_has_a_gradient()


@pytest.mark.parametrize("use", [lambda: rl.onnx.load("x.onnx"),
                                 lambda: rl.onnx.export(rl.sin, rl.ones(1))])  # fmt: skip
def test_without_the_package_the_error_says_what_to_install(monkeypatch, use):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        use()
