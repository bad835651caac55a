"""C++ programs against the installed package: examples/cpp, built with plain CMake, runs and trains
what Python traced, in a process without Python; all bits are those of the same work in Python."""

import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "cpp"
STEPS = 5

sys.path.insert(0, str(HERE))
from cpp_build import ENVIRONMENT, built, installed, run  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The built example, with the two traced models beside it."""
    site = installed(tmp_path_factory.mktemp("site"))
    folder = built(EXAMPLE, site, tmp_path_factory.mktemp("example"))
    run(sys.executable, EXAMPLE / "make_models.py", folder)
    return folder


def test_the_prefix_that_python_names_has_the_package():
    assert Path(rl.utils.cmake_prefix_path, "rushlight", "rushlight-config.cmake").exists()


def test_the_program_is_not_linked_to_python(folder):
    libraries = run("ldd", folder / "train")
    assert "librushlight.so" in libraries and "python" not in libraries


def trained_here(path, optimizer, sizes):
    """What train.cpp does, in Python: its output, and the module."""
    net = rl.jit.load(path)
    rl.manual_seed(0)
    x, target = rl.randn(*sizes), rl.randint(0, 10, sizes[:1])
    if optimizer == "adam":
        optimizer = rl.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-3)
    else:
        optimizer = rl.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    lines = [f"rushlight {rl.__version__}"]
    for step in range(STEPS):
        loss = net.loss(x, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lines.append(("loss", step, loss.item()))
    with rl.no_grad():
        lines.append(("sum", net(x).sum().item()))
    return lines, net


def printed(text):
    version, *lines = text.splitlines()
    found = [version]
    for line in lines:
        words = line.split()
        if words[0] == "step":
            found.append(("loss", int(words[1]), float.fromhex(words[3])))
        else:
            found.append(("sum", float.fromhex(words[1])))
    return found


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("name", "sizes"), [("mlp", (16, 20)), ("convnet", (9, 3, 12, 12))])
def test_training_has_the_bits_of_python(folder, name, sizes, optimizer):
    model, saved = folder / f"{name}.rush", folder / f"{name}_{optimizer}.rush"
    text = run(folder / "train", model, saved, optimizer, *sizes, env=ENVIRONMENT)
    lines, net = trained_here(model, optimizer, sizes)
    assert printed(text) == lines
    assert lines[STEPS][2] < lines[1][2]  # it learns
    after = rl.jit.load(saved)
    assert list(after.state_dict()) == list(net.state_dict())
    assert all(map(rl.equal, after.state_dict().values(), net.state_dict().values()))


def test_faults_are_told(folder, tmp_path):
    (tmp_path / "bad.rush").write_bytes((folder / "mlp.rush").read_bytes()[:-10])
    command = [folder / "train", tmp_path / "bad.rush", tmp_path / "x.rush", "sgd", "2", "20"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1 and "no .rush file, or it is damaged" in done.stderr
    command[1] = folder / "mlp.rush"
    command[-1] = "21"
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert "linear" in done.stderr and "instruction 0 of the program's loss" in done.stderr
