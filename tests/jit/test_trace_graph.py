"""jit._get_trace_graph: operators with PyTorch's names, shapes and scopes, to be counted."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


def kinds(graph):
    return [node.kind() for node in graph.nodes() if not node.kind().startswith("prim::")]


def shapes(node):
    return [v.type().sizes() for v in node.inputs() if v.isCompleteTensor()]


def test_a_network():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)).eval()  # fmt: skip
    x = rl.randn(2, 3, 8, 8)
    graph, out = rl.jit._get_trace_graph(net, (x,))
    assert out.equal(net(x))
    # As PyTorch 2.13 lists them.
    assert kinds(graph) == [
        "aten::_convolution", "aten::batch_norm", "aten::relu_", "aten::adaptive_avg_pool2d",
        "aten::flatten", "aten::linear",
    ]  # fmt: skip
    first, norm, relu, *_ = (
        graph.findAllNodes("aten::_convolution")
        + graph.findAllNodes("aten::batch_norm")
        + graph.findAllNodes("aten::relu_")
    )
    assert shapes(first) == [[2, 3, 8, 8], [8, 3, 3, 3], [8]] and first.inputsSize() == 13
    inputs = list(first.inputs())
    assert inputs[6].toIValue() is False and inputs[8].toIValue() == 1  # transposed, groups
    assert [v.toIValue() for v in inputs[3].node().inputs()] == [1, 1]
    assert (
        shapes(norm) == [[2, 8, 8, 8], [8], [8], [8], [8]]
        and next(iter(norm.inputs())) is first.output()
    )
    assert next(iter(relu.inputs())) is norm.output() is not relu.output()
    assert len(list(graph.inputs())) == 1 + len(list(net.parameters())) + len(list(net.buffers()))
    assert [v.type().sizes() for v in graph.outputs()] == [[2, 4]]
    assert "aten::linear(" in str(graph) and "Float(2, 4, strides=[4, 1]" in str(graph)


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ["upsample_bilinear2d"]),
        (lambda x: F.interpolate(x, (3, 9)), ["upsample_nearest2d"]),
        (lambda x: F.interpolate(F.interpolate(x, (3, 9)), (5, 5), mode="bicubic"),
         ["upsample_nearest2d", "upsample_bicubic2d"]),
        (lambda x: rl.einsum("bchw,bchw->bc", x, x), ["einsum"]),
        (lambda x: F.conv_transpose2d(x, rl.ones(3, 2, 2, 2)), ["ones", "_convolution"]),
        (lambda x: F.avg_pool2d(x, 2), ["avg_pool2d"]),
        (lambda x: F.dropout(x, 0.5).softmax(-1), ["dropout", "softmax"]),
    ],
)  # fmt: skip
def test_names(function, expected):
    graph, _ = rl.jit._get_trace_graph(function, rl.randn(2, 3, 6, 6))
    assert kinds(graph) == [f"aten::{name}" for name in expected]


def test_attention_has_the_shape_of_one_head():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    graph, _ = rl.jit._get_trace_graph(layer, rl.randn(1, 5, 16))
    (attention,) = graph.findAllNodes("aten::scaled_dot_product_attention")
    assert shapes(attention) == [[1, 2, 5, 8]] * 3


def test_scopes():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    for name, module in net.named_modules():
        module.register_forward_pre_hook(
            lambda m, a, n=name: rl._C._get_tracing_state().push_scope(n)
        )
        module.register_forward_hook(lambda m, a, o: rl._C._get_tracing_state().pop_scope())
    graph, _, inputs = rl.jit._get_trace_graph(net, rl.ones(1, 2), return_inputs=True)
    assert [node.scopeName() for node in graph.nodes()] == ["/0", "/1"]
    assert inputs[0].shape == (1, 2) and rl._C._get_tracing_state() is None


def test_nothing_stays_after_an_error():
    def fails(x):
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        rl.jit._get_trace_graph(fails, rl.ones(1))
    assert rl._C._get_tracing_state() is None
