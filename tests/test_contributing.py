"""What contributors are told holds: the commands of README and CONTRIBUTING, the marks of tests,
the tools beside them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, re.MULTILINE))
CI = (ROOT / ".ci" / "run").read_text()
sys.path.insert(0, str(ROOT / "tools"))

from compare_test_ids import compare, read_renames  # noqa: E402

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


def make(*args):
    """What make would run, and runs where it asks make again."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "-n", "JOBS=2", *args], cwd=ROOT, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "tests/README.md", ".ci/run"])
def test_named_targets_exist(page):
    text = (ROOT / page).read_text()
    named = re.findall(r"(?:^|`)make (?:-\S+ \S+ )?(?:[A-Z]+=\S+ )?([a-z][\w-]*)", text, re.M)
    assert named and set(named) <= TARGETS, set(named) - TARGETS


def test_public_ci_runs_what_is_no_part_of_the_tests():
    """.github/workflows/checks.yml: the site, the ecosystem, the wheels, other Pythons, aarch64."""
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text()
    steps = [s for job in yaml.safe_load(text)["jobs"].values() for s in job["steps"]]
    commands = [s["run"] for s in steps if "run" in s]
    called = {re.match(r"make ([\w-]+)", c)[1] for c in commands if c.startswith("make ")}
    assert called <= TARGETS and ".ci/run" in commands
    assert called >= {"test-site", "ecosystem", "test-clients", "test-pythons", "wheel",
                      "try-wheel", "test-aarch64"}  # fmt: skip


@needs_make
def test_every_target_is_in_the_help():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    inner = {"build-tests", "build-stubs"}  # steps of others
    missing = {t for t in TARGETS - inner if not re.search(rf"\b{t}\b(?!-)", text)}
    assert not missing and "TESTS=" in text


