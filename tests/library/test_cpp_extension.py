"""What cpp_extension builds and when, with a compiler that only pretends."""

import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rushlight.utils import _extension_build as tools
from rushlight.utils import cpp_extension

# Writes what it was called with; the "object" is the text of its source and of what that includes.
PRETENDER = """\
#!/usr/bin/env python3
import sys, re, os, time
args = sys.argv[1:]
if args == ["--version"]:
    print("g++ (Pretender) 12.2.0")
    sys.exit()
open(os.environ["CALLS"], "a").write(" ".join(args) + "\\n")
out = args[args.index("-o") + 1]
inputs = [a for a in args if a.endswith((".cpp", ".o")) and a != out]
text = "".join(open(i).read() for i in inputs)
if "#error" in text:
    sys.exit("pretender: there is an error")
if "-MF" in args:
    folder = os.path.dirname(inputs[0])
    names = [os.path.join(folder, n) for n in re.findall('include "(.*)"', text)]
    open(args[args.index("-MF") + 1], "w").write(out + ": " + " ".join(inputs + names))
open(out, "w").write(text)
"""


@pytest.fixture
def pretender(tmp_path, monkeypatch):
    path = tmp_path / "pretender"
    path.write_text(PRETENDER)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setattr(cpp_extension, "_load_library", str)

    def taken():
        lines = calls.read_text().splitlines()
        calls.write_text("")
        return lines

    return taken


def load(folder, *sources, **options):
    return cpp_extension.load("pretended", [str(s) for s in sources], is_python_module=False,
                              build_directory=str(folder), **options)  # fmt: skip


def test_only_what_changed_is_built(pretender, tmp_path):
    folder, a, b = tmp_path / "build", tmp_path / "a.cpp", tmp_path / "b.cpp"
    (tmp_path / "h.h").write_text("// header")
    a.write_text('#include "h.h"\n// a')
    b.write_text("// b")
    first = load(folder, a, b, extra_cflags=["-DX=1", "-std=c++17"], extra_ldflags=["-lz"])
    calls = pretender()
    assert len(calls) == 3 and Path(first).read_text() == '#include "h.h"\n// a// b'
    compiled, linked = calls[0], calls[-1]
    assert "-std=c++20" in compiled and "-std=c++17" not in compiled and "-DX=1" in compiled
    assert "-DTORCH_EXTENSION_NAME=pretended" in compiled and "for_pytorch" in compiled
    assert (
        "-lrushlight" in linked and "-shared" in linked and linked.index("-lz") > linked.index(".o")
    )
    load(folder, a, b, extra_cflags=["-DX=1", "-std=c++17"], extra_ldflags=["-lz"])
    assert pretender() == []
    (tmp_path / "h.h").write_text("// another header")
    second = load(folder, a, b, extra_cflags=["-DX=1", "-std=c++17"], extra_ldflags=["-lz"])
    assert len(pretender()) == 2  # a, and the library
    # This process has the first one open, so the second has another name.
    assert second != first and Path(second).name == "pretended_v1.so"
    load(folder, a, b, extra_cflags=["-DX=2"])
    assert len(pretender()) == 3
    assert not os.path.exists(f"{first}.new")


def test_errors_of_the_compiler(pretender, tmp_path):
    source = tmp_path / "bad.cpp"
    source.write_text("#error")
    with pytest.raises(
        RuntimeError, match="Error building extension 'pretended'.*(?s:.*)there is an error"
    ):
        load(tmp_path / "build", source)
    source.write_text("// good")
    assert Path(load(tmp_path / "build", source)).exists()
    with pytest.raises(FileNotFoundError, match="no file"):
        load(tmp_path / "build", tmp_path / "none.cpp")
    with pytest.raises(ValueError, match="identifier"):
        cpp_extension.load("a-b", [str(source)])
    with pytest.raises(NotImplementedError, match="SYCL"):
        cpp_extension.load("a", [str(source)], with_sycl=True)


def test_compilers(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match=r"no C\+\+ compiler \(no-such-compiler\)"):
        tools.compiler()
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 'g++ (GCC) 9.4.0'\n")
    old.chmod(0o755)
    assert cpp_extension.get_compiler_abi_compatibility_and_version(str(old)) == (False, "9.4.0")
    with pytest.raises(RuntimeError, match="need g\\+\\+ 11 or newer"):
        tools.check_compiler(str(old))
    assert not cpp_extension.check_compiler_abi_compatibility(str(old))
    new = tmp_path / "new"
    new.write_text("#!/bin/sh\necho 'clang version 17.0.1'\n")
    new.chmod(0o755)
    assert cpp_extension.check_compiler_abi_compatibility(str(new))
    with pytest.raises(RuntimeError, match="--version failed"):
        tools.compiler_version(str(tmp_path / "none"))
    monkeypatch.setattr(tools.shutil, "which", lambda *a, **k: None)
    with pytest.raises(RuntimeError, match=r"need nvcc.*cuda\.compile_kernel"):
        tools.nvcc(None)
    with pytest.raises(RuntimeError, match="Ninja"):
        cpp_extension.verify_ninja_availability()


def test_pybind11_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybind11", None)
    with pytest.raises(ImportError, match="pip install pybind11"):
        tools.pybind_include()


def test_headers_are_asked_for(monkeypatch, tmp_path):
    tools.check_headers()
    monkeypatch.setattr(tools, "INCLUDE", tmp_path)
    with pytest.raises(RuntimeError, match="headers are missing"):
        tools.check_headers()


