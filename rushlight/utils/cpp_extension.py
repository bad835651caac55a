"""C++ and CUDA extensions: compiled against the package's own headers, which have PyTorch's names
(`#include <torch/extension.h>`). docs/custom_ops.md is the guide."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rushlight._names.missing import fill
from rushlight.utils import _extension_build as _tools

if TYPE_CHECKING:
    from setuptools import Extension  # type: ignore[import-untyped]

    from rushlight.utils._extension_setup import BuildExtension

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "check_compiler_abi_compatibility",
    "get_compiler_abi_compatibility_and_version",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "verify_ninja_availability",
]


def _find_cuda_home():
    found = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    nvcc = shutil.which("nvcc")
    if not found and nvcc:
        found = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    return found


CUDA_HOME = _find_cuda_home()
ROCM_HOME = None
CUDNN_HOME = None
SYCL_HOME = None
IS_HIP_EXTENSION = False

_versions: dict[str, int] = {}  # name -> how often another build of it was loaded


def is_ninja_available() -> bool:
    """Whether the ninja build tool is there. Extensions are built without it, too."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raises where ninja is missing."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is not there (pip install ninja); load() does not need it")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Folders of headers: the package's, and CUDA's for "cuda"."""
    paths = []
    if torch_include_dirs:
        paths = [str(_tools.INCLUDE), str(_tools.INCLUDE / "rushlight" / "for_pytorch")]
    if device_type == "cuda" and CUDA_HOME:
        paths.append(os.path.join(CUDA_HOME, "include"))
    return paths


def library_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:
    """Folders of libraries: the package's, and CUDA's for "cuda"."""
    paths = [str(_tools.LIBRARIES)] if torch_include_dirs else []
    if device_type == "cuda" and CUDA_HOME:
        paths.append(os.path.join(CUDA_HOME, "lib64"))
    return paths


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, str]:
    """Whether a compiler can build extensions, and its version."""
    _, version = _tools.compiler_version(compiler)
    try:
        _tools.check_compiler(compiler)
    except RuntimeError:
        return False, ".".join(map(str, version))
    return True, ".".join(map(str, version))


def check_compiler_abi_compatibility(compiler: str) -> bool:
    """Whether a compiler can build extensions."""
    return get_compiler_abi_compatibility_and_version(compiler)[0]


