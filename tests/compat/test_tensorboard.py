"""SummaryWriter's files, read by the tensorboard package itself."""

import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl


def test_without_the_package():
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "try:\n    import rushlight.utils.tensorboard\n"
        "except ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install tensorboard" in out.stdout


def test_everything_is_read_back(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        for i in range(3):
            writer.add_scalar("loss", rl.tensor(i / 2), i)
        writer.add_scalars("both", {"a": 1, "b": rl.tensor(2.0)}, 0)
        writer.add_histogram("weights", rl.randn(1000), 0)
        writer.add_image("image", rl.rand(3, 8, 9), 0)
        writer.add_images("images", rl.rand(5, 1, 8, 9), 0)
        writer.add_text("note", "hello", 0)
        writer.add_graph(rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.ReLU()), rl.ones(1, 2))
        writer.add_embedding(rl.randn(4, 3), metadata=list("abcd"), label_img=rl.rand(4, 3, 5, 5))
        writer.add_pr_curve("curve", rl.randint(0, 2, (50,)), rl.rand(50), 0)
        writer.add_hparams({"lr": 0.1, "on": True, "name": "x"}, {"accuracy": 1.0}, run_name="run")
        writer.add_audio("sound", rl.rand(1, 100) * 2 - 1)
        points = rl.rand(1, 5, 3)
        writer.add_mesh(
            "shape",
            points,
            colors=(points * 255).to(rl.uint8),
            faces=rl.tensor([[[0, 1, 2], [2, 3, 4]]]),
            config_dict={"camera": 1},
        )
        with pytest.raises(ValueError, match="one colour per vertex"):
            writer.add_mesh("shape", points, colors=points[:, :2])
        writer.add_custom_scalars_multilinechart(["loss"])
        writer.add_tensor("as it is", rl.arange(3))
        writer.flush()
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0}).Reload()
    tags = events.Tags()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert events.Histograms("weights")[0].histogram_value.num == 1000
    assert (events.Images("image")[0].width, events.Images("image")[0].height) == (9, 8)
    assert set(tags["images"]) == {"image", "images"} and tags["audio"] == ["sound"]
    assert {"note/text_summary", "curve"} <= set(tags["tensors"]) and tags["graph"]
    assert {"shape_VERTEX", "shape_FACE", "shape_COLOR", "as it is"} <= set(tags["tensors"])
    from tensorboard.util.tensor_util import make_ndarray

    faces = make_ndarray(events.Tensors("shape_FACE")[0].tensor_proto)
    assert faces.tolist() == [[[0, 1, 2], [2, 3, 4]]]
    assert np.allclose(make_ndarray(events.Tensors("shape_VERTEX")[0].tensor_proto), points)
    assert "aten::linear" in [n.op for n in events.Graph().node]
    assert (tmp_path / "projector_config.pbtxt").exists()
    assert len(list((tmp_path / "run").iterdir())) == 1
    assert len(list((tmp_path / "both_a").iterdir())) == 1


def test_values(tmp_path):
    from rushlight.utils._images import encode_png
    from rushlight.utils.tensorboard import SummaryWriter
    from rushlight.utils.tensorboard._values import as_image
    from rushlight.utils.tensorboard.summary import make_histogram

    image = as_image(rl.full((3, 2, 4), 0.5), "CHW")
    assert image.shape == (2, 4, 3) and image.dtype == np.uint8 and image[0, 0, 0] == 127
    assert as_image(np.zeros((9, 2, 4, 1), np.uint8), "NHWC").shape == (4, 32, 3)
    assert encode_png(image).startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="dataformats"):
        as_image(rl.ones(2, 2), "CHW")
    proto = make_histogram(np.array([-1.0, 0.0, 0.5, 0.5]))
    assert sum(proto.bucket) == 4 and (proto.min, proto.max, proto.sum) == (-1.0, 0.5, 0.0)
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError):
        writer.add_scalar("x", rl.ones(2))


