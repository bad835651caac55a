"""elastic_launch: functions as ranks; and programs under as_torch that start programs."""

import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from rushlight.distributed.launcher.api import LaunchConfig, _job, elastic_launch


def launch(function, *args, restarts=0):
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=restarts,
                          start_method="fork")  # fmt: skip
    return elastic_launch(config, function)(*args)


def summed(start):
    dist.init_process_group("gloo")
    x = rl.tensor([start + dist.get_rank()])
    dist.all_reduce(x)
    dist.destroy_process_group()
    return int(x)


def fail_on_1(folder):
    import os

    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    (folder / f"{os.environ['RANK']}-{attempt}").touch()
    if os.environ["RANK"] == "1":
        raise LookupError("rank 1 has lost its way")


def test_what_a_configuration_says():
    where = {"rdzv_endpoint": "here:1", "rdzv_backend": "c10d"}
    said = {"last_call_timeout": 2, "keep_alive_interval": "0.5", "keep_alive_max_attempt": 4}
    job = _job(LaunchConfig(1, 3, 2, rdzv_configs={**said, "timeout": 7}, **where), [])
    assert (job.join_timeout, job.last_call, job.lost) == (7, 2, 2) and job.is_elastic
    job = _job(LaunchConfig(2, 2, 2, rdzv_timeout=9, rdzv_configs={"timeout": 7}, **where), [])
    assert (job.join_timeout, job.last_call, job.lost) == (9, 30, 15)
    for counts in ((0, 1, 1), (3, 2, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="numbers from 1"):
            _job(LaunchConfig(*counts, **where), [])


def test_functions_return_by_rank():
    assert launch(summed, 10) == {0: 21, 1: 21}


def test_a_rank_that_raises_is_told(tmp_path):
    with pytest.raises(ChildFailedError, match="lost its way") as caught:
        launch(fail_on_1, tmp_path, restarts=1)
    rank, failure = caught.value.get_first_failure()
    assert rank == 1 and failure.exitcode == 1 and "LookupError" in failure.message
    assert (tmp_path / "1-1").exists()


def test_record_writes_the_error_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    with pytest.raises(KeyError):
        record(lambda: {}["nothing"])()
    assert "KeyError" in (tmp_path / "error.json").read_text()


def test_commands_of_a_program_know_torch(tmp_path):
    """As launchers start them; and programs of other environments are left alone."""
    (tmp_path / "child.py").write_text(
        "import importlib.metadata, sys\n"
        "assert 'rushlight' not in sys.modules  # costs nothing until it is asked for\n"
        "print(importlib.metadata.version('torch'))\n"
        "import torch\nprint(torch.ones(2).sum(), torch.__name__)\n"
    )
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.executable, 'child.py']).returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rushlight.as_torch", "parent.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.13.0+rushlight", "tensor(2.)", "torch"]
