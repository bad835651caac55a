"""Every name of PyTorch's lists for CUDA acts as documented: same dtype, and computed in it."""

import sys
from pathlib import Path

import pytest

import rushlight as rl

sys.path.insert(0, str(Path(__file__).parents[1] / "amp"))
import autocast_lists as lists

LOW = [rl.float16, rl.bfloat16]


def assert_computed_in(case, given, dtype, low):
    path, call = case
    function = lists.find(rl, path)
    with rl.autocast("cuda", dtype=low):
        got = lists.tensors_of(call(function, lists.Tensors(rl, given, low, "cuda")))
    want = lists.tensors_of(call(function, lists.Tensors(rl, dtype, dtype, "cuda")))
    assert got and [t.dtype for t in got] == [t.dtype for t in want]
    for a, b in zip(got, want, strict=True):
        # Values far out of a function's range are NaN both ways.
        assert rl.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CUDA_LOWER)
def test_lower_precision(name, low):
    assert_computed_in(lists.CUDA_LOWER[name], rl.float32, low, low)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CUDA_FLOAT32)
def test_float32(name, low):
    assert_computed_in(lists.CUDA_FLOAT32[name], low, rl.float32, low)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CUDA_WIDEST)
def test_widest(name, low):
    assert_computed_in(lists.CUDA_WIDEST[name], low, rl.float32, low)


def test_binary_cross_entropy_is_refused():
    x = rl.full((3,), 0.5, device="cuda")
    with rl.autocast("cuda"), pytest.raises(RuntimeError, match="binary_cross_entropy: float16"):
        rl.nn.functional.binary_cross_entropy(x, x)
