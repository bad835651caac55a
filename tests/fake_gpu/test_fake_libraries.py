"""cuFFT's plans without a GPU, and what is said where a library is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def fake_cufft(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("fake_cufft")
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}",
               str(HERE / "fake_cufft.cpp"), "-o", str(folder / "libcufft.so.12")]  # fmt: skip
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def transform(run, fake_cufft, tmp_path):
    """transform(code): what the program printed, and what cuFFT was asked for."""

    def program(code):
        log = tmp_path / "log"
        log.write_text("")
        printed = run(code, RUSHLIGHT_LIBRARY_PATH=fake_cufft, FAKE_CUFFT_LOG=log)
        return printed, log.read_text().splitlines()

    return program


def test_plans(transform):
    """Sizes, then (last size, stride, step, type) of both sides, batch, type."""
    _, asked = transform("""
c = rl.zeros(6, 4, 10, dtype=rl.complex64, device="cuda")
rl.fft.fft(c)                       # rows as they lie
rl.fft.fft(c[0], dim=0)             # columns: the batch lies behind
rl.fft.ifft2(c)
rl.fft.fft(c, dim=1)                # neither: copied with the dim last
r = rl.zeros(6, 4, 9, dtype=rl.float64, device="cuda")
rl.fft.rfftn(r)
rl.fft.irfft(c, 18)
""")
    assert asked == [
        "plan 10 | 10 1 10 4 | 10 1 10 4 | 24 4", "run -1 default apart",
        "plan 4 | 4 10 1 4 | 4 10 1 4 | 10 4", "run -1 default apart",
        "plan 4 10 | 10 1 40 4 | 10 1 40 4 | 6 4", "run 1 default apart",
        "plan 4 | 4 1 4 4 | 4 1 4 4 | 60 4", "run -1 default apart",
        "plan 6 4 9 | 9 1 216 1 | 5 1 120 5 | 1 5", "run -1 default apart",
        "plan 18 | 10 1 10 4 | 18 1 18 0 | 24 4", "run 1 default apart",
    ]  # fmt: skip


def test_plans_are_used_again_and_bounded(transform):
    printed, asked = transform("""
cache = rl.backends.cuda.cufft_plan_cache
xs = [rl.zeros(n, dtype=rl.complex64, device="cuda") for n in range(2, 12)]
for _ in range(3):
    for x in xs:
        rl.fft.fft(x)
print(cache.size, cache.max_size)
cache.max_size = 3
print(cache.size, cache[0].max_size)
rl.fft.fft(xs[-1]), rl.fft.fft(xs[0])      # the first is there still, the second is not
cache.clear()
print(cache.size)
try:
    rl.fft.fft(rl.zeros(4099, dtype=rl.complex64, device="cuda"))
except RuntimeError as error:
    print(error)
print(cache.size)
""")
    assert printed[:3] == ["10 4096", "3 3", "0"]
    assert "status 8 (the size is not supported)" in printed[3] and printed[4] == "0"
    assert sum(line.startswith("plan") for line in asked) == 11
    assert sum(line.startswith("destroy") for line in asked) == 12
    assert sum(line.startswith("run") for line in asked) == 32


def test_streams_and_captures(transform):
    printed, asked = transform("""
cache = rl.backends.cuda.cufft_plan_cache
x = rl.zeros(8, dtype=rl.complex64, device="cuda")
with cuda.stream(cuda.Stream()):
    rl.fft.fft(x)
g = cuda.CUDAGraph()
with cuda.graph(g):
    rl.fft.fft(x)
    rl.fft.fft(x.expand(2, 8))    # a plan that is made meanwhile
cache.clear()                     # what a graph uses stays
print(cache.size)
g.replay()
before = cuda.memory_allocated()
rl.fft.fft(x)
print(cuda.memory_allocated() == before, cuda.max_memory_allocated() >= before + 2**20)
""")
    assert printed == ["2", "True True"]
    assert [a for a in asked if a.startswith("run")] == ["run -1 stream apart"] * 3 + [
        "run -1 default apart"
    ]
    assert "destroy" not in asked


def test_a_missing_library_is_named(run, tmp_path):
    out = run(
        """
def attempt(f):
    try:
        f()
    except RuntimeError as error:
        print(error)
a = rl.zeros(3, 3, device="cuda")
attempt(lambda: rl.linalg.inv(a))
attempt(lambda: rl.linalg.eigh(a))
attempt(lambda: rl.fft.fft(a))
""",
        RUSHLIGHT_LIBRARY_PATH=tmp_path,
    )
    if not out:
        pytest.skip("NVIDIA's libraries are here")
    assert len(out) == 3 and all("pip install 'rushlight[cuda]'" in line for line in out)
    assert "linalg.inv" in out[0] and "cuFFT" in out[2]
