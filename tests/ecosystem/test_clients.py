"""Packages written for PyTorch train on two CPU processes, in an environment without PyTorch.

make test-clients         makes the environment, and runs these tests in it
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

if not os.environ.get("RUSHLIGHT_CLIENTS"):
    pytest.skip("needs an environment of its own: make test-clients", allow_module_level=True)

PROGRAMS = Path(__file__).resolve().parent / "programs"
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"not installed: {', '.join(missing)}; see make test-clients"
    )


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return str(sock.getsockname()[1])


def run(*arguments, cwd, limit=300):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1"}
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    environment["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-m", "rushlight.as_torch", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=limit, env=environment
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@needs("accelerate")
@pytest.mark.parametrize("launcher", ["debug", "notebook"])
def test_accelerate_launchers_of_functions(launcher, tmp_path):
    out = run(PROGRAMS / "accelerate_training.py", launcher, free_port(), cwd=tmp_path)
    assert out.endswith("ok\n")


@needs("accelerate")
@pytest.mark.skipif(shutil.which("mpirun", path=os.path.dirname(sys.executable)) is None,
                    reason="there is no mpirun: pip install mpich")  # fmt: skip
def test_accelerate_launch(tmp_path):
    """On several CPU processes, accelerate starts mpirun."""
    (tmp_path / "hosts").write_text("localhost\n")
    out = run("-m", "accelerate.commands.launch", "--cpu", "--num_processes", 2, "--num_machines",
              1, "--mpirun_hostfile", "hosts", PROGRAMS / "accelerate_training.py", "plain",
              cwd=tmp_path)  # fmt: skip
    assert out.count("ok") == 2


@needs("accelerate")
@pytest.mark.parametrize("script", ["test_script", "test_sync", "test_ops", "test_cli"])
def test_scripts_of_accelerate(script, tmp_path):
    """What `accelerate test` runs, and its neighbours, as they are installed."""
    folder = Path(importlib.util.find_spec("accelerate").origin).parent / "test_utils" / "scripts"
    run(*LAUNCH, folder / f"{script}.py", cwd=tmp_path)


@needs("lightning")
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_lightning(strategy, tmp_path):
    out = run(PROGRAMS / "lightning_ddp.py", strategy, tmp_path, cwd=tmp_path)
    assert "ok 0" in out


@needs("transformers", "accelerate")
def test_trainer_equals_one_process(tmp_path):
    one = run(PROGRAMS / "trainer_ddp.py", tmp_path / "one", cwd=tmp_path)
    two = run(*LAUNCH, PROGRAMS / "trainer_ddp.py", tmp_path / "two", cwd=tmp_path)
    assert one.splitlines()[-1] == two.splitlines()[-1] and "ok" in two


@needs("transformers", "accelerate")
@pytest.mark.parametrize("how", ["tensor", "sharded"])
def test_llama_over_two_processes(how, tmp_path):
    out = run(*LAUNCH, PROGRAMS / "llama_parallel.py", how, tmp_path / "model", cwd=tmp_path)
    assert out.count("ok") == 2


def test_gpt_equals_one_process(tmp_path):
    one = run(PROGRAMS / "gpt_ddp.py", tmp_path / "one.pt", cwd=tmp_path)
    two = run(*LAUNCH, PROGRAMS / "gpt_ddp.py", tmp_path / "two.pt", cwd=tmp_path)
    assert one == two and "ok" in one


def test_first_program_with_ddp(tmp_path):
    assert "ok" in run(PROGRAMS / "ddp_tutorial.py", tmp_path / "m.pt", free_port(), cwd=tmp_path)


@needs("ray")
def test_first_program_with_rpc(tmp_path):
    assert "ok" in run(PROGRAMS / "rpc_tutorial.py", free_port(), cwd=tmp_path)
