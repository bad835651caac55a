"""repr and set_printoptions, against PyTorch's exact text recorded in oracle/repr.json."""

import json
import re
import sys
from pathlib import Path

import pytest

import rushlight as rl

ORACLE = Path(__file__).parent / "oracle"
sys.path.insert(0, str(ORACLE))
from printed import shown  # noqa: E402

RECORDED = json.loads((ORACLE / "repr.json").read_text())


def plain(text):
    """Without the package's name, whose length may move the break before dtype=."""
    text = re.sub(r"\b(torch|rushlight)\.", "", text)
    return re.sub(r",\s+(dtype|device|size|requires_grad)=", r", \1=", text)


@pytest.mark.parametrize("chunk", range(8))
def test_repr_is_pytorchs(chunk):
    wrong = []
    for case, want in list(RECORDED.items())[chunk::8]:
        got = shown(rl, json.loads(case))
        if plain(got) != plain(want):
            wrong.append(f"{case}\n  got      {got}\n  expected {want}")
    assert not wrong, "\n".join(wrong[:5]) + f"\n{len(wrong)} differ"


def test_str_is_repr():
    x = rl.tensor([1.0, 2.5])
    assert str(x) == repr(x)


def test_options_come_back():
    before = repr(rl.tensor([1 / 3]))
    rl.set_printoptions(precision=2)
    assert repr(rl.tensor([1 / 3])) == "tensor([0.33])"
    rl.set_printoptions(profile="default")
    assert repr(rl.tensor([1 / 3])) == before == "tensor([0.3333])"


def test_format():
    assert f"{rl.tensor(1.5):.3f}" == "1.500"
    assert f"{rl.tensor(3):d}" == "3"
    assert f"{rl.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises(TypeError):
        f"{rl.tensor([1.0, 2.0]):.2f}"


def test_names_of_objects():
    package = rl.__name__
    assert str(rl.float32) == f"{package}.float32"
    assert repr(rl.Size([1, 2])) == f"{package}.Size([1, 2])"
    assert str(rl.device("cpu")) == "cpu"
