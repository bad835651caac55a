"""Without the package onnx, export says what to install."""

import sys

import pytest

import rushlight as rl


def test_export_needs_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        rl.onnx.export(rl.nn.Linear(1, 1), (rl.ones(1, 1),))
    assert not rl.onnx.is_in_onnx_export()
