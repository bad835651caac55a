"""Mistakes of newcomers, and the words that help them on."""

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
        (b"\x01\x02\x03" * 99, "no opcode|not an opcode|damaged"),
    ],
    ids=["text", "page", "pointer", "bytes"],
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
