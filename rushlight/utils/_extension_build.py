"""Compiling and linking extensions: what to call, what is up to date, and one process at a time."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
INCLUDE = _PACKAGE / "include"
LIBRARIES = _PACKAGE / "lib"
_OLDEST = {"g++": (11,), "clang++": (14,)}  # the first that take the headers
CUDA_ENDINGS = (".cu", ".cuh")


def compiler() -> str:
    """The C++ compiler: $CXX, or what there is."""
    found = os.environ.get("CXX") or next(
        (name for name in ("c++", "g++", "clang++") if shutil.which(name)), None
    )
    if found is None or shutil.which(shlex.split(found)[0]) is None:
        raise RuntimeError(
            f"cpp_extension: there is no C++ compiler ({found or 'c++, g++, clang++'}); install "
            "one that takes C++20 (g++ 11 or newer, clang 14 or newer), or set CXX"
        )
    return found


@functools.cache
def compiler_version(command: str) -> tuple[str, tuple[int, ...]]:
    """Which compiler it is, "g++" or "clang++", and its version."""
    try:
        run = subprocess.run(
            [*shlex.split(command), "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"cpp_extension: {command} --version failed: {error}") from error
    kind = "clang++" if "clang" in run.stdout else "g++"
    version = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", run.stdout)
    return kind, tuple(int(n) for n in version.groups() if n) if version else (0,)


def check_compiler(command: str) -> None:
    """Raises for a compiler that cannot read the headers."""
    kind, version = compiler_version(command)
    if version < _OLDEST[kind]:
        needed = ".".join(map(str, _OLDEST[kind]))
        raise RuntimeError(
            f"cpp_extension: {command} is {kind} {'.'.join(map(str, version))}; the headers are "
            f"C++20 and need {kind} {needed} or newer (set CXX)"
        )


def check_headers() -> None:
    """Raises where the package was built without them."""
    if not (INCLUDE / "rushlight" / "extension.h").exists():
        raise RuntimeError(
            f"cpp_extension: the headers are missing below {INCLUDE}; was the package built?"
        )


def nvcc(cuda_home: str | None) -> str:
    """NVIDIA's compiler, for .cu files."""
    found = shutil.which("nvcc", path=os.path.join(cuda_home, "bin")) if cuda_home else None
    found = found or shutil.which("nvcc")
    if found is None:
        raise RuntimeError(
            "cpp_extension: .cu sources need nvcc, which is not there. Set CUDA_HOME to the "
            "folder of the CUDA toolkit; a kernel alone needs none: cuda.compile_kernel compiles "
            "it with NVRTC while the program runs"
        )
    return found


@functools.cache
def cuda_libraries(compiler: str) -> tuple[str, ...]:
    """The folders with the CUDA runtime, as nvcc says: it may be called through a script that lies
    somewhere else."""
    with tempfile.NamedTemporaryFile(suffix=".cu") as empty:
        dry = subprocess.run([compiler, "-dryrun", empty.name], capture_output=True, text=True)
    said = dry.stdout + dry.stderr
    folders = re.findall(r'-L([^"\s]+)', "".join(re.findall(r"LIBRARIES=(.*)", said)))
    top = re.search(r"TOP=(\S+)", said)
    folders += [os.path.join(top[1], name) for name in ("lib64", "lib")] if top else []
    return tuple(f for f in map(os.path.realpath, folders) if os.path.isdir(f))


def pybind_include() -> str:
    """The folder of pybind11's headers."""
    try:
        import pybind11
    except ImportError:
        raise ImportError(
            "cpp_extension: extensions that are Python modules need pybind11: pip install "
            "pybind11. (A library of operators, is_python_module=False, needs none.)"
        ) from None
    return pybind11.get_include()


@functools.cache
def _definitions():
    """What the library was built with and headers must know: debug builds have more."""
    config = _PACKAGE / "share" / "cmake" / "rushlight" / "rushlight-config.cmake"
    found = re.search(r'INTERFACE_COMPILE_DEFINITIONS "([^"]*)"', config.read_text())
    return [f"-D{d}" for d in found[1].split(";") if d] if found else []


def without_old_standard(flags: Sequence[str]) -> list[str]:
    """The flags but for -std=: the headers are C++20."""
    newer = re.compile(r"-std=(c|gnu)\+\+(2[0-9a-z])\Z")
    return [f for f in flags if not f.startswith("-std=") or newer.match(f)]


def include_flags(folders: Sequence[str | os.PathLike[str]], python: bool) -> list[str]:
    """-I for the user's folders, -isystem for ours."""
    ours = [str(INCLUDE), str(INCLUDE / "rushlight" / "for_pytorch")]
    ours.append(sysconfig.get_paths()["include"])
    if python:
        ours.append(pybind_include())
    return [f"-I{os.fspath(f)}" for f in folders] + [f for o in ours for f in ("-isystem", o)]