def test_ci_runs_the_command_of_the_readme():
    block = re.search(r"```\n(make .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    command = next(line.split("#")[0].strip() for line in block.splitlines() if "tests" in line)
    lines = [line.split(" || ")[0] for line in CI.splitlines()]
    assert command in lines, f"the README says `{command}`, which .ci/run does not call"
    # What that leaves out runs after it.
    assert lines.index(command) < lines.index("make test-slow") and "make lint" in lines


def pytest_call(target):
    return next(line for line in make(target).splitlines() if "/pytest" in line)


@needs_make
def test_fast_and_slow_are_everything():
    assert '-m "not slow"' in pytest_call("test") and '-m "not slow"' in pytest_call("test-python")
    assert '-m "slow"' in pytest_call("test-slow")
    assert '-m ""' in pytest_call("test-all")
    assert "test_smoke.py" in pytest_call("smoke") and "-n " not in pytest_call("smoke")


@needs_make
@pytest.mark.parametrize("target", ["build", "demo", "smoke", "test-python"])
def test_no_test_is_compiled_for(target):
    built = [line for line in make(target).splitlines() if '/ninja" -C' in line]
    assert built and all(re.search(r" package( rush_stubs)?$", line) for line in built), built


@needs_make
@pytest.mark.parametrize("target", ["test", "test-all", "test-python", "test-slow"])
def test_the_stubs_are_written_for(target):
    """Some tests read those that are written by asking the package."""
    assert re.search(r'/ninja" -C .* (all|package rush_stubs)$', make(target), re.MULTILINE)


def test_the_package_is_no_test():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    named = re.search(r"add_custom_target\(package DEPENDS ([^)]*)\)", cmake)[1].split()
    assert {"rushlight", "_C", "rush_cuda_sources"} <= set(named)
    assert not [name for name in named if "test" in name]


# --- marks ----------------------------------------------------------------------------------------


def known_marks(pytestconfig):
    return {line.split(":")[0].split("(")[0] for line in pytestconfig.getini("markers")}


def test_marks_are_checked(pytestconfig):
    # (pytest itself stops at a mark that is not known, if it is told so)
    assert pytestconfig.getoption("strict_markers") and pytestconfig.getoption("strict_config")
    assert {"gpu", "native", "slow"} <= known_marks(pytestconfig)


def test_every_mark_of_ours_is_used(pytestconfig):
    ours = re.search(r"^markers = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    for mark in re.findall(r'^\s*"(\w+):', ours[1], re.M):
        used = re.compile(rf'mark\.{mark}\b|add_marker\("{mark}"\)')
        assert any(used.search(text) for text in texts), f"no test is marked {mark}"


def test_expressions_use_known_marks(pytestconfig):
    used = re.findall(r"^\t@?\$\(call (?:both|python_tests),(\w[\w ]*)\)", MAKEFILE, re.M)
    used += re.findall(r"PYTHON_TESTS\) -m (\w+)", MAKEFILE)
    assert used
    for expression in used:
        assert set(expression.split()) - {"not", "and", "or"} <= known_marks(pytestconfig)


GPU_SUITE = """
import pytest

@pytest.mark.gpu
def test_there():
    raise AssertionError("runs without a GPU")

def test_here():
    pass
"""


@pytest.mark.parametrize(
    "workers",
    [pytest.param([], id="alone", marks=pytest.mark.slow), pytest.param(["-n", "1"], id="xdist")],
)
def test_gpu_tests_are_left_out_and_counted(tmp_path, workers):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu: needs a GPU\n")
    (tmp_path / "test_it.py").write_text(GPU_SUITE)

    def run(*args):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
        env.pop("PYTEST_ADDOPTS", None)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env).stdout

    out = run(*workers)
    assert re.search(r"^1 tests? needs? a GPU and w\w+ left out: \S+", out, re.M), out
    assert "1 passed" in out and "failed" not in out and "skipped" not in out, out
    if not workers:
        assert "2 tests collected" in run("--collect-only", "--all-devices")


# --- tools ----------------------------------------------------------------------------------------


def renames(tmp_path, text):
    (tmp_path / "renames.txt").write_text(text)
    return read_renames(tmp_path / "renames.txt")


def test_lost_tests_are_found(tmp_path):
    before = ["tests/a.py::test_x[1]", "tests/a.py::test_x[2]", "tests/b.py::test_y"]
    assert compare(before, [*before, "tests/c.py::test_z"]) == ([], ["tests/c.py::test_z"], 0, [])
    lost, _, _, _ = compare(before, before[1:])
    assert lost == before[:1]
    moved = renames(
        tmp_path, "# a moved\ntests/a\\.py -> tests/core/a.py\ntests/b\\.py::test_y ->\n"
    )
    after = ["tests/core/a.py::test_x[1]", "tests/core/a.py::test_x[2]"]
    assert compare(before, after, moved) == ([], [], 1, [])
    assert compare(before, after[:1], moved)[0] == ["tests/a.py::test_x[2]"]
    assert compare(before, before, renames(tmp_path, "tests/z -> tests/y"))[3] == ["tests/z"]
    with pytest.raises(SystemExit, match="renames.txt:1"):
        renames(tmp_path, "tests/a.py tests/b.py")


def test_lost_tests_fail_the_command(tmp_path):
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text("tests/a.py::test_x\ntests/a.py::test_y\n\n2 tests collected in 0.01s\n")
    after.write_text("tests/a.py::test_x\n\n1 test collected in 0.01s\n")
    command = [sys.executable, ROOT / "tools" / "compare_test_ids.py", before]
    done = subprocess.run([*command, after], capture_output=True, text=True)
    assert done.returncode == 1 and "lost: tests/a.py::test_y" in done.stdout
    done = subprocess.run([*command, before], capture_output=True, text=True)
    assert done.returncode == 0 and "0 lost" in done.stdout


def gpu_check(*args, **env):
    return subprocess.run(
        [ROOT / "tools" / "gpu_check.sh", *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


@pytest.fixture
def gpu_machine(tmp_path):
    """Programs that stand for the tools of the GPU machine: each writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cmake", "ninja", "python"):
        file = folder / name
        log = f'echo "{name} $*" >> "{tmp_path}/calls"'
        file.write_text(f'#!/bin/sh\n{log}\ncase "$*" in *"$BREAK"*) exit 3;; esac\n')
        file.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": "python", "BREAK": "nothing breaks"}

    def run(*args, **more):
        (tmp_path / "calls").write_text("")
        done = gpu_check(*args, str(tmp_path / "out"), **env, **more)
        return done, (tmp_path / "calls").read_text()

    run.env = env
    return run


def test_gpu_check_goes_on_where_it_stopped(gpu_machine):
    parts = gpu_machine("--list")[0].stdout.split()
    assert parts[0] == "build" and parts.index("tests-1") < parts.index("table1-resnet50")
    gpu_machine.env["BREAK"] = "gnmt_v2"
    done, calls = gpu_machine()
    assert done.returncode == 3 and "resnet50" in calls and "alexnet" not in calls
    listed = gpu_machine("--list")[0].stdout
    assert "table1-resnet50 (done)" in listed and "table1-gnmt_v2\n" in listed
    gpu_machine.env["BREAK"] = "nothing breaks"
    done, calls = gpu_machine()
    assert done.returncode == 0 and "-m pytest" not in calls and "model gnmt_v2" in calls
    assert "model alexnet" in calls and "cuda_bandwidth" in calls and "sanitizer" not in calls
    done, calls = gpu_machine()
    assert "python " not in calls.partition("ninja")[2] and "done before" in done.stdout


def test_gpu_check_runs_one_part(gpu_machine):
    done, calls = gpu_machine("--part", "ops-small")
    assert done.returncode == 0 and "--only small" in calls and calls.count("bench_cuda") == 1
    assert calls.startswith("cmake") and "-m pytest" not in calls
    done, calls = gpu_machine("--part", "table1")
    assert calls.count("table1.py") == 6 and "bench_cuda" not in calls
    done, _ = gpu_machine("--part", "table2")
    assert done.returncode == 2 and "no part table2" in done.stderr
