"""Files that want to run code, take memory or crash the reader raise a clear error and do nothing.

The files run in a process of their own with little memory and time, so that one that succeeds is
seen and does no harm. The process prints a line for each file.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CLEAN = {"UnpicklingError", "RuntimeError", "ValueError", "EOFError", "ShapeError",
         "ArgumentError", "DTypeError", "DeviceError", "IntOverflowError"}  # fmt: skip

RUNNER = """
import io, json, sys, time, warnings
warnings.simplefilter("ignore")
import rushlight as rl
from serialization import hostile

way = sys.argv[2]
for label, data in getattr(hostile, sys.argv[1])():
    start = time.process_time()
    try:
        if way == "mmap":
            with open(sys.argv[3], "wb") as file:
                file.write(data)
            rl.load(sys.argv[3], mmap=True)
        elif way == "meta":
            rl.load(io.BytesIO(data), map_location="meta")
        elif way == "scan":
            rl.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
        else:
            rl.load(io.BytesIO(data))
        result = ["loaded", ""]
    except BaseException as error:
        result = [type(error).__name__, str(error)]
    print(json.dumps([label, *result, time.process_time() - start]), flush=True)
"""


def limits():
    memory = 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (240, 240))


def outcomes(family, way, folder):
    marker = folder / "marker"
    environment = {**os.environ, "RUSHLIGHT_MARKER": str(marker)}
    environment["PYTHONPATH"] = f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ran = subprocess.run(
        [sys.executable, "-c", RUNNER, family, way, folder / "file.pt"],
        capture_output=True, text=True, env=environment, preexec_fn=limits, cwd=folder,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert not marker.exists(), "a file ran its code"
    assert {path.name for path in folder.iterdir()} <= {"file.pt"}
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("way", ["default", pytest.param("mmap", marks=pytest.mark.slow)])
def test_each_hostile_file_is_refused(way, tmp_path):
    found = outcomes("families", way, tmp_path)
    assert len(found) >= 50
    assert [f for f in found if f[1] not in CLEAN] == []
    # A text that says nothing helps nobody.
    assert [f for f in found if len(f[2]) < 15] == []
    assert [f for f in found if f[3] > 20] == [], "a file took very long"


@pytest.mark.slow
def test_without_their_bytes_they_are_as_harmless(tmp_path):
    found = outcomes("families", "meta", tmp_path)
    assert [f for f in found if f[1] not in CLEAN | {"loaded"}] == []


def test_damaged_files_are_refused_or_read(tmp_path):
    found = outcomes("damaged", "default", tmp_path)
    cut = [f for f in found if f[0].startswith("cut")]
    turned = [f for f in found if f[0].startswith("bit")]
    assert [f for f in cut if f[1] not in CLEAN] == []
    assert [f for f in turned if f[1] not in CLEAN | {"loaded"}] == []
    # Padding and unused header fields may change; bytes that matter may not.
    assert sum(f[1] == "loaded" for f in turned) < 0.7 * len(turned)


@pytest.mark.parametrize("way", ["default", "scan"])
def test_damaged_pickles_are_refused_or_read(way, tmp_path):
    found = outcomes("damaged_pickles", way, tmp_path)
    assert len(found) > 500
    assert [f for f in found if f[1] not in CLEAN | {"loaded"}] == []


def test_the_marker_would_be_written(tmp_path):
    """The files are dangerous: Python's unpickler runs them."""
    marker = tmp_path / "marker"
    code = (
        "import io, zipfile, pickle\nfrom serialization import hostile\n"
        "data = dict(hostile.code_execution())['eval']\n"
        "pickle.loads(zipfile.ZipFile(io.BytesIO(data)).read('archive/data.pkl'))"
    )
    environment = {**os.environ, "RUSHLIGHT_MARKER": str(marker)}
    environment["PYTHONPATH"] = f"{HERE.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert marker.exists()
