"""Every name of PyTorch's lists for the CPU acts as documented: same dtype, and computed in it."""

import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight._autocast import autocast_policy, policy_of

sys.path.insert(0, str(Path(__file__).parent))
import autocast_lists as lists

LOW = [rl.bfloat16, rl.float16]


def assert_computed_in(case, given, dtype, low):
    """Inside autocast the call on tensors of `given` is the call on tensors of `dtype`."""
    path, call = case
    function = lists.find(rl, path)
    with rl.autocast("cpu", dtype=low):
        got = lists.tensors_of(call(function, lists.Tensors(rl, given, low)))
        assert rl.is_autocast_enabled("cpu")
    want = lists.tensors_of(call(function, lists.Tensors(rl, dtype, dtype)))
    assert got and [t.dtype for t in got] == [t.dtype for t in want]
    for a, b in zip(got, want, strict=True):
        assert rl.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CPU_LOWER)
def test_lower_precision(name, low):
    assert_computed_in(lists.CPU_LOWER[name], rl.float32, low, low)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CPU_FLOAT32)
def test_float32(name, low):
    assert_computed_in(lists.CPU_FLOAT32[name], low, rl.float32, low)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", lists.CPU_WIDEST)
def test_widest(name, low):
    assert_computed_in(lists.CPU_WIDEST[name], low, rl.float32, low)


@pytest.mark.parametrize("name", lists.CPU_ABSENT)
def test_absent_names_are_still_absent(name):
    with pytest.raises(AttributeError):
        getattr(rl, name)


# What stands on no list runs as it is, beside what does.
UNLISTED = {
    "reflection_pad3d": lambda x: rl.nn.functional.pad(x, [1] * 6, "reflect"),
    "circular": lambda x: rl.nn.functional.pad(x, [1] * 6, "circular"),
    "max_unpool1d": lambda x: rl.nn.functional.max_unpool1d(
        x[0, 0, 0, :, :1], rl.zeros(3, 1, dtype=rl.int64), 2
    ),
    "norm": lambda x: x.norm(),
    "vector_norm": rl.linalg.vector_norm,
    "softmax": lambda x: x.softmax(0),
    "exp": rl.exp,
    "interpolate": lambda x: rl.nn.functional.interpolate(x, [5, 5, 5]),
    "avg_pool2d": lambda x: rl.nn.functional.avg_pool2d(x[0], 2),
    "cross": lambda x: rl.cross(x[..., :3], x[..., :3], -1),
    "reciprocal": lambda x: 1 / x,
}


@pytest.mark.parametrize("name", UNLISTED)
def test_unlisted_names_keep_their_dtype(name):
    with rl.autocast("cpu"):
        assert UNLISTED[name](rl.ones(1, 1, 3, 3, 3, dtype=rl.bfloat16)).dtype == rl.bfloat16


DEVICES = {
    "cpu": (lists.CPU_LOWER, lists.CPU_FLOAT32, lists.CPU_WIDEST),
    "cuda": (lists.CUDA_LOWER, lists.CUDA_FLOAT32, lists.CUDA_WIDEST),
}


@pytest.mark.parametrize("device", DEVICES)
def test_the_names_are_public(device):
    for cases in DEVICES[device]:
        for path, _ in cases.values():
            assert callable(lists.find(rl, path)), path


# (public name, CPU, CUDA): policies by the table, and of functions written in Python.
POLICIES = [
    ("mm", "lower_precision", "lower_precision"),
    ("mv", None, "lower_precision"),
    ("exp", None, "float32"),
    ("sum", None, "float32_by_option"),
    ("prod", "float32", "float32_by_option"),
    ("cat", "widest", "widest"),
    ("cdist", "float32", "float32"),
    ("cross", None, "widest"),
    ("nn.functional.cosine_similarity", None, "float32"),
    ("nn.functional.binary_cross_entropy", "float32", "refused"),
    ("fft.fft", "float32", None),
    ("linalg.svdvals", "float32", None),
    ("add", None, None),
]


@pytest.mark.parametrize(("path", "cpu", "cuda"), POLICIES)
def test_policies_by_name(path, cpu, cuda):
    function = lists.find(rl, path)
    assert (policy_of(function, "cpu"), policy_of(function, "cuda")) == (cpu, cuda)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="unknown policy 'float16'"):
        autocast_policy(cpu="float16")


def test_functions_keep_their_signatures():
    import inspect

    assert list(inspect.signature(rl.cdist).parameters) == ["x1", "x2", "p", "compute_mode"]


def test_errors_leave_autocast_on():
    with rl.autocast("cpu"):
        with pytest.raises(RuntimeError):
            rl.cdist(rl.ones(3), rl.ones(3))
        assert rl.is_autocast_enabled("cpu")
