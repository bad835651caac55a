"""Builds C++ programs against the part of the package that they need, installed into a folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
# The environment of a C++ program: nothing of Python's, but what tells libraries which loops to
# take, since these decide about bits (OPENBLAS_CORETYPE, ONEDNN_MAX_CPU_ISA, RUSHLIGHT_ISA).
CHOICES = ("OPENBLAS_", "ONEDNN_", "DNNL_", "RUSHLIGHT_ISA")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name.startswith(CHOICES)}


def run(*command, env=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def cmake():
    return shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def installed(folder):
    """Makes a folder like site-packages: what C++ programs need of the package, and the libraries
    that it opens by itself."""
    if not (BUILD / "CMakeCache.txt").exists():
        pytest.skip("needs the folder of `make build`")
    run(cmake(), "--install", BUILD, "--prefix", folder, "--component", "cpp")
    assert {p.name for p in (folder / "rushlight").iterdir()} == {"include", "lib", "share"}
    for library in Path(sys.prefix, "lib").glob("libdnnl.so.3"):
        (folder / library.name).symlink_to(library)
    blas = Path(sysconfig.get_paths()["purelib"], "scipy_openblas32")
    (folder / blas.name).symlink_to(blas)
    return folder


def built(project, site, folder):
    """Builds a project as a user does: plain CMake, nothing of Python in the environment."""
    prefix = site / "rushlight" / "share" / "cmake"
    clean = {"PATH": os.defpath, "HOME": str(folder)}
    run(cmake(), "-S", project, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", env=clean)
    run(cmake(), "--build", folder, env=clean)
    return folder
