"""Mistakes of newcomers, and the words that help them on."""

import pickle
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight import nn, optim

F = nn.functional


@pytest.mark.parametrize("make", [torch.device, torch.zeros(2).to], ids=["device", "to"])
def test_a_gpu_is_called_cuda(make):
    with pytest.raises(RuntimeError, match="unknown device 'gpu'.*a GPU's name is 'cuda'"):
        make("gpu")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GPU:1", "a GPU's name is 'cuda:1'"),
        ("CUDA", "write 'cuda'"),
        ("cuda0", "write 'cuda:0'"),
        ("mps", "known for comparisons alone"),
    ],
)
def test_other_spellings_of_devices(name, words):
    with pytest.raises(RuntimeError, match=rf"unknown device '{name}'.*{words}$"):
        torch.ones(2, device=name)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (torch.int32, r"got int32: convert with target.long\(\)$"),
        (torch.float32, r"long\(\); probabilities would have the input's shape \[3, 4\]"),
    ],
    ids=["int32", "float32"],
)
def test_labels_of_another_type(dtype, words):
    with pytest.raises(TypeError, match=words):
        F.cross_entropy(torch.randn(3, 4), torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize(
    ("layer", "shape", "order"),
    [
        (nn.Conv2d(3, 8, 3), (1, 32, 32, 3), "0, 3, 1, 2"),
        (nn.Conv2d(3, 8, 3), (32, 32, 3), "2, 0, 1"),
        (nn.Conv1d(5, 8, 3), (2, 20, 5), "0, 2, 1"),
        (nn.ConvTranspose2d(3, 8, 3), (1, 32, 32, 3), "0, 3, 1, 2"),
    ],
    ids=["batch", "one picture", "one dim", "transposed"],
)
def test_pictures_with_their_channels_last(layer, shape, order):
    picture = torch.randn(shape)
    with pytest.raises(ValueError, match=rf"input\.permute\({order}\) puts them first"):
        layer(picture)
    layer(picture.permute(*map(int, order.split(","))))


def test_batch_norm_of_such_pictures():
    norm, picture = nn.BatchNorm2d(3), torch.randn(2, 8, 8, 3)
    with pytest.raises(ValueError, match=r"input\.movedim\(-1, 1\) puts them first"):
        norm(picture)
    norm(picture.movedim(-1, 1))
    with pytest.raises(ValueError, match=r"must have shape \[4\], got \[3\]"):
        norm(torch.randn(2, 4, 8, 8))


def test_conversions_that_are_meant():
    with pytest.raises(TypeError, match=r"convert with target\.float\(\)"):
        F.binary_cross_entropy_with_logits(torch.randn(2), torch.tensor([0, 1]))
    with pytest.raises(TypeError, match=r"convert with input\.long\(\)"):
        nn.Embedding(3, 2)(torch.tensor([0.0, 1.0]))


def test_float8_says_what_it_is_for():
    x = torch.ones(2, dtype=torch.float8_e4m3fn)
    for use in (lambda: x + x, x.exp, x.sum, lambda: F.relu(x)):
        with pytest.raises(TypeError, match="stored and converted but not computed in"):
            use()
    with pytest.raises(TypeError, match="float4_e2m1fn_x2, which no tensor has here"):
        torch.ones(2).to(torch.float4_e2m1fn_x2)
    with pytest.raises(AttributeError, match="the nearest name is 'float8_e4m3fn'"):
        torch.float8  # noqa: B018


def test_other_channels_get_no_such_hint():
    with pytest.raises(ValueError, match=r"has 4$|has 4\n"):
        nn.Conv2d(3, 8, 3)(torch.randn(1, 4, 32, 32))


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW, optim.RMSprop, optim.LBFGS])
def test_a_learning_rate_is_called_lr(kind):
    weight = nn.Parameter(torch.ones(1))
    with pytest.raises(TypeError, match=f"{kind.__name__}.*'learning_rate'; write lr="):
        kind([weight], learning_rate=0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        kind([weight], speed=0.1)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.SparseAdam])
def test_what_an_optimiser_takes(kind):
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError, match=rf"{kind.__name__}.*not Linear; pass its parameters\(\)"):
        kind(model, lr=0.1)
    with pytest.raises(
        TypeError, match=f"{kind.__name__}: lr must be a number or a tensor, got str"
    ):
        kind(model.parameters(), lr="0.1")


def test_an_optimiser_may_have_options_of_such_names():
    class Own(optim.Optimizer):
        def __init__(self, params, learning_rate):
            super().__init__(params, {"lr": learning_rate})

    assert Own([nn.Parameter(torch.ones(1))], learning_rate=0.5).param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello world, no checkpoint\n" * 9, "it begins with 'hello world, no checkpoint'"),
        (b"<!DOCTYPE html>\n<html>Not found</html>" * 9, "a web page was saved"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n" * 9, "git lfs pull"),
        (b"\x01\x02\x03" * 99, r"\((no opcode|the byte .* is not an opcode|.*damaged)"),
        (b"\x93NUMPY\x01\x00v\x00" + b" " * 99, "which numpy.load reads"),
        (b"\x1f\x8b\x08" + b" " * 99, "compressed by gzip"),
        (b"\x08\0\0\0\0\0\0\0" + b'{"a":1} ', r"safetensors\.load_file reads"),
        (pickle.dumps({"a": [1, 2]}), "a plain pickle, which pickle.load reads"),
        (pickle.dumps(pytest.approx), "a plain pickle, which pickle.load reads"),
    ],
    ids=[
        "text",
        "page",
        "pointer",
        "bytes",
        "array",
        "compressed",
        "safetensors",
        "pickle",
        "function",
    ],
)
def test_files_that_are_no_checkpoints(content, words, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(Exception, match=words):
        torch.load(path)


def test_a_trace_without_inputs():
    with pytest.raises(RuntimeError, match=r"jit\.trace\(model, x\)\.save\(path\)"):
        torch.jit.trace(nn.Linear(2, 2))


def test_numpy_is_missing():
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import rushlight\n"
        "try: rushlight.ones(2).numpy()\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "NumPy is not installed" in out.stdout and "tolist()" in out.stdout
