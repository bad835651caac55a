"""What of the machine and its settings makes programs slow, or fail."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import rushlight
from rushlight.profiler._table import format_memory
from rushlight.profiler._verdict import Finding

__all__ = ["check_environment"]

_SHM = Path("/dev/shm")
_LEAST_SHM = 256 << 20
_LEAST_DISK = 1 << 30


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def cpu_quota() -> float | None:
    """How many CPUs the control group may use, or None where there is no limit."""
    quota = _read("/sys/fs/cgroup/cpu.max")
    if quota is not None:
        most, _, period = quota.partition(" ")
        return None if most == "max" else int(most) / int(period or 100_000)
    most, period = (_read(f"/sys/fs/cgroup/cpu/cpu.cfs_{n}_us") for n in ("quota", "period"))
    if not most or not period or int(most) < 0:
        return None
    return int(most) / int(period)


def memory_limit() -> int | None:
    """How much memory the control group may use, or None where there is no limit."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(path)
        if text and text.isdigit() and int(text) < 1 << 60:
            return int(text)
    return None


def _threads() -> Iterator[Finding]:
    cores, threads = len(os.sched_getaffinity(0)), rushlight.get_num_threads()
    quota = cpu_quota()
    allowed = max(1, round(min(cores, quota or cores)))
    said = {n: os.environ[n] for n in ("OMP_NUM_THREADS", "RUSHLIGHT_CONFIG") if n in os.environ}
    why = "".join(f", {name}={value}" for name, value in said.items())
    if threads < allowed:
        yield Finding(
            f"{threads} of {allowed} CPUs are used",
            f"rushlight.get_num_threads() is {threads}{why}",
            f"rushlight.set_num_threads({allowed}), or unset what limits it",
            gain=min(allowed / threads, 50.0),
        )
    elif threads > allowed:
        limit = f"the control group's quota is {quota:.1f}" if quota else f"there are {cores}"
        yield Finding(
            f"{threads} threads share {allowed} CPUs",
            f"{limit}{why}",
            f"rushlight.set_num_threads({allowed})",
        )


def _shared_memory() -> Iterator[Finding]:
    if not _SHM.is_dir() or not os.access(_SHM, os.W_OK):
        yield Finding(
            "There is no shared memory",
            f"{_SHM} is missing or cannot be written to",
            "mount a tmpfs there: loaders with workers hand batches over in it",
        )
        return
    free = shutil.disk_usage(_SHM).free
    if free < _LEAST_SHM:
        yield Finding(
            f"Little shared memory is free: {format_memory(free)}",
            f"{_SHM} holds the batches that workers of a loader make",
            "start the container with --shm-size=1g or more, or use num_workers=0",
        )


def _memory() -> Iterator[Finding]:
    limit = memory_limit()
    if limit is not None and limit < 2 << 30:
        yield Finding(
            f"The control group allows {format_memory(limit)} of memory",
            "a program that needs more is killed without a message",
            "raise the container's memory limit; rushlight.profiler.plan tells what a step takes",
        )


def _cpu_features() -> Iterator[Finding]:
    flags = next((line for line in (_read("/proc/cpuinfo") or "").splitlines()
                  if line.startswith("flags")), "").split()  # fmt: skip
    if flags and "avx2" not in flags and "x86_64" in os.uname().machine:
        yield Finding(
            "The CPU has no AVX2",
            "vectors are 128 bits wide",
            "nothing in software helps; on a virtual machine, choose a CPU model that passes the "
            "host's features on",
        )
    tiles = [f for f in flags if f.startswith("amx_")]
    limited = os.environ.get("ONEDNN_MAX_CPU_ISA")
    if tiles and limited and "AMX" not in limited.upper() and limited.upper() != "ALL":
        yield Finding(
            "The CPU multiplies bfloat16 in AMX tiles, and ONEDNN_MAX_CPU_ISA forbids it",
            f"ONEDNN_MAX_CPU_ISA={limited}",
            "unset it, unless programs die with an illegal instruction: some virtual machines "
            "claim AMX without having it",
        )


def _libraries() -> Iterator[Finding]:
    def has(name: str) -> bool:
        try:
            return bool(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            return False

    # oneDNN comes in a wheel of ours, or in the one that builds from source use.
    slow, no_lapack = "convolutions and products run several times slower", "linalg has no LAPACK"
    needed: list[tuple[tuple[str, ...], str]] = [(("scipy-openblas32",), no_lapack)]
    if os.uname().machine == "x86_64":
        needed.append((("onednn-cpu-gomp", "rushlight-onednn"), slow))
    for names, effect in needed:
        if not any(map(has, names)):
            fix = f"pip install {names[0]}"
            yield Finding(f"The package {names[0]} is not installed", effect, fix)


def _gpu() -> Iterator[Finding]:
    has_driver = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    if has_driver and not rushlight.cuda.is_available():
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        evidence = "there is an NVIDIA driver, and rushlight.cuda.is_available() is False"
        if hidden is not None:
            yield Finding("GPUs are hidden", f"{evidence}; CUDA_VISIBLE_DEVICES={hidden!r}",
                          "unset CUDA_VISIBLE_DEVICES")  # fmt: skip
        else:
            advice = "pip install 'rushlight[cuda]'; docs/cuda.md lists what is needed"
            yield Finding("The GPU cannot be used", evidence, advice)


def _caches() -> Iterator[Finding]:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    at = home
    while not at.exists() and at != at.parent:
        at = at.parent
    if rushlight.cuda.is_available() and not os.access(at, os.W_OK):
        yield Finding(
            "Compiled kernels cannot be kept",
            f"{home} cannot be written to, so every process compiles them anew",
            "set XDG_CACHE_HOME to a folder that can be written to",
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < _LEAST_DISK:
        yield Finding(
            f"The disk is almost full: {format_memory(free)} left for temporary files",
            tempfile.gettempdir(),
            "remove old checkpoints, or set TMPDIR to another disk",
        )


def _debugging() -> Iterator[Finding]:
    if rushlight.is_anomaly_enabled():
        yield Finding(
            "Anomaly detection is on",
            "every op keeps its traceback and every gradient is tested",
            "leave autograd.set_detect_anomaly for the search of a fault",
        )
    if sys.gettrace() is not None:
        yield Finding("A debugger or coverage tool traces every line", "sys.gettrace() is set",
                      "Python runs many times slower under it")  # fmt: skip
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        yield Finding("CUDA_LAUNCH_BLOCKING is set", "the host waits for every kernel",
                      "unset it")  # fmt: skip


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _threads, _shared_memory, _memory, _cpu_features, _libraries, _gpu, _caches, _debugging
)  # fmt: skip


def check_environment() -> list[Finding]:
    """What of this machine, its packages and settings stands in the way of programs."""
    return [finding for check in _CHECKS for finding in check()]
