"""What the built files and the source tree promise: symbols, sizes, imports, include arrows."""

import os
import pathlib
import re
import struct
import subprocess
import sys
import sysconfig
import zlib

import pytest

import rushlight

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PACKAGE = pathlib.Path(rushlight.__file__).parent
LIBRARY = PACKAGE / "lib" / "librushlight.so"
MODULE = pathlib.Path(rushlight._C.__file__)

# Functions and class data of namespace rush, as they are mangled; C names carry a prefix.
OURS = re.compile(r"_Z(N[KRO]*|T[ISVTWH]N|GVN|ZN|GVZN)4rush|_ZTh\w*4rush|_ZTv\w*4rush|rush_")


def symbols(path, *flags):
    out = subprocess.run(["nm", "-D", *flags, path], capture_output=True, text=True, check=True)
    return [line.split()[-1].split("@")[0] for line in out.stdout.splitlines()]


def run_python(code):
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return out.stdout.split()


def test_library_knows_nothing_of_python():
    names = symbols(LIBRARY)
    assert [name for name in names if re.match(r"_?Py", name)] == []
    needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert "python" not in needed.replace(str(PACKAGE), "")


def test_only_our_names_leave_the_library():
    names = symbols(LIBRARY, "--defined-only")
    assert names, "the library exports nothing at all"
    assert [name for name in names if not OURS.match(name)] == []


def test_only_the_entry_point_leaves_the_module():
    assert symbols(MODULE, "--defined-only") == ["PyInit__C"]


def test_gpu_and_math_libraries_are_not_linked():
    for path in (LIBRARY, MODULE):
        needed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        assert not re.search(r"lib(cuda|nv|cu\w+|nccl|dnnl|openblas|mkl)\b", needed)


def test_shared_objects_fit_the_wheel():
    packed = sum(len(zlib.compress(path.read_bytes(), 1)) for path in (LIBRARY, MODULE))
    assert packed <= 15_000_000


def test_cuda_sources_lie_beside_the_library():
    for folder in ("functors", "cuda/kernels"):
        shipped = {p.name: p.read_text() for p in (PACKAGE / "lib" / "csrc" / folder).iterdir()}
        sources = [p for p in (CSRC / folder).iterdir() if p.suffix in (".h", ".cu")]
        assert shipped == {p.name: p.read_text() for p in sources}, "build again"


def test_the_build_finds_what_pip_installs_for_it_apart(tmp_path):
    """As pip's build isolation does: a folder of packages that the environment knows nothing of."""
    apart = tmp_path / "overlay" / "lib" / "site-packages"
    apart.mkdir(parents=True)
    (tmp_path / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(apart)!r})\n")
    command = [sys.executable, str(ROOT / "tools" / "site_folders.py")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folders = done.stdout.strip().split(os.pathsep)
    assert {str(apart), sysconfig.get_path("purelib")} <= set(folders)


def test_import_is_light():
    code = "import sys; old = set(sys.modules); import rushlight; print(*set(sys.modules) - old)"
    new = run_python(code)
    assert "rushlight" in new
    assert [name for name in new if name.split(".")[0] in ("numpy", "scipy", "ml_dtypes")] == []
    # Counted, because a clock on a busy machine says little.
    assert len(new) <= 120, sorted(new)


def test_import_opens_no_heavy_library():
    if not pathlib.Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    mapped = run_python("import rushlight; print(open('/proc/self/maps').read())")
    files = {pathlib.Path(word).name for word in mapped if word.startswith("/")}
    heavy = re.compile(r"lib(cuda|nvrtc|cublas|cudnn|nccl|dnnl|scipy_openblas|openblas)")
    assert [name for name in files if heavy.match(name)] == []


# A folder may include itself and the ranks before its own; folders of one rank do not know
# each other. functors come first: NVRTC compiles them, so they may include nothing else.
RANKS = [
    ["functors"],
    ["core"],
    ["device"],
    ["cpu", "cuda"],
    ["autograd"],
    ["ops"],
    ["trace"],
    ["jit", "distributed", "profiler"],
    ["frontend"],
    ["bindings"],
]
# Ops reach a device through csrc/device and nothing else.
SEALED_OFF = {"autograd": {"cpu", "cuda"}, "ops": {"cpu", "cuda"}}
# Bindings show settings and the runtime; they compute nothing with them.
SHOWN = (
    "cpu/vendor/",
    "cpu/nn/weight_layouts.h",
    "cpu/nn/winograd.h",
    "cuda/runtime/",
    "cuda/vendor/",
)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def cpp_files():
    return sorted(p for p in CSRC.rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".cuh", ".inc"))


