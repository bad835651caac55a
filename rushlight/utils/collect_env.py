"""What a bug report should say about the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["get_env_info", "get_pretty_env_info", "main", "run"]


_PACKAGES = (
    "numpy", "onednn-cpu-gomp", "rushlight-onednn", "scipy-openblas32", "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-cublas", "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cuda-cupti",
)  # fmt: skip
# Settings that change how programs run; others may be private.
_VARIABLES = ("RUSHLIGHT_", "OMP_", "GOMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "DNNL_", "CUDA_",
              "NCCL_", "CUBLAS_", "CUDNN_", "MALLOC_", "LD_PRELOAD")  # fmt: skip


def run(command: str | Sequence[str]) -> tuple[int, str, str]:
    """Runs a command; its exit status, output and errors."""
    shell = isinstance(command, str)
    done = subprocess.run(command, capture_output=True, text=True, shell=shell, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def get_env_info() -> dict[str, Any]:
    """The facts as a dict."""
    import importlib.metadata

    import rushlight

    packages = []
    for name in _PACKAGES:
        try:
            packages.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "Rushlight version": rushlight.__version__,
        "CUDA available": rushlight.cuda.is_available(),
        "CUDA version": rushlight.version.cuda,
        **_gpus(),
        "Threads": rushlight.get_num_threads(),
        "Python version": sys.version.replace("\n", " "),
        "OS": platform.platform(),
        "CPU": _cpu_name(),
        "CPU instructions in use": rushlight.backends.cpu.get_cpu_capability(),
        **_limits(),
        "Packages": ", ".join(packages),
        "Variables": ", ".join(
            f"{name}={value}" for name, value in sorted(os.environ.items())
            if name.startswith(_VARIABLES)
        ),
    }  # fmt: skip


def _gpus():
    """GPUs and the libraries that they are used by; nothing where there are none."""
    from rushlight import backends, cuda

    if not cuda.is_available():
        return {}
    names = []
    for i in range(cuda.device_count()):
        about = cuda.get_device_properties(i)
        names.append(f"{about.name} ({about.major}.{about.minor}, "
                     f"{about.total_memory / 2**30:.1f} GiB)")  # fmt: skip
    return {
        "GPUs": ", ".join(names),
        "Driver": get_nvidia_driver_version(),
        "cuDNN version": backends.cudnn.version(),
    }


def _limits():
    """What of the machine this process may use."""
    from rushlight.doctor._environment import cpu_quota, memory_limit

    quota, memory = cpu_quota(), memory_limit()
    cores = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "Cores": cores if quota is None else f"{cores}, control group: {quota:g}",
        "Memory": f"{whole:.1f} GiB"
        + ("" if memory is None else f", control group: {memory / 2**30:.1f} GiB"),
    }


def _cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            names = (
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            )
            return next(names, platform.processor())
    except OSError:
        return platform.processor()


def get_nvidia_driver_version(
    run_lambda: Callable[..., tuple[int, str, str]] = run,
) -> str | None:
    """The version of the GPU driver, or None."""
    try:
        status, out, _ = run_lambda(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        )
    except OSError:
        return None
    return out.split("\n")[0] if status == 0 and out else None


def get_pretty_env_info() -> str:
    """The facts as text."""
    return "\n".join(f"{name}: {value}" for name, value in get_env_info().items())


def main() -> None:
    """Prints the facts."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
