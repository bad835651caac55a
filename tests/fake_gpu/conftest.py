"""Runs programs over a driver without a GPU (fake_driver.cpp): memory, streams, captures and
processes work as on a real one, kernels do nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight._C import _cuda

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = Path(rl.__file__).parents[1]  # a sanitizer's is not the checkout's


@pytest.fixture(scope="session")
def fake_folder(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None or _cuda.nvrtc_missing():
        pytest.skip(f"needs g++ and NVRTC: {_cuda.nvrtc_missing()}")
    folder = tmp_path_factory.mktemp("fake_gpu")
    # Not libcuda.so.1: NVRTC would open that itself, and miss what it wants of a real one.
    command = [compiler, "-std=c++20", "-O1", "-g", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}",
               str(HERE / "fake_driver.cpp"), "-o", str(folder / "libcuda.so")]  # fmt: skip
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def run(fake_folder):
    """run(code, NAME=value, ...): what a program printed, line by line."""

    def run_program(code, timeout=300, **env):
        path = os.environ.get("LD_LIBRARY_PATH", "")
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{fake_folder}:{path}",
            "PYTHONPATH": str(PACKAGE),
            "CUDA_VISIBLE_DEVICES": "0",
            **{k: str(v) for k, v in env.items()},
        }
        done = subprocess.run(
            [sys.executable, "-c", "import rushlight as rl\nfrom rushlight import cuda\n" + code],
            capture_output=True, text=True, timeout=timeout, env=env,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run_program


@pytest.fixture(scope="session")
def cupti_folder(fake_folder):
    command = ["g++", "-std=c++20", "-O1", "-g", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}",
               f"-I{HERE}", str(HERE / "fake_cupti.cpp"), "-L", str(fake_folder), "-l:libcuda.so",
               "-o", str(fake_folder / "libcupti.so")]  # fmt: skip
    subprocess.run(command, check=True)
    return fake_folder


@pytest.fixture
def run_with(cupti_folder, run):
    """run, with this CUPTI before all that are installed."""
    path = os.pathsep.join([str(cupti_folder), os.environ.get("RUSHLIGHT_LIBRARY_PATH", "")])
    own = {"RUSHLIGHT_LIBRARY_PATH": path.rstrip(":")}
    return lambda code, **env: run(code, **{**own, **env})


@pytest.fixture
def run_with_cudnn(cupti_folder, tmp_path_factory, run_with):
    """run_with, where convolutions find a cuDNN."""
    folder = tmp_path_factory.mktemp("fake_cudnn")
    command = ["g++", "-std=c++20", "-O1", "-g", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}",
               f"-I{HERE}", str(HERE / "fake_cudnn.cpp"), "-L", str(cupti_folder), "-l:libcuda.so",
               "-o", str(folder / "libcudnn.so.9")]  # fmt: skip
    subprocess.run(command, check=True)
    path = os.pathsep.join([str(cupti_folder), str(folder)])
    return lambda code, **env: run_with(code, RUSHLIGHT_LIBRARY_PATH=path, **env)


@pytest.fixture(scope="session")
def products_folder(fake_folder, tmp_path_factory):
    """A cuBLASLt whose products are kernels of the pretend driver."""
    folder = tmp_path_factory.mktemp("fake_cublaslt")
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}",
               str(HERE / "fake_cublaslt.cpp"), "-L", str(fake_folder), "-l:libcuda.so",
               "-o", str(folder / "libcublasLt.so.13")]  # fmt: skip
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def run_products(products_folder, run):
    return lambda code, **env: run(code, RUSHLIGHT_LIBRARY_PATH=products_folder, **env)
