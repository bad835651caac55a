"""What holds on machines without a GPU, too: asking for one, and the cache of compiled kernels."""

import os
import pathlib
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight._C import _cuda

needs_nvrtc = pytest.mark.skipif(bool(_cuda.nvrtc_missing()), reason=_cuda.nvrtc_missing())
# One that the package does not come with, see csrc/cuda/runtime/kernel_bundle.h.
KERNEL = ("copy.cu", "rush::copy_flat<rush::u16, rush::i8, 8>", 90)


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_asking_for_a_gpu_opens_none():
    code = (
        "import rushlight as rl; n = rl.cuda.device_count(); "
        "print(rl.cuda.is_available() == (n > 0), rl.cuda.is_initialized(), "
        "(rl.cuda.why_unavailable() is None) == (n > 0))"
    )
    assert run(code) == "True False True"


def test_no_visible_device_is_said(monkeypatch):
    code = "import rushlight as rl; print(rl.cuda.device_count(), rl.cuda.why_unavailable())"
    count, why = run(code, CUDA_VISIBLE_DEVICES="").split(" ", 1)
    assert count == "0"
    assert "CUDA_VISIBLE_DEVICES" in why or "driver" in why or "NVRTC" in why


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_why():
    with pytest.raises(rl.DeviceError, match="CUDA cannot be used here"):
        rl.zeros(3, device="cuda")
    with pytest.raises(rl.DeviceError, match="CUDA cannot be used here"):
        rl.zeros(3).pin_memory()
    assert rl.cuda.memory_stats() == {}
    rl.cuda.empty_cache()
    rl.cuda.manual_seed_all(3)


@needs_nvrtc
def test_compiled_kernels_are_cached(tmp_path):
    code = (
        "from rushlight._C import _cuda; import hashlib, time; t = time.perf_counter(); "
        f"name, code = _cuda.find_kernel(*{KERNEL!r}); "
        "print(name, hashlib.sha256(code).hexdigest())"
    )
    first = run(code, RUSHLIGHT_KERNEL_CACHE=str(tmp_path))
    (file,) = tmp_path.iterdir()
    made = file.stat().st_mtime_ns
    assert run(code, RUSHLIGHT_KERNEL_CACHE=str(tmp_path)) == first
    assert [p.name for p in tmp_path.iterdir()] == [file.name]
    assert first.startswith("_Z")
    # Bits that changed, and a file cut short, are noticed and compiled again.
    whole = file.read_bytes()
    for broken in (whole[:-9], whole[:100] + b"\0" + whole[101:], b"", b"RUSHKRN1"):
        file.write_bytes(broken)
        assert run(code, RUSHLIGHT_KERNEL_CACHE=str(tmp_path)) == first
        assert file.read_bytes() == whole
    assert made


@needs_nvrtc
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    code = f"from rushlight._C import _cuda; print(len(_cuda.find_kernel(*{KERNEL!r})[1]) > 0)"
    assert run(code, RUSHLIGHT_KERNEL_CACHE=str(tmp_path / "file" / "folder")) == "True"


@needs_nvrtc
def test_several_processes_share_a_cache(tmp_path):
    code = f"from rushlight._C import _cuda; print(len(_cuda.find_kernel(*{KERNEL!r})[1]) > 0)"
    env = {**os.environ, "RUSHLIGHT_KERNEL_CACHE": str(tmp_path)}
    many = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
        for _ in range(4)
    ]
    assert [p.communicate(timeout=120)[0].strip() for p in many] == ["True"] * 4
    assert len(list(tmp_path.iterdir())) == 1


@needs_nvrtc
def test_kernels_are_compiled_beforehand(tmp_path):
    from rushlight.cuda import warmup

    kernels = warmup.read_list(warmup.KERNELS)
    sources = pathlib.Path(rl.__file__).parent / "lib" / "csrc" / "cuda" / "kernels"
    assert len(kernels) > 10 and len(set(kernels)) == len(kernels)
    assert all((sources / file).exists() and "rush::" in name for file, name in kernels)
    few = tmp_path / "few.txt"
    quick = [("copy.cu", f"rush::copy_flat<rush::u16, rush::i{n}, 2>") for n in (16, 32, 64)]
    assert not {*quick, KERNEL[:2]} & set(kernels)  # which may be in the package's bundles
    few.write_text("# a list\n" + "".join(f"{a}\t{b}\n" for a, b in quick))
    command = [sys.executable, "-m", "rushlight.cuda.warmup", "--kernels", str(few), "--jobs", "2"]
    env = {**os.environ, "RUSHLIGHT_KERNEL_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [*command, "--arch", "90", "80"], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout.startswith("6 kernels in"), done.stderr
    assert len(list((tmp_path / "cache").iterdir())) == 6
    few.write_text("copy.cu\trush::no_such_kernel<float>\n")
    done = subprocess.run(
        [*command, "--arch", "90"], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1 and "no_such_kernel" in done.stderr
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, timeout=300)
    assert listed.stdout == "copy.cu\trush::no_such_kernel<float>\n"


@pytest.mark.slow
@needs_nvrtc
def test_the_list_of_kernels_is_up_to_date(tmp_path):
    """What wheels come with can be compiled: a kernel that is gone must leave the list."""
    env = {**os.environ, "RUSHLIGHT_KERNEL_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "rushlight.cuda.warmup", "--arch", "90"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
