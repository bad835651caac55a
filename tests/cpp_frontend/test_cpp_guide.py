"""docs/cpp.md and the programs of examples/cpp: everything is built and run."""

import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "jit"))
from cpp_build import built, installed, run  # noqa: E402

pytestmark = pytest.mark.slow

PROJECT = """cmake_minimum_required(VERSION 3.22)
project(guide LANGUAGES CXX)
find_package(rushlight REQUIRED)
add_executable(guide guide.cpp)
target_link_libraries(guide PRIVATE rushlight::rushlight)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("site"))


def program(page):
    """The page's blocks as one program: classes at its top, the rest in scopes of their own."""
    blocks = re.findall(r"```cpp\n(.*?)```", page, re.S)
    top = [b for b in blocks if b.startswith(("#include", "struct"))]
    rest = [b for b in blocks if b not in top]
    assert len(top) == 3 and len(rest) == 6
    body = "".join(f"{{\n{b}}}\n" for b in rest)
    return f"{''.join(top)}#include <iostream>\nint main() {{\n{body}}}\n"


def test_the_guide(site, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    (project / "guide.cpp").write_text(program((ROOT / "docs" / "cpp.md").read_text()))
    folder = built(project, site, tmp_path / "build")
    out = run("sh", "-c", f"cd '{tmp_path}' && '{folder / 'guide'}'")
    assert "[2, 6]" in out and " 2\n 4\n[ CPUFloatType{2} ]" in out
    assert "(last): rush::nn::Linear(in_features=8, out_features=2, bias=false)" in out
    assert out.count("[32, 1][32, 1]") == 3 and "[4, 1][4, 1]" in out
    model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 2))
    model.load_state_dict(rl.load(tmp_path / "model.pt"))
    assert rl.load(tmp_path / "ones.pt").tolist() == [[1, 1], [1, 1]]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Files like MNIST's: ten pictures with noise."""
    folder = tmp_path_factory.mktemp("digits")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (10, 28, 28))
    for name, n in (("train", 640), ("t10k", 128)):
        labels = rng.integers(0, 10, n)
        noisy = np.clip(pictures[labels] + rng.normal(0, 20, (n, 28, 28)), 0, 255)
        pixels, classes = noisy.astype(np.uint8).tobytes(), labels.astype(np.uint8).tobytes()
        header = struct.pack(">IIII", 2051, n, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + pixels)
        header = struct.pack(">II", 2049, n)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + classes)
    return folder


def test_the_examples(site, digits, tmp_path):
    folder = built(ROOT / "examples" / "cpp", site, tmp_path / "build")
    out = run(folder / "mnist", digits, 3, tmp_path / "net.pt")
    assert float(out.splitlines()[-1].split()[-1]) > 0.9
    state = rl.load(tmp_path / "net.pt")
    assert next(iter(state)) == "conv1.weight" and state["fc2.bias"].shape == (10,)
    out = run(folder / "dcgan", digits, 11, tmp_path / "drawn.pt")
    assert out.startswith("step 0 ") and "step 10 " in out
    drawn = rl.load(tmp_path / "drawn.pt")
    assert drawn.shape == (64, 1, 28, 28) and drawn.abs().max() <= 1
