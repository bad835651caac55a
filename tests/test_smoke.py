"""A pulse in seconds: the package imports and its core answers."""

import re

import pytest

import rushlight

pytestmark = pytest.mark.native


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", rushlight.__version__)
