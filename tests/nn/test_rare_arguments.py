"""Arguments that few programs give, where PyTorch 2.13 has rules of its own."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ((-1, 2), [1, 2, 3, 4, 5, 1, 2]),
        ((2, -1), [3, 4, 0, 1, 2, 3, 4]),
        ((-1, 3), [1, 2, 3, 4, 5, 1, 2, 3]),
        ((-2, -1), [2, 3, 4]),
        ((2, 1), [4, 5, 0, 1, 2, 3, 4, 5, 0]),
    ],
)
def test_a_circle_closes_behind_what_is_cut_off(widths, expected):
    x = rl.arange(6.0).view(1, 1, 6)
    assert F.pad(x, widths, "circular").flatten().tolist() == expected


@pytest.mark.parametrize(("mode", "dims"), [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
def test_a_scale_that_keeps_the_size_keeps_the_values(mode, dims):
    x = rl.arange(3.0**dims).view(1, 1, *[3] * dims) ** 1.5
    assert rl.equal(F.interpolate(x, scale_factor=1.3, mode=mode), x)
    assert rl.equal(F.interpolate(x, scale_factor=1.0, mode=mode), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias_leaves_a_dim_of_the_same_size_alone(mode):
    x = rl.arange(18.0).view(1, 1, 3, 6) ** 1.5
    wide = F.interpolate(x, scale_factor=1.3, mode=mode, antialias=True)
    assert wide.shape == (1, 1, 3, 7)
    only_columns = F.interpolate(x, scale_factor=(1.0, 1.3), mode=mode, antialias=True)
    assert rl.equal(wide, only_columns)


def test_cross_map_normalisation():
    """Values of PyTorch 2.13, whose sums keep the first channel."""
    x = rl.arange(1.0, 9.0).view(1, 8, 1, 1)
    expected = {
        1: [0.7028, 1.0346, 1.2167, 1.2892, 1.3118, 1.312, 1.302, 1.2875],
        3: [0.6598, 1.0558, 1.2167, 1.2892, 1.3118, 1.312, 1.302, 1.7248],
        4: [0.6858, 1.1405, 1.3574, 1.4665, 1.5108, 1.5232, 1.5198, 2.0035],
        5: [0.6004, 0.9771, 1.1705, 1.2488, 1.2823, 1.29, 1.5761, 1.9515],
    }
    for size, values in expected.items():
        y = nn.CrossMapLRN2d(size, 0.3, 0.6, 1.5)(x)
        assert rl.allclose(y.flatten(), rl.tensor(values), atol=1e-4)
    assert repr(nn.CrossMapLRN2d(2)) == "CrossMapLRN2d(2, alpha=0.0001, beta=0.75, k=1)"


def test_the_variance_has_the_shape_of_the_input_or_one_number_a_row():
    x = rl.zeros(4, 4, 3)
    for shape in ((4, 4, 3), (4, 4, 1), (4, 4)):
        F.gaussian_nll_loss(x, x, rl.ones(shape))
    with pytest.raises(ValueError, match="var of shape"):
        F.gaussian_nll_loss(x, x, rl.ones(4, 1, 1))


def test_the_default_distance_is_a_module():
    shown = repr(nn.TripletMarginWithDistanceLoss())
    assert shown == ("TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)")
