"""Programs written for PyTorch, run as they are."""

import importlib.metadata
import importlib.util
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


def run(*arguments, cwd=None, status=0, text=None):
    command = [sys.executable, "-W", "ignore", "-m", "rushlight.as_torch", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=text, timeout=300)
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done


NAMES = sorted(p.stem for p in PROGRAMS.glob("*.py") if p.stem not in ("spawned", "loaders"))


@pytest.mark.parametrize("name", NAMES)
def test_programs(name, tmp_path):
    assert run(PROGRAMS / f"{name}.py", cwd=tmp_path).stdout.endswith("ok\n")


@pytest.mark.skipif(
    importlib.util.find_spec("rushlight.utils.data") is None, reason="there are no loaders yet"
)
def test_loaders(tmp_path):
    assert run(PROGRAMS / "loaders.py", cwd=tmp_path).stdout.endswith("ok\n")


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_new_processes(method, tmp_path):
    assert run(PROGRAMS / "spawned.py", method, cwd=tmp_path).stdout.endswith("ok\n")


def test_script_sees_what_python_would_show(tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    (tmp_path / "script.py").write_text(
        "import sys, beside, torch\n"
        "print(__name__, __file__, sys.argv[1:], beside.value)\n"
        "assert sys.modules['__main__'].beside is beside\n"
    )
    out = run("script.py", "a", "--b=c", cwd=tmp_path).stdout
    assert out == "__main__ script.py ['a', '--b=c'] 7\n"


def test_modules_and_code(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys, torch; print(torch.ones(2).sum(), sys.argv[1:])"
    )
    assert run("-m", "package", "x", cwd=tmp_path).stdout == "tensor(2.) ['x']\n"
    assert run("package", "x", cwd=tmp_path).stdout == "tensor(2.) ['x']\n"
    assert run("-c", "import torch, sys; print(torch.float64, sys.argv)", "y").stdout == (
        "torch.float64 ['-c', 'y']\n"
    )
    assert run("-", text="import torch; print(torch.Size([2]))").stdout == "torch.Size([2])\n"


def test_errors_look_like_the_programs(tmp_path):
    (tmp_path / "bad.py").write_text(
        "import torch\ndef f():\n    torch.ones(2) + torch.ones(3)\nf()\n"
    )
    error = run("bad.py", cwd=tmp_path, status=1).stderr
    assert error.startswith(
        'Traceback (most recent call last):\n  File "bad.py", line 4, in <module>'
    )
    assert "ShapeError" in error and "as_torch" not in error
    assert run("-c", "raise SystemExit(3)", status=3).stderr == ""
    assert "No such file" in run("nothing.py", cwd=tmp_path, status=2).stderr
    assert "usage" in run(status=2).stderr and "usage" in run("--help").stdout
    assert "answering as torch 2.13" in run("--version").stdout
    assert "-m" in run("-m", status=2).stderr


def test_identity():
    code = """
import importlib.metadata, importlib.util, sys
import torch, torch.nn.functional as F, rushlight
assert torch.nn is rushlight.nn and sys.modules['torch.nn'] is rushlight.nn
assert sys.modules['torch.nn.functional'] is F is rushlight.nn.functional
assert rushlight.nn.__spec__.name == 'rushlight.nn'
assert torch.Tensor is rushlight.Tensor and torch.Tensor.__module__ == 'torch'
assert importlib.util.find_spec('torch').name == 'torch'
assert importlib.util.find_spec('torch.nn.utils.rnn') is not None
assert importlib.util.find_spec('torch.no_such') is None
assert importlib.metadata.version('torch') == torch.__version__ == '2.13.0+rushlight'
assert rushlight.__version__ != torch.__version__
torch.some_name = 3
assert rushlight.some_name == 3
del torch.some_name
assert not hasattr(rushlight, 'some_name') and not hasattr(torch, 'some_name')
assert torch.version.__version__ == torch.__version__
from torch import *
assert 'Tensor' in dir(torch) and 'nn' in dir(torch)
import pickle
assert pickle.loads(pickle.dumps(torch)) is torch
"""
    run("-c", code)


def test_install_and_uninstall():
    code = """
import sys, rushlight, rushlight.as_torch
rushlight.as_torch.install(); rushlight.as_torch.install()
import torch
assert repr(torch.float32) == 'torch.float32' and torch.ones(1).type() == 'torch.FloatTensor'
rushlight.as_torch.uninstall()
assert 'torch' not in sys.modules and repr(rushlight.float32) == 'rushlight.float32'
import types
sys.modules['torch'] = types.ModuleType('torch')
try:
    rushlight.as_torch.install()
except RuntimeError as error:
    assert 'already imported' in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_wheel_that_satisfies_packages_which_require_torch(tmp_path, capsys):
    from rushlight.__main__ import main

    folder = tmp_path / "site"
    assert main(["torch-wheel", str(folder)]) == 0
    wheel = pathlib.Path(capsys.readouterr().out.strip())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", folder, wheel], check=True, timeout=300)
    # A version of torch is installed there, and nothing to import.
    assert [path.name for path in folder.iterdir() if path != wheel] == [
        f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"
    ]
    (found,) = importlib.metadata.distributions(name="torch", path=[str(folder)])
    assert found.version == "2.13.0+rushlight" and "networkx" in found.requires
    (tmp_path / "file").touch()
    assert main(["torch-wheel", str(tmp_path / "file")]) == 2
    assert "cannot be written to" in capsys.readouterr().err