class Block(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = rl.nn.Linear(3, 3)

    def forward(self, x):
        return rl.nn.functional.relu(self.layer(x) + x)


def test_graph_of_a_model(tmp_path):
    """Calls between modules are nodes as well, and what goes around a layer arrives."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight.utils.tensorboard import SummaryWriter

    model = rl.nn.Sequential(Block(), Block()).train()
    model[0].layer.eval()  # frozen: it stays as it is
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, rl.ones(2, 3))
    nodes = {n.name: n for n in EventAccumulator(str(tmp_path)).Reload().Graph().node}
    inside = "Sequential/Block[1]/Linear[layer]"
    add = nodes["Sequential/Block[1]/add"]
    assert list(add.input) == [f"{inside}/linear", "Sequential/Block[0]/relu"]
    linear = nodes[f"{inside}/linear"]
    assert list(linear.input)[1:] == [f"{inside}/weight", f"{inside}/bias"]
    sizes = [d.size for d in linear.attr["_output_shapes"].list.shape[0].dim]
    assert linear.op == "aten::linear" and sizes == [2, 3]
    assert list(nodes["output/output.1"].input) == ["Sequential/Block[1]/relu"]
    assert all(source in nodes for n in nodes.values() for source in n.input)
    assert [m.training for m in model.modules()] == [True, True, False, True, True]
    assert not model[0]._forward_hooks


def test_graph_of_what_writes_to_tensors():
    from rushlight.utils.tensorboard._model_graph import model_graph

    class Writes(rl.nn.Module):
        def forward(self, x):
            out = rl.zeros(2, 3)
            out[0] = x.exp()
            return out.mul_(2)

    nodes = {n.name: n for n in model_graph(Writes(), rl.ones(3)).node}
    assert list(nodes["Writes/exp"].input) == ["input/input.1"]
    assert "Writes/exp" in nodes["Writes/setitem"].input
    assert list(nodes["Writes/mul"].input) == ["Writes/setitem"]
    assert list(nodes["output/output.1"].input) == ["Writes/mul"]


def test_boxes_points_and_parameters_of_runs(tmp_path):
    from rushlight.utils.tensorboard import SummaryWriter
    from rushlight.utils.tensorboard.summary import image_boxes, make_histogram

    pytest.importorskip("PIL")
    image, box = rl.zeros(3, 40, 60), rl.tensor([[5, 5, 50, 30]])
    plain, labelled = (image_boxes("x", image, box, labels=names).value[0].image
                       for names in (None, ["cat"]))  # fmt: skip
    assert plain.encoded_image_string != labelled.encoded_image_string
    assert (labelled.height, labelled.width) == (40, 60)
    with pytest.raises(ValueError, match="1 boxes but 2 labels"):
        image_boxes("x", image, box, labels=["a", "b"])
    proto = make_histogram(np.random.default_rng(0).normal(size=1000), max_bins=10)
    assert sum(proto.bucket) == 1000 and len(proto.bucket) <= 12
    points = np.random.default_rng(0).random((4, 3))
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(points)
        with pytest.raises(ValueError, match="must be a number"):
            writer.add_hparams({"sizes": [1, 2]}, {"loss": 1.0})
    written = np.loadtxt(tmp_path / "00000" / "default" / "tensors.tsv")
    assert (written == points).all()  # no digit is lost


def test_graph_of_an_onnx_file(tmp_path):
    pytest.importorskip("onnx")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight.utils.tensorboard import SummaryWriter

    model = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.ReLU())
    rl.onnx.export(model, (rl.ones(1, 2),), tmp_path / "model.onnx")
    with SummaryWriter(tmp_path / "logs") as writer:
        writer.add_onnx_graph(tmp_path / "model.onnx")
        bins = writer.default_bins
    assert len(bins) == 1549 and bins[774] == 0 and bins[775] == -bins[773] == 1e-12
    nodes = EventAccumulator(str(tmp_path / "logs")).Reload().Graph().node
    relu = next(n for n in nodes if n.op == "Relu")
    by_name = {n.name: n for n in nodes}
    assert by_name[relu.input[0]].op == "Gemm" and len(by_name) == len(nodes)
    (output,) = (n for n in nodes if n.op == "Output")
    assert output.input[0] in by_name
    assert sum(n.op == "Parameter" for n in nodes) == 2


@pytest.mark.parametrize(
    ("value", "classes"),
    [
        ([1.0, 2.0], (ValueError, NotImplementedError)),
        (np.ones(2), (ValueError, AssertionError)),
        (rl.ones(2), (ValueError, AssertionError)),
    ],
)
def test_what_is_no_scalar(value, classes):
    """PyTorch's classes are among those of the error: skorch passes over lists by one."""
    from rushlight.utils.tensorboard._values import as_number

    for expected in classes:
        with pytest.raises(expected, match="one element"):
            as_number(value)
    assert as_number(rl.tensor([2.5])) == 2.5
