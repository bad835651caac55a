"""Pictures of bytes are resampled in integers, as PyTorch 2.13 does it: to the last bit."""

import hashlib

import pytest

import rushlight as rl
import rushlight.nn.functional as F

# The first 16 digits of SHA-256 over the bytes that PyTorch gave.
RECORDED = [
    ("bilinear", {}, (8, 9), "20738aff0f7c5165"),
    ("bilinear", {}, (30, 11), "e360b6a1b08d75da"),
    ("bilinear", {}, (17, 40), "7cdab4d3e71c777f"),
    ("bilinear", {"antialias": True}, (8, 9), "7cd2839a5212b0c8"),
    ("bilinear", {"antialias": True}, (30, 11), "72bf7c34b6d5333b"),
    ("bilinear", {"antialias": True}, (17, 40), "7cdab4d3e71c777f"),
    ("bilinear", {"align_corners": True}, (8, 9), "0351f899974a19db"),
    ("bilinear", {"align_corners": True}, (30, 11), "64046846d0b79c5f"),
    ("bilinear", {"align_corners": True}, (17, 40), "05da2865bcd4b4b5"),
    ("bicubic", {}, (8, 9), "8316bc0c6efe46e4"),
    ("bicubic", {}, (30, 11), "aeb068546b0ae11f"),
    ("bicubic", {}, (17, 40), "dd0505eaef034775"),
    ("bicubic", {"antialias": True}, (8, 9), "1ea1fa47365dbe52"),
    ("bicubic", {"antialias": True}, (30, 11), "300f65361b033e22"),
    ("bicubic", {"antialias": True}, (17, 40), "182524713a45e48a"),
    ("bicubic", {"align_corners": True}, (8, 9), "419314b54677da51"),
    ("bicubic", {"align_corners": True}, (30, 11), "bce4b2e0f5e03576"),
    ("bicubic", {"align_corners": True}, (17, 40), "bc98ff2ce27d8fc7"),
]


def picture(channels, height, width):
    places = rl.arange(channels * height * width).reshape(1, channels, height, width)
    return (places.square() * 37 % 251).to(rl.uint8)


def digest(x):
    return hashlib.sha256(bytes(x.flatten().tolist())).hexdigest()[:16]


@pytest.mark.parametrize("mode, more, size, expected", RECORDED)
def test_equal_to_the_last_bit(mode, more, size, expected):
    x = picture(3, 17, 23)
    assert digest(F.interpolate(x, size, mode=mode, **more)) == expected
    last = F.interpolate(x.contiguous(memory_format=rl.channels_last), size, mode=mode, **more)
    assert last.is_contiguous(memory_format=rl.channels_last) and digest(last) == expected


def test_many_channels_and_scales():
    assert (
        digest(F.interpolate(picture(6, 17, 23), (8, 9), mode="bilinear", antialias=True))
        == "221f331312fdc64f"
    )
    y = F.interpolate(picture(2, 17, 23), scale_factor=(1.7, 0.6), mode="bicubic")
    assert y.shape == (1, 2, 28, 13) and digest(y) == "dbb9ed5e6394df20"


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
def test_bytes_are_floats_rounded(mode):
    """Once per dim, the last one first; a flat picture stays flat."""
    x = picture(3, 17, 23)
    for size in [(5, 31), (1, 1), (40, 2)]:
        rows = F.interpolate(x.double(), (17, size[1]), mode=mode).round().clamp(0, 255)
        exact = F.interpolate(rows, size, mode=mode).clamp(0, 255)
        off = (F.interpolate(x, size, mode=mode).double() - exact).abs().max()
        assert off <= (0 if "nearest" in mode else 1.51)
    flat = rl.full((2, 1, 6, 7), 255, dtype=rl.uint8)
    assert (F.interpolate(flat, (9, 4), mode=mode) == 255).all()
    assert F.interpolate(x, (17, 23), mode=mode).equal(x)
    assert F.interpolate(x.to("meta"), (4, 4), mode=mode).dtype == rl.uint8
    assert F.interpolate(x[..., ::2, ::3], (4, 4), mode=mode).equal(
        F.interpolate(x[..., ::2, ::3].contiguous(), (4, 4), mode=mode)
    )