def allowed_folders(folder):
    rank = next(i for i, names in enumerate(RANKS) if folder in names)
    known = {folder, *(name for names in RANKS[:rank] for name in names)}
    return known - SEALED_OFF.get(folder, set())


def include_faults(path):
    folder = path.relative_to(CSRC).parts[0]
    allowed = allowed_folders(folder)
    for quote, target in INCLUDE.findall(path.read_text()):
        if quote == "<":
            if folder == "functors":
                yield f"includes <{target}>; NVRTC has no standard library"
            elif re.match(r"Python\.h|nanobind/", target) and folder != "bindings":
                yield f"includes <{target}>; only bindings may know Python"
        elif folder == "functors" and (path.parent / target).exists():
            continue  # the same text goes to NVRTC, which knows the file by its bare name
        elif "/" not in target or target.startswith("."):
            yield f'includes "{target}"; name it from csrc, as "core/error.h"'
        elif target.split("/")[0] not in allowed:
            yield f'includes "{target}"; the arrow points the wrong way'
        elif folder == "bindings" and re.match(r"(cpu|cuda)/", target):
            if not target.startswith(SHOWN):
                yield f'includes "{target}"; ops are there to compute'


def test_every_folder_has_a_rank():
    known = {name for names in RANKS for name in names}
    assert {path.relative_to(CSRC).parts[0] for path in cpp_files()} <= known


@pytest.mark.parametrize("path", cpp_files(), ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_point_one_way(path):
    assert list(include_faults(path)) == []


@pytest.mark.parametrize(
    ("folder", "line", "fault"),
    [
        ("cpu", '#include "core/error.h"', False),
        ("cpu", '#include "autograd/node.h"', True),
        ("cpu", '#include "cuda/runtime/stream.h"', True),
        ("cuda", '#include "cpu/rows.h"', True),
        ("cuda", '#include "device/sort.h"', False),
        ("device", '#include "cpu/rows.h"', True),
        ("ops", '#include "cpu/rows.h"', True),
        ("ops", '#include "device/sort.h"', False),
        ("autograd", '#include "cuda/runtime/stream.h"', True),
        ("bindings", '#include "cuda/runtime/stream.h"', False),
        ("bindings", '#include "cpu/rows.h"', True),
        ("ops", "#include <nanobind/nanobind.h>", True),
        ("bindings", "#include <Python.h>", False),
        ("core", '#include "error.h"', True),
        ("functors", "#include <cmath>", True),
    ],
)
def test_include_check_sees_faults(folder, line, fault, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "CSRC", tmp_path)
    path = tmp_path / folder / "sample.cpp"
    path.parent.mkdir()
    path.write_text(line)
    assert bool(list(include_faults(path))) == fault


def test_every_mutex_has_a_rank():
    """Debug builds check the lock order, but only of the mutex that knows its place."""
    plain = re.compile(r"std::(recursive_|shared_|timed_)?mutex\b")
    # A program's own lock is recursive, and taken before all others by who calls the program; that
    # of kept launches comes after all others, which nobody takes under it.
    own = {CSRC / "core" / "mutex.h", CSRC / "core" / "mutex.cpp", CSRC / "jit" / "code.h",
           CSRC / "cuda" / "runtime" / "launch_batch.cpp"}  # fmt: skip
    assert [str(p) for p in cpp_files() if p not in own and plain.search(p.read_text())] == []


def static_tls(path):
    """Bytes of thread-local storage that a 64-bit ELF file asks for."""
    data = path.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = [struct.unpack_from("<IIQQQQQQ", data, at + i * size) for i in range(count)]
    return sum(h[6] for h in headers if h[0] == 7)  # PT_TLS


def test_thread_local_storage_is_small():
    """Ours is addressed directly, and libraries loaded late share a reserve of about 1,600 bytes:
    past it, the import fails beside others that do the same."""
    module = pathlib.Path(rushlight._C.__file__)
    assert 0 < static_tls(LIBRARY) + static_tls(module) <= 1024
