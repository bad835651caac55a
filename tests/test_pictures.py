"""Tensors and modules in notebooks, terminals and files."""

import struct
import zlib

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn


def decoded(png):
    """(height, width, channels) bytes of a PNG without filters, as ours are."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colours = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    channels = {0: 1, 2: 3, 6: 4}[colours]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize(
    "shape, size",
    [((200, 300), (200, 300, 1)), ((3, 200, 180), (200, 180, 3)), ((200, 180, 3), (200, 180, 3)),
     ((1, 200, 180), (200, 180, 1)), ((10, 100, 90), (200, 720, 1)),
     ((2, 3, 200, 90), (200, 180, 3)), ((4, 200, 170), (200, 170, 4))],
)  # fmt: skip
def test_shapes(shape, size):
    assert decoded(rl.rand(shape).show()._repr_png_()).shape == size


def test_values_are_kept():
    x = rl.linspace(0, 1, 200 * 200).reshape(200, 200)
    expected = (x.numpy() * 255 + 0.5).astype(np.uint8)
    assert np.array_equal(x.show().pixels[..., 0], expected)
    assert np.array_equal((x * 255).to(rl.uint8).show().pixels[..., 0],
                          (x.numpy() * 255).astype(np.uint8))  # fmt: skip
    wide = (x * 10 - 5).show().pixels  # from the smallest to the largest
    assert wide.min() == 0 and wide.max() == 255


def test_what_is_not_finite_is_red():
    x = rl.zeros(8, 8)
    x[2, 3] = float("nan")
    x[4, 4] = float("inf")
    pixels = x.show().pixels
    assert pixels[2, 3].tolist() == pixels[4, 4].tolist() == [214, 69, 69]
    assert pixels[0, 0].tolist() == [0, 0, 0]


def test_small_pictures_are_enlarged():
    assert decoded(rl.eye(4).show()._repr_png_()).shape == (160, 160, 1)


def test_files_and_terminals(tmp_path, monkeypatch, capsys):
    picture = rl.eye(4).show(tmp_path / "eye.png")
    assert decoded((tmp_path / "eye.png").read_bytes()).shape == (160, 160, 1)
    assert capsys.readouterr().out == ""
    lines = str(picture).splitlines()
    assert len(lines) == 2 and all(line.count("▀") == 4 for line in lines)
    monkeypatch.setenv("COLUMNS", "20")
    assert max(line.count("▀") for line in str(rl.rand(100, 100).show()).splitlines()) <= 20
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    rl.eye(4).show()
    assert "▀" in capsys.readouterr().out
    assert "data:image/png;base64," in picture._repr_html_()


@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 4, 4), (0, 3), (1, 2, 3, 4, 5)])
def test_what_is_no_picture(shape):
    with pytest.raises(ValueError, match="show: expected a picture"):
        rl.zeros(shape).show()


def test_other_kinds_of_values():
    for x in (rl.ones(9, 9, dtype=rl.bool), rl.zeros(9, 9, dtype=rl.bfloat16),
              rl.randn(9, 9, dtype=rl.complex64), rl.rand(9, 9, requires_grad=True)):  # fmt: skip
        assert x.show().pixels.shape == (9, 9, 1)


def test_cards():
    x = rl.tensor([1.0, 2.0, 4.0, float("nan"), float("inf")])
    card = x._repr_html_()
    for text in ("Tensor [5] float32 on cpu", "2.333", "NaN", "infinite", "<svg", "tensor(["):
        assert text in card
    assert "requires grad" in rl.ones(2, requires_grad=True)._repr_html_()
    assert "NaN" not in rl.ones(3)._repr_html_().partition("<details>")[0]
    for empty in (rl.empty(0), rl.empty(3, device="meta"), rl.tensor(7), rl.tensor([True, False]),
                  rl.ones(2, dtype=rl.complex64), rl.full((3,), float("nan"))):  # fmt: skip
        assert "<div" in empty._repr_html_()
    assert "evenly chosen" in rl.zeros((1 << 22) + 1)._repr_html_()


def test_the_histogram_counts():
    from rushlight._tensor.pictures import _statistics

    facts, counts = _statistics(rl.cat([rl.zeros(10), rl.ones(5)]))
    assert dict(facts)["min"] == "0" and sum(counts) == 15 and counts[0] == 10 and counts[-1] == 5


def test_modules_fold():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    tree = model._repr_html_()
    assert tree.count("<details") == 2 and tree.count("<details open") == 1
    assert "13 parameters" in tree and "in_features=2" in tree and "(1): <b>Sequential" in tree


def test_nothing_is_loaded_before(tmp_path):
    import subprocess
    import sys

    code = "import sys, rushlight; repr(rushlight.ones(2)); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_cards_of_other_kinds_of_tensors():
    """Notebooks show whatever stands on a cell's last line."""
    sparse = rl.tensor([[0.0, 7.5], [0.0, 0.0]])
    for tensor in (sparse.to_sparse(), sparse.to_sparse_csr()):
        assert "7.5" in tensor._repr_html_() and "[2, 2]" in tensor._repr_html_()
    quantized = rl.quantize_per_tensor(rl.tensor([1.0, 2.0]), 0.1, 0, rl.qint8)
    assert "qint8" in quantized._repr_html_()
    jagged = rl.nested.nested_tensor([rl.ones(2), rl.ones(3)], layout=rl.jagged)
    assert "<details" in jagged._repr_html_()
    assert "<details" in rl.zeros(3).to_sparse()._repr_html_()
