"""Packages that bring C++ code built for PyTorch: what they import and find under as_torch."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

import rushlight as rl
from rushlight._extensions import needs_pytorch, package_of
from rushlight.as_torch._absent import PACKAGES

BUILT_FOR_PYTORCH = b"\x7fELF\0libm.so.6\0libc10.so\0libtorch_cpu.so\0filter_core\0"


def run(code, folder):
    """Runs code as a program for PyTorch, with the packages of a folder."""
    command = [sys.executable, "-W", "ignore", "-m", "rushlight.as_torch", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def make_package(folder, name, init="", files=(), distribution=None):
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text(init)
    for file in files:
        (package / file).write_bytes(BUILT_FOR_PYTORCH)
    if distribution:
        info = folder / f"{distribution.replace('-', '_')}-9.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 9.0\n"
        )
        (info / "top_level.txt").write_text(f"{name}\n")


# As torchaudio's: the library is loaded as the package is imported.
LOADS = """
import pathlib, torch
torch.ops.load_library(pathlib.Path(__file__).parent / "_filters.so")
def filter(x):
    return torch.ops.filters.filter_core(x)
def half(x):
    return x / 2
"""


def test_a_package_whose_library_cannot_be_loaded_is_imported(tmp_path):
    make_package(tmp_path, "filters", LOADS, ["_filters.so"])
    make_package(tmp_path, "user", "import filters\nvalue = filters.half(6)\n")
    code = """
import torch, user, filters
assert user.value == 3 and not hasattr(torch.ops.filters, "filter_core")
for kind in (AttributeError, NotImplementedError, RuntimeError):
    try:
        filters.filter(torch.ones(2))
    except kind as error:
        text = str(error)
print(text)
try:
    torch.ops.filters.another
except AttributeError as error:
    print(error)
"""
    first, second = run(code, tmp_path).splitlines()
    assert first.startswith("ops.filters.filter_core: no such operator")
    assert "the C++ part of filters (_filters.so)" in first and "built for PyTorch" in first
    assert "may belong to a C++ extension" in second


def test_libraries_are_told_apart(tmp_path):
    plain, foreign, empty = (tmp_path / f"{n}.so" for n in ("plain", "foreign", "empty"))
    plain.write_bytes(b"\x7fELF\0libm.so.6\0about libtorch\0")
    foreign.write_bytes(BUILT_FOR_PYTORCH)
    empty.write_bytes(b"")
    assert needs_pytorch(foreign) and not needs_pytorch(plain) and not needs_pytorch(empty)
    (tmp_path / "stable.so").write_bytes(b"\0aoti_torch_empty_strided\0")
    assert needs_pytorch(tmp_path / "stable.so")
    assert not needs_pytorch(rl._C.__file__)
    for cut in (6, 40, 64, 200):  # what cannot be read as ELF is searched as a whole
        (tmp_path / "cut.so").write_bytes(pathlib.Path(rl._C.__file__).read_bytes()[:cut])
        assert not needs_pytorch(tmp_path / "cut.so")
    assert package_of(str(plain)) == tmp_path.name
    make_package(tmp_path, "outer")
    make_package(tmp_path / "outer", "inner")
    assert package_of(str(tmp_path / "outer" / "inner" / "x.so")) == "outer"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_real_libraries_are_told_apart(tmp_path):
    """By what they link; a text that speaks of PyTorch does not count."""

    def build(name, text, *linked):
        source, target = tmp_path / f"{name}.cpp", tmp_path / f"lib{name}.so"
        source.write_text(text)
        command = ["g++", "-shared", "-fPIC", "-o", target, source, f"-L{tmp_path}", *linked]
        subprocess.run(command, check=True)
        return target

    build("c10", "int c10_value() { return 1; }")
    text = """extern const char text[];
        const char text[] = "\\0libc10.so\\0libtorch_cpu.so\\0aoti_torch_empty";"""
    assert not needs_pytorch(build("plain", text))
    calls = "int c10_value(); int value() { return c10_value(); }"
    assert needs_pytorch(build("linked", calls, "-lc10"))
    stable = 'extern "C" int aoti_torch_empty(); int value() { return aoti_torch_empty(); }'
    assert needs_pytorch(build("stable", stable))


def test_loading_libraries(tmp_path):
    with pytest.raises(OSError, match="ops.load_library: .*nothing.so cannot be loaded"):
        rl.ops.load_library(tmp_path / "nothing.so")
    (tmp_path / "broken.so").write_bytes(b"no library")
    with pytest.raises(OSError, match="cannot be loaded"):
        rl.ops.load_library(tmp_path / "broken.so")
    own = rl._C.__file__  # a library that needs no PyTorch
    rl.ops.load_library(own)
    assert own in rl.ops.loaded_libraries
    (tmp_path / "foreign.so").write_bytes(BUILT_FOR_PYTORCH)
    rl.ops.load_library(tmp_path / "foreign.so")
    rl.classes.load_library(tmp_path / "foreign.so")
    assert str(tmp_path / "foreign.so") not in rl.ops.loaded_libraries


RAISES = "raise ImportError('libc10.so: cannot open shared object file')\n"


def test_packages_that_are_nothing_without_pytorch_are_absent(tmp_path):
    for name in sorted(PACKAGES):
        make_package(tmp_path, name, RAISES, distribution=name.replace("_", "-"))
    make_package(tmp_path, "einops_like", distribution="einops-like")
    code = f"""
