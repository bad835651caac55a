"""Comparison of whole objects: types, dtypes, geometry and values."""

from collections.abc import Mapping

import rushlight as rl


def assert_same(got, expected, where="object", strides=True):
    assert type(got) is type(expected), f"{where}: {type(got)} is not {type(expected)}"
    if isinstance(expected, rl.Tensor):
        assert got.dtype == expected.dtype and got.device == expected.device, where
        assert got.shape == expected.shape, where
        assert not strides or got.stride() == expected.stride(), where
        assert got.requires_grad == expected.requires_grad, where
        if expected.device.type != "meta":
            assert got.detach().tolist() == expected.detach().tolist(), where
    elif isinstance(expected, Mapping):
        assert list(got) == list(expected), where
        for key in expected:
            assert_same(got[key], expected[key], f"{where}[{key!r}]", strides)
    elif isinstance(expected, list | tuple) and not isinstance(expected, rl.Size):
        assert len(got) == len(expected), where
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_same(a, b, f"{where}[{i}]", strides)
    else:
        assert got == expected, f"{where}: {got!r} is not {expected!r}"
