"""What benchmarks/scaling_models.py predicts steps from."""

import os
import sys
from types import SimpleNamespace

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "benchmarks"))
from scaling_fit import PROBES, added, least_squares, not_negative, parts, ring, slower, step
from scaling_report import Study

# Memory saturates between 4 and 8 processes, the shared cache earlier, processors get warm.
MACHINE = {
    1: {"compute": 0.01, "cache": 0.02, "memory": 0.03},
    2: {"compute": 0.01, "cache": 0.024, "memory": 0.031},
    4: {"compute": 0.011, "cache": 0.035, "memory": 0.034},
    8: {"compute": 0.0115, "cache": 0.04, "memory": 0.06},
}


@pytest.mark.parametrize("work", [(1.0, 0.5, 0.25), (0.0, 0.0, 2.0), (0.3, 0.0, 0.3)])
def test_a_step_is_told_from_smaller_numbers_of_processes(work):
    truth = dict(zip(PROBES, work, strict=True))
    seconds = {n: step(MACHINE, truth, n) for n in (1, 2, 4)}
    found = parts(MACHINE, seconds)
    assert found == pytest.approx(truth, abs=1e-9)
    assert step(MACHINE, found, 8) == pytest.approx(step(MACHINE, truth, 8))


# Of results/scaling_models.md, GNMT and VGG-19: seconds of steps on 1, 2, 4 and then 8 ranks.
QUIET = {
    1: {"compute": 0.149, "cache": 0.205, "memory": 16.479},
    2: {"compute": 0.149, "cache": 0.206, "memory": 21.581},
    4: {"compute": 0.153, "cache": 0.215, "memory": 21.678},
    8: {"compute": 0.221, "cache": 0.409, "memory": 33.677},
}


@pytest.mark.parametrize(
    ("steps", "noise"),
    [((1.209, 1.290, 1.381, 1.932), 0.06), ((0.910, 0.909, 0.900, 1.209), 0.015)],
)
def test_noise_does_not_decide_what_a_step_is_made_of(steps, noise):
    seconds = dict(zip((1, 2, 4), steps, strict=False))
    predicted = step(QUIET, parts(QUIET, seconds, noise), 8)
    assert predicted == pytest.approx(steps[3], rel=0.11)
    # Without noise what was measured says it all.
    truth = {"compute": 0.2, "cache": 0.5, "memory": 0.3}
    exact = {n: step(MACHINE, truth, n) for n in (1, 2, 4)}
    assert parts(MACHINE, exact, 1e-9) == pytest.approx(truth, abs=1e-6)


def test_no_part_is_negative():
    # Faster with more processes: no sum of probes' work does that.
    seconds = {1: 1.0, 2: 0.9, 4: 0.8}
    found = parts(MACHINE, seconds)
    assert min(found.values()) >= 0
    assert found["compute"] > 0 == found["cache"] == found["memory"]
    assert step(MACHINE, found, 8) == pytest.approx(0.9 * 1.15, rel=0.1)
    assert slower(MACHINE, "memory", 8) == pytest.approx(2.0)


def test_fits():
    assert least_squares([[1, 1], [1, 2], [1, 3]], [3, 5, 7]) == pytest.approx([1, 2])
    assert least_squares([[1, 2], [2, 4]], [1, 2]) is None
    assert not_negative([[1, 1], [1, 2]], [1, 3]) == pytest.approx([0, 1.4])
    assert not_negative([[1.0]], [-1.0]) == [0.0]


# Of results/scaling_models.md: milliseconds with and without communication on 2, 4 and 8 ranks.
LINKS = {2: (8.2e-6, 5.35e9), 4: (3.6e-6, 3.96e9), 8: (3.3e-6, 2.72e9)}
RECORDED = {
    "resnet50": (102.2e6, (750.8, 891.4, 942.0), (713.9, 845.6, 874.8)),
    "mobilenet_v2": (14.0e6, (219.1, 324.1, 377.1), (210.2, 311.3, 359.5)),
    "alexnet": (244.4e6, (405.4, 456.9, 644.2), (227.7, 244.4, 375.2)),
    "vgg19": (574.7e6, (1147.6, 1271.2, 1643.8), (768.2, 846.3, 1144.3)),
    "ncf": (127.3e6, (140.3, 182.6, 254.4), (54.3, 77.5, 96.3)),
}


@pytest.mark.parametrize("model", RECORDED)
def test_what_communication_added_on_eight_ranks(model):
    nbytes, ddp, alone = RECORDED[model]
    more = {n: (a - b) / 1e3 for n, a, b in zip((2, 4), ddp, alone, strict=False)}
    predicted = alone[2] / 1e3 + added(LINKS, nbytes, more, 8)
    assert predicted == pytest.approx(ddp[2] / 1e3, rel=0.11)


@pytest.mark.parametrize(("allowed", "shown"), [(0.1, "90% ± 4"), (0.04, "too little to tell")])
def test_hidden_is_what_overlap_saves_within_a_round(allowed, shown):
    study = Study(SimpleNamespace(ranks=[2, 4, 8]))
    # The machine gets slower: only within a round are two steps comparable.
    rounds = [
        {("alone", 8): 1.0, ("ddp", 8): 1.10 + slow, ("after", 8): 1.10 + slow + saved}
        for slow, saved in ((0.0, 0.085), (0.2, 0.09), (0.5, 0.1))
    ]
    study.add("ncf", 1 << 20, rounds, {})
    assert study.overlap("ncf", 8)[1:] == ["", ""]
    study.add("ncf", 1 << 20, rounds, {"communication": 0.12, "allowed": allowed})
    _, shares, hidden = study.overlap("ncf", 8)
    assert shares == f"12% / {allowed:.0%}"
    assert hidden == shown
    assert study.overlap("ncf", 4) == ["", "", ""]


def test_a_page_tells_the_prediction_and_its_spread():
    study = Study(SimpleNamespace(ranks=[2, 4, 8]))
    study.network["rushlight"] = {n: {"sizes": {}, "link": [*LINKS[n], 0.1]} for n in LINKS}
    study.machine = {n: {p: [s] for p, s in probes.items()} for n, probes in MACHINE.items()}
    work = dict(zip(PROBES, (1.0, 0.5, 0.25), strict=True))
    more = {n: 0.05 + 0.5 * ring(n, 1e8, *LINKS[n]) for n in (2, 4, 8)}
    rounds = []
    for noise in (1.0, 1.02, 0.98):
        alone = {("alone", n): noise * step(MACHINE, work, n) for n in MACHINE}
        rounds.append(alone | {("ddp", n): alone["alone", n] + more[n] for n in more})
    study.add("vgg19", 1e8, rounds, {})
    row = study.prediction().strip().splitlines()[-1]
    assert row.startswith("| vgg19 |")
    assert row.count("0% |") == 3
    assert " ± 1% |" in row