def test_paths_and_flags(monkeypatch):
    include = cpp_extension.include_paths()
    assert os.path.exists(os.path.join(include[0], "rushlight", "extension.h"))
    assert os.path.exists(os.path.join(include[1], "torch", "extension.h"))
    assert os.path.exists(os.path.join(cpp_extension.library_paths()[0], "librushlight.so"))
    assert cpp_extension.include_paths(torch_include_dirs=False) == []
    assert tools.without_old_standard(["-std=c++17", "-O3", "-std=c++23"]) == ["-O3", "-std=c++23"]
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0+PTX")
    assert tools._architectures([]) == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ]
    assert tools._architectures(["-arch=sm_70"]) == []
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/tmp/somewhere-else-rushlight")
    assert cpp_extension._get_build_directory("x", False) == "/tmp/somewhere-else-rushlight/x"


def hold(folder, order):
    with tools.only_process(Path(folder)):
        with open(order, "a") as file:
            file.write("in ")
        with open(order, "a") as file:
            file.write("out ")


def test_processes_wait_for_each_other(tmp_path):
    order = tmp_path / "order"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=hold, args=(tmp_path, order)) for _ in range(4)]
    [w.start() for w in workers]
    [w.join(60) for w in workers]
    assert order.read_text() == "in out " * 4


def test_load_inline_writes_the_module(pretender, tmp_path, monkeypatch):
    monkeypatch.setattr(cpp_extension, "_import", lambda name, path: path)
    made = []
    for _ in range(2):
        made.append(cpp_extension.load_inline("pretended_inline", "int f() { return 1; }",
                    functions={"f": 'says "one"'}, build_directory=str(tmp_path)))  # fmt: skip
    text = Path(made[0]).read_text()
    assert text.startswith("#include <torch/extension.h>\nint f()")
    assert 'm.def("f", &f, "says \\"one\\"");' in text and len(pretender()) == 2


def test_setup_py(tmp_path):
    """setup.py files are read, and call the compiler as load() does."""
    pytest.importorskip("setuptools")
    (tmp_path / "a.cpp").write_text("// a")
    (tmp_path / "pack").mkdir()
    (tmp_path / "setup.py").write_text(
        textwrap.dedent(
            """
            from setuptools import setup
            from rushlight.utils.cpp_extension import BuildExtension, CppExtension
            flags = {"cxx": ["-DY=2", "-std=c++17"]}
            extension = CppExtension("pack._C", ["a.cpp"], extra_compile_args=flags)
            setup(name="pack", ext_modules=[extension],
                  cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
            """
        )
    )
    compiler = tmp_path / "pretender"
    compiler.write_text(PRETENDER)
    compiler.chmod(0o755)
    root = str(Path(cpp_extension.__file__).resolve().parents[2])
    env = {**os.environ, "CXX": str(compiler), "CC": str(compiler), "LDSHARED": str(compiler),
           "LDCXXSHARED": str(compiler), "CALLS": str(tmp_path / "calls"),
           "PYTHONPATH": root}  # fmt: skip
    done = subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=tmp_path,
                          env=env, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    assert "-DTORCH_EXTENSION_NAME=_C" in calls and "-std=c++20" in calls and "-DY=2" in calls
    assert "-std=c++17" not in calls and "-lrushlight" in calls
    assert list((tmp_path / "pack").glob("_C*.so"))


def test_notes_that_cannot_be_read_mean_work(tmp_path):
    target = tmp_path / "x.o"
    target.write_text("")
    assert not tools.is_current(target, ["a"])
    (tmp_path / "x.o.made").write_text("{")
    assert not tools.is_current(target, ["a"])
    (tmp_path / "x.o.made").write_text(json.dumps({"command": ["a"], "of": {}}))
    assert tools.is_current(target, ["a"]) and not tools.is_current(target, ["b"])


RAISES = """
import importlib.util, sys
import rushlight as rl
spec = importlib.util.spec_from_file_location("tests_scaled", sys.argv[1])
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
for _ in range(3):
    for call in (lambda: extension.scaled(rl.ones(3), 2.0), lambda: extension.row_sums(rl.ones(3)),
                 lambda: extension.scaled("text", 2.0)):
        try:
            call()
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])
"""


@pytest.mark.slow
def test_what_nvcc_compiles_is_loaded_and_raises(tmp_path):
    """All of the headers and the kernels of a CUDA extension, and its errors, which need no GPU;
    tests/cuda runs the kernels."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    pytest.importorskip("pybind11")
    source = Path(__file__).parent / "cpp" / "scaled.cu"
    flags = ["-arch=sm_90", "-Xcompiler", "-O0"]
    command = tools.cuda_command("tests_scaled", flags, tools.include_flags([], True), None)
    folder = tmp_path / "extension"
    folder.mkdir()
    target = folder / "tests_scaled.so"
    tools.build("tests_scaled", folder, [str(source)], lambda _: command,
                tools.link_command([], True, nvcc), target, False)  # fmt: skip
    names = subprocess.run(["nm", "-C", target], capture_output=True, text=True, check=True).stdout
    kernels = {
        line.split(" [clone")[0] for line in names.split("\n") if " t __device_stub__" in line
    }
    kernels = {line.partition("__device_stub__")[2] for line in kernels}
    assert len(kernels) == 7  # four dtypes of one kernel, three of the other
    root = str(Path(tools.__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", RAISES, str(target)],
                          capture_output=True, text=True, env=env)  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert shown[:3] * 3 == shown
    assert shown[0] == "RuntimeError scaled: expected a CUDA tensor"
    assert "CUDAGuard: expected a CUDA device, got cpu" in shown[1]
    assert shown[2].startswith("TypeError scaled(): incompatible function arguments")