def get_default_build_root() -> str:
    """Where extensions are built unless $TORCH_EXTENSIONS_DIR names another place."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "rushlight", "extensions")


def _get_build_directory(name: str, verbose: bool) -> str:
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        from rushlight.version import __version__

        tag = f"{sys.implementation.cache_tag}-{__version__}"
        root = os.path.join(get_default_build_root(), tag)
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    return folder


def load(
    name: str, sources: str | Sequence[str], extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None, extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None, build_directory: str | None = None,
    verbose: bool = False, with_cuda: bool | None = None, with_sycl: bool | None = None,
    is_python_module: bool = True, is_standalone: bool = False, keep_intermediates: bool = True,
) -> ModuleType | str:  # fmt: skip
    """Builds an extension from C++ (and .cu) files and loads it. Returns the module; of a library
    of operators (is_python_module=False) and a program (is_standalone=True) the path. What has not
    changed is not built again; processes that build the same wait for each other."""
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if with_sycl or extra_sycl_cflags:
        raise NotImplementedError("cpp_extension: SYCL sources cannot be compiled")
    if not name.isidentifier():
        raise ValueError(f"cpp_extension: the name must be an identifier, not {name!r}")
    for source in sources:
        if not os.path.exists(source):
            raise FileNotFoundError(f"cpp_extension: there is no file {source}")
    folder = Path(build_directory or _get_build_directory(name, verbose))
    path = _build(
        name, [os.fspath(s) for s in sources], folder, extra_cflags or [], extra_cuda_cflags or [],
        extra_ldflags or [], extra_include_paths or [], verbose, with_cuda,
        is_python_module and not is_standalone, is_standalone,
    )  # fmt: skip
    if is_standalone:
        return str(path)
    return _import(name, path) if is_python_module else _load_library(path)


def _build(
    name, sources, folder, cflags, cuda_cflags, ldflags, include, verbose, with_cuda, python, alone
):
    _tools.check_headers()
    command = _tools.compiler()
    _tools.check_compiler(command)
    if with_cuda is None:
        with_cuda = any(s.endswith(_tools.CUDA_ENDINGS) for s in sources)
    cuda_compiler = _tools.nvcc(CUDA_HOME) if with_cuda else None
    if with_cuda:
        include = [*include, *include_paths("cuda", torch_include_dirs=False)]
    includes = _tools.include_flags(include, python)
    target = folder / (name if alone else name + (_suffix() if python else ".so"))
    link = _tools.link_command(ldflags, not alone, cuda_compiler)

    def command_for(source):
        if source.endswith(_tools.CUDA_ENDINGS):
            return _tools.cuda_command(name, cuda_cflags, includes, CUDA_HOME)
        return _tools.cpp_command(name, cflags, includes)

    with _tools.only_process(folder):
        changed = _tools.build(name, folder, sources, command_for, link, target, verbose)
        # Another build of a library that this process has must be another file: the loader knows
        # files by their names.
        loaded = _versions.get(str(target))
        if alone or loaded is None or not changed:
            _versions.setdefault(str(target), 0)
            return _version_path(target, loaded or 0)
        _versions[str(target)] = loaded + 1
        fresh = _version_path(target, loaded + 1)
        shutil.copy2(target, fresh)
        return fresh


def _version_path(target, number):
    if number == 0:
        return target
    return target.with_name(target.name.replace(".", f"_v{number}.", 1))


def _suffix():
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def _raise_library_errors(path):
    from rushlight import _C

    errors = _C._take_library_errors()
    if errors:
        raise RuntimeError(f"{path}: operators could not be registered:\n{errors}")


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _raise_library_errors(path)
    from rushlight._library.namespaces import run_waiting

    run_waiting()
    return module


def _load_library(path):
    import rushlight

    rushlight.ops.load_library(path)
    return str(path)


def load_inline(
    name: str, cpp_sources: str | Sequence[str], cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | dict[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None, extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None, extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None, build_directory: str | None = None,
    verbose: bool = False, with_cuda: bool | None = None, with_sycl: bool | None = None,
    is_python_module: bool = True, with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True, use_pch: bool = False, no_implicit_headers: bool = False,
) -> ModuleType | str:  # fmt: skip
    """load() for sources that are strings. functions: names of C++ functions to give to Python,
    with their docs where it is a dict."""
    if sycl_sources or with_sycl:
        raise NotImplementedError("cpp_extension: SYCL sources cannot be compiled")
    cpp = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    cuda = [cuda_sources] if isinstance(cuda_sources, str) else list(cuda_sources or [])
    if isinstance(functions, str):
        functions = [functions]
    if functions is not None and not isinstance(functions, dict):
        functions = dict.fromkeys(functions, "")
    if not no_implicit_headers:
        cpp.insert(0, "#include <torch/extension.h>")
        headers = ("torch/types.h", "cuda.h", "cuda_runtime.h")
        cuda[:0] = [f"#include <{name}>" for name in headers] if cuda else []
    if functions is not None:
        cpp.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {")
        for function, doc in functions.items():
            quoted = (
                (doc or function).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            )
            cpp.append(f'  m.def("{function}", &{function}, "{quoted}");')
        cpp.append("}")
    folder = Path(build_directory or _get_build_directory(name, verbose))
    with _tools.only_process(folder):
        files = [_written(folder / "main.cpp", cpp)]
        if cuda:
            files.append(_written(folder / "cuda.cu", cuda))
    return load(
        name, files, extra_cflags, extra_cuda_cflags, None, extra_ldflags, extra_include_paths,
        str(folder), verbose, with_cuda, None, is_python_module,
    )  # fmt: skip


def _written(path, parts):
    """The file with this text; one that has it already is left alone."""
    text = "\n".join(parts) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)


def CppExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Extension:
    """A setuptools Extension for C++ files: `setup(ext_modules=[CppExtension(...)],
    cmdclass={"build_ext": BuildExtension})`."""
    from rushlight.utils._extension_setup import make

    return make(name, sources, False, kwargs)


def CUDAExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Extension:
    """The same with .cu files among them, which nvcc compiles."""
    from rushlight.utils._extension_setup import make

    return make(name, sources, True, kwargs)


fill(globals())
_absent = globals()["__getattr__"]


def __getattr__(name: str) -> Any:
    if name != "BuildExtension":
        return _absent(name)
    from rushlight.utils._extension_setup import BuildExtension  # setuptools takes a while

    globals()[name] = BuildExtension
    return BuildExtension
