"""Names: those that are there, those that say they are not, and the page about them."""

import importlib
import pathlib
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.__main__ import main
from rushlight._names.page import entries

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Import paths that public programs use; utils.tensorboard needs a package, and has its own test.
PATHS = """nn.functional nn.parallel optim.lr_scheduler backends.cudnn nn.utils nn.init nn.utils.rnn
utils.checkpoint optim.optimizer nn.parameter cuda.amp distributed.fsdp utils._pytree
utils.cpp_extension distributed._tensor nn.modules.utils distributed.fsdp.wrap utils.model_zoo
distributed.tensor distributed.device_mesh distributed.checkpoint
distributed.algorithms._checkpoint.checkpoint_wrapper utils.hooks utils.benchmark nn.modules.module
nn.modules.loss nn.modules.batchnorm nn.attention.flex_attention distributed.tensor.parallel
distributed.distributed_c10d distributed.checkpoint.state_dict nn.parallel.distributed
autograd.function nn.modules
distributions.normal distributions.categorical distributions.utils
distributions.kl distributions.transforms distributions.constraints _six _utils _tensor storage
cuda.memory cuda.nvtx cuda.random cuda.amp.grad_scaler jit.annotations _jit_internal _dynamo
_dynamo.config _inductor.config compiler fx fx.node onnx export library ops classes overrides types
torch_version profiler autograd.profiler autograd.graph autograd.forward_ad hub serialization
version quantization ao.quantization sparse nested masked fft special linalg func futures package
nn.modules.activation nn.modules.conv nn.modules.container nn.modules.linear nn.modules.pooling
nn.modules.normalization nn.modules.dropout nn.modules.instancenorm nn.modules.lazy
nn.modules.sparse
nn.modules.padding nn.modules.upsampling nn.modules.pixelshuffle nn.modules.fold
nn.parallel.scatter_gather nn.parallel.parallel_apply nn.parallel.replicate
nn.parallel.data_parallel nn.common_types nn.utils.parametrize nn.utils.parametrizations
nn.utils.clip_grad nn.utils.fusion nn.utils.stateless nn.utils.weight_norm nn.utils.spectral_norm
optim.swa_utils optim.adam optim.adamw optim.sgd utils.collect_env utils.dlpack utils.file_baton
utils.flop_counter utils.mobile_optimizer utils.serialization utils._contextlib utils._device
utils._python_dispatch utils._foreach_utils distributed.rpc distributed.optim distributed.nn
distributed.nn.functional distributed._functional_collectives distributed._composable.fsdp
distributed.elastic.multiprocessing.errors distributed.algorithms.join distributed.pipelining
_subclasses.fake_tensor accelerator mps xpu mtia amp.autocast_mode amp.grad_scaler""".split()


@pytest.mark.parametrize("path", PATHS)
def test_import_paths(path):
    assert importlib.import_module(f"rushlight.{path}")


