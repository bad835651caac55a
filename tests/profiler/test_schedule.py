"""Which steps are recorded, and what happens between them."""

import pytest

import rushlight as rl
from rushlight.profiler import ProfilerAction, ProfilerActivity, profile, schedule

LETTERS = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}


def spelled(actions):
    return [ProfilerAction[LETTERS[letter]] for letter in actions]


# What PyTorch 2.13 answers for steps 0 to 15.
@pytest.mark.filterwarnings("ignore:schedule. warmup is 0")
@pytest.mark.parametrize(
    ("arguments", "actions"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, "NWRSNWRSNWRSNWRS"),
        ({"wait": 0, "warmup": 0, "active": 1}, "SSSSSSSSSSSSSSSS"),
        ({"wait": 2, "warmup": 1, "active": 3, "repeat": 2}, "NNWRRSNNWRRSNNNN"),
        (
            {"wait": 1, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 3},
            "NNNNWRSNNNNNNNNN",
        ),
        (
            {"wait": 3, "warmup": 1, "active": 1, "skip_first": 2, "skip_first_wait": 1},
            "NNWSNNNWSNNNWSNN",
        ),
        (
            {
                "wait": 3,
                "warmup": 1,
                "active": 1,
                "repeat": 2,
                "skip_first": 2,
                "skip_first_wait": 1,
            },
            "NNWSNNNWSNNNNNNN",
        ),
        (
            {"wait": 2, "warmup": 0, "active": 2, "repeat": 2, "skip_first_wait": 1},
            "RSNNRSNNNNNNNNNN",
        ),
    ],
)
def test_schedules(arguments, actions):
    plan = schedule(**arguments)
    assert [plan(step) for step in range(16)] == spelled(actions)


def test_schedules_that_make_no_sense():
    for wrong in ({"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}):
        with pytest.raises(ValueError, match=f"schedule: {next(iter(wrong))}"):
            schedule(**{"wait": 1, "warmup": 1, "active": 1} | wrong)
    with pytest.raises(ValueError, match="step"):
        schedule(wait=1, warmup=1, active=1)(-1)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=1, warmup=0, active=1)


def run(actions):
    """Profiles a loop; [(step number, ops, steps)] of each call of on_trace_ready."""
    plan = [*spelled(actions), ProfilerAction.NONE]
    ready = []

    def note(prof):
        names = [e.name for e in prof.events()]
        steps = [e.trace_name for e in prof.events() if e.key == "ProfilerStep*"]
        ready.append((prof.step_num, names.count("aten::ones"), steps))

    with profile(
        activities=[ProfilerActivity.CPU], schedule=lambda n: plan[n], on_trace_ready=note
    ) as prof:
        for _ in actions:
            rl.ones(2)
            prof.step()
    return ready


def test_recordings():
    assert run("NWRS") == [(4, 2, ["ProfilerStep#2", "ProfilerStep#3"])]
    assert run("SSS") == [(n, 1, [f"ProfilerStep#{n - 1}"]) for n in (1, 2, 3)]
    assert run("NRSNWS") == [
        (3, 2, ["ProfilerStep#1", "ProfilerStep#2"]),
        (6, 1, ["ProfilerStep#5"]),
    ]
    assert run("NNN") == []


def test_recordings_that_are_dropped():
    for actions in ("RN", "RRRR", "WN", "RWS"):
        with pytest.warns(UserWarning, match="incorrect schedule"):
            assert run(actions) == ([(3, 1, ["ProfilerStep#2"])] if actions == "RWS" else [])


def test_without_a_schedule_all_is_one_recording():
    ready = []
    with profile(on_trace_ready=ready.append) as prof:
        for _ in range(3):
            rl.ones(1)
            prof.step()
    assert ready == [prof] and prof.step_num == 3
    assert [e.name for e in prof.events()] == ["aten::ones"] * 3


def test_events_of_all_rounds():
    for keep, count in ((False, 1), (True, 3)):
        plan = schedule(wait=1, warmup=1, active=1, repeat=3)
        with profile(schedule=plan, acc_events=keep) as prof:
            for _ in range(10):
                rl.ones(1)
                prof.step()
        assert [e.name for e in prof.events()].count("aten::ones") == count


def test_an_error_in_a_step():
    ready = []
    plan = schedule(wait=1, warmup=1, active=2)
    with (
        pytest.raises(KeyError),
        profile(schedule=plan, on_trace_ready=lambda p: ready.append(len(p.events()))) as prof,
    ):
        for step in range(4):
            rl.ones(1)
            if step == 2:
                raise KeyError
            prof.step()
    assert ready == [2]  # the op and its step
