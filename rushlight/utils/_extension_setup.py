"""Extensions in a setup.py: CppExtension, CUDAExtension and BuildExtension for setuptools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from setuptools import Extension  # type: ignore[import-untyped]
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

from rushlight.utils import _extension_build as tools
from rushlight.utils import cpp_extension


def make(name: str, sources: Sequence[str], cuda: bool, kwargs: dict[str, Any]) -> Extension:
    """An Extension that knows Rushlight's folders."""
    device = "cuda" if cuda else "cpu"
    kwargs["include_dirs"] = [
        *kwargs.get("include_dirs", []),
        *cpp_extension.include_paths(device),
    ]
    kwargs["library_dirs"] = [
        *kwargs.get("library_dirs", []),
        *cpp_extension.library_paths(device),
    ]
    libraries = ["rushlight", *(["cudart"] if cuda else [])]
    kwargs["libraries"] = [*kwargs.get("libraries", []), *libraries]
    kwargs["language"] = "c++"
    kwargs.pop("py_limited_api", None)
    return Extension(name, list(sources), **kwargs)


class BuildExtension(build_ext):
    """build_ext that compiles for C++20 and hands .cu files to nvcc."""

    @classmethod
    def with_options(cls, **options: Any) -> type:
        """The class with options set: no_python_abi_suffix; others are accepted."""

        class WithOptions(cls):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **(kwargs | options))

        return WithOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        kwargs.pop("use_ninja", None)
        super().__init__(*args, **kwargs)

    def build_extensions(self) -> None:
        """Compiles all of them."""
        tools.check_headers()
        tools.check_compiler(tools.compiler())
        self.compiler.src_extensions += list(tools.CUDA_ENDINGS)
        for extension in self.extensions:
            self._add_flags(extension)
        original = self.compiler._compile

        def compile_one(obj, src, ext, cc_args, extra, pp_opts):
            flags = extra if isinstance(extra, dict) else {"cxx": extra, "nvcc": extra}
            if os.path.splitext(src)[1] not in tools.CUDA_ENDINGS:
                flags = tools.without_old_standard(flags.get("cxx", []))
                return original(obj, src, ext, cc_args, ["-std=c++20", *flags], pp_opts)
            name = self._current_name
            command = tools.cuda_command(
                name, flags.get("nvcc", []), pp_opts, cpp_extension.CUDA_HOME
            )
            return self.compiler.spawn([*command, src, "-o", obj])

        self.compiler._compile = compile_one
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compiles one."""
        self._current_name = ext.name.rpartition(".")[2]
        super().build_extension(ext)

    def get_ext_filename(self, fullname: str) -> str:
        """The file that it becomes."""
        name = super().get_ext_filename(fullname)
        if not self.no_python_abi_suffix:
            return name
        parts = name.split(".")
        return ".".join([*parts[:-2], parts[-1]]) if len(parts) > 2 else name

    def _add_flags(self, extension):
        name = extension.name.rpartition(".")[2]
        extension.define_macros = [
            *(extension.define_macros or []),
            ("TORCH_EXTENSION_NAME", name),
            *[(d[2:].partition("=")[0], d.partition("=")[2]) for d in tools._definitions()],
        ]
        try:
            extension.include_dirs.append(tools.pybind_include())
        except ImportError:
            pass  # a library of operators needs none; a module says so when it is compiled