def test_the_page_is_up_to_date():
    command = [sys.executable, str(ROOT / "tools" / "compatibility.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert max(map(len, (ROOT / "docs" / "compatibility.md").read_text().splitlines())) <= 120


ASKED = """# Names

- **there are no
  widgets; use gadgets**
  `a.widget` `.spin`
- **another reason** (can be imported)
  `b`
"""


def test_the_page_can_be_asked(capsys):
    assert (
        entries(ASKED, "torch.a.widget") == "a.widget: not there. there are no widgets; use gadgets"
    )
    assert "there are no widgets" in entries(ASKED, "Tensor.spin")
    assert entries(ASKED, "widget").startswith("widget: not there. module 'rushlight' has no")
    for name in ("torch.nn.Linear", "Tensor.cuda", ".cuda", "nn.functional.relu"):
        assert entries(ASKED, name).endswith(": there"), name
    for name in ("package", "Tensor.spun", "nn.functional.rellu", ""):
        assert ": not there. " in entries(ASKED, name), name
    assert main(["names", "nn.Linear"]) == 0
    assert capsys.readouterr().out == "nn.Linear: there\n"
    assert main(["names"]) == 0
    assert capsys.readouterr().out.startswith("# Compatibility with PyTorch")


@pytest.mark.parametrize(
    "module,name,near",
    [
        ("", "clampp", "clamp"),
        ("nn", "Conv2D", "Conv2d"),
        ("nn.functional", "leakyrelu", "leaky_relu"),
        ("optim", "Adaam", "Adam"),
        ("distributions", "Norml", "Normal"),
        ("backends.cudnn", "benchmarks", None),
        ("_C", "_no_such_thing", None),
    ],
)
def test_missing_names(module, name, near):
    found = importlib.import_module(f"rushlight.{module}".rstrip("."))
    assert not hasattr(found, name)
    assert getattr(found, name, 5) == 5
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    text = str(caught.value)
    assert name in text and "Rushlight" in text and "docs/compatibility.md" in text
    if near:
        assert f"nearest name is '{near}'" in text


def test_missing_methods():
    x = rl.ones(2, 2)
    assert not hasattr(x, "to_mkldnn") and not hasattr(x, "no_such_method")
    with pytest.raises(AttributeError, match=r"layout is not there.*docs/compatibility.md"):
        x.to_mkldnn()


def test_what_is_named_only_says_so():
    with pytest.raises(NotImplementedError, match="ucc"):
        rl.distributed.init_process_group("ucc")
    with pytest.raises(NotImplementedError, match="make_fx"):
        rl.fx.experimental.proxy_tensor.make_fx(rl.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="C\\+\\+ and CUDA files"):
        rl.utils.cpp_extension.SyclExtension("x", [])
    with pytest.raises(RuntimeError, match="CUDA cannot be used here"):
        rl.cuda.FloatTensor(2)
    with pytest.raises(TypeError, match="not float4_e2m1fn_x2, which no tensor has here"):
        rl.zeros(2, dtype=rl.float4_e2m1fn_x2)


def test_versions():
    version = rl.torch_version.TorchVersion("2.13.0+rushlight")
    assert version >= "2.9" and version > (2, 12, 9) and version < "2.13.1" and version == "2.13"
    assert version != "2.12" and not version < "2.13.0" and version.startswith("2.13")
    assert rl.torch_version.TorchVersion("2.0.0rc1") < "2.0.0"
    packaging = pytest.importorskip("packaging.version")
    assert packaging.parse(version) >= packaging.parse("2.4.0")
    assert version >= packaging.parse("2.4.0")


def test_storages():
    assert rl.ByteStorage.from_buffer(b"abc").tolist() == [97, 98, 99]
    assert rl.ShortStorage.from_buffer(b"\x00\x01", "big").tolist() == [1]
    assert isinstance(rl.ones(2).storage(), rl.FloatStorage)
    assert not isinstance(rl.ones(2).storage(), rl.LongStorage)
    assert rl.LongStorage([1, 2]).float().tolist() == [1.0, 2.0]


def test_files_as_storages(tmp_path):
    path = tmp_path / "numbers"
    shared = rl.from_file(str(path), shared=True, size=4)
    shared.copy_(rl.arange(4.0))
    private = rl.from_file(str(path), size=4)
    assert private.tolist() == [0.0, 1.0, 2.0, 3.0]
    private += 1
    assert rl.UntypedStorage.from_file(str(path), False, 16).nbytes() == 16
    assert rl.from_file(str(path), size=4).tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError):
        rl.from_file(str(path), size=5)


def test_the_default_device():
    factories = [
        lambda: rl.empty(2), lambda: rl.zeros(2), lambda: rl.tensor([1]), lambda: rl.arange(3),
        lambda: rl.randn(2), lambda: rl.full((2,), 1.0), lambda: rl.eye(2),
        lambda: rl.hann_window(3), lambda: rl.randint(3, (2,)), lambda: rl.randperm(3),
        lambda: rl.tril_indices(2, 2), lambda: rl.Tensor(2), lambda: rl.nn.Linear(2, 2).weight,
        lambda: rl.zeros(2, device=None), lambda: rl.rand(2, 2), lambda: rl.linspace(0, 1, 3),
    ]  # fmt: skip
    with rl.device("meta"):
        assert [f().device.type for f in factories] == ["meta"] * len(factories)
        here = rl.ones(2, device="cpu")
        assert (
            here.device
            == rl.zeros_like(here).device
            == here.new_zeros(1).device
            == rl.device("cpu")
        )
        assert (here @ here).device.type == "cpu" and rl.einsum(
            "i,i", here, here
        ).device.type == "cpu"
        assert rl.zeros(2, out=rl.empty(2, device="cpu")).device.type == "cpu"
        with rl.device("cpu"):
            assert rl.ones(1).device.type == "cpu"
    rl.set_default_device("meta")
    try:
        assert rl.ones(1).is_meta and rl.get_default_device() == rl.device("meta")
    finally:
        rl.set_default_device(None)
    assert rl.ones(1).device.type == "cpu"
    assert rl.nn.Linear(2, 2, device="meta").to_empty(device="cpu").weight.device.type == "cpu"
