"""Optimisers and schedules against values that PyTorch computed (tests/oracle/optim.json)."""

import json
import pathlib
import sys
import warnings

import numpy as np
import pytest

import rushlight as rl

ORACLE = pathlib.Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))
import optim_cases as cases  # noqa: E402

EXPECTED = json.loads((ORACLE / "optim.json").read_text())
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "complex128": 1e-12}


def close(got, expected, tolerance):
    np.testing.assert_allclose(np.array(got), np.array(expected), tolerance, tolerance)


@pytest.mark.parametrize("case", EXPECTED["optimizers"])
def test_hundred_steps(case):
    name, dtype = case.split("/")
    got, expected = cases.optimize(rl, name, dtype), EXPECTED["optimizers"][case]
    for ours, theirs in zip(got["params"], expected["params"], strict=True):
        close(ours, theirs, TOLERANCE[dtype])
    if dtype != "float32":
        return
    for ours, theirs in zip(got["state"], expected["state"], strict=True):
        assert [entry[:3] for entry in ours] == [entry[:3] for entry in theirs]
        for a, b in zip(ours, theirs, strict=True):
            close(a[3], b[3], TOLERANCE[dtype])


@pytest.mark.parametrize("case", EXPECTED["lbfgs"])
def test_lbfgs(case):
    search, dtype = case.split("/")
    got = cases.lbfgs(rl, None if search == "None" else search, dtype)
    tolerance = 1e-3 if dtype == "float32" else 1e-8
    for ours, theirs in zip(got, EXPECTED["lbfgs"][case], strict=True):
        close(ours[0], theirs[0], tolerance)
        close(ours[1], theirs[1], tolerance)
        assert ours[2:] == theirs[2:]  # iterations and evaluations


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", EXPECTED["schedules"])
def test_schedule(case):
    close(cases.schedule(rl, *case.split("/")), EXPECTED["schedules"][case], 1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EXPECTED["closed_forms"])
def test_closed_form(name):
    close(cases.closed_form(rl, name), EXPECTED["closed_forms"][name], 1e-12)


@pytest.mark.parametrize("name", EXPECTED["plateaus"])
def test_plateau(name):
    close(cases.plateau(rl, name), EXPECTED["plateaus"][name], 1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_schedule_resumes_from_its_state_dict(name):
    expected = EXPECTED["schedules"][f"{name}/SGD"]
    first = cases.two_groups(rl)
    scheduler = cases.SCHEDULES[name](rl, first)
    for _ in range(9):
        first.step()
        scheduler.step()
    second = cases.two_groups(rl)
    resumed = cases.SCHEDULES[name](rl, second)
    resumed.load_state_dict(scheduler.state_dict())
    second.load_state_dict(first.state_dict())
    for row in expected[9:]:
        close([g["lr"] for g in second.param_groups], row[0], 1e-12)
        second.step()
        resumed.step()


def test_oracle_covers_every_case():
    names = {case.split("/")[0] for case in EXPECTED["optimizers"]}
    assert names == set(cases.OPTIMIZERS)
    assert {c.split("/")[0] for c in EXPECTED["schedules"]} == set(cases.SCHEDULES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert EXPECTED["torch"].startswith("2.13")
