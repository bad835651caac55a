"""Small variants of the models of benchmarks/table1.py train as PyTorch recorded it."""

import json
import sys
from pathlib import Path

import pytest

import rushlight as torch

ROOT = Path(__file__).resolve().parent.parent
RECORDED = json.loads((ROOT / "tests" / "oracle" / "table1.json").read_text())["losses"]

# Relative. In float32 both sides add in orders of their own, and training amplifies it.
TOLERANCES = {"float32": 5e-3, "float64": 1e-8}


@pytest.fixture(scope="module")
def table1():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import table1
    finally:
        sys.path.pop(0)
    return table1


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", RECORDED["float32"])
def test_ten_steps(table1, name, dtype):
    models = sys.modules["table1_models"]
    kind = getattr(torch, dtype)
    training = table1.Training(torch, name, batch=4, small=True, dropout=False, dtype=kind)
    models.fill_weights(torch, training.model)
    expected = RECORDED[dtype][name]
    losses = training.losses(len(expected))
    assert losses == pytest.approx(expected, rel=TOLERANCES[dtype])
    assert expected[-1] < expected[0]


def test_all_six_are_recorded(table1):
    assert list(RECORDED["float32"]) == list(table1.TASKS)
    assert len(table1.TASKS) == 6


def test_it_measures(table1, capsys):
    """The whole machinery, without a peer: our own process is started, times come back."""
    rows = table1.main(["--peer", "", "--model", "ncf", "--small", "--batch", "16",
                        "--rounds", "2", "--threads", "1"])  # fmt: skip
    assert rows[0][0] == "ncf" and "samples/s" in rows[0][2]


def test_full_models_have_the_sizes_of_their_papers(table1):
    """Parameters as published (torchvision's tables; NeuMF and GNMT by their layers)."""
    counts = {
        "alexnet": 61_100_840,
        "vgg19": 143_667_240,
        "resnet50": 25_557_032,
        "mobilenet_v2": 3_504_872,
        # the tables, the perceptron, the last layer
        "ncf": (138_493 + 26_744) * (64 + 128) + 256 * 257 + 128 * 257 + 64 * 129 + 129,
        "gnmt_v2": gnmt_parameters(1024, 32_000),
    }
    for name, count in counts.items():
        with torch.device("meta"):
            model = table1.TASKS[name].make(torch, False, 1.0)
        assert sum(p.numel() for p in model.parameters()) == count, name


def gnmt_parameters(n, words):
    def lstm(inputs):
        return 4 * n * (inputs + n + 2)

    encoder = 2 * lstm(n) + lstm(2 * n) + 2 * lstm(n)
    decoder = lstm(n) + 3 * lstm(2 * n)
    attention = 2 * n * n + n + 1 + n
    return words * n + encoder + decoder + attention + n * words + words
