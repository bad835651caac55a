"""What a bug report should say about the machine."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["get_env_info", "get_pretty_env_info", "main", "run"]


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
    for name in ("numpy", "onednn-cpu-gomp", "rushlight-onednn", "scipy-openblas32"):
        try:
            packages.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "Rushlight version": rushlight.__version__,
        "CUDA available": rushlight.cuda.is_available(),
        "CUDA version": rushlight.version.cuda,
        "Threads": rushlight.get_num_threads(),
        "Python version": sys.version.replace("\n", " "),
        "OS": platform.platform(),
        "CPU": _cpu_name(),
        "Packages": ", ".join(packages),
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