import importlib, importlib.metadata as metadata, importlib.util, sys
import torch
names = {sorted(PACKAGES)}
owners = metadata.packages_distributions()
installed = {{d.metadata["Name"] for d in metadata.distributions()}}
assert "einops_like" in owners and "einops-like" in installed and "torch" in owners
for name in names:
    assert importlib.util.find_spec(name) is None, name
    assert name not in owners and name.replace("_", "-") not in installed
    for spelled in (name, name.replace("_", "-"), name.upper()):
        try:
            metadata.version(spelled)
        except metadata.PackageNotFoundError:
            continue
        raise AssertionError(spelled)
    for way in (importlib.import_module, __import__):
        try:
            way(name)
        except ModuleNotFoundError as error:
            assert error.name == name and "built for PyTorch" in str(error), error
        else:
            raise AssertionError(name)
    assert name not in sys.modules
try:
    from flash_attn.bert_padding import pad_input
except ImportError as error:
    assert "built for PyTorch" in str(error)
import rushlight.as_torch
rushlight.as_torch.uninstall()
assert importlib.util.find_spec("flash_attn") is not None
assert metadata.version("flash-attn") == "9.0"
print("ok")
"""
    assert run(code, tmp_path) == "ok\n"


def test_what_is_not_installed_says_so_and_own_files_are_seen(tmp_path):
    (tmp_path / "apex.py").write_text("value = 5\n")
    code = """
import apex
assert apex.value == 5
try:
    import xformers
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code, tmp_path) == "No module named 'xformers'\n"


def test_extension_modules_built_for_pytorch_are_absent(tmp_path):
    make_package(tmp_path, "sounds", files=[f"_core{EXTENSION_SUFFIXES[0]}"])
    code = """
import importlib.util
import sounds
assert importlib.util.find_spec("sounds._core") is None
try:
    from sounds import _core
except ImportError as error:
    print(error)
try:
    import sounds._core
except ModuleNotFoundError as error:
    print(error)
import _ctypes, math  # others are loaded
"""
    first, second = run(code, tmp_path).splitlines()
    assert "_core" in first and "is built for PyTorch's C++ library" in second


# What torchvision does as it is imported, in short.
VISION = """
import functools, pathlib, torch
torch.ops.load_library(str(pathlib.Path(__file__).parent / "_C.so"))
assert torch.ops.torchvision._cuda_version() == -1
library = torch.library.Library("torchvision", "IMPL", "Meta")

def wrong(*args):
    raise AssertionError("of another library")

OPS = "nms roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d".split()
for name in ["roi_align", "qroi_align", "_roi_align_backward", "_deform_conv2d_backward"]:
    library.impl(getattr(getattr(torch.ops.torchvision, name), "default"), wrong)
torch.library.register_fake("torchvision::nms")(wrong)
torch.library.register_fake("torchvision::qnms")(wrong)
for name in OPS:
    torch.library.register_autograd(f"torchvision::{name}", wrong, setup_context=wrong)
    torch.library.Library("torchvision", "IMPL").impl(name, wrong, "AutocastCPU")
    torch.library.impl(f"torchvision::{name}", "cpu", wrong)
    torch.library.register_kernel(f"torchvision::{name}", "cpu", wrong)
"""


def test_torchvisions_operators_are_ours(tmp_path):
    make_package(tmp_path, "vision", VISION, ["_C.so"])
    code = """
import torch, vision
ops = torch.ops.torchvision
boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1], [5, 5, 6, 6]])
assert ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
x = torch.ones(1, 2, 4, 4, requires_grad=True)
rois = torch.tensor([[0.0, 0, 0, 3, 3]])
ops.roi_align(x, rois, 1.0, 2, 2, 2, False).sum().backward()
assert abs(x.grad.sum().item() - 8) < 1e-5
out = ops.roi_align.default(x.to("meta"), rois.to("meta"), spatial_scale=1.0, pooled_height=3,
                            pooled_width=2, sampling_ratio=2, aligned=True)
assert out.shape == (1, 2, 3, 2) and out.is_meta
assert all(hasattr(ops, name) for name in vision.OPS)
assert not hasattr(ops, "box_iou_rotated")
try:
    ops.qroi_align(x)
except NotImplementedError as error:
    print(error)
"""
    assert "qroi_align" in run(code, tmp_path)