def cpp_command(name: str, flags: Sequence[str], includes: Sequence[str]) -> list[str]:
    """The call that compiles a C++ file, without the file."""
    return [
        *shlex.split(compiler()), "-c", "-fPIC", "-O2", "-std=c++20",
        f"-DTORCH_EXTENSION_NAME={name}", *_definitions(), *includes, *without_old_standard(flags),
    ]  # fmt: skip


def cuda_command(
    name: str, flags: Sequence[str], includes: Sequence[str], cuda_home: str | None
) -> list[str]:
    """The call that compiles a .cu file."""
    return [
        nvcc(cuda_home), "-c", "-O2", "-std=c++20", "--expt-relaxed-constexpr",
        "--extended-lambda", "--compiler-options", "-fPIC", *_architectures(flags),
        f"-DTORCH_EXTENSION_NAME={name}", *_definitions(), *includes, *without_old_standard(flags),
    ]  # fmt: skip


def _architectures(flags):
    """For which GPUs: those of the flags, of $TORCH_CUDA_ARCH_LIST, or the one that is there."""
    if any("-arch" in f or "gencode" in f for f in flags):
        return []
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace(",", ";").replace(" ", ";")
    names = [a for a in listed.split(";") if a]
    if not names:
        from rushlight import cuda

        if not cuda.is_available():
            return ["-arch=all-major"]
        names = [".".join(map(str, cuda.get_device_capability()))]
    result = []
    for name in names:
        number = name.removesuffix("+PTX").replace(".", "")
        result.append(f"-gencode=arch=compute_{number},code=sm_{number}")
        if name.endswith("+PTX"):
            result.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return result


def link_command(flags: Sequence[str], shared: bool, cuda_compiler: str | None) -> list[str]:
    """The call that links objects, without them; with the CUDA runtime where nvcc is named."""
    cuda = [f"-L{folder}" for folder in cuda_libraries(cuda_compiler)] if cuda_compiler else []
    return [
        *shlex.split(compiler()), *(["-shared"] if shared else []), f"-L{LIBRARIES}", "-lrushlight",
        f"-Wl,-rpath,{LIBRARIES}", *flags,
        *([*cuda, "-lcudart"] if cuda_compiler else []),
    ]  # fmt: skip


@contextlib.contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Waits for other processes that build here. The lock goes with the process that has it, so
    one that was killed keeps nobody waiting."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _state_of(path):
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return [stat.st_mtime_ns, stat.st_size]


def _dependencies(depfile):
    """What a compiled file was made of, from the rule that the compiler wrote for make."""
    try:
        text = depfile.read_text()
    except OSError:
        return []
    names = re.findall(r"((?:\\.|[^\s\\])+)", text.partition(":")[2].replace("\\\n", " "))
    return [re.sub(r"\\(.)", r"\1", n) for n in names]


def is_current(target: Path, command: Sequence[str]) -> bool:
    """Was the target made by this command, and has nothing that it was made of changed since?"""
    try:
        note = json.loads(Path(f"{target}.made").read_text())
    except (OSError, ValueError):
        return False
    if note.get("command") != list(command) or not target.exists():
        return False
    return all(_state_of(p) == state for p, state in note["of"].items())


def _note(target, command, files):
    of = {os.path.abspath(f): _state_of(f) for f in files}
    Path(f"{target}.made").write_text(json.dumps({"command": list(command), "of": of}))


def run(command: Sequence[str], verbose: bool, what: str) -> None:
    """Calls a compiler; raises with all that it said."""
    if verbose:
        print(shlex.join(command), flush=True)
    done = subprocess.run(list(command), capture_output=True, text=True)
    if verbose and done.stdout + done.stderr:
        print(done.stdout + done.stderr, flush=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"Error building extension '{what}': {shlex.join(command)}\n{done.stdout}{done.stderr}"
        )


def _compile(command, source, target, verbose, what):
    whole = [*command, str(source), "-o", str(target)]
    if is_current(target, whole):
        return False
    depfile = Path(f"{target}.d")
    run([*whole, "-MD", "-MF", str(depfile)], verbose, what)
    _note(target, whole, {str(source), *_dependencies(depfile)})
    return True


def build(
    what: str,
    folder: Path,
    sources: Sequence[str],
    command_for: Callable[[str], list[str]],
    link: Sequence[str],
    target: Path,
    verbose: bool,
) -> bool:
    """Compiles what has changed, several files at a time, and links. True when there was work."""
    objects = []
    for i, source in enumerate(sources):
        # Files of one name in different folders have different objects.
        digest = hashlib.sha256(os.path.abspath(source).encode()).hexdigest()[:8]
        objects.append(folder / f"{Path(source).stem}-{i}-{digest}.o")
    jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(jobs, 1)) as pool:
        made = list(
            pool.map(
                lambda source, target: _compile(command_for(source), source, target, verbose, what),
                sources,
                objects,
            )
        )
    whole = [link[0], *map(str, objects), *link[1:], "-o", str(target)]
    if not any(made) and is_current(target, whole):
        return False
    # A process that has the old file open keeps it.
    fresh = target.with_name(target.name + ".new")
    run([*whole[:-1], str(fresh)], verbose, what)
    os.replace(fresh, target)
    _note(target, whole, objects)
    return True