def test_placements_are_values():
    from rushlight.distributed.tensor import Partial, Placement, Replicate, Shard
    from rushlight.distributed.tensor.placement_types import _StridedShard

    assert Shard(1) == Shard(1) != Shard(0) and Shard(-1).dim == -1
    assert Shard(1).is_shard() and Shard(1).is_shard(1) and not Shard(1).is_shard(0)
    assert Replicate().is_replicate() and not Replicate().is_shard()
    assert Partial().reduce_op == "sum" and Partial("avg").is_partial("avg")
    assert len({Replicate(), Replicate(), Shard(0)}) == 2
    assert isinstance(_StridedShard(0, split_factor=2), Shard) and isinstance(Shard(0), Placement)


# ---- the packages themselves, where they are installed ----


def installed(*names):
    missing = [n for n in names if importlib.util.find_spec(n) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {' '.join(missing)}")


@installed("torchvision")
def test_torchvision(tmp_path):
    code = """
import torch, torchvision
from torchvision import models, ops, transforms
from torchvision.transforms import v2
assert torchvision.extension._has_ops()
torch.manual_seed(0)
model = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None, num_classes=3)
target = {"boxes": torch.tensor([[4.0, 4, 40, 40]]), "labels": torch.tensor([1])}
losses = model([torch.rand(3, 64, 64)], [target])
sum(losses.values()).backward()
assert sorted(model.eval()([torch.rand(3, 64, 64)])[0]) == ["boxes", "labels", "scores"]
assert models.resnet18()(torch.rand(1, 3, 64, 64)).shape == (1, 1000)
boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1]])
assert ops.batched_nms(boxes, torch.tensor([1.0, 2]), torch.tensor([0, 1]), 0.5).tolist() == [1, 0]
image = v2.Compose([v2.RandomResizedCrop(16), v2.ToDtype(torch.float32, scale=True)])
assert image(torch.randint(0, 255, (3, 32, 32), dtype=torch.uint8)).shape == (3, 16, 16)
from torchvision.models.feature_extraction import create_feature_extractor
features = create_feature_extractor(models.resnet18(), {"layer1": "low", "layer3": "high"})
shapes = {name: tuple(x.shape) for name, x in features(torch.rand(1, 3, 64, 64)).items()}
assert shapes == {"low": (1, 64, 16, 16), "high": (1, 256, 4, 4)}
try:
    torchvision.io.read_file("nothing")
except NotImplementedError as error:
    assert "torchvision" in str(error)
"""
    run(code, tmp_path)


@installed("e3nn", "opt_einsum_fx")
def test_e3nn(tmp_path):
    code = """
import torch
from e3nn import o3
product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "3x0e+2x1o")
x, y, rotation = torch.randn(5, 5), torch.randn(5, 4), o3.rand_matrix()
turned = [irreps.D_from_matrix(rotation).T
          for irreps in (product.irreps_in1, product.irreps_in2, product.irreps_out)]
found = product(x @ turned[0], y @ turned[1])
assert torch.allclose(found, product(x, y) @ turned[2], atol=1e-5)
found.sum().backward()
assert o3.Linear("2x0e+3x1o", "4x0e+1x1o")(torch.randn(3, 11)).shape == (3, 7)
"""
    run(code, tmp_path)


@installed("torchaudio")
def test_torchaudio(tmp_path):
    code = """
import torch, torchaudio
from torchaudio import functional, transforms
x = torch.sin(torch.arange(4000) * 0.3)[None]
assert transforms.MelSpectrogram(16000, n_mels=20)(x).shape == (1, 20, 21)
assert functional.resample(x, 16000, 8000).shape == (1, 2000)
low = functional.lowpass_biquad(x[:, :300], 16000, 300.0)
assert low.abs().max() < x.abs().max()
try:
    functional.rnnt_loss(torch.rand(1, 2, 2, 3), torch.ones(1, 1).int(), torch.tensor([2]).int(),
                         torch.tensor([1]).int())
except NotImplementedError as error:
    assert "the C++ part of torchaudio" in str(error), error
else:
    raise AssertionError
"""
    run(code, tmp_path)


@installed("transformers", "torchvision", "torchaudio")
def test_transformers_beside_them(tmp_path):
    code = """
import torch
from transformers import AutoModel, LlamaConfig, LlamaForCausalLM, pipeline
from transformers.utils import is_flash_attn_2_available, is_torchvision_available
assert is_torchvision_available() and not is_flash_attn_2_available()
config = LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
model = LlamaForCausalLM(config)
assert model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False).shape == (1, 7)
"""
    run(code, tmp_path)


@pytest.mark.parametrize("name", ["accelerate", "lightning", "pytorch_lightning"])
def test_others_are_imported(name, tmp_path):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"not installed: {name}")
    run(f"import {name}", tmp_path)
